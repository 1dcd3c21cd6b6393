package wal

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfastdb/holdfast/core/disk"
)

// testOptions gives every test the same bytes.
var testOptions = Options{SegmentBytes: 8 << 10, Manual: true, LogID: 42}

func openLog(t testing.TB, fs disk.FS) *WAL {
	t.Helper()
	l, err := Open(fs, "wal", testOptions)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func check(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// put appends entries index, index+1, … of the given term whose data is size bytes of the index.
func put(t testing.TB, l *WAL, index, term uint64, n, size int) {
	t.Helper()
	var b Batch
	for i := range uint64(n) {
		b.Entries = append(b.Entries, Entry{Index: index + i, Term: term, Data: bytes.Repeat([]byte{byte(index + i)}, size)})
	}
	b.HardState = &HardState{Term: term, Commit: index - 1}
	check(t, l.Append(b))
}

// spill makes what was appended durable behind the log's back: its records still claim the old synced offset.
func spill(t testing.TB, l *WAL) {
	t.Helper()
	seg := l.active()
	check(t, l.gather.write(seg.file, seg.size), seg.file.Sync())
}

func wantRange(t testing.TB, l *WAL, first, last uint64) {
	t.Helper()
	if l.FirstIndex() != first || l.LastIndex() != last {
		t.Fatalf("entries %d to %d, want %d to %d", l.FirstIndex(), l.LastIndex(), first, last)
	}
	for lo := first; lo <= last; {
		ents, err := l.Entries(lo, last+1, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		lo += uint64(len(ents))
	}
}

func corrupt(t testing.TB, fs disk.FS, file string, offset int64) {
	t.Helper()
	_, err := Open(fs, "wal", testOptions)
	var ce *CorruptError
	if !errors.As(err, &ce) {
		t.Fatalf("open: %v, want a CorruptError", err)
	}
	if filepath.Base(ce.File) != file || ce.Offset != offset {
		t.Fatalf("%v; want %s at %d", ce, file, offset)
	}
}

// flip inverts one byte of a file for good.
func flip(t testing.TB, fs disk.FS, name string, off int64) {
	t.Helper()
	f, err := fs.Open("wal/" + name)
	check(t, err)
	var b [1]byte
	_, err = f.ReadAt(b[:], off)
	check(t, err)
	b[0] ^= 0xff
	_, err = f.WriteAt(b[:], off)
	check(t, err, f.Sync(), f.Close())
}

// TestStaleRecordOfRecycledSegment: a recycled file is full of valid records of an older segment. They end the log and are
// neither read nor taken for damage.
func TestStaleRecordOfRecycledSegment(t *testing.T) {
	fs := disk.NewMem()
	l := openLog(t, fs)
	index := uint64(1)
	for ; l.Stats().Segment < 3; index++ {
		put(t, l, index, 1, 1, 900)
		check(t, l.Sync())
	}
	check(t, l.Truncate(index-2))
	for ; l.Stats().Segment < 4; index++ {
		put(t, l, index, 2, 1, 900)
		check(t, l.Sync())
	}
	name := segmentName(l.Stats().Segment)
	end := l.Stats().Offset
	raw, err := fs.ReadFile("wal/" + name)
	check(t, err)
	if !bytes.Contains(raw[end:], []byte("HFWr")) {
		t.Fatal("the segment was not recycled: the test shows nothing")
	}
	first := l.FirstIndex()
	fs.Crash(nil)
	wantRange(t, openLog(t, fs), first, index-1)
}

// TestTruncateBesideUnsyncedSegment: everything before the active segment is truncated while the active one is not durable yet,
// and the power goes. START must not name a segment that is not there.
func TestTruncateBesideUnsyncedSegment(t *testing.T) {
	fs := disk.NewMem()
	l := openLog(t, fs)
	index := uint64(1)
	for ; l.Stats().Segment == 1; index++ {
		check(t, l.Sync())
		put(t, l, index, 1, 1, 900)
	}
	check(t, l.Truncate(index-2)) // all that the first segment holds
	fs.Crash(nil)
	l = openLog(t, fs)
	wantRange(t, l, index-1, index-2) // none
	put(t, l, index-1, 1, 1, 900)
	check(t, l.Sync(), l.Truncate(index-1))
	wantRange(t, l, index, index-1)
}

// TestTruncateBesideUnsyncedOverwrite: entries of an earlier segment are overwritten, those below them are truncated, and the power goes
// before the new ones are durable. The old ones are there again.
func TestTruncateBesideUnsyncedOverwrite(t *testing.T) {
	fs := disk.NewMem()
	l := openLog(t, fs)
	index := uint64(1)
	for ; l.Stats().Segment == 1; index++ {
		put(t, l, index, 1, 1, 900)
	}
	check(t, l.Sync())
	put(t, l, 3, 2, 1, 900)
	check(t, l.Truncate(2))
	fs.Crash(nil)
	wantRange(t, openLog(t, fs), 3, index-1)
}

// TestHoleBeforeUnsyncedRecord: of two records written since the last sync, the second reached the disk and the first did
// not. Nothing of it was acknowledged: the tail is cut, and the second record never comes back.
func TestHoleBeforeUnsyncedRecord(t *testing.T) {
	fs := disk.NewMem()
	l := openLog(t, fs)
	put(t, l, 1, 1, 1, 100)
	check(t, l.Sync())
	hole := l.Stats().Offset
	put(t, l, 2, 1, 1, 100)
	put(t, l, 3, 1, 1, 100)
	spill(t, l) // records 2 and 3 still claim the old synced offset
	flip(t, fs, segmentName(1), hole+50)

	l = openLog(t, fs)
	wantRange(t, l, 1, 1)
	if r := l.Recovery(); filepath.Base(r.TornFile) != segmentName(1) || r.TornOffset != hole {
		t.Fatalf("recovery %+v", r)
	}
	// The leader sends entry 2 again, byte for byte. Record 3 would now follow a valid record.
	put(t, l, 2, 1, 1, 100)
	check(t, l.Sync())
	fs.Crash(nil)
	wantRange(t, openLog(t, fs), 1, 2)
}

// TestHoleBelowSyncedOffset: the same picture, but the second record says that the first was synced.
func TestHoleBelowSyncedOffset(t *testing.T) {
	fs := disk.NewMem()
	l := openLog(t, fs)
	put(t, l, 1, 1, 1, 100)
	check(t, l.Sync())
	hole := l.Stats().Offset
	put(t, l, 2, 1, 1, 100)
	check(t, l.Sync())
	put(t, l, 3, 1, 1, 100)
	check(t, l.Sync())
	flip(t, fs, segmentName(1), hole+50)
	corrupt(t, fs, segmentName(1), hole)
}

// TestDamageAtEveryByte flips each byte of a synced log in turn. Damage before the last record must be found; damage to
// the last one cannot be told from a torn tail and costs that record alone.
func TestDamageAtEveryByte(t *testing.T) {
	fs := disk.NewMem()
	l := openLog(t, fs)
	for i := range uint64(11) {
		put(t, l, i+1, 1, 1, 900)
		check(t, l.Sync())
	}
	if l.Stats().Segment != 2 {
		t.Fatal("the test wants two segments")
	}
	check(t, l.Close())
	var records []Record
	_, err := Inspect(fs, "wal", func(r Record) error {
		records = append(records, r)
		return nil
	})
	check(t, err)
	last := records[len(records)-1]
	for _, r := range records {
		name := filepath.Base(r.File)
		for off := r.Offset; off < r.Offset+r.Size; off++ {
			flip(t, fs, name, off)
			l, err := Open(fs, "wal", testOptions)
			switch {
			case r.Offset == last.Offset && r.Segment == last.Segment:
				if err != nil || l.LastIndex() != 10 {
					t.Fatalf("damage at %s+%d in the last record: %v", name, off, err)
				}
				check(t, l.Close())
				// The tail was cut: write it anew for the next round.
				l = openLog(t, fs)
				put(t, l, 11, 1, 1, 900)
				check(t, l.Sync(), l.Close())
				continue
			case err == nil:
				t.Fatalf("damage at %s+%d went unnoticed", name, off)
			}
			var ce *CorruptError
			if !errors.As(err, &ce) || ce.Offset != r.Offset || filepath.Base(ce.File) != name {
				t.Fatalf("damage at %s+%d: %v", name, off, err)
			}
			flip(t, fs, name, off)
		}
	}
}

// TestTornFirstWriteOfSegment: the write that begins a segment carries its first record and a batch. If only the batch arrives, the file
// must not be used again under the same number with the batch still in it.
func TestTornFirstWriteOfSegment(t *testing.T) {
	fs := disk.NewMem()
	l := openLog(t, fs)
	index := uint64(1)
	for ; l.Stats().Segment < 2; index++ {
		check(t, l.Sync())
		put(t, l, index, 1, 1, 900)
	}
	put(t, l, index, 1, 1, 900) // behind it, also unsynced
	spill(t, l)
	flip(t, fs, segmentName(2), 10)

	l = openLog(t, fs)
	wantRange(t, l, 1, index-2)
	put(t, l, index-1, 1, 1, 900) // as before, byte for byte
	check(t, l.Sync())
	fs.Crash(nil)
	wantRange(t, openLog(t, fs), 1, index-1)
}

func TestMissingFilesAreRefused(t *testing.T) {
	build := func() *disk.Mem {
		fs := disk.NewMem()
		l := openLog(t, fs)
		for i := range uint64(30) {
			put(t, l, i+1, 1, 1, 900)
			check(t, l.Sync())
		}
		check(t, l.Close())
		return fs
	}
	for _, gone := range []string{startName, segmentName(1), segmentName(2)} {
		fs := build()
		check(t, fs.Remove("wal/"+gone))
		_, err := Open(fs, "wal", testOptions)
		var ce *CorruptError
		if !errors.As(err, &ce) {
			t.Fatalf("%s is gone: %v", gone, err)
		}
	}
	fs := build()
	flip(t, fs, startName, 20)
	corrupt(t, fs, startName, 0)
}

// TestForeignBytesAreNoRecord: a client's value that looks like a record of this very segment does not count, because the
// checksum starts from the log's secret id.
func TestForeignBytesAreNoRecord(t *testing.T) {
	fake := make([]byte, recordHeaderLen+8)
	putHeader(fake, header{length: 8, segment: 1, synced: 1 << 40, kind: kindBatch}, seedOf(43))
	fs := disk.NewMem()
	l := openLog(t, fs)
	put(t, l, 1, 1, 1, 100)
	check(t, l.Sync())
	hole := l.Stats().Offset
	value := bytes.Repeat(fake, 20)
	check(t, l.Append(Batch{Entries: []Entry{{Index: 2, Term: 1, Data: value[3:]}}}))
	spill(t, l)
	flip(t, fs, segmentName(1), hole)
	wantRange(t, openLog(t, fs), 1, 1)
}

func TestInspectShowsEverything(t *testing.T) {
	fs := disk.NewMem()
	l := openLog(t, fs)
	put(t, l, 1, 1, 2, 10)
	check(t, l.Sync())
	put(t, l, 3, 2, 1, 10)
	check(t, l.Append(Batch{HardState: &HardState{Term: 3}}), l.Close())
	var lines []string
	sum, err := Inspect(fs, "wal", func(r Record) error {
		line := fmt.Sprintf("%d+%d synced %d", r.Segment, r.Offset, r.Synced)
		if r.HardState != nil {
			line += fmt.Sprintf(" term %d", r.HardState.Term)
		}
		for _, e := range r.Entries {
			line += fmt.Sprintf(" %d@%d", e.Index, e.Term)
		}
		lines = append(lines, line)
		return nil
	})
	check(t, err)
	want := `1+0 synced 0 term 0
1+96 synced 96 term 1 1@1 2@1
1+184 synced 184 term 2 3@2
1+256 synced 184 term 3`
	if got := strings.Join(lines, "\n"); got != want {
		t.Fatalf("got\n%s\nwant\n%s", got, want)
	}
	if sum.Torn || sum.EndOffset != 320 || sum.FirstSegment != 1 {
		t.Fatalf("summary %+v", sum)
	}
}

// TestGoldenBytes holds the format still: docs/formats/wal.md describes these very files.
func TestGoldenBytes(t *testing.T) {
	fs := disk.NewMem()
	l := openLog(t, fs)
	hs := HardState{Term: 7, Vote: 0x1122334455667788, Commit: 2}
	check(t, l.Append(Batch{HardState: &hs, Entries: []Entry{
		{Index: 1, Term: 6, Type: 0, Data: []byte("first")},
		{Index: 2, Term: 7, Type: 2, Data: nil},
	}}))
	check(t, l.Sync())
	check(t, l.Append(Batch{Entries: []Entry{{Index: 3, Term: 7, Data: []byte("third")}}}))
	check(t, l.Sync(), l.Truncate(1))
	end := l.Stats().Offset
	segment, err := fs.ReadFile("wal/" + segmentName(1))
	check(t, err)
	start, err := fs.ReadFile("wal/" + startName)
	check(t, err, l.Close())
	for name, got := range map[string][]byte{"segment.golden": segment[:end], "start.golden": start} {
		name = filepath.Join("testdata", name)
		if os.Getenv("HOLDFAST_GOLDEN") == "write" {
			check(t, os.MkdirAll("testdata", 0o755), os.WriteFile(name, got, 0o644))
		}
		want, err := os.ReadFile(name)
		check(t, err)
		if !bytes.Equal(got, want) {
			t.Errorf("%s: the format changed:\n%x\nwant\n%x", name, got, want)
		}
	}
}
