package store

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/holdfastdb/holdfast/internal/wait"
)

// apart counts the files of separated values in all generations of a store.
func apart(t *testing.T, fs vfs.FS) (n int) {
	t.Helper()
	dirs, err := fs.List("data")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range dirs {
		files, err := fs.List(fs.PathJoin("data", dir))
		if err != nil {
			continue // CURRENT
		}
		for _, name := range files {
			if strings.HasSuffix(name, ".blob") {
				n++
			}
		}
	}
	return n
}

// large is the value of version n of a key.
func large(n int) string { return fmt.Sprintf("%0*d", 4<<10, n) }

// TestValuesAreKeptApartOnlyOnceAllowed: a directory stays one that the build before can open until SeparateValues, is one of the new kind
// afterwards and after a restart, with whatever it had; and what it is given by Install is of the new kind too.
func TestValuesAreKeptApartOnlyOnceAllowed(t *testing.T) {
	fs := vfs.NewMem()
	s := openTest(t, fs, Options{})
	set(t, s, 1, "a="+large(1))
	if err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	if now := s.cur.Load().pdb.FormatMajorVersion(); now != formatMajorVersion || apart(t, fs) > 0 {
		t.Fatalf("format %d, %d files of values", now, apart(t, fs))
	}
	for range 2 {
		if err := s.SeparateValues(); err != nil {
			t.Fatal(err)
		}
	}
	set(t, s, 2, "b="+large(2), "c=small")
	if err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	if apart(t, fs) != 1 {
		t.Fatalf("%d files of values", apart(t, fs))
	}
	want := []string{"a=" + large(1), "b=" + large(2), "c=small"}
	wantDump(t, s, want...)
	s.Close()
	s = openTest(t, fs, Options{})
	wantDump(t, s, want...)
	if now := s.cur.Load().pdb.FormatMajorVersion(); now != pebble.FormatValueSeparation {
		t.Fatalf("format %d after a restart", now)
	}
	if err := s.SeparateValues(); err != nil {
		t.Fatal(err)
	}
	in, err := s.Incoming()
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(in.Set([]byte("a"), []byte(large(7))), in.Finish(9), s.Install(in)); err != nil {
		t.Fatal(err)
	}
	wantDump(t, s, "a="+large(7))
	set(t, s, 10, "b="+large(8))
	if err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	if apart(t, fs) != 1 {
		t.Fatalf("%d files of values after Install", apart(t, fs))
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.SeparateValues(); err != ErrClosed {
		t.Fatalf("closed: %v", err)
	}
}

// TestTheSpaceOfLargeValuesComesBack: what is overwritten and deleted leaves its files with little else than garbage, and they are
// written anew. Values that live are not lost on the way.
func TestTheSpaceOfLargeValuesComesBack(t *testing.T) {
	fs := vfs.NewMem()
	s := openTest(t, fs, Options{MemtableBytes: 256 << 10, separateRest: time.Nanosecond})
	if err := s.SeparateValues(); err != nil {
		t.Fatal(err)
	}
	const keys, rounds = 200, 30
	newest := make([]int, keys)
	n := uint64(0)
	for round := range rounds {
		for i := range keys {
			if i%7 == 0 && round > 0 { // some stay as they are, in files of which the rest goes
				continue
			}
			n++
			newest[i] = int(n)
			set(t, s, n, fmt.Sprintf("k%03d=%s", i, large(newest[i])))
		}
	}
	if err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	live := int64(keys * len(large(0)))
	wait.Until(t, "space", func() bool { return s.Metrics().DiskBytes < 2*live })
	for i := range keys {
		got, ok, err := s.Get(nil, fmt.Appendf(nil, "k%03d", i))
		if err != nil || !ok || !bytes.Equal(got, []byte(large(newest[i]))) {
			t.Fatalf("k%03d is %.20q, %v, %v", i, got, ok, err)
		}
	}
}
