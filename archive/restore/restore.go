package restore

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"time"

	"github.com/holdfastdb/holdfast/archive/format"
	"github.com/holdfastdb/holdfast/core/disk"
	emember "github.com/holdfastdb/holdfast/core/entry/member"
	"github.com/holdfastdb/holdfast/core/node"
	"github.com/holdfastdb/holdfast/core/store"
	"github.com/holdfastdb/holdfast/objstore"
)

// At selects a state of an archive: after an entry, at a time along the log, or with neither the newest. A time selects the last entry that
// is not after it. Nothing is finer than an entry of the log, which has the commands of a moment.
type At struct {
	Index uint64
	Time  time.Time
}

func (at At) String() string {
	switch {
	case at.Index != 0:
		return fmt.Sprintf("index %d", at.Index)
	case !at.Time.IsZero():
		return at.Time.UTC().Format(time.RFC3339Nano)
	}
	return "its end"
}

// within reports whether a mark is not beyond it.
func (at At) within(m Mark) bool {
	switch {
	case at.Index != 0:
		return m.Index <= at.Index
	case !at.Time.IsZero():
		return m.WallNs <= at.Time.UnixNano()
	}
	return true
}

// Restoring says how a data directory is made from an archive.
type Restoring struct {
	// From is where the archive is, for people, and to know this restore again.
	From string
	At   At
	// Name is the label of the only member, PeerAddr where other members will reach it, "" if none does.
	Name, PeerAddr string
	// Row hears of each row of the state, once that is proved, with its value in the new cluster (node.RestoreInPlace); nil: no calls.
	Row func(key, was, is []byte) error
	// Progress hears now and then the bytes read and the index of the state; nil: no calls.
	Progress func(Progress)

	every int64 // for tests: durableEvery; 0 is that
}

// Progress is how far a restore or a check has come.
type Progress struct {
	Bytes int64  // read, of objects
	Index uint64 // of the state; 0: a snapshot is being read
}

// Restored is the result of a restore.
type Restored struct {
	Timeline uint64
	Snapshot uint64 // the index of the one it began with
	State    Mark   // the restored state
	Hash     uint64 // the rolling state hash there, before the changes of a restore
	End      Mark   // the last place that the archive has something of; index 0: not known
	Missing  *Gap   // why the newest state that can be restored is not the end
	Resumed  bool   // it resumed an earlier, interrupted call
}

// ErrNotEmpty: the directory holds something else than this restore.
var ErrNotEmpty = errors.New("the directory is not empty")

// ErrOther: the directory holds another restore, which was interrupted.
var ErrOther = errors.New("the directory holds another restore that did not end")

// ErrNoSnapshot: every restore begins with a snapshot, and the timeline has none.
var ErrNoSnapshot = errors.New("has no snapshot, and every restore begins with one")

// ErrNotInArchive: the archive does not have the state that was asked for.
var ErrNotInArchive = errors.New("not in the archive")

const (
	making = "a restore from an archive" // node.Making.What
	// planName is the file with the restore's goal and progress, partsName the directory of the snapshot's pieces, both below the data
	// directory. They are removed at the end.
	planName  = "restore.json"
	partsName = "restore-pieces"
	// durableEvery is how many bytes of spans are replayed before the state is made durable, and is not replayed again.
	durableEvery = 128 << 20
	// mostBehindGap is the largest number of uploads that a crashed leader can have had in flight. If a longer row of spans follows a
	// missing one, the missing span was deleted, not lost in flight.
	mostBehindGap = 16
)

// bulk opens a store that is filled by its only user. There are two memtables, or three.
var bulk = store.Options{CacheBytes: 64 << 20, MemtableBytes: 16 << 20, Bulk: true}

// plan is the goal and progress of a restore, kept over interruptions.
type plan struct {
	From     string    `json:"from"`
	Timeline string    `json:"timeline"`
	AtIndex  uint64    `json:"at_index,omitempty"`
	AtTime   time.Time `json:"at_time,omitzero"`
	// Snapshot is the restore's beginning, Last its end at most: entries archived later are left out.
	Snapshot uint64 `json:"snapshot"`
	Last     uint64 `json:"last"`
	// Tip is where the log was read to when the state was last made durable; 0: not yet.
	TipIndex uint64 `json:"tip_index,omitempty"`
	TipTerm  uint64 `json:"tip_term,omitempty"`
	TipHash  string `json:"tip_hash,omitempty"`
	// Done is the reached state, once that is durable: then only its rows have to be changed.
	Done *done `json:"done,omitempty"`
}

// done is a state that was asked for.
type done struct {
	Index  uint64 `json:"index"`
	Term   uint64 `json:"term"`
	WallNs int64  `json:"wall_ns"`
	Hash   uint64 `json:"hash,string"`
}

// tip is where the chain goes on, false if it was not written down.
func (p *plan) tip(cluster, timeline uint64) (format.Tip, bool) {
	t := format.Tip{Cluster: cluster, Timeline: timeline, Last: p.TipIndex, Term: p.TipTerm}
	b, err := hex.DecodeString(p.TipHash)
	return t, err == nil && copy(t.Hash[:], b) == len(t.Hash) && p.TipIndex != 0
}

// restore is one that goes on.
type restore struct {
	a        *Archive
	cfg      node.Config
	how      Restoring
	plan     *plan
	out      *Restored
	manifest *format.Manifest
	bytes    int64
	store    store.Store
	replay   *node.Replay
	term     uint64 // of the entry that the state has come to; 0: not known yet
}

// Restore builds a new one-member cluster in cfg.Dir from an archive. It first builds the members' own state, compared with the leaders'
// state hashes. Only then it makes the changes for a new cluster (node.RestoreInPlace). cfg.Machines must be new, and all that the archive
// has commands of.
//
// The directory must be empty or missing, or hold the work of an interrupted call with the same arguments. Until the end a server does not
// start with it. Errors name the object that is damaged or missing: *archive.Fault, *Gap, *node.EntryError, ErrNotInArchive, ErrNoSnapshot,
// ErrNotEmpty, ErrOther, or are the store's, the disk's and ctx's.
func (a *Archive) Restore(ctx context.Context, cfg node.Config, how Restoring) (*Restored, error) {
	if cfg.FS == nil {
		cfg.FS = disk.OS()
	}
	if cfg.Store == nil {
		cfg.Store = func(dir string) (store.Store, error) { return store.Open(dir, bulk) }
	}
	if how.Row == nil {
		how.Row = func(_, _, _ []byte) error { return nil }
	}
	j := &restore{a: a, cfg: cfg, how: how, out: &Restored{Timeline: a.Timeline}}
	if err := j.begin(ctx); err != nil {
		return nil, err
	}
	err := node.Make(cfg, node.Making{Name: how.Name, PeerAddr: how.PeerAddr, What: making, Resumes: true},
		func(st store.Store, self *emember.Member) (index, term uint64, err error) {
			j.store = st
			if err := j.write(); err != nil {
				return 0, 0, err
			}
			if j.plan.Done == nil {
				if err := j.state(ctx); err != nil {
					return 0, 0, err
				}
			}
			d := j.plan.Done
			j.out.State, j.out.Hash = Mark{d.Index, d.WallNs}, d.Hash
			return d.Index, d.Term, node.RestoreInPlace(cfg, st, self, how.Row)
		})
	if err != nil {
		return nil, err
	}
	for _, name := range []string{planName, partsName} {
		if err := cfg.FS.RemoveAll(filepath.Join(cfg.Dir, name)); err != nil {
			return nil, err
		}
	}
	return j.out, nil
}

// begin plans the work, or reads the plan of an interrupted call. Nothing is written.
func (j *restore) begin(ctx context.Context) error {
	was, err := node.MakingIn(j.cfg)
	if err != nil {
		return err
	}
	if was == making {
		if err := j.readPlan(); err != nil {
			return err
		}
	}
	if j.plan == nil {
		if err := j.newPlan(ctx, was == making); err != nil {
			return err
		}
	}
	j.manifest, err = j.a.manifest(ctx, j.plan.Snapshot)
	j.out.Snapshot = j.plan.Snapshot
	if end, err := j.a.End(ctx); err == nil { // for the report only; the restored entry may be far before it
		j.out.End = end
	}
	return err
}

// newPlan looks up where to begin and where to end.
func (j *restore) newPlan(ctx context.Context, begun bool) error {
	names, err := j.cfg.FS.List(j.cfg.Dir)
	names = slices.DeleteFunc(names, func(name string) bool { return name == disk.LostAndFound })
	if err == nil && len(names) > 0 && !begun {
		return ErrNotEmpty
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	at := j.how.At
	p := &plan{From: j.how.From, Timeline: format.TimelineName(j.a.Timeline), AtIndex: at.Index, AtTime: at.Time, Last: at.Index}
	m, err := j.a.snapshotFor(ctx, at)
	if err != nil {
		return err
	}
	p.Snapshot = m.Index
	end, err := j.a.End(ctx)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil && at.Index == 0:
		return err
	case err == nil && at.Index > end.Index:
		return fmt.Errorf("%s is %w, which ends with %s", at, ErrNotInArchive, end)
	case at.Index == 0:
		p.Last = end.Index
	}
	j.plan = p
	return nil
}

// snapshotFor finds the newest snapshot that is not beyond at.
func (a *Archive) snapshotFor(ctx context.Context, at At) (*format.Manifest, error) {
	all, err := a.snapshots(ctx)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("timeline %016x %w", a.Timeline, ErrNoSnapshot)
	}
	for i := len(all) - 1; i >= 0; i-- {
		if at.Index != 0 && all[i] > at.Index {
			continue
		}
		m, err := a.manifest(ctx, all[i])
		if err != nil {
			return nil, err
		}
		if at.within(Mark{m.Index, m.WallNs}) {
			return m, nil
		}
	}
	oldest, err := a.manifest(ctx, all[0])
	if err != nil {
		return nil, err
	}
	return nil, fmt.Errorf("%s is %w: its first snapshot is of %s", at, ErrNotInArchive, Mark{oldest.Index, oldest.WallNs})
}

// readPlan reads what an interrupted call went by, and refuses what it did not mean.
func (j *restore) readPlan() error {
	b, err := j.cfg.FS.ReadFile(filepath.Join(j.cfg.Dir, planName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it had just begun
	}
	if err != nil {
		return err
	}
	p := &plan{}
	if err := json.Unmarshal(b, p); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrOther, planName, err)
	}
	at := j.how.At
	if p.From != j.how.From || p.Timeline != format.TimelineName(j.a.Timeline) || p.AtIndex != at.Index || !p.AtTime.Equal(at.Time) {
		return fmt.Errorf("%w: timeline %s of %s, at %s", ErrOther, p.Timeline, p.From, At{Index: p.AtIndex, Time: p.AtTime})
	}
	j.plan, j.out.Resumed = p, true
	return nil
}

// write writes the plan down, durably.
func (j *restore) write() error {
	b, err := json.MarshalIndent(j.plan, "", "  ")
	if err != nil {
		return err
	}
	return j.cfg.FS.WriteFileAtomic(filepath.Join(j.cfg.Dir, planName), append(b, '\n'))
}

func (j *restore) progress(bytes int64, index uint64) {
	if j.bytes += bytes; j.how.Progress != nil {
		j.how.Progress(Progress{Bytes: j.bytes, Index: index})
	}
}

// state brings the store to the state that was asked for.
func (j *restore) state(ctx context.Context) (err error) {
	if j.store.Applied() < j.plan.Snapshot {
		if err := j.load(ctx); err != nil {
			return err
		}
	}
	if j.replay, err = node.NewReplay(j.cfg, j.store); err != nil {
		return err
	}
	if j.replay.Index() == j.plan.Snapshot {
		if err := compareSnapshot(j.replay, j.manifest); err != nil {
			return err
		}
	}
	if j.replay.Index() == j.plan.Snapshot {
		j.term = j.manifest.Term
	}
	tip, known := j.plan.tip(j.manifest.Cluster, j.a.Timeline)
	var c *chain
	if known {
		if tip.Last == j.replay.Index() {
			j.term = tip.Term
		}
		c = j.a.newChain(tip, false, format.SpanName(j.a.Timeline, tip.Last))
	} else if c, err = j.a.chainFrom(ctx, format.Tip{Cluster: j.manifest.Cluster, Timeline: j.a.Timeline, Last: j.plan.Snapshot, Term: j.manifest.Term}); err != nil {
		return err
	}
	if err := j.entries(ctx, c); err != nil {
		return err
	}
	if err := j.store.Flush(); err != nil {
		return err
	}
	j.plan.Done = &done{Index: j.replay.Index(), Term: j.term, WallNs: j.replay.WallNs(), Hash: j.replay.StateHash()}
	return j.write()
}

// load reads the snapshot into the store.
func (j *restore) load(ctx context.Context) error {
	keep := filepath.Join(j.cfg.Dir, partsName)
	if err := j.cfg.FS.MkdirAll(keep); err != nil {
		return err
	}
	in := j.a.pieces(ctx, j.manifest, j.cfg.FS, keep, func(n int) { j.progress(int64(n), 0) })
	info, err := node.LoadSnapshot(j.cfg, j.store, in)
	if err := in.ended(j.manifest, info, err); err != nil {
		return fmt.Errorf("read the snapshot at %d: %w", j.manifest.Index, err)
	}
	return j.cfg.FS.RemoveAll(keep)
}

// compareSnapshot holds the state that came with a snapshot against its manifest.
func compareSnapshot(r *node.Replay, m *format.Manifest) error {
	if r.StateHash() != m.State {
		return &format.Fault{Name: format.ManifestName(m.Timeline, m.Index), Reason: fmt.Sprintf(
			"it says that the state hash is %016x, and in its pieces it is %016x", m.State, r.StateHash())}
	}
	return nil
}

// entries replays the chain up to the requested entry.
func (j *restore) entries(ctx context.Context, c *chain) error {
	latest := int64(math.MaxInt64)
	if !j.how.At.Time.IsZero() {
		latest = j.how.At.Time.UnixNano()
	}
	r, since := j.replay, int64(0)
	for r.Index() < j.plan.Last || j.term == 0 {
		s, err := c.next(ctx)
		var gap *Gap
		switch {
		case errors.Is(err, io.EOF) && j.how.At.Index == 0:
			return nil
		case errors.Is(err, io.EOF):
			return fmt.Errorf("%s is %w, which ends with index %d", j.how.At, ErrNotInArchive, r.Index())
		case errors.As(err, &gap) && j.how.At == At{}:
			many, err := j.a.behind(ctx, gap)
			if err == nil && many {
				err = gap
			}
			j.out.Missing = gap
			return err
		case err != nil:
			return err
		}
		reached, err := replaySpan(r, s, j.plan.Last, latest, &j.term)
		if err != nil || reached {
			return err
		}
		j.progress(s.Bytes(), r.Index())
		if since += s.Bytes(); since >= cmp.Or(j.how.every, durableEvery) {
			since = 0
			if err := j.durable(c); err != nil {
				return err
			}
		}
		if err := ctx.Err(); err != nil {
			return errors.Join(err, j.durable(c))
		}
	}
	return nil
}

// durable makes the state durable and writes down where the chain goes on.
func (j *restore) durable(c *chain) error {
	if err := j.store.Flush(); err != nil {
		return err
	}
	j.plan.TipIndex, j.plan.TipTerm, j.plan.TipHash = c.tip.Last, c.tip.Term, c.tip.Hash.String()
	return j.write()
}

// behind judges a gap at the end. many reports whether more spans follow it than run allows. A leader that crashed leaves
// fewer, in any order, and no client was told that the entries behind the first missing span are archived.
func (a *Archive) behind(ctx context.Context, gap *Gap) (many bool, err error) {
	var r run
	list := a.spanNames(format.SpanName(a.Timeline, gap.To))
	for {
		l, ok, err := list.next(ctx)
		if err != nil || !ok {
			return false, err
		}
		_, first, ok := format.ParseSpanName(l.Name)
		if !ok {
			continue
		}
		last, err := a.lastOf(ctx, l.Name, first)
		if err != nil {
			return false, err
		}
		if r.add(first, last); r.many() {
			return true, nil
		}
	}
}

// lastOf returns the last index of a span that is listed. A span that cannot be read counts as one entry.
func (a *Archive) lastOf(ctx context.Context, name string, first uint64) (uint64, error) {
	var f *format.Fault
	s, err := a.span(ctx, name)
	switch {
	case err == nil:
		return s.Last, nil
	case errors.As(err, &f), errors.Is(err, objstore.ErrAbsent):
		return first, nil
	}
	return 0, err
}

// replaySpan applies those entries of a span that the state does not have yet, up to the index last and the time latest. reached: the
// next entry is beyond one of them. term becomes that of the entry where the state is.
func replaySpan(r *node.Replay, s *format.Span, last uint64, latest int64, term *uint64) (reached bool, err error) {
	one := make([]node.Entry, 1)
	for e := range s.Entries() {
		if e.Index == r.Index() {
			*term = e.Term
		}
		if e.Index <= r.Index() {
			continue
		}
		if e.Index > last {
			return true, nil
		}
		one[0] = node.Entry(e)
		if latest != math.MaxInt64 {
			ns, err := node.WallOf(&one[0])
			if err != nil {
				return false, entryError(s.Name, e.Index, err)
			}
			if ns > latest {
				return true, nil
			}
		}
		if err := r.Apply(one); err != nil {
			return false, fmt.Errorf("archive object %s: %w", s.Name, err)
		}
		*term = e.Term
	}
	if r.Index() == s.Last { // else it was in the store already, from before an interruption
		if err := r.Compare(s.State); err != nil {
			return false, fmt.Errorf("archive object %s: %w", s.Name, err)
		}
	}
	return false, nil
}
