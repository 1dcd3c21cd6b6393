package archive

import (
	"context"
	"errors"
	"time"

	"github.com/holdfastdb/holdfast/archive"
	"github.com/holdfastdb/holdfast/backup"
	"github.com/holdfastdb/holdfast/objstore"
)

// taken is a snapshot that is in the store.
type taken struct {
	index  uint64 // 0: there is none
	term   uint64
	bytes  int64
	wallNs int64 // time along the log
	since  int64 // of the log between two snapshots, what was shipped by the time this one was begun
}

// daily is how old the newest snapshot becomes at most while something is written.
const daily = 24 * time.Hour

// stuck is for how long one request of a snapshot is tried again. After it the snapshot is given up, and a later one is taken: for as long
// as it is under way, the store keeps all that was replaced meanwhile.
const stuck = time.Minute

// steady repeats what fails of a snapshot's requests.
type steady struct {
	objstore.Store
	t *term
}

// PutIfAbsent implements objstore.Store.
func (s steady) PutIfAbsent(_ context.Context, o objstore.Object) error {
	return s.try(func(ctx context.Context) error { return s.Store.PutIfAbsent(ctx, o) })
}

// Get implements objstore.Store.
func (s steady) Get(_ context.Context, name string) (b []byte, err error) {
	err = s.try(func(ctx context.Context) error {
		b, err = s.Store.Get(ctx, name)
		return err
	})
	return b, err
}

func (s steady) try(request func(ctx context.Context) error) error {
	t := s.t
	began := t.w.node.Mono()
	for pause := time.Duration(0); ; {
		ctx, done := t.context(patience)
		t.w.requests.add(1)
		err := request(ctx)
		done()
		switch {
		case err == nil, errors.Is(err, objstore.ErrExists), errors.Is(err, objstore.ErrAbsent), errors.Is(err, objstore.ErrUnconditional):
			return err
		case t.w.node.Mono()-began > stuck || !t.pause(&pause):
			return err
		}
	}
}

// manifest reads what the manifest of a snapshot says. One that is damaged is as good as none: it is for people to mend, and another
// snapshot is taken.
func (t *term) manifest(index uint64) (*taken, error) {
	name := archive.ManifestName(t.w.timeline, index)
	ctx, done := t.context(patience)
	defer done()
	t.w.requests.add(1)
	b, err := t.w.store.Get(ctx, name)
	if err != nil {
		return nil, err
	}
	m, err := archive.DecodeManifest(name, b)
	if err != nil {
		t.w.opt.Logger.Error("a snapshot in the archive is damaged; another one is taken", "err", err)
		return &taken{}, nil
	}
	return &taken{index: m.Index, term: m.Term, bytes: m.Bytes(), wallNs: m.WallNs}, nil
}

// take puts a snapshot of this member's state, and returns where a log begins that goes on behind it.
func (t *term) take() (*taken, archive.Tip, error) {
	ctx, done := t.context(7 * daily)
	defer done()
	info, r, err := t.w.node.TakeSnapshot(ctx)
	if err != nil {
		return nil, archive.Tip{}, err
	}
	defer r.Close() // nothing was written through it
	t.mu.Lock()
	t.mark = info.Index
	t.mu.Unlock()
	m, err := backup.PutSnapshot(ctx, steady{t.w.store, t}, archive.Manifest{Cluster: t.w.cluster, Timeline: t.w.timeline, Index: info.Index,
		Term: info.Term, State: info.State, WallNs: info.WallNs}, r, nil)
	if err != nil {
		return nil, archive.Tip{}, err
	}
	t.w.opt.Logger.Info("snapshot archived", "index", m.Index, "bytes", m.Bytes(), "pieces", len(m.Pieces))
	return &taken{index: m.Index, term: m.Term, bytes: m.Bytes(), wallNs: m.WallNs},
		archive.Tip{Cluster: t.w.cluster, Timeline: t.w.timeline, Last: m.Index, Term: m.Term}, nil
}

// snapshots takes one when it is time: when the log since the last one is as large as that was, so that a restore reads no more than
// twice the state, and every day on which something is written.
func (t *term) snapshots() {
	large := t.since >= max(t.w.opt.SnapshotBytes, t.snapped.bytes)
	old := t.tip.Last > t.snapped.index && t.wallNs-t.snapped.wallNs >= int64(daily)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.taking || t.rooting || t.over || !large && !old {
		return
	}
	t.taking = true
	since := t.since
	t.w.tasks.Go(func() {
		for pause := time.Duration(0); ; {
			last, _, err := t.take()
			if err == nil {
				last.since = since
				t.mu.Lock()
				t.taken, t.taking = last, false
				t.mu.Unlock()
				t.poke()
				t.prune()
				return
			}
			if t.fails(err) || !t.pause(&pause) {
				return
			}
		}
	})
}

// root closes a gap with a snapshot: what comes next is not in the log any more, because the archive was behind by more than
// is kept for it.
func (t *term) root() {
	if t.rooting {
		return
	}
	t.rooting = true
	t.w.opt.Logger.Error("the log does not have any more what the archive has not; a snapshot closes the gap, and no restore to an entry in it is possible",
		"from", t.tip.Last+1)
	t.w.lost()
	t.w.tasks.Go(func() {
		for pause := time.Duration(0); ; {
			last, tip, err := t.take()
			if err == nil {
				t.mu.Lock()
				t.begins, t.taken = &beginning{tip: tip}, last
				t.mu.Unlock()
				t.poke()
				return
			}
			if t.fails(err) || !t.pause(&pause) {
				return
			}
		}
	})
}
