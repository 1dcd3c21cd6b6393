package restore

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/holdfastdb/holdfast/core/disk"
	"github.com/holdfastdb/holdfast/internal/task"
	"github.com/holdfastdb/holdfast/objstore"
	"github.com/holdfastdb/holdfast/sqlite/replica"
	"github.com/holdfastdb/holdfast/sqlite/replica/replicatest"
)

// large is a replica whose files have a few thousand pages.
func large(t testing.TB) (*replicatest.Writer, *objstore.Memory) {
	t.Helper()
	store := objstore.NewMemory()
	w := replicatest.New(replica.New(store, replica.Bucket), 1)
	rng := rand.New(rand.NewPCG(1, 1))
	for i := range 3 {
		pages := map[uint32][]byte{}
		for n := uint32(1); n <= 4000; n += uint32(1 + i) {
			pages[n] = noise(rng, w.PageSize)
		}
		if err := w.Commit(4000, pages); err != nil {
			t.Fatal(err)
		}
	}
	return w, store
}

// TestARestoreGoesOnWhereItWas: it is stopped again and again, and each call does some of it. After one in two the journal is put back to what
// it was some moments before, as kill -9 leaves it.
func TestARestoreGoesOnWhereItWas(t *testing.T) {
	w, store := large(t)
	fsys := disk.NewMem()
	if err := fsys.MkdirAll("/data"); err != nil {
		t.Fatal(err)
	}
	var all, calls int64
	for ; ; calls++ {
		if calls > 100 {
			t.Fatal("it never ends")
		}
		before, err := fsys.ReadFile(target + journalSuffix)
		if err != nil && calls > 0 {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		left := 3
		out, err := Restore(ctx, replica.New(store, replica.Bucket), Options{To: target, FS: fsys, every: 40 << 10, Progress: func(int64, int64) {
			if left--; left == 0 {
				cancel()
			}
		}})
		cancel()
		if err == nil {
			if !out.Resumed || out.Bytes > 400<<10 {
				t.Errorf("the last call read %d bytes, resumed: %v", out.Bytes, out.Resumed)
			}
			break
		}
		if !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		if calls%4 == 3 {
			if err := fsys.WriteFileAtomic(target+journalSuffix, before); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, b := range store.Objects() { // any order: they are added
		all += int64(len(b))
	}
	b, err := fsys.ReadFile(target)
	if err != nil || !bytes.Equal(b, w.DB.Bytes()) {
		t.Errorf("another database after %d calls: %v", calls, err)
	}
	if calls < 5 {
		t.Errorf("it was stopped %d times, with %d bytes to read", calls, all)
	}
}

// TestAStoreThatFailsNowAndThenIsReadAllTheSame.
func TestAStoreThatFailsNowAndThenIsReadAllTheSame(t *testing.T) {
	store := objstore.NewMemory()
	w := lived(t, store, replica.Bucket, 9)
	faulty := objstore.NewFaulty(store, 1, task.Goroutines{}, objstore.Faults{})
	for range 5 {
		r := replica.New(faulty, replica.Bucket)
		fsys := disk.NewMem()
		if err := fsys.MkdirAll("/data"); err != nil {
			t.Fatal(err)
		}
		for try := 0; ; try++ {
			faulty.Set(objstore.Faults{Refused: 0.1, Before: 0.1})
			_, err := Restore(context.Background(), r, Options{To: target, FS: fsys, every: 1})
			if err == nil {
				break
			}
			var fault *replica.Fault
			if errors.As(err, &fault) || try == 50 {
				t.Fatal(err)
			}
		}
		b, err := fsys.ReadFile(target)
		if err != nil || !bytes.Equal(b, w.DB.Bytes()) {
			t.Errorf("another database: %v", err)
		}
	}
}

func TestADatabaseThatIsThereIsNotTouched(t *testing.T) {
	w := lived(t, objstore.NewMemory(), replica.Bucket, 9)
	for _, suffix := range []string{"", "-wal", "-journal"} {
		fsys := disk.NewMem()
		if err := fsys.MkdirAll("/data"); err != nil {
			t.Fatal(err)
		}
		if err := fsys.WriteFileAtomic(target+suffix, []byte("mine")); err != nil {
			t.Fatal(err)
		}
		if _, _, err := restoreTo(t, w.R, fsys, Options{}); !errors.Is(err, ErrExists) {
			t.Errorf("%q: %v", suffix, err)
		}
		if _, b, err := restoreTo(t, w.R, fsys, Options{Overwrite: true}); err != nil || !bytes.Equal(b, w.DB.Bytes()) {
			t.Errorf("%q: %v", suffix, err)
		}
	}
}

// TestLitestreamsReplicasAreRead, as Litestream itself restores them, in both of its layouts and with SQLite's own check.
func TestLitestreamsReplicasAreRead(t *testing.T) {
	from := filepath.Join("testdata", "litestream-0.5.18")
	want, err := os.ReadFile(filepath.Join(from, "app.db"))
	if err != nil {
		t.Fatal(err)
	}
	store := objstore.NewMemory()
	names, err := filepath.Glob(filepath.Join(from, "ltx", "*", "*.ltx"))
	if err != nil || len(names) != 4 {
		t.Fatal(names, err)
	}
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		inBucket := "000" + filepath.Base(filepath.Dir(name)) + "/" + filepath.Base(name)
		if err := store.Put(context.Background(), objstore.Object{Name: inBucket, Data: b}); err != nil {
			t.Fatal(err)
		}
	}
	for _, at := range []objstore.Store{store, objstore.NewFile(from)} {
		r, err := replica.Detect(context.Background(), at, "s3://bucket/app")
		if err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(t.TempDir(), "app.db")
		out, err := Restore(context.Background(), r, Options{To: to, Check: Full})
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(to)
		if err != nil || !bytes.Equal(b, want) || out.Proved || out.TXID != 3 {
			t.Errorf("%v, %+v", err, out)
		}
		v, err := Verify(context.Background(), r, Verifying{Found: func(f Finding) {
			if f.Wrong {
				t.Error(f.Text)
			}
		}})
		if err != nil || v.States != 3 || v.Proved != 0 {
			t.Errorf("%v, %+v", err, v)
		}
	}
}

// FuzzDecode: any file is refused or read, without more memory than its pages take.
func FuzzDecode(f *testing.F) {
	store := objstore.NewMemory()
	lived(f, store, replica.Bucket, 4)
	for name, b := range store.Objects() { // any order: seeds
		if name != replica.ManifestName {
			f.Add(b)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := ReadFile(bytes.NewReader(b))
		if err == nil && c.Header.PageSize == 0 {
			t.Error("read without a header")
		}
	})
}
