package agent

import (
	"context"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/internal/wait"
	"github.com/holdfastdb/holdfast/objstore"
	"github.com/holdfastdb/holdfast/sqlite/gate"
	"github.com/holdfastdb/holdfast/sqlite/replica"
	"github.com/holdfastdb/holdfast/sqlite/restore"
)

// swappable is a store in whose place a test puts another one.
type swappable struct {
	now atomic.Pointer[objstore.Store]
}

func newSwappable(s objstore.Store) *swappable {
	w := &swappable{}
	w.now.Store(&s)
	return w
}

func (b *bucket) swap(s objstore.Store) (before objstore.Store) {
	return *b.Store.(*swappable).now.Swap(&s)
}

func (w *swappable) at() objstore.Store { return *w.now.Load() }

func (w *swappable) Get(ctx context.Context, name string) ([]byte, error) {
	return w.at().Get(ctx, name)
}
func (w *swappable) GetVersion(ctx context.Context, name string) ([]byte, string, error) {
	return w.at().GetVersion(ctx, name)
}
func (w *swappable) PutIfMatch(ctx context.Context, o objstore.Object, was string) (string, error) {
	return w.at().PutIfMatch(ctx, o, was)
}
func (w *swappable) Put(ctx context.Context, objects ...objstore.Object) error {
	return w.at().Put(ctx, objects...)
}
func (w *swappable) PutIfAbsent(ctx context.Context, o objstore.Object) error {
	return w.at().PutIfAbsent(ctx, o)
}
func (w *swappable) PutFrom(ctx context.Context, name string, size int64, r io.Reader, ifAbsent bool) error {
	return w.at().PutFrom(ctx, name, size, r, ifAbsent)
}
func (w *swappable) Open(ctx context.Context, name string, off, n int64) (io.ReadCloser, error) {
	return w.at().Open(ctx, name, off, n)
}
func (w *swappable) List(ctx context.Context, prefix, after string) iter.Seq2[objstore.Listed, error] {
	return w.at().List(ctx, prefix, after)
}
func (w *swappable) Delete(ctx context.Context, names ...string) error {
	return w.at().Delete(ctx, names...)
}
func (w *swappable) DeleteAll(ctx context.Context, prefix string) error {
	return w.at().DeleteAll(ctx, prefix)
}

// TestASwappedBucketStoresNothing: emptied, or another one; after a failure, and after a minute. The commits acknowledged since the last
// look are named. When the right one is back everything that is missing there is shipped anew, and it goes on. Commits say where they end. One
// that does not is taken for a commit without the extension once a busy machine has let its time go by.
func TestASwappedBucketStoresNothing(t *testing.T) {
	for name, other := range map[string]bool{"emptied": false, "other": true} {
		for _, failure := range []bool{true, false} {
			t.Run(name+map[bool]string{true: " failed", false: " aged"}[failure], func(t *testing.T) {
				r := saying(t)
				a := r.start(gate.Archive)
				db := r.connect()
				r.exec(db, "create table t (x)")
				e := r.extension()
				if code := e.commitAt(r.position()); code != gate.Done {
					t.Fatal(code)
				}
				d := a.all()[0]
				wrong := objstore.Store(objstore.NewMemory())
				if other {
					if _, err := replica.New(wrong, replica.Bucket).Identity(t.Context(), true); err != nil {
						t.Fatal(err)
					}
				}
				// Two commits that the bucket takes, within the minute in which it is believed.
				right := r.store.swap(wrong)
				r.exec(db, "insert into t values (1)")
				if code := e.commitAt(r.position()); code != gate.Done {
					t.Fatal(code)
				}
				if failure {
					r.store.down.Store(true)
					before := r.store.creates.Load()
					r.exec(db, "insert into t values (2)")
					done := make(chan gate.Code)
					go func() { done <- e.commitAt(r.position()) }()
					// On a busy machine the manifest is put as late as this, and tells first.
					wait.Until(t, "an attempt", func() bool { return r.store.creates.Load() > before || alarms(a) == "swapped" })
					r.store.down.Store(false)
					if code := <-done; code == gate.Done {
						t.Error("a commit is acknowledged by another store")
					}
				} else {
					d.mu.Lock()
					d.confirmed = d.confirmed.Add(-confirmEvery)
					d.mu.Unlock()
					r.exec(db, "insert into t values (2)")
					if code := e.commitAt(r.position()); code == gate.Done {
						t.Error("a commit is acknowledged by another store")
					}
				}
				if k := alarms(a); !strings.HasSuffix(k, "swapped") { // behind the failure's own, if that is not over yet
					t.Errorf("alarms: %q", k)
				}
				named := fmt.Sprintf("TXIDs %s to %s were acknowledged", replica.TXID(1), a.Views()[0].Stored)
				if s := a.Status()[r.path]; !strings.Contains(s, "is not the store that it was") || !strings.Contains(s, named) {
					t.Errorf("the status says %s, want %s", s, named)
				}
				if p := a.Views()[0].Phase; p != gate.InDoubt {
					t.Errorf("writes are let through, or wait: phase %d", p)
				}
				r.store.swap(right)
				wait.Until(t, "it goes on", func() bool { return a.Views()[0].Followed && alarms(a) == "" })
				r.exec(db, "insert into t values (3)")
				if code := e.commit(); code != gate.Done {
					t.Errorf("a commit when the right store is back: %d", code)
				}
				if n := count(t, r.restored()); n != 3 {
					t.Errorf("%d of 3 rows are in the right bucket", n)
				}
				r.stop(a)
			})
		}
	}
}

// TestASwappedStoreIsTheOutcome: an agent that ends meanwhile says so.
func TestASwappedStoreIsTheOutcome(t *testing.T) {
	r := saying(t)
	a := r.start(gate.Archive)
	db := r.connect()
	r.exec(db, "create table t (x)")
	e := r.extension()
	if code := e.commit(); code != gate.Done {
		t.Fatal(code)
	}
	r.store.swap(objstore.NewMemory())
	d := a.all()[0]
	d.mu.Lock()
	d.confirmed = time.Time{}
	d.mu.Unlock()
	r.exec(db, "insert into t values (1)")
	if code := e.commit(); code == gate.Done {
		t.Error("a commit is acknowledged by another store")
	}
	r.lost(a, "is not the store that it was")
	b := r.launch(gate.Archive)
	ctx, cancel := context.WithTimeout(t.Context(), wait.Limit(t))
	defer cancel()
	if err := b.Settled(ctx); err == nil || ctx.Err() != nil {
		t.Errorf("the next agent begins: %v", err)
	}
	r.lost(b, "memory is ") // empty, or another one: the last group may have come there
}

// TestTheOutcomeIsTrueOfTheRightStore: the store was swapped within the minute in which it is believed, and the agent ends.
func TestTheOutcomeIsTrueOfTheRightStore(t *testing.T) {
	for name, other := range map[string]bool{"emptied": false, "other": true} {
		t.Run(name, func(t *testing.T) {
			r := saying(t)
			a := r.start(gate.Archive)
			db := r.connect()
			r.exec(db, "create table t (x)")
			e := r.extension()
			if code := e.commit(); code != gate.Done {
				t.Fatal(code)
			}
			wrong := objstore.NewMemory()
			if other {
				if _, err := replica.New(wrong, replica.Bucket).Identity(t.Context(), true); err != nil {
					t.Fatal(err)
				}
			}
			r.store.swap(wrong)
			r.exec(db, "insert into t values (1)")
			if code := e.commit(); code != gate.Done {
				t.Fatal(code)
			}
			r.lost(a, "were acknowledged since it was last seen to be the right one")
		})
	}
}

// TestADirectoryThatWasUnmountedAcknowledgesNothing: it is moved away, another one is there in its place or none, and it comes back.
func TestADirectoryThatWasUnmountedAcknowledgesNothing(t *testing.T) {
	for _, other := range []bool{false, true} {
		r := saying(t)
		dir := filepath.Join(t.TempDir(), "replica")
		store := objstore.NewFile(dir)
		r.cfg.Databases = []Target{{Path: r.path, Replica: replica.New(store, replica.Directory), URL: "file://" + dir, Ack: gate.Archive}}
		a := r.start(gate.Archive)
		db := r.connect()
		r.exec(db, "create table t (x)")
		e := r.extension()
		if code := e.commitAt(r.position()); code != gate.Done {
			t.Fatal(code)
		}
		if err := os.Rename(dir, dir+".away"); err != nil {
			t.Fatal(err)
		}
		if other {
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
		}
		r.exec(db, "insert into t values (1)")
		if code := e.commitAt(r.position()); code == gate.Done {
			t.Error("a commit is acknowledged by a directory that is not there")
		}
		if k := alarms(a); k != "swapped" {
			t.Errorf("alarms: %q", k)
		}
		if all, err := os.ReadDir(dir); other && (err != nil || len(all) > 0) || !other && err == nil {
			t.Errorf("in the place of the directory there is %v, %v", all, err)
		}
		if other {
			if err := os.Remove(dir); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Rename(dir+".away", dir); err != nil {
			t.Fatal(err)
		}
		wait.Until(t, "it goes on", func() bool { return a.Views()[0].Followed && alarms(a) == "" })
		r.exec(db, "insert into t values (2)")
		if code := e.commit(); code != gate.Done {
			t.Errorf("a commit when the directory is back: %d", code)
		}
		r.stop(a)
		to := filepath.Join(t.TempDir(), "restored.db")
		if _, err := restore.Restore(t.Context(), replica.New(objstore.NewFile(dir), replica.Directory), restore.Options{To: to}); err != nil {
			t.Fatal(err)
		}
		r.path = to
		if n := count(t, r.connect()); n != 2 {
			t.Errorf("%d of 2 rows are restored", n)
		}
	}
}

// TestAStoreIsAskedOnceAMinute who it is, and not at all by a database that is idle.
func TestAStoreIsAskedOnceAMinute(t *testing.T) {
	r := saying(t)
	a := r.start(gate.Archive)
	db := r.connect()
	r.exec(db, "create table t (x)")
	e := r.extension()
	if code := e.commit(); code != gate.Done {
		t.Fatal(code)
	}
	r.store.identities.Store(0)
	for range 20 {
		r.exec(db, "insert into t values (1)")
		if code := e.commit(); code != gate.Done {
			t.Fatal(code)
		}
	}
	if n := r.store.identities.Load(); n != 0 {
		t.Errorf("twenty commits within a minute asked %d times", n)
	}
	d := a.all()[0]
	d.mu.Lock()
	d.confirmed = d.confirmed.Add(-confirmEvery)
	d.mu.Unlock()
	for range 5 {
		r.exec(db, "insert into t values (1)")
		if code := e.commit(); code != gate.Done {
			t.Fatal(code)
		}
	}
	if n := r.store.identities.Load(); n != 1 {
		t.Errorf("five commits after a minute asked %d times", n)
	}
	r.stop(a)
}

// TestAStoreWithoutConditionsIsRefused before a file of the replica is written, or used by one agent that says that fencing is off.
func TestAStoreWithoutConditionsIsRefused(t *testing.T) {
	r := saying(t)
	db := r.connect()
	r.exec(db, "create table t (x)")
	r.store.deaf.Store(true)
	a := r.launch(gate.Archive)
	ctx, cancel := context.WithTimeout(t.Context(), wait.Limit(t))
	defer cancel()
	if err := a.Settled(ctx); err == nil || !strings.Contains(err.Error(), "--single-writer") {
		t.Errorf("the start says %v", err)
	}
	r.lost(a, "--single-writer")
	if all := r.store.Store.(*swappable).at().(*objstore.Memory).Objects(); len(all) != 0 {
		t.Errorf("there is %v", all)
	}
	r.cfg.Databases = []Target{{Path: r.path, Replica: replica.New(objstore.SingleWriter(r.store), replica.Bucket), URL: "memory", Ack: gate.Archive, SingleWriter: true}}
	a = r.start(gate.Archive)
	r.exec(db, "insert into t values (1)")
	if code := r.extension().commit(); code != gate.Done {
		t.Fatal(code)
	}
	if v := a.Views()[0]; !v.Unfenced || !strings.Contains(v.String(), "fencing is off") || r.log.count("fencing is off") != 1 {
		t.Errorf("the status says %s", v)
	}
	if o := r.close(a); !o.Stored() || !strings.Contains(o.String(), "without fencing") {
		t.Errorf("it ends with %q", o)
	}
	if n := count(t, r.restored()); n != 1 {
		t.Errorf("%d of 1 rows are in the bucket", n)
	}
}
