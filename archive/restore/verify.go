package restore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	archiveformat "github.com/holdfastdb/holdfast/archive/format"
	"github.com/holdfastdb/holdfast/core/node"
	"github.com/holdfastdb/holdfast/core/store"
	"github.com/holdfastdb/holdfast/objstore"
)

// Verifying says how an archive is proved.
type Verifying struct {
	// At is the state whose content is wanted.
	At At
	// Store is an empty one for the state, as large as that; its caller closes and removes it. Config makes the configuration of each
	// replay, with new machines.
	Store  store.Store
	Config func() node.Config
	// Patience is how long a missing object is waited for: in a growing archive, a later one may arrive first.
	Patience time.Duration
	// Found hears of each thing worth naming, as it is found.
	Found    func(Finding)
	Progress func(Progress)
}

// Finding is something that Verify names.
type Finding struct {
	// Wrong: a part of the archive is damaged, missing, or says something else than the rest. Otherwise it is how an archive may well be: a
	// leftover, entries that were lost before they were archived.
	Wrong bool
	Text  string
}

// Verified is what Verify has proved.
type Verified struct {
	Timeline         uint64
	Spans, Snapshots int
	Entries          uint64
	Bytes            int64
	First, End       Mark // the first snapshot, and how far states can be restored
	// At is the state that was asked for and Content what it holds; index 0: it cannot be restored.
	At      Mark
	Hash    uint64 // the rolling state hash there
	Content node.Content
	Wrong   int // findings
}

// verify is one that goes on.
type verify struct {
	a      *Archive
	how    Verifying
	out    *Verified
	latest int64 // of At

	manifests []*archiveformat.Manifest // upwards, those that are whole themselves
	named     map[string]int            // pieces by name, with their size
	replay    *node.Replay              // nil: there is no state to go on from
	done      bool                      // the content at At was read
}

// Verify proves an archive without changing it. Every object must have the bytes written under its name, and the entries must follow each
// other. Every snapshot must be whole and equal the previous one with the entries since. There must be no foreign objects. It returns an
// error only if it could not go on: the store's, or ctx's. Found hears of each fault.
func (a *Archive) Verify(ctx context.Context, how Verifying) (*Verified, error) {
	v := &verify{a: a, how: how, out: &Verified{Timeline: a.Timeline}, latest: math.MaxInt64, named: map[string]int{}}
	if !how.At.Time.IsZero() {
		v.latest = how.At.Time.UnixNano()
	}
	if err := v.readManifests(ctx); err != nil {
		return nil, err
	}
	if err := v.chain(ctx); err != nil {
		return nil, err
	}
	if err := v.leftovers(ctx); err != nil {
		return nil, err
	}
	return v.out, nil
}

func (v *verify) wrong(format string, args ...any) {
	v.out.Wrong++
	v.how.Found(Finding{Wrong: true, Text: fmt.Sprintf(format, args...)})
}

func (v *verify) note(format string, args ...any) {
	v.how.Found(Finding{Text: fmt.Sprintf(format, args...)})
}

// damage names an error that is about the archive, and returns any other.
func (v *verify) damage(ctx context.Context, what string, err error) error {
	var fault *archiveformat.Fault
	var gap *Gap
	var at *node.EntryError
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &fault), errors.As(err, &gap), errors.As(err, &at), errors.Is(err, node.ErrBadSnapshot), errors.Is(err, objstore.ErrAbsent):
		v.wrong("%s%v", what, err)
		return nil
	}
	return err
}

func (v *verify) read(bytes int64) {
	v.out.Bytes += bytes
	if v.how.Progress != nil {
		p := Progress{Bytes: v.out.Bytes}
		if v.replay != nil {
			p.Index = v.replay.Index()
		}
		v.how.Progress(p)
	}
}

func (v *verify) readManifests(ctx context.Context) error {
	all, err := v.a.snapshots(ctx)
	if err != nil {
		return err
	}
	for _, index := range all {
		m, err := v.a.manifest(ctx, index)
		if err != nil {
			if err := v.damage(ctx, "", err); err != nil {
				return err
			}
			continue
		}
		v.manifests = append(v.manifests, m)
		for i := range m.Pieces {
			v.named[m.PieceName(i)] = m.Pieces[i].Size
		}
	}
	return nil
}

// chain reads the whole log and stops at each snapshot on its way.
func (v *verify) chain(ctx context.Context) error {
	c := v.a.newChain(archiveformat.Tip{Timeline: v.a.Timeline}, true, "")
	c.aside = func(name string, s *archiveformat.Span, err error) {
		var other *otherError
		switch {
		case errors.As(err, &other):
			v.note("%v; a second server shipped to the same place and was refused", err)
		case err != nil:
			v.wrong("%v", err)
		case s != nil:
			v.note("%s, entries %d to %d, lies beside the chain: harmless", name, s.First, s.Last)
		}
	}
	more, err := c.skip(ctx)
	for more && err == nil {
		more, err = v.link(ctx, c)
	}
	if err == nil {
		err = v.rest(ctx, math.MaxUint64)
	}
	if err != nil {
		return err
	}
	return v.end(ctx)
}

// link goes on to the next span; more is false at the end.
func (v *verify) link(ctx context.Context, c *chain) (more bool, err error) {
	from := c.tip.Last + 1
	s, err := c.next(ctx)
	if gap := (*Gap)(nil); errors.As(err, &gap) {
		s, err = v.await(ctx, c, err)
	}
	switch {
	case err == nil:
		return true, v.span(ctx, s, from)
	case errors.Is(err, io.EOF):
		return false, nil
	}
	if err := v.broken(ctx, c, from, err); err != nil {
		return false, err
	}
	if more, err = c.skip(ctx); more && err == nil {
		err = v.rest(ctx, c.tip.Last)
	}
	return more, err
}

// await looks for a while whether what is missing comes after all, and returns what next did last.
func (v *verify) await(ctx context.Context, c *chain, err error) (*archiveformat.Span, error) {
	var s *archiveformat.Span
	var gap *Gap
	for waited := time.Duration(0); waited < v.how.Patience && errors.As(err, &gap) && ctx.Err() == nil; waited += awaitPause {
		v.a.tasks.Wait(awaitPause, ctx.Done())
		s, err = c.next(ctx)
	}
	return s, err
}

const awaitPause = 500 * time.Millisecond

// broken names the fault of the chain behind the entries before from, and drops the state. Where a timeline goes on behind a snapshot
// because entries were lost to it, its next span says so by a hash of zeros.
func (v *verify) broken(ctx context.Context, c *chain, from uint64, err error) error {
	var gap *Gap
	if errors.As(err, &gap) && v.out.First.Index == 0 && len(v.manifests) > 0 && gap.To <= v.manifests[0].Index {
		v.note("entries %d to %d are missing: of no use, because the first snapshot is at %d", gap.From, gap.To, v.manifests[0].Index)
		return nil
	}
	if errors.As(err, &gap) {
		over, root, perr := c.resumes(ctx, func(index uint64) bool {
			return slices.ContainsFunc(v.manifests, func(m *archiveformat.Manifest) bool { return m.Index == index })
		})
		if perr != nil {
			return perr
		}
		if root != nil {
			if err := v.before(ctx, from); err != nil {
				return err
			}
			gap.To = root.first - 1
			for _, l := range over {
				if l.err != nil {
					v.wrong("%v", l.err)
					continue
				}
				v.note("%s, entries %d to %d, lies behind entries that were lost: harmless", l.name, l.first, l.span.Last)
			}
			v.note("entries %d to %d were lost before they were archived; the snapshot at %d goes on from there, and states between %d and %d cannot "+
				"be restored", gap.From, gap.To, gap.To, gap.From, gap.To-1)
			v.replay = nil
			return nil
		}
	}
	if err := v.before(ctx, from); err != nil {
		return err
	}
	if gap != nil && len(v.manifests) == 0 {
		many, err := v.a.behind(ctx, gap)
		if err != nil {
			return err
		}
		if !many {
			v.note("%v; no state behind %d can be restored. A server that dies leaves uploads undone, and was told of none of these", gap, gap.From-1)
			v.replay = nil
			return nil
		}
	}
	if err := v.damage(ctx, "", err); err != nil {
		return err
	}
	v.replay = nil
	return nil
}

// before looks at the snapshots before an entry that has no chain to it any more.
func (v *verify) before(ctx context.Context, index uint64) error {
	if err := v.rest(ctx, index-1); err != nil {
		return err
	}
	return v.end(ctx)
}

// span replays one, stopping at snapshots.
func (v *verify) span(ctx context.Context, s *archiveformat.Span, from uint64) error {
	v.out.Spans++
	v.out.Entries += s.Last - max(from, s.First) + 1
	defer v.read(s.Bytes())
	if err := v.rest(ctx, max(from, s.First)-1); err != nil {
		return err
	}
	if v.replay != nil && v.replay.Index()+1 < max(from, s.First) { // the entries in between are missing
		if err := v.end(ctx); err != nil {
			return err
		}
		v.replay = nil
	}
	one := make([]node.Entry, 1)
	for e := range s.Entries() {
		if e.Index < from {
			continue
		}
		if v.replay == nil || v.replay.Index() >= e.Index {
			if err := v.rest(ctx, e.Index); err != nil {
				return err
			}
			continue
		}
		one[0] = node.Entry(e)
		if err := v.beyond(ctx, &one[0]); err != nil {
			return err
		}
		if err := v.replay.Apply(one); err != nil {
			v.wrong("archive object %s: %v", s.Name, err)
			v.replay = nil
			continue
		}
		if err := v.rest(ctx, e.Index); err != nil {
			return err
		}
	}
	if v.replay != nil && v.replay.Index() == s.Last {
		if err := v.replay.Compare(s.State); err != nil {
			v.wrong("archive object %s: %v", s.Name, err)
			v.replay = nil
		}
	}
	return nil
}

// beyond reads the content that was asked for if the next entry is beyond that state.
func (v *verify) beyond(ctx context.Context, e *node.Entry) error {
	if v.done {
		return nil
	}
	past := v.how.At.Index != 0 && e.Index > v.how.At.Index
	if v.latest != math.MaxInt64 {
		ns, err := node.WallOf(e)
		if err != nil {
			return nil // Apply reports its fault
		}
		past = past || ns > v.latest
	}
	if !past {
		return nil
	}
	return v.content(ctx)
}

// content reads the state's content, if the state is the requested one.
func (v *verify) content(ctx context.Context) (err error) {
	at := Mark{v.replay.Index(), v.replay.WallNs()}
	if v.how.At.Index != 0 && at.Index != v.how.At.Index || !v.how.At.within(at) {
		return nil
	}
	v.out.At, v.out.Hash = at, v.replay.StateHash()
	v.out.Content, err = v.replay.Content(ctx)
	v.done = v.how.At != At{}
	return err
}

// end takes note of where the state has come to at the end of a chain.
func (v *verify) end(ctx context.Context) error {
	if v.replay == nil {
		return nil
	}
	v.out.End = Mark{v.replay.Index(), v.replay.WallNs()}
	if v.done {
		return nil
	}
	return v.content(ctx)
}

// rest looks at the snapshots up to an index that have not been looked at.
func (v *verify) rest(ctx context.Context, upTo uint64) error {
	for len(v.manifests) > 0 && v.manifests[0].Index <= upTo {
		m := v.manifests[0]
		v.manifests = v.manifests[1:]
		if err := v.snapshot(ctx, m); err != nil {
			return err
		}
	}
	return nil
}

// snapshot reads one, and compares it with the state if that is at its index. Otherwise it becomes the state.
func (v *verify) snapshot(ctx context.Context, m *archiveformat.Manifest) error {
	in := v.a.pieces(ctx, m, nil, "", func(n int) { v.read(int64(n)) })
	name := archiveformat.ManifestName(m.Timeline, m.Index)
	is := Mark{m.Index, m.WallNs}
	if v.replay != nil && v.replay.Index() < m.Index { // the entries between are not there
		if !v.done && (v.how.At != At{}) && !v.how.At.within(is) {
			if err := v.content(ctx); err != nil {
				return err
			}
		}
		v.replay = nil
	}
	if v.replay == nil {
		return v.load(ctx, m, in, name)
	}
	cfg := v.how.Config()
	content, info, err := node.ContentOfSnapshot(cfg, in)
	if err := in.ended(m, info, err); err != nil {
		return v.damage(ctx, fmt.Sprintf("snapshot at %d: ", m.Index), err)
	}
	v.out.Snapshots++
	here, err := v.replay.Content(ctx)
	switch {
	case err != nil:
		return err
	case v.replay.StateHash() != m.State:
		v.wrong("%s: its state hash is %016x, and the entries up to %d come to %016x", name, m.State, m.Index, v.replay.StateHash())
	case here != content:
		v.wrong("%s: its content is %x, and the entries up to %d come to %x", name, content.Hash, m.Index, here.Hash)
	case v.replay.WallNs() != m.WallNs:
		v.wrong("%s: its time is %s, and that of the entries %s", name, is.Time(), Mark{m.Index, v.replay.WallNs()}.Time())
	}
	return nil
}

// load makes a snapshot the state.
func (v *verify) load(ctx context.Context, m *archiveformat.Manifest, in *pieces, name string) error {
	cfg := v.how.Config()
	info, err := node.LoadSnapshot(cfg, v.how.Store, in)
	if err := in.ended(m, info, err); err != nil {
		return v.damage(ctx, fmt.Sprintf("snapshot at %d: ", m.Index), err)
	}
	r, err := node.NewReplay(cfg, v.how.Store)
	if err != nil {
		v.wrong("%s: %v", name, err)
		return nil
	}
	if err := compareSnapshot(r, m); err != nil {
		v.wrong("%v", err)
		return nil
	}
	if r.WallNs() != m.WallNs {
		v.wrong("%s: its time is %s, and that of the state %s", name, Mark{m.Index, m.WallNs}.Time(), Mark{m.Index, r.WallNs()}.Time())
	}
	v.out.Snapshots++
	if v.replay = r; v.out.First.Index == 0 {
		v.out.First = Mark{m.Index, m.WallNs}
	}
	return nil
}

// leftovers names the objects that nothing in the archive speaks of.
func (v *verify) leftovers(ctx context.Context) error {
	list := &names{a: v.a, prefix: archiveformat.TimelineName(v.a.Timeline)}
	for {
		l, ok, err := list.next(ctx)
		if err != nil || !ok {
			return err
		}
		_, _, span := archiveformat.ParseSpanName(l.Name)
		_, _, manifest := archiveformat.ParseManifestName(l.Name)
		if _, piece := v.named[l.Name]; !span && !manifest && !piece {
			v.note("%s is a leftover: nothing in the archive speaks of it", l.Name)
		}
	}
}
