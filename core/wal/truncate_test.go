package wal

import (
	"errors"
	"testing"

	"github.com/holdfastdb/holdfast/core/disk"
)

func TestTruncateNeedsDurableEntries(t *testing.T) {
	l := openLog(t, disk.NewMem())
	put(t, l, 1, 1, 5, 10)
	if err := l.Truncate(1); err == nil {
		t.Fatal("truncated up to an entry that is not synced")
	}
	check(t, l.Sync(), l.Truncate(1))
	put(t, l, 3, 2, 1, 10)
	if err := l.Truncate(3); err == nil {
		t.Fatal("truncated up to an entry that was overwritten since the last sync")
	}
	check(t, l.Truncate(2), l.Truncate(1))
	wantRange(t, l, 3, 3)
}

// TestTruncateBoundsDiskUse writes fifty segments' worth and truncates behind itself.
func TestTruncateBoundsDiskUse(t *testing.T) {
	fs := disk.NewMem()
	l := openLog(t, fs)
	created := map[string]bool{}
	for i := range uint64(500) {
		put(t, l, 1+i, 1, 1, 900)
		check(t, l.Sync())
		if i%10 == 9 {
			check(t, l.Truncate(i))
		}
		names, err := fs.List("wal")
		check(t, err)
		if len(names) > 6 {
			t.Fatalf("after entry %d there are %q", i+1, names)
		}
		for _, n := range names {
			created[n] = true
		}
	}
	if len(created) < 50 {
		t.Fatalf("only %d segments were used: the test shows nothing", len(created))
	}
}

// TestTruncateBelowTheFirstSegmentsBeginning: the first segment left began after an entry that was overwritten in it.
func TestTruncateBelowTheFirstSegmentsBeginning(t *testing.T) {
	fs := disk.NewMem()
	l := openLog(t, fs)
	index := uint64(1)
	for ; l.Stats().Segment < 2; index++ {
		check(t, l.Sync())
		put(t, l, index, 1, 1, 900)
	}
	put(t, l, 4, 2, 1, 10)
	check(t, l.Sync(), l.Truncate(3))
	if l.Stats().Segments != 1 {
		t.Fatal("the first segment is still there: the test shows nothing")
	}
	fs.Crash(nil)
	wantRange(t, openLog(t, fs), 4, 4)
}

func TestResetStartsAnew(t *testing.T) {
	fs := disk.NewMem()
	l := openLog(t, fs)
	put(t, l, 1, 1, 30, 900)
	check(t, l.Sync())
	hs := HardState{Term: 9, Vote: 2, Commit: 1000}
	check(t, l.Reset(1000, 8, hs))
	for range 2 {
		wantRange(t, l, 1001, 1000)
		if term, err := l.Term(1000); term != 8 || err != nil || l.HardState() != hs {
			t.Fatalf("term %d, %v, hard state %+v", term, err, l.HardState())
		}
		if _, err := l.Term(999); !errors.Is(err, ErrTruncated) {
			t.Fatalf("term of 999: %v", err)
		}
		fs.Crash(nil)
		l = openLog(t, fs)
	}
	put(t, l, 1001, 9, 3, 10)
	check(t, l.Sync())
	fs.Crash(nil)
	wantRange(t, openLog(t, fs), 1001, 1003)
}
