package agent

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/internal/wait"
	"github.com/holdfastdb/holdfast/objstore"
	"github.com/holdfastdb/holdfast/sqlite/gate"
	"github.com/holdfastdb/holdfast/sqlite/replica"
)

// slow is a store whose answer to the first request for the manifest is so late that the owner has replaced it meanwhile.
type slow struct {
	objstore.Store
	manifest []byte
	asked    atomic.Int64
}

func (s *slow) GetVersion(ctx context.Context, name string) ([]byte, string, error) {
	b, version, err := s.Store.GetVersion(ctx, name)
	if name == replica.ManifestName && s.asked.Add(1) == 1 {
		return s.manifest, "an earlier one", err
	}
	return b, version, err
}

// TestFilesThatTheOwnerReplacesAreNotDamage: a takeover looks at a replica. Meanwhile its healthy owner puts files of level 1 in the place
// of those that the manifest named, and removes them.
func TestFilesThatTheOwnerReplacesAreNotDamage(t *testing.T) {
	r := newRig(t)
	r.cfg.Levels, r.cfg.L0Retention = []time.Duration{300 * time.Millisecond}, 10*time.Millisecond
	a := r.start(gate.Archive)
	db := r.connect()
	r.exec(db, "create table t (x)")
	e := r.extension()
	if code := e.commit(); code != gate.Done {
		t.Fatal(code)
	}
	named := func() (m *replica.Manifest, b []byte) {
		b, _, err := r.store.GetVersion(context.Background(), replica.ManifestName)
		if err != nil {
			return nil, nil
		}
		if m, err = replica.DecodeManifest(b); err != nil {
			t.Fatal(err)
		}
		return m, b
	}
	var early []byte
	wait.Until(t, "a manifest names files of level 0 that are replaced", func() bool {
		if early == nil { // later files would tell a reader of this manifest that there is a gap
			r.exec(db, "insert into t values (1)")
			if code := e.commit(); code != gate.Done {
				t.Fatal(code)
			}
		}
		m, b := named()
		if m == nil {
			return false
		}
		here, _, err := r.replica().Present(context.Background(), m.Files)
		if err != nil {
			t.Fatal(err)
		}
		above := slices.DeleteFunc(slices.Clone(here), func(f replica.File) bool { return f.Level == 0 })
		if len(here) == len(m.Files) && replica.Reach(above, m.Head.TXID) < m.Head.TXID && early == nil {
			early = b
		}
		if early == nil {
			return false
		}
		old, err := replica.DecodeManifest(early)
		if err != nil {
			t.Fatal(err)
		}
		here, _, err = r.replica().Present(context.Background(), old.Files)
		return err == nil && replica.Reach(here, old.Head.TXID) < old.Head.TXID
	})
	want := count(t, db)
	r.stop(a)
	other := r.another()
	late := &slow{Store: r.store.Store, manifest: early}
	other.store = &bucket{Store: late}
	b := other.start(gate.Archive)
	if n := count(t, other.connect()); n != want || late.asked.Load() < 2 {
		t.Errorf("%d of %d rows are there, and the manifest was read %d times", n, want, late.asked.Load())
	}
	other.stop(b)
}
