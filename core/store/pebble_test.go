package store

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/holdfastdb/holdfast/internal/wait"
)

// TestCrashLeavesAPrefix crashes Pebble's file system at random moments. The restored state must be the exact state at its own applied
// index, and never one before the last Flush. Replaying the log from there is then right. From the second of its lives on every other run
// keeps its larger values apart.
func TestCrashLeavesAPrefix(t *testing.T) {
	for seed := range uint64(15) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 1))
			fs := vfs.NewCrashableMem()
			states := [][]string{nil} // by applied index
			var ref *Mem              // what must be there, rebuilt after each crash
			var applied, floor uint64
			for life := range 4 {
				s := openTest(t, fs, Options{flushBytes: 20 << 10, overwriteBytes: 4 << 10, separateBytes: 100, separateRest: time.Nanosecond})
				if life > 0 && seed%2 == 1 {
					if err := s.SeparateValues(); err != nil {
						t.Fatal(err)
					}
				}
				if s.Applied() < floor || s.Applied() > applied {
					t.Fatalf("applied %d after a crash between %d and %d", s.Applied(), floor, applied)
				}
				applied = s.Applied()
				wantDump(t, s, states[applied]...)
				states = states[:applied+1]
				ref = rebuild(t, states[applied], applied)
				for range 300 {
					applied++
					a, b := s.NewBatch(), ref.NewBatch()
					for range 1 + rng.IntN(4) {
						k, v := fmt.Appendf(nil, "k%02d", rng.IntN(40)), fmt.Appendf(nil, "%0*d", rng.IntN(200), applied)
						if rng.IntN(5) == 0 {
							a.Delete(k)
							b.Delete(k)
						} else {
							a.Set(k, v)
							b.Set(k, v)
							a.Overwrote(len(v))
						}
					}
					if err := errors.Join(s.Commit(a, applied), ref.Commit(b, applied)); err != nil {
						t.Fatal(err)
					}
					states = append(states, dump(t, ref))
					if rng.IntN(100) == 0 {
						if err := s.Flush(); err != nil {
							t.Fatal(err)
						}
						floor = applied
					}
				}
				if n, err := s.DurableApplied(); err != nil || n < floor {
					t.Fatalf("durable applied %d, %v, flushed %d", n, err, floor)
				} else {
					floor = n
				}
				fs = fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(101), RNG: rng})
				s.Close()
			}
		})
	}
}

func rebuild(t *testing.T, pairs []string, applied uint64) *Mem {
	m := NewMem()
	set(t, m, applied, pairs...)
	return m
}

func TestOpenRefusesAMissingPointer(t *testing.T) {
	fs := vfs.NewMem()
	s := openTest(t, fs, Options{})
	s.Close()
	if err := fs.Remove("data/CURRENT"); err != nil {
		t.Fatal(err)
	}
	if _, err := open(fs, "data", Options{}); err == nil || !strings.Contains(err.Error(), "CURRENT") {
		t.Fatalf("open: %v", err)
	}
}

// TestFailedFlushIsFatal: a full or broken disk ends in OnFatal, and no caller waits for ever.
func TestFailedFlushIsFatal(t *testing.T) {
	var broken atomic.Bool
	fs := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if broken.Load() && op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
			return syscall.ENOSPC
		}
		return nil
	}))
	fatal := make(chan error, 1)
	s := openTest(t, fs, Options{OnFatal: func(err error) { fatal <- err }})
	set(t, s, 1, "a=1")
	broken.Store(true)
	if err := s.Flush(); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("flush: %v", err)
	}
	if err := <-fatal; !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("fatal: %v", err)
	}
	if err := s.Commit(s.NewBatch(), 2); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("commit: %v", err)
	}
	if err := s.Close(); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("close: %v", err)
	}
	broken.Store(false)
}

// TestHugeBatchStopsNobody: while the disk is busy with one command's deletes, later small commits go on, until they themselves exceed the
// memory bound.
func TestHugeBatchStopsNobody(t *testing.T) {
	var busy sync.Mutex // held: the disk writes nothing
	fs := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpFileWrite {
			busy.Lock()
			defer busy.Unlock()
		}
		return nil
	}))
	// No flush of the store's own. It would begin another memtable at a moment that depends on the machine's load, and that may be the one
	// too many.
	s := openTest(t, fs, Options{flushBytes: 1 << 40})
	applied := uint64(0)
	commit := func(rows int) {
		b := s.NewBatch()
		for i := range rows {
			b.Set(fmt.Appendf(nil, "k%d.%d", applied, i), make([]byte, 1000))
		}
		applied++
		if err := s.Commit(b, applied); err != nil {
			t.Error(err)
		}
	}
	busy.Lock()
	commit(30_000)
	done := make(chan struct{})
	small := func(n int) {
		for range n {
			commit(10)
		}
		done <- struct{}{}
	}
	go small(1000) // 10 MB: with what a memtable needs itself, surely within two
	select {
	case <-done:
	case <-time.After(wait.Limit(t)):
		busy.Unlock()
		t.Fatal("10 MB of small commits waited for a batch of 30 MB")
	}
	go small(3000)
	select {
	case <-done:
		t.Error("45 MB of small commits went by while the disk wrote nothing")
		busy.Unlock()
	case <-time.After(300 * time.Millisecond):
		busy.Unlock()
		<-done
	}
	if err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	commit(2000)
	if s.backlog.huge != 0 {
		t.Errorf("a batch that is long on the disk still leaves room for %d bytes", s.backlog.huge)
	}
}

func TestFlushPolicy(t *testing.T) {
	durable := func(s *db, n uint64) func() bool {
		return func() bool {
			got, err := s.DurableApplied()
			return err == nil && got == n
		}
	}
	t.Run("age", func(t *testing.T) {
		s := openTest(t, vfs.NewMem(), Options{flushAge: 20 * time.Millisecond})
		set(t, s, 1, "a=1")
		wait.Until(t, "flush by age", durable(s, 1))
		before := s.Metrics().Flushes
		time.Sleep(100 * time.Millisecond)
		if n := s.Metrics().Flushes; n != before {
			t.Fatalf("an idle store was flushed %d times", n-before)
		}
		set(t, s, 2, "a=2")
		wait.Until(t, "second flush by age", durable(s, 2))
	})
	t.Run("bytes", func(t *testing.T) {
		s := openTest(t, vfs.NewMem(), Options{flushBytes: 1000})
		set(t, s, 1, "a="+strings.Repeat("x", 500))
		time.Sleep(20 * time.Millisecond)
		if n, _ := s.DurableApplied(); n != 0 {
			t.Fatal("flushed too early")
		}
		set(t, s, 2, "b="+strings.Repeat("x", 500))
		wait.Until(t, "flush by bytes", durable(s, 2))
	})
	t.Run("overwritten", func(t *testing.T) {
		s := openTest(t, vfs.NewMem(), Options{overwriteBytes: 1000})
		b := s.NewBatch()
		b.Set([]byte("a"), nil)
		b.Overwrote(1000)
		if err := s.Commit(b, 1); err != nil {
			t.Fatal(err)
		}
		wait.Until(t, "flush by overwritten bytes", durable(s, 1))
	})
	t.Run("bulk", func(t *testing.T) {
		s := openTest(t, vfs.NewMem(), Options{Bulk: true})
		b := s.NewBatch()
		b.Set([]byte("a"), nil)
		b.Overwrote(2 * defaultOverwriteBytes)
		if err := s.Commit(b, 1); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond)
		if n, _ := s.DurableApplied(); n != 0 {
			t.Fatal("flushed for the sake of readers while it is filled")
		}
		if err := s.Flush(); err != nil || !durable(s, 1)() {
			t.Fatal("not durable after Flush", err)
		}
	})
	t.Run("wasted steps", func(t *testing.T) {
		s := openTest(t, vfs.NewMem(), Options{wastedSteps: 1000})
		const n = 100
		for i := range uint64(n) {
			b := s.NewBatch()
			b.Set([]byte("a"), nil)
			b.Overwrote(minOverwriteBytes / n)
			b.Overwrote(n)
			if err := s.Commit(b, i+1); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(20 * time.Millisecond)
		if got, _ := s.DurableApplied(); got != 0 {
			t.Fatal("flushed though nobody was slowed down")
		}
		for range 15 {
			wantDump(t, s, "a=")
		}
		wait.Until(t, "flush by wasted steps", durable(s, n))
	})
}

// TestOpenAnswersNoStoreWithAnError: a caller that closes what is not nil must not find one that is nil inside.
func TestOpenAnswersNoStoreWithAnError(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "store-000001", "MANIFEST-*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, name := range files {
		if err := os.WriteFile(name, []byte("no manifest at all"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if s, err = Open(dir, Options{}); s != nil || err == nil || !strings.Contains(err.Error(), dir) {
		t.Fatalf("%#v, %v", s, err)
	}
}

// TestRest drops the blocks that are kept for readers, who read them again.
func TestRest(t *testing.T) {
	s := openTest(t, vfs.NewMem(), Options{})
	for i := range 2000 {
		set(t, s, uint64(i+1), fmt.Sprintf("k%05d=%01000d", i, i))
	}
	if err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	want := dump(t, s)
	full := s.Metrics().CacheBytes
	s.Rest()
	if kept := s.Metrics().CacheBytes; full < 1<<20 || kept > full/10 {
		t.Errorf("%d bytes of blocks are kept of %d", kept, full)
	}
	if got := dump(t, s); !slices.Equal(got, want) {
		t.Error("it reads something else")
	}
	if again := s.Metrics().CacheBytes; again < full/2 {
		t.Errorf("%d bytes of blocks after reading again, %d before: the cache has lost its room", again, full)
	}
}

// TestLoadsCountWhatTakesTheCachesRoom: blocks that an iterator reads count as missed when they displace others. They do not when they are
// in the cache, or it has room for them.
func TestLoadsCountWhatTakesTheCachesRoom(t *testing.T) {
	s := openTest(t, vfs.NewMem(), Options{CacheBytes: 12 << 20, MemtableBytes: 1 << 20})
	const rows = 12_000 // 18 MB; 9 are for blocks
	random := rand.New(rand.NewPCG(1, 2))
	for i := range rows {
		value := make([]byte, 1500) // of bytes that cannot be compressed
		for j := range value {
			value[j] = byte(128 + random.UintN(128))
		}
		set(t, s, uint64(i+1), fmt.Sprintf("k%05d=%s", i, value))
	}
	if err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	walk := func(from, to int) Loads {
		it, err := s.NewIter(fmt.Appendf(nil, "k%05d", from), fmt.Appendf(nil, "k%05d", to))
		if err != nil {
			t.Fatal(err)
		}
		defer it.Close()
		for ok := it.First(); ok; ok = it.Next() {
		}
		return it.Loads()
	}
	s.Rest()
	if l := walk(0, 1000); l.Bytes < 1<<20 || l.Missed != 0 {
		t.Errorf("with room for all: %+v", l)
	}
	if l := walk(0, rows); l.Missed < 1<<20 || l.Missed > l.Bytes {
		t.Errorf("more than the cache holds: %+v", l)
	}
	walk(rows-1000, rows)
	if l := walk(rows-1000, rows); l.Bytes < 1<<20 || l.Missed > l.Bytes/8 {
		t.Errorf("what was just read: %+v", l)
	}
}

// TestBoundCache: blocks go where the cache may have less, reads are the same, and what was lent is there again afterwards, however often.
func TestBoundCache(t *testing.T) {
	s := openTest(t, vfs.NewMem(), Options{})
	for i := range 2000 {
		set(t, s, uint64(i+1), fmt.Sprintf("k%05d=%01000d", i, i))
	}
	if err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	want := dump(t, s)
	full := s.Metrics().CacheBytes
	for _, bytes := range []int64{defaultCacheBytes / 2, 1 << 20, 0} {
		s.BoundCache(bytes)
		if got := dump(t, s); !slices.Equal(got, want) {
			t.Fatalf("with %d bytes it reads something else", bytes)
		}
	}
	if kept := s.Metrics().CacheBytes; full < 1<<20 || kept > full/10 {
		t.Errorf("%d bytes of blocks are kept of %d", kept, full)
	}
	s.BoundCache(2 * defaultCacheBytes) // no more than it was opened with
	dump(t, s)
	if again := s.Metrics().CacheBytes; again < full/2 || again > defaultCacheBytes {
		t.Errorf("%d bytes of blocks when all is given back, %d before", again, full)
	}
	s.BoundCache(0)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s.BoundCache(1 << 20) // the ledger may be balanced while the member stops
}
