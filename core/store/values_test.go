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

// TestValuesAreKeptApartOnlyOnceAllowed: a directory stays readable to the previous build until SeparateValues. It is one of the new kind
// afterwards and after a restart, with its old content. A state given by Install is of the new kind too.
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

// TestTheSpaceOfLargeValuesComesBack: every file of values keeps a few that live, among what was overwritten since. Such files are written
// anew, while the store goes on being written to, and nothing that lives is lost on the way.
func TestTheSpaceOfLargeValuesComesBack(t *testing.T) {
	fs := vfs.NewMem()
	s := openTest(t, fs, Options{MemtableBytes: 256 << 10, separateRest: time.Nanosecond})
	if err := s.SeparateValues(); err != nil {
		t.Fatal(err)
	}
	const keys, rounds = 200, 40
	var newest [keys]int
	n := uint64(0)
	for round := range rounds {
		for i := round * keys / rounds; i < keys; i++ {
			n++
			newest[i] = int(n)
			set(t, s, n, fmt.Sprintf("k%03d=%s", i, large(newest[i])))
		}
	}
	written, live := int64(n)*int64(len(large(0))), int64(keys*len(large(0)))
	if written < 15*live {
		t.Fatalf("%d bytes written for %d that live: the test shows nothing", written, live)
	}
	wait.Until(t, "space", func() bool {
		n++
		set(t, s, n, "other=small")
		return s.Flush() == nil && s.Metrics().DiskBytes < 4*live
	})
	for i := range keys {
		got, ok, err := s.Get(nil, fmt.Appendf(nil, "k%03d", i))
		if err != nil || !ok || !bytes.Equal(got, []byte(large(newest[i]))) {
			t.Fatalf("k%03d is %.20q, %v, %v", i, got, ok, err)
		}
	}
}

// TestADamagedValueIsFoundByItsSum: a file of values that changed on the disk is named, and its content is never returned.
func TestADamagedValueIsFoundByItsSum(t *testing.T) {
	fs := vfs.NewMem()
	s := openTest(t, fs, Options{})
	if err := s.SeparateValues(); err != nil {
		t.Fatal(err)
	}
	set(t, s, 1, "a="+large(1))
	if err := errors.Join(s.Flush(), s.Close()); err != nil {
		t.Fatal(err)
	}
	names, err := fs.List("data/store-000001")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if !strings.HasSuffix(name, ".blob") {
			continue
		}
		f, err := fs.OpenReadWrite("data/store-000001/"+name, vfs.WriteCategoryUnspecified)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt([]byte{1}, 1000); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		fatal := make(chan error, 1)
		s = openTest(t, fs, Options{OnFatal: func(err error) { fatal <- err }})
		if got, ok, err := s.Get(nil, []byte("a")); err == nil {
			t.Fatalf("the value is %.20q, %v", got, ok)
		}
		select {
		case err := <-fatal:
			if !strings.Contains(err.Error(), strings.TrimSuffix(name, ".blob")) {
				t.Fatalf("fatal: %v", err)
			}
		case <-time.After(wait.Limit(t)):
			t.Fatal("nobody is told")
		}
		return
	}
	t.Fatalf("no file of values among %q", names)
}
