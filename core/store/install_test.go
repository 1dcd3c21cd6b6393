package store

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// TestInstallSurvivesACrashAtAnyTime crashes at every file operation of receiving and installing a snapshot.
func TestInstallSurvivesACrashAtAnyTime(t *testing.T) {
	replaced := 0
	for stop := int64(1); ; stop++ {
		mem := vfs.NewCrashableMem()
		var ops, limit atomic.Int64
		limit.Store(1 << 60)
		gone := errors.New("power is off")
		fs := errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
			if op.Kind.ReadOrWrite() == errorfs.OpIsWrite && ops.Add(1) > limit.Load() {
				return gone
			}
			return nil
		}))
		fatal := make(chan error, 1)
		s, err := open(fs, "data", Options{OnFatal: func(err error) { fatal <- err }})
		if err != nil {
			t.Fatal(err)
		}
		set(t, s, 5, "a=1")
		if err := s.Flush(); err != nil {
			t.Fatal(err)
		}
		limit.Store(ops.Load() + stop)
		done := make(chan error, 1)
		go func() {
			done <- func() error {
				in, err := s.Incoming()
				if err != nil {
					return err
				}
				if err := errors.Join(in.Set([]byte("b"), []byte("2")), in.Finish(100)); err != nil {
					return err
				}
				return s.Install(in)
			}()
		}()
		var ierr error
		select {
		case ierr = <-done:
		case ierr = <-fatal: // and Pebble's goroutine is parked, as it should
		}
		after := mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: rand.New(rand.NewPCG(uint64(stop), 1))})
		r, err := open(after, "data", Options{})
		if err != nil {
			t.Fatalf("power off after %d operations: %v", stop, err)
		}
		switch {
		case r.Applied() == 100:
			wantDump(t, r, "b=2")
			replaced++
		case r.Applied() == 5 && ierr != nil:
			wantDump(t, r, "a=1")
		default:
			t.Fatalf("power off after %d operations, install %v: applied %d", stop, ierr, r.Applied())
		}
		names, _ := after.List("data")
		stores := 0
		for _, n := range names {
			if strings.HasPrefix(n, "store-") {
				stores++
			}
		}
		if stores != 1 {
			t.Fatalf("after Open there are %q", names)
		}
		r.Close()
		s.Close()
		if ierr == nil && ops.Load() < limit.Load() {
			break
		}
	}
	if replaced == 0 {
		t.Fatal("no run came to the new store")
	}
}

// TestReadersBesideInstall: readers of every kind go on while the store is replaced again and again.
func TestReadersBesideInstall(t *testing.T) {
	s := openTest(t, vfs.NewMem(), Options{})
	set(t, s, 1, "a=1", "b=1")
	var stop atomic.Bool
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for !stop.Load() {
				v := s.NewView()
				it, err := v.NewIter([]byte{1}, nil)
				if err == nil {
					n := 0
					for ok := it.First(); ok; ok = it.Next() {
						n++
					}
					if err = it.Close(); err == nil && n != 2 {
						t.Errorf("%d keys", n)
					}
				}
				if _, _, gerr := s.Get(nil, []byte("a")); gerr != nil {
					t.Errorf("get: %v", gerr)
				}
				if err = errors.Join(err, v.Close()); err != nil && !errors.Is(err, ErrReplaced) {
					t.Error(err)
				}
			}
		})
	}
	for i := range 20 {
		in, err := s.Incoming()
		if err != nil {
			t.Fatal(err)
		}
		fill(t, in, "a=1", "b=1")
		if err := in.Finish(uint64(10 + i)); err != nil {
			t.Fatal(err)
		}
		if err := s.Install(in); err != nil {
			t.Fatal(err)
		}
	}
	stop.Store(true)
	wg.Wait()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Get(nil, []byte("a")); !errors.Is(err, ErrClosed) {
		t.Fatalf("get after close: %v", err)
	}
	if _, err := s.NewView().NewIter(nil, nil); !errors.Is(err, ErrClosed) {
		t.Fatalf("view after close: %v", err)
	}
}

// TestIncomingInManyTables receives more than fits one table and reopens the result.
func TestIncomingInManyTables(t *testing.T) {
	fs := vfs.NewMem()
	s := openTest(t, fs, Options{})
	in, err := s.Incoming()
	if err != nil {
		t.Fatal(err)
	}
	in.(*incoming).tableBytes = 20 << 10
	var pairs []string
	for i := range 5000 {
		pairs = append(pairs, fmt.Sprintf("k%05d=%032d", i, i))
	}
	fill(t, in, pairs...)
	if err := in.Finish(9); err != nil {
		t.Fatal(err)
	}
	if n := len(in.(*incoming).paths); n < 3 {
		t.Fatalf("only %d tables: the test shows nothing", n)
	}
	if err := errors.Join(s.Install(in), in.Abort()); err != nil {
		t.Fatal(err)
	}
	wantDump(t, s, pairs...)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openTest(t, fs, Options{})
	wantDump(t, s, pairs...)
	if s.Applied() != 9 {
		t.Fatalf("applied %d", s.Applied())
	}
	set(t, s, 10, "k00000=new")
	if v, _, err := s.Get(nil, []byte("k00000")); string(v) != "new" || err != nil {
		t.Fatalf("%q, %v: an ingested key hides a later write", v, err)
	}
}
