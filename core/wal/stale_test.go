package wal

import (
	"testing"

	"github.com/holdfastdb/holdfast/core/disk"
)

// TestStaleRecordAtABlocksEdge: a write fills its last block with zeros. So an old record behind it is only whole where the new records end
// with a block. There it has a good checksum, and the number of another segment.
func TestStaleRecordAtABlocksEdge(t *testing.T) {
	fs := disk.NewMem()
	l := openLog(t, fs)
	// The first record of a segment ends at 96; one of 4,000 bytes then ends with the first block.
	fill := func(index, term uint64) {
		t.Helper()
		for size := 3900; ; size++ {
			b := Batch{Entries: []Entry{{Index: index, Term: term, Data: make([]byte, size)}}}
			if n := align(recordHeaderLen + int64(len(appendBatch(nil, b)))); n == disk.BlockBytes-segmentRecordLen {
				check(t, l.Append(b), l.Sync())
				return
			}
		}
	}
	fill(1, 1)
	put(t, l, 2, 1, 1, 100)  // begins where the second block does
	put(t, l, 3, 1, 1, 5000) // no room for it: the second segment
	check(t, l.Sync())
	check(t, l.Truncate(2)) // the first one is to be the third
	fill(4, 1)
	if !stale(t, fs, l) {
		t.Fatal("there is no old record behind the last one: the test shows nothing")
	}
	fs.Crash(nil)
	wantRange(t, openLog(t, fs), 3, 4)
}

// stale reports whether a whole record of another segment stands where the log ends.
func stale(t *testing.T, fs disk.FS, l *WAL) bool {
	t.Helper()
	raw, err := fs.ReadFile("wal/" + segmentName(l.Stats().Segment))
	check(t, err)
	end := l.Stats().Offset
	if end%disk.BlockBytes != 0 || end+recordHeaderLen > int64(len(raw)) {
		return false
	}
	h, ok := parseHeader(raw[end:])
	return ok && h.segment != l.Stats().Segment && checksumOK(raw[end:][:recordHeaderLen+int(h.length)], l.seed)
}

// TestWhatOpenFoundIsDurable: after a crash of the process alone a record may be in the page cache only. The first new record
// says that everything before it was synced, so a power cut between the two must not take the old one.
func TestWhatOpenFoundIsDurable(t *testing.T) {
	fs := disk.NewMem()
	l := openLog(t, fs)
	put(t, l, 1, 1, 3, 100)
	check(t, l.Close()) // writes, and does not sync
	wantRange(t, openLog(t, fs), 1, 3)
	fs.Crash(nil)
	wantRange(t, openLog(t, fs), 1, 3)
}
