package wal

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/core/disk"
)

func TestEmptyLog(t *testing.T) {
	fs := disk.NewMem()
	for range 2 {
		l := openLog(t, fs)
		wantRange(t, l, 1, 0)
		if term, err := l.Term(0); term != 0 || err != nil {
			t.Fatalf("term of 0: %d, %v", term, err)
		}
		if _, err := l.Term(1); !errors.Is(err, ErrBeyondEnd) {
			t.Fatalf("term of 1: %v", err)
		}
		if l.HardState() != (HardState{}) {
			t.Fatalf("hard state %+v", l.HardState())
		}
		check(t, l.Close())
	}
}

func TestAppendRefusesWhatDoesNotFit(t *testing.T) {
	l := openLog(t, disk.NewMem())
	put(t, l, 1, 1, 5, 10)
	check(t, l.Sync(), l.Truncate(2))
	for _, entries := range [][]Entry{
		{{Index: 7, Term: 1}},
		{{Index: 2, Term: 1}},
		{{Index: 6, Term: 1}, {Index: 8, Term: 1}},
	} {
		before := l.Stats()
		if err := l.Append(Batch{Entries: entries}); err == nil {
			t.Fatalf("entries %+v were taken", entries)
		}
		if l.Stats() != before {
			t.Fatal("a refused batch changed something")
		}
	}
	put(t, l, 6, 1, 1, 10)
	wantRange(t, l, 3, 6)
}

func TestOverwriteSuffix(t *testing.T) {
	fs := disk.NewMem()
	l := openLog(t, fs)
	put(t, l, 1, 1, 30, 400) // beyond one segment
	put(t, l, 31, 1, 10, 400)
	put(t, l, 15, 3, 2, 400)
	put(t, l, 17, 4, 1, 400)
	check(t, l.Sync())
	for range 2 {
		wantRange(t, l, 1, 17)
		for i, want := range map[uint64]uint64{1: 1, 14: 1, 15: 3, 16: 3, 17: 4} {
			if term, err := l.Term(i); term != want || err != nil {
				t.Fatalf("term of %d: %d, %v, want %d", i, term, err, want)
			}
		}
		ents, err := l.Entries(13, 18, 1<<20)
		check(t, err)
		for n, e := range ents {
			if e.Index != 13+uint64(n) || !bytes.Equal(e.Data, bytes.Repeat([]byte{byte(e.Index)}, 400)) {
				t.Fatalf("entry %d at place %d", e.Index, n)
			}
		}
		l = openLog(t, fs)
	}
}

func TestEntriesHonoursItsBounds(t *testing.T) {
	fs := disk.NewMem()
	l := openLog(t, fs)
	for i := range uint64(100) {
		put(t, l, 1+3*i, 1, 3, 200)
	}
	check(t, l.Sync(), l.Truncate(10))
	rng := rand.New(rand.NewPCG(1, 1))
	for _, cache := range []int64{1, 5 << 10, 1 << 20} {
		l.Close()
		opt := testOptions
		opt.CacheBytes = cache
		var err error
		l, err = Open(fs, "wal", opt)
		check(t, err)
		next := l.LastIndex() + 1
		for i := range uint64(10) { // fill the cache
			put(t, l, next+i, 1, 1, 200)
		}
		for range 300 {
			lo := 11 + rng.Uint64N(l.LastIndex()-11)
			hi := lo + rng.Uint64N(l.LastIndex()+2-lo)
			limit := rng.Uint64N(8 << 10)
			ents, err := l.Entries(lo, hi, limit)
			check(t, err)
			var spent int64
			for i := range ents {
				spent += cost(&ents[i])
				if ents[i].Index != lo+uint64(i) || ents[i].Data[0] != byte(ents[i].Index) {
					t.Fatalf("entry %d at place %d from %d", ents[i].Index, i, lo)
				}
			}
			full := len(ents) == int(hi-lo)
			if len(ents) > 1 && spent > int64(limit) || !full && len(ents) == 0 {
				t.Fatalf("[%d, %d) within %d bytes: %d entries of %d bytes", lo, hi, limit, len(ents), spent)
			}
			if !full && spent+cost(&ents[0]) <= int64(limit) {
				t.Fatalf("[%d, %d) within %d bytes: only %d entries of %d bytes", lo, hi, limit, len(ents), spent)
			}
		}
		if _, err := l.Entries(10, 12, 1); !errors.Is(err, ErrTruncated) {
			t.Fatalf("truncated entries: %v", err)
		}
		if _, err := l.Entries(11, l.LastIndex()+2, 1); !errors.Is(err, ErrBeyondEnd) {
			t.Fatalf("entries beyond the end: %v", err)
		}
		if ents, err := l.Entries(20, 20, 1); len(ents) > 0 || err != nil {
			t.Fatalf("no entries: %v, %v", ents, err)
		}
	}
}

// TestTailIsBounded: the cache gives way, but the last two batches stay at any size.
func TestTailIsBounded(t *testing.T) {
	opt := testOptions
	opt.CacheBytes = 10 << 10
	l, err := Open(disk.NewMem(), "wal", opt)
	check(t, err)
	defer l.Close()
	for i := range uint64(1000) {
		put(t, l, 1+i, 1, 1, 100)
		if l.tail.bytes > opt.CacheBytes || len(l.tail.entries) > 300 {
			t.Fatalf("%d bytes and %d places are cached", l.tail.bytes, len(l.tail.entries))
		}
	}
	put(t, l, 1001, 1, 4, 10<<10)
	put(t, l, 1005, 1, 2, 10<<10)
	if first, ok := l.tail.first(); !ok || first != 1001 {
		t.Fatalf("the cache begins at %d", first)
	}
}

// TestEveryCrashPoint cuts the power during each call to the disk that an operation makes, with several fates for unsynced data. It accepts
// only the state before or after.
func TestEveryCrashPoint(t *testing.T) {
	prepare := func(l *WAL) model {
		var m model
		for i := range uint64(25) { // three segments
			b := Batch{HardState: &HardState{Term: 1, Commit: i}, Entries: []Entry{{Index: i + 1, Term: 1 + i/10, Data: make([]byte, 900)}}}
			m.append(b)
			if err := l.Append(b); err != nil {
				t.Fatal(err)
			}
		}
		check(t, l.Sync())
		return m
	}
	big := Batch{HardState: &HardState{Term: 5}, Entries: []Entry{{Index: 20, Term: 5, Data: make([]byte, 7000)}}}
	for _, op := range []struct {
		name  string
		do    func(l *WAL) error
		after func(m *model)
	}{
		{"truncate", func(l *WAL) error { return l.Truncate(20) }, func(m *model) { m.truncate(20) }},
		{"reset", func(l *WAL) error { return l.Reset(100, 9, HardState{Term: 9}) },
			func(m *model) { *m = model{at: position{100, 9}, hard: HardState{Term: 9}} }},
		{"switch segment", func(l *WAL) error { return errors.Join(l.Append(big), l.Sync()) }, func(m *model) { m.append(big) }},
		{"switch to a recycled segment", func(l *WAL) error {
			return errors.Join(l.Truncate(20), l.Append(Batch{Entries: []Entry{{Index: 26, Term: 5, Data: make([]byte, 7000)}}}), l.Sync())
		}, nil},
	} {
		for n, done := 0, false; !done; n++ {
			for seed := range uint64(30) {
				fs := disk.NewMem()
				l := openLog(t, fs)
				before := prepare(l)
				after := before.clone()
				legal := []*model{&before, &after}
				if op.after != nil {
					op.after(&after)
				} else {
					between := before.clone()
					between.truncate(20)
					after = between.clone()
					after.append(Batch{Entries: []Entry{{Index: 26, Term: 5, Data: make([]byte, 7000)}}})
					legal = append(legal, &between)
				}
				fs.PowerOffAfter(n)
				err := op.do(l)
				if done = err == nil; done {
					legal = []*model{&after}
				} else if !errors.Is(err, disk.ErrPowerOff) {
					t.Fatal(err)
				}
				l.Close()
				fs.Crash(rand.New(rand.NewPCG(seed, uint64(n))))
				l = openLog(t, fs)
				var diffs []string
				for _, m := range legal {
					diffs = append(diffs, m.diff(t, l))
				}
				ok := false
				for i, d := range diffs {
					if d == "" {
						ok = true
						m := legal[i].clone()
						// And it must be a log that works.
						b := Batch{Entries: []Entry{{Index: m.last() + 1, Term: 9, Data: make([]byte, 5000)}}}
						m.append(b)
						check(t, l.Append(b), l.Sync(), l.Close())
						if d := m.diff(t, openLog(t, fs)); d != "" {
							t.Fatalf("%s, power off after %d calls, then one more batch: %s", op.name, n, d)
						}
						break
					}
				}
				if !ok {
					t.Fatalf("%s, power off after %d calls (%v): %q", op.name, n, err, diffs)
				}
			}
		}
	}
}

func TestFailedSyncIsFinal(t *testing.T) {
	bad := errors.New("bad disk")
	fs := disk.NewFaulty(disk.NewMem())
	l := openLog(t, fs)
	put(t, l, 1, 1, 1, 10)
	fs.FailSync(nil, bad)
	if err := l.Sync(); !errors.Is(err, bad) {
		t.Fatal(err)
	}
	fs.FailSync(nil, nil)
	for what, err := range map[string]error{
		"sync":     l.Sync(),
		"append":   l.Append(Batch{HardState: &HardState{Term: 1}}),
		"truncate": l.Truncate(1),
		"reset":    l.Reset(5, 1, HardState{}),
	} {
		if !errors.Is(err, bad) {
			t.Fatalf("%s after a failed sync: %v", what, err)
		}
	}
}

func TestFullDiskIsFinalAndLosesNothing(t *testing.T) {
	mem := disk.NewMem()
	fs := disk.NewFaulty(mem)
	l := openLog(t, fs)
	fs.FillAfter(nil, 20<<10)
	var err error
	i := uint64(0)
	for err == nil {
		i++
		if err = l.Append(Batch{Entries: []Entry{{Index: i, Term: 1, Data: make([]byte, 500)}}}); err == nil {
			err = l.Sync()
		}
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	l.Close()
	mem.Crash(nil)
	fs.FillAfter(nil, -1)
	wantRange(t, openLog(t, fs), 1, i-1)
}

// TestIdleLogMakesNoSync counts what reaches the disk when nothing is new.
func TestIdleLogMakesNoSync(t *testing.T) {
	fs := disk.NewMem()
	l := openLog(t, fs)
	put(t, l, 1, 1, 1, 10)
	check(t, l.Sync())
	before := fs.Ops()
	for range 10 {
		check(t, l.Sync(), l.Append(Batch{}))
	}
	if fs.Ops() != before {
		t.Fatalf("%d calls to the disk", fs.Ops()-before)
	}
}

// TestSegmentsAreNumberedOnce asks for the next segment all the time while the writer goes from one to the next. No file may be made under
// a number in use, or its records are gone after a restart.
func TestSegmentsAreNumberedOnce(t *testing.T) {
	opt := Options{SegmentBytes: 4 << 10, CacheBytes: 1}
	l, err := Open(disk.OS(), t.TempDir(), opt)
	check(t, err)
	var stop atomic.Bool
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for !stop.Load() {
				l.prep.wake()
				runtime.Gosched()
			}
		})
	}
	const n = 800
	for i := uint64(1); i <= n; i++ {
		put(t, l, i, 1, 1, 900)
	}
	stop.Store(true)
	wg.Wait()
	check(t, l.Sync(), l.Close())
	for i := 1; i < len(l.segs); i++ {
		if l.segs[i].number != l.segs[i-1].number+1 {
			t.Fatalf("segment %d follows %d", l.segs[i].number, l.segs[i-1].number)
		}
	}
	l, err = Open(disk.OS(), l.dir, opt)
	check(t, err)
	wantRange(t, l, 1, n)
	check(t, l.Close())
}

// TestReadersBesideWriter runs readers and a truncater beside the writer, for the race detector and for wrong data.
func TestReadersBesideWriter(t *testing.T) {
	opt := Options{SegmentBytes: 16 << 10, CacheBytes: 4 << 10}
	l, err := Open(disk.OS(), t.TempDir(), opt)
	check(t, err)
	var stop atomic.Bool
	var wg sync.WaitGroup
	for r := range 3 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(r), 0))
			for !stop.Load() {
				first, last := l.FirstIndex(), l.LastIndex()
				if last < first {
					continue
				}
				lo := first + rng.Uint64N(last-first+1)
				ents, err := l.Entries(lo, min(lo+20, last+1), 4<<10)
				if err != nil && !errors.Is(err, ErrTruncated) && !errors.Is(err, ErrBeyondEnd) {
					t.Errorf("entries from %d: %v", lo, err)
					return
				}
				for n, e := range ents {
					if e.Index != lo+uint64(n) || e.Data[0] != byte(e.Index) {
						t.Errorf("entry %d at place %d from %d", e.Index, n, lo)
						return
					}
				}
			}
		})
	}
	wg.Go(func() {
		for !stop.Load() {
			if last := l.LastIndex(); last > 200 {
				_ = l.Truncate(last - 200) // refused if not synced yet
			}
			time.Sleep(time.Millisecond)
		}
	})
	deadline := time.Now().Add(time.Second)
	i := uint64(1)
	for ; time.Now().Before(deadline); i++ {
		put(t, l, i, 1+i/1000, 1, 300)
		if i%5 == 0 {
			check(t, l.Sync())
		}
		if i%100 == 0 {
			put(t, l, i, 1+i/1000, 2, 300)
			i++
		}
	}
	stop.Store(true)
	wg.Wait()
	check(t, l.Sync(), l.Close())
	if _, err := l.Entries(i-1, i, 1); !errors.Is(err, ErrClosed) {
		t.Fatalf("entries of a closed log: %v", err)
	}
	l, err = Open(disk.OS(), l.dir, opt)
	check(t, err)
	wantRange(t, l, l.FirstIndex(), i-1)
	check(t, l.Close())
}

// TestRest drops the entries kept in memory: they are read from the segments, and appended ones follow.
func TestRest(t *testing.T) {
	l := openLog(t, disk.NewMem())
	put(t, l, 1, 1, 20, 100)
	for i := range 20 {
		put(t, l, uint64(21+i), 1, 1, 100)
	}
	check(t, l.Sync())
	before := l.tail.bytes
	l.Rest()
	if l.tail.bytes >= before/10 {
		t.Errorf("%d bytes in memory of %d", l.tail.bytes, before)
	}
	put(t, l, 41, 1, 1, 100)
	check(t, l.Sync())
	entries, err := l.Entries(1, 42, 1<<20)
	if err != nil || len(entries) != 41 {
		t.Fatalf("%d entries after a rest: %v", len(entries), err)
	}
	for i := range entries {
		if entries[i].Index != uint64(i+1) || len(entries[i].Data) != 100 {
			t.Fatalf("entry %d has index %d and %d bytes", i+1, entries[i].Index, len(entries[i].Data))
		}
	}
	check(t, l.Close())
}
