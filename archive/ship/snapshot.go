package ship

import (
	"context"
	"errors"
	"time"

	"github.com/holdfastdb/holdfast/archive/format"
	"github.com/holdfastdb/holdfast/archive/restore"
	"github.com/holdfastdb/holdfast/objstore"
)

// taken is a snapshot that is in the store.
type taken struct {
	index  uint64 // 0: there is none
	term   uint64
	bytes  int64
	wallNs int64 // time along the log
	// shipped is the archived bytes of the log in this term when it was taken; below zero, the bytes that others had archived since then.
	shipped int64
}

// daily is how old the newest snapshot becomes at most while something is written.
const daily = 24 * time.Hour

// stuck is how long one request of many is repeated. After it a snapshot is given up, and a later one is taken: during a snapshot this
// member's store keeps all replaced rows.
const stuck = 5 * time.Minute

// steady repeats requests that fail. The manifest of a snapshot waits until the log up to after is archived. Shipping may begin behind any
// snapshot, and spans in flight before it when a leader dies would never arrive.
type steady struct {
	objstore.Store
	t     *term
	after uint64
	round int
}

func (t *term) steady() steady {
	t.mu.Lock()
	round := t.round
	t.mu.Unlock()
	return steady{Store: t.w.at(), t: t, round: round}
}

// PutIfAbsent implements objstore.Store. A snapshot ends with its round: pieces that were put into a place that was swapped are not where
// its manifest would be.
func (s steady) PutIfAbsent(_ context.Context, o objstore.Object) error {
	_, index, manifest := format.ParseManifestName(o.Name)
	if manifest {
		for s.t.chainedTo() < s.after && !s.t.moved(s.round) {
			if s.t.w.tasks.Wait(pauseLeast, s.t.ended, s.t.w.node.StoppedC()) >= 0 {
				return errOver
			}
		}
	}
	if s.t.moved(s.round) {
		return errOver
	}
	if manifest {
		if err := s.t.whole(index, o); err != nil {
			return err
		}
	}
	return s.try(func(ctx context.Context) error { return s.Store.PutIfAbsent(ctx, o) })
}

// whole returns nil if all pieces that the manifest of a snapshot names are in the store. A piece may have gone into another one that was in
// the archive's place for a while.
func (t *term) whole(index uint64, o objstore.Object) error {
	m, err := format.DecodeManifest(o.Name, o.Data)
	if err != nil {
		return err
	}
	found, err := t.list(format.PiecesName(t.w.timeline, index), "")
	if err != nil {
		return err
	}
	there := map[string]bool{}
	for _, l := range found {
		there[l.Name] = true
	}
	for i := range m.Pieces {
		if name := m.PieceName(i); !there[name] {
			return &gone{name}
		}
	}
	return nil
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
	for limit := 2 * patienceLeast; ; limit = min(2*limit, patience) {
		ctx, done := t.context(limit)
		t.w.requests.add(1)
		err := request(ctx)
		done()
		switch {
		case err == nil, errors.Is(err, objstore.ErrExists), errors.Is(err, objstore.ErrAbsent):
			t.answers()
			return err
		case objstore.Final(err):
			return err
		case t.w.node.Mono()-began > stuck || !t.pause():
			return err
		}
	}
}

// manifest reads what the manifest of a snapshot says. One that is damaged is as good as none: it is for people to mend, and another
// snapshot is taken.
func (t *term) manifest(index uint64) (*taken, error) {
	name := format.ManifestName(t.w.timeline, index)
	b, err := t.steady().Get(context.Background(), name)
	if err != nil {
		return nil, err
	}
	m, err := format.DecodeManifest(name, b)
	if err != nil {
		t.w.opt.Logger.Error("a snapshot in the archive is damaged; another one is taken", "err", err)
		return &taken{}, nil
	}
	return &taken{index: m.Index, term: m.Term, bytes: m.Bytes(), wallNs: m.WallNs}, nil
}

// errOver: the term, or its round, ended.
var errOver = errors.New("this member does not lead any more, or the end of the archive is looked for anew")

// take puts a snapshot of this member's state, and returns where a log begins that goes on behind it. root: the log before it is not
// archived and will not be.
func (t *term) take(root bool) (*taken, format.Tip, error) {
	ctx, done := t.context(7 * daily)
	defer done()
	info, r, err := t.w.node.TakeSnapshot(ctx)
	if err != nil {
		return nil, format.Tip{}, err
	}
	defer r.Close() // nothing was written through it
	t.mu.Lock()
	t.mark = info.Index
	t.mu.Unlock()
	to := t.steady()
	if !root {
		to.after = info.Index
	}
	m, err := restore.PutSnapshot(ctx, to, format.Manifest{Cluster: t.w.cluster, Timeline: t.w.timeline, Index: info.Index,
		Term: info.Term, State: info.State, WallNs: info.WallNs}, r, nil)
	if err == nil {
		err = t.look(&glance{upTo: t.w.known().Archived}) // the place that it was put into is the archive
	}
	if err != nil {
		return nil, format.Tip{}, err
	}
	t.w.opt.Logger.Info("snapshot archived", "index", m.Index, "bytes", m.Bytes(), "pieces", len(m.Pieces))
	return &taken{index: m.Index, term: m.Term, bytes: m.Bytes(), wallNs: m.WallNs},
		format.Tip{Cluster: t.w.cluster, Timeline: t.w.timeline, Last: m.Index, Term: m.Term}, nil
}

// snapshots takes a snapshot when the log since the last one is as large as that one. So a restore reads no more than twice the state. It
// also takes one every day with writes.
func (t *term) snapshots() {
	if t.snapped.wallNs == 0 && t.snapped.index > 0 { // of a log that had no time yet: the day begins now
		t.snapped.wallNs = t.wallNs
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	large := t.shipped-t.snapped.shipped >= max(t.w.opt.SnapshotBytes, t.snapped.bytes)
	old := t.tip.Last > t.snapped.index && t.wallNs-t.snapped.wallNs >= int64(daily)
	if t.taking || t.rooting || t.over || !large && !old {
		return
	}
	t.taking = true
	round := t.round
	t.w.tasks.Go(func() {
		for {
			t.mu.Lock()
			shipped := t.shipped
			t.mu.Unlock()
			last, _, err := t.take(false)
			if err == nil {
				last.shipped = shipped
				t.mu.Lock()
				if t.round != round {
					t.mu.Unlock()
					return
				}
				t.taken, t.taking = last, false
				t.mu.Unlock()
				t.poke()
				t.prune()
				return
			}
			if t.given(round, err) || !t.pause() {
				return
			}
		}
	})
}

// given judges the error of what belongs to a round: true if there is nothing more to try in it.
func (t *term) given(round int, err error) bool {
	if isStrange(err) {
		t.doubt(round, err)
		return true
	}
	return t.moved(round) || t.fails(err)
}

// chainedTo is the last index of the archive's log that this term has found or put. The index told to the members may be lower, if a span
// was put into a swapped place.
func (t *term) chainedTo() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.chained
}

// root puts a snapshot for the log to go on behind.
func (t *term) root() {
	t.rooting = true
	t.mu.Lock()
	round := t.round
	t.mu.Unlock()
	t.w.tasks.Go(func() {
		for {
			last, tip, err := t.take(true)
			if err == nil {
				t.mu.Lock()
				last.shipped = t.shipped
				if t.round == round {
					t.begins, t.taken = &beginning{tip: tip, newest: format.ManifestName(t.w.timeline, tip.Last)}, last
				}
				t.mu.Unlock()
				t.poke()
				return
			}
			if t.given(round, err) || !t.pause() {
				return
			}
		}
	})
}
