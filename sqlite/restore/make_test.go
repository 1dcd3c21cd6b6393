package restore

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfastdb/holdfast/objstore"
	"github.com/holdfastdb/holdfast/sqlite/replica"
	"github.com/holdfastdb/holdfast/sqlite/replica/replicatest"
)

// TestARestoredFileHasThePermissionsOfTheOneItReplaces: the application that reads and writes it may be another user's. A file that replaces none has
// what Litestream gives it.
func TestARestoredFileHasThePermissionsOfTheOneItReplaces(t *testing.T) {
	w := lived(t, objstore.NewMemory(), replica.Bucket, 1)
	dir := t.TempDir()
	usual := filepath.Join(dir, "usual")
	must(t, os.WriteFile(usual, nil, usualMode))
	like, err := os.Stat(usual)
	must(t, err)
	for _, mode := range []os.FileMode{0, 0o600, 0o640, 0o666} { // 0: there is none
		to, want := filepath.Join(dir, "app.db"), mode
		if mode == 0 {
			want = like.Mode().Perm()
		} else {
			must(t, os.WriteFile(to, []byte("mine"), mode))
			must(t, os.Chmod(to, mode))
		}
		if _, err := Restore(context.Background(), w.R, Options{To: to, Overwrite: true}); err != nil {
			t.Fatal(err)
		}
		if is, err := os.Stat(to); err != nil || is.Mode().Perm() != want {
			t.Errorf("in the place of a file of the mode %v there is one of the mode %v, want %v: %v", mode, is.Mode().Perm(), want, err)
		}
		must(t, os.Remove(to))
	}
}

// TestAnEmptyFileIsNoDatabase: an application was about to make one. Beside it an empty WAL is in use all the same.
func TestAnEmptyFileIsNoDatabase(t *testing.T) {
	w := lived(t, objstore.NewMemory(), replica.Bucket, 1)
	for suffix, free := range map[string]bool{"": true, "-wal": false, "-journal": false, "-shm": false} {
		fsys := newDisk(t)
		must(t, fsys.WriteFileAtomic(target+suffix, nil))
		_, err := Restore(context.Background(), w.R, Options{To: target, FS: fsys})
		if free && err != nil || !free && !errors.Is(err, ErrExists) {
			t.Errorf("%q is there and empty: %v", suffix, err)
		}
		if b, err := fsys.ReadFile(target); free && (err != nil || !bytes.Equal(b, w.DB.Bytes())) || !free && err == nil {
			t.Errorf("%q was there and empty: %d bytes, %v", suffix, len(b), err)
		}
	}
}

// TestProgressEndsWhereItSaid: of a restore that goes on it counts what is left to read.
func TestProgressEndsWhereItSaid(t *testing.T) {
	w, store := large(t)
	fsys := newDisk(t)
	size := int64(0)
	for _, f := range w.Files {
		size += f.Size
	}
	for call := 0; ; call++ {
		ctx, cancel := context.WithCancel(context.Background())
		said, all := 0, int64(0)
		out, err := Restore(ctx, replica.New(store, replica.Bucket), Options{To: target, FS: fsys, every: 40 << 10, Progress: func(done, of int64) {
			if all = of; done > all {
				t.Errorf("call %d: %d bytes of %d", call, done, all)
			}
			if said++; said == 5 && call == 0 {
				cancel()
			}
		}})
		cancel()
		if call == 0 && errors.Is(err, context.Canceled) && all == size {
			continue
		}
		if err != nil || call != 1 || out.Bytes != all || all >= size || !out.Resumed {
			t.Errorf("call %d of %d bytes: %v, %d are said to be read, %+v", call, size, err, all, out)
		}
		return
	}
}

// TestNotesNameWhatIsUnusual, and of a whole replica there is nothing to say.
func TestNotesNameWhatIsUnusual(t *testing.T) {
	ctx := context.Background()
	for _, c := range []struct {
		name  string
		to    Target
		spoil func(w *replicatest.Writer, store *objstore.Memory)
		want  string // "": nothing
	}{
		{"whole", Target{}, func(*replicatest.Writer, *objstore.Memory) {}, ""},
		{"a damaged manifest", Target{}, func(_ *replicatest.Writer, store *objstore.Memory) {
			must(t, store.Put(ctx, objstore.Object{Name: replica.ManifestName, Data: []byte("garbage\n")}))
		}, replica.ManifestName},
		{"a gap", Target{}, func(w *replicatest.Writer, _ *objstore.Memory) {
			w.Group(2, nil)
			must(t, w.Commit(2, nil))
		}, "0000000000000004-0000000000000004.ltx is not there, and 1 files behind it are"},
		{"a gap behind what is wanted", Target{TXID: 2}, func(w *replicatest.Writer, _ *objstore.Memory) {
			w.Group(2, nil)
			must(t, w.Commit(2, nil))
		}, ""},
	} {
		store := objstore.NewMemory()
		w := replicatest.New(replica.New(store, replica.Bucket), 1)
		for range 3 {
			must(t, w.Commit(2, map[uint32][]byte{1: replicatest.Fill(512, byte(len(w.Past)))}))
		}
		must(t, w.PutManifest())
		c.spoil(w, store)
		var notes []string
		_, err := Restore(ctx, w.R, Options{To: target, FS: newDisk(t), Target: c.to, Note: func(text string) { notes = append(notes, text) }})
		must(t, err)
		if said := strings.Join(notes, "\n"); (said == "") != (c.want == "") || !strings.Contains(said, c.want) {
			t.Errorf("%s: %q, want %q", c.name, said, c.want)
		}
	}
}

// TestDamageIsWhyAStateIsNotThere: the only file is damaged, or says what cannot be. The error is the fault of the file, and not that there is no state.
func TestDamageIsWhyAStateIsNotThere(t *testing.T) {
	ctx := context.Background()
	for name, spoil := range map[string]func(b []byte) []byte{
		"a page": wrong,
		"a database of more pages than its files can hold": func(b []byte) []byte {
			c := mustRead(t, b)
			c.Header.Commit = 1000
			return written(t, c, false)
		},
	} {
		store := objstore.NewMemory()
		w := replicatest.New(replica.New(store, replica.Bucket), 1)
		must(t, w.Commit(2, nil))
		at := w.R.Name(w.Files[0])
		must(t, store.Put(ctx, objstore.Object{Name: at, Data: spoil(store.Objects()[at])}))
		_, err := Restore(ctx, w.R, Options{To: target, FS: newDisk(t)})
		var fault *replica.Fault
		if !errors.As(err, &fault) || fault.Name != at || errors.Is(err, ErrNotThere) || name != "a page" && !strings.Contains(err.Error(), "cannot hold") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestAnOldWorkingFileThatStays is no file to go on in: its pages are another restore's.
func TestAnOldWorkingFileThatStays(t *testing.T) {
	w := lived(t, objstore.NewMemory(), replica.Bucket, 1)
	for _, suffix := range []string{workSuffix, journalSuffix} {
		fsys := newDisk(t)
		must(t, fsys.WriteFileAtomic(target+suffix, []byte("another's")))
		if _, err := Restore(context.Background(), w.R, Options{To: target, FS: stubborn{fsys, target + suffix}}); !errors.Is(err, errDisk) {
			t.Errorf("%s cannot be removed: %v", suffix, err)
		}
		if _, b, err := restoreTo(t, w.R, fsys, Options{}); err != nil || !bytes.Equal(b, w.DB.Bytes()) {
			t.Errorf("%s can be removed again: %v", suffix, err)
		}
	}
}

// TestWithoutAChecksumSQLiteIsAsked, unless the caller says that it is not to be.
func TestWithoutAChecksumSQLiteIsAsked(t *testing.T) {
	r := replica.New(objstore.NewFile(filepath.Join("testdata", "litestream-0.5.18")), replica.Directory)
	for how, want := range map[Check]Check{"": Quick, None: None, Quick: Quick, Full: Full} {
		out, err := Restore(context.Background(), r, Options{To: filepath.Join(t.TempDir(), "app.db"), Check: how})
		if err != nil || out.Proved || out.Checked != want {
			t.Errorf("%q: %v, %+v", how, err, out)
		}
	}
}

// TestFilesOfTwoLinesMakeNoDatabase: a file that ends with another database than the next one begins with is named, though it is whole. No manifest
// tells which of them is right, and where the later file has all its pages the database's own checksum does not either.
func TestFilesOfTwoLinesMakeNoDatabase(t *testing.T) {
	ctx := context.Background()
	store := objstore.NewMemory()
	w := replicatest.New(replica.New(store, replica.Bucket), 1)
	for i := range byte(4) {
		must(t, w.Commit(2, map[uint32][]byte{1: replicatest.Fill(512, i), 2: replicatest.Fill(512, i)}))
	}
	for _, i := range []int{0, 1, 2} {
		at := w.R.Name(w.Files[i])
		c := mustRead(t, w.Past[i].Data)
		c.Trailer.PostApplyChecksum ^= 1
		spoilt := without(t, store.Objects(), map[string][]byte{at: written(t, c, false)})
		_, err := Restore(ctx, replica.New(spoilt, replica.Bucket), Options{To: target, FS: newDisk(t)})
		var fault *replica.Fault
		if !errors.As(err, &fault) || fault.Name != at || !strings.Contains(fault.Reason, "the next file begins with") {
			t.Errorf("file %d: %v", i+1, err)
		}
	}
}

// TestAPageThatNoFileHasIsMissed, the last one too: it would be zeros.
func TestAPageThatNoFileHasIsMissed(t *testing.T) {
	ctx := context.Background()
	for _, more := range []uint32{1, 3} {
		store := objstore.NewMemory()
		w := replicatest.New(replica.New(store, replica.Bucket), 1)
		for i := range byte(2) {
			must(t, w.Commit(2, map[uint32][]byte{1: replicatest.Fill(512, i)}))
		}
		c := mustRead(t, w.Past[1].Data)
		c.Header.Commit += more
		must(t, store.Put(ctx, objstore.Object{Name: w.R.Name(w.Files[1]), Data: written(t, c, false)}))
		fsys := newDisk(t)
		if _, err := Restore(ctx, w.R, Options{To: target, FS: fsys}); err == nil || !strings.Contains(err.Error(), "no file has page 3 of ") {
			t.Errorf("%d pages are in no file: %v", more, err)
		}
		if _, err := fsys.ReadFile(target); err == nil {
			t.Errorf("%d pages are in no file, and the database has its name", more)
		}
	}
}
