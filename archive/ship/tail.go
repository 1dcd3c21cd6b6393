package ship

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/holdfastdb/holdfast/archive/format"
	"github.com/holdfastdb/holdfast/internal/task"
	"github.com/holdfastdb/holdfast/objstore"
)

// start finds out where the archive ends, beside lead.
func (t *term) start() {
	t.mu.Lock()
	round := t.round
	t.mu.Unlock()
	t.w.tasks.Go(func() {
		for t.w.stopped() == nil {
			b, last, err := t.find()
			if err == nil {
				t.w.wentWell()
				t.mu.Lock()
				if t.round == round {
					t.begins, t.taken = b, last
				}
				t.mu.Unlock()
				t.poke()
				if b.since < 0 {
					t.survey(last.index, b.tip.Last)
				}
				return
			}
			if t.fails(err) || !t.pause() {
				return
			}
		}
	})
}

// find returns where shipping begins: after what is in the store, read from name to name and held against the log. Where there is no
// archive yet, or its end cannot be told any more, a snapshot is put for it to begin behind. Nothing is put into a place that is not this
// member's archive.
func (t *term) find() (*beginning, *taken, error) {
	id, err := t.identify()
	if err != nil {
		return nil, nil, err
	}
	known := t.w.known()
	if known.Identity != "" && id != known.Identity {
		t.w.opt.Logger.Warn("an archive was given up, and this place takes over from it (--archive-lost)", "archive", known.Identity, "place", t.w.opt.URL)
		known = Known{}
	}
	if err := t.prove(); err != nil {
		return nil, nil, err
	}
	manifests, err := t.manifests()
	if err != nil {
		return nil, nil, err
	}
	last := &taken{}
	if n := len(manifests); n > 0 {
		if last, err = t.manifest(manifests[n-1]); err != nil {
			return nil, nil, err
		}
	}
	told := t.w.told() // the index the members have acknowledged, as far as this one has heard
	b, err := t.endOf(manifests, last, told, known.Archived)
	if err != nil {
		return nil, nil, err
	}
	if b == nil && id == "" && told > 0 && t.w.opt.Lost != LostUnknown {
		return nil, nil, &strange{url: t.w.opt.URL, archived: told}
	}
	if err := t.adopt(id, known.Archived); err != nil {
		return nil, nil, err
	}
	told = max(told, known.Archived)
	if b != nil {
		if b.tip.Last < told {
			t.w.miss(b.tip.Last+1, told)
		}
		return b, last, nil
	}
	if told > 0 {
		t.w.opt.Logger.Error("the archive has had the log up to this index and cannot be gone on with from there; a snapshot is put to go on behind",
			"index", told)
		t.w.lost()
	}
	last, tip, err := t.take(true)
	if err != nil {
		return nil, nil, err
	}
	return &beginning{tip: tip, newest: format.ManifestName(t.w.timeline, tip.Last)}, last, nil
}

// endOf finds the end of an archive. It starts from the index that the members were told, from the last look, or from a snapshot, reading
// all that follows. Nil: it cannot be told. An archive without a snapshot has no end, since no restore could begin.
func (t *term) endOf(manifests []uint64, last *taken, told, looked uint64) (*beginning, error) {
	if len(manifests) == 0 {
		return nil, nil
	}
	if told > 0 {
		for _, index := range []uint64{told, min(told, looked)} {
			if index == 0 {
				continue
			}
			b, err := t.from(index, slices.Contains(manifests, index))
			if err != nil && !errors.Is(err, errTwoBeginnings) {
				return nil, err
			}
			if err == nil && b != nil {
				return b, nil
			}
		}
	}
	b, err := t.walk(manifests)
	if err == nil && b.tip.Last < last.index && (b.tip.Last == 0 || !t.has(b.tip.Last+1)) {
		// The newest snapshot was to be gone on behind, and nothing has arrived there yet.
		b.tip = format.Tip{Cluster: t.w.cluster, Timeline: t.w.timeline, Last: last.index, Term: last.term}
		b.newest = format.ManifestName(t.w.timeline, last.index)
	}
	switch {
	case errors.Is(err, errTwoBeginnings), err == nil && b.tip.Last == 0:
		return nil, nil
	case err != nil:
		return nil, err
	}
	return b, nil
}

// prove asks the store, once in the life of this process, whether it keeps the condition on which everything here rests.
func (t *term) prove() error {
	t.w.mu.Lock()
	proved := t.w.proved
	t.w.mu.Unlock()
	if proved {
		return nil
	}
	ctx, done := t.context(4 * patienceLeast)
	defer done()
	t.w.requests.add(5)
	if err := objstore.ProbeAbsent(ctx, t.w.at()); err != nil {
		return fmt.Errorf("ask the archive's store whether it keeps conditions: %w", err)
	}
	t.w.mu.Lock()
	defer t.w.mu.Unlock()
	t.w.proved = true
	return nil
}

// pageSize is how many objects one request lists.
const pageSize = 1000

// list lists objects, those whose names sort after after.
func (t *term) list(prefix, after string) (all []objstore.Listed, err error) {
	for full := true; full; { // each page has its own patience
		n := 0
		err := t.steady().try(func(ctx context.Context) error {
			for l, err := range t.w.at().List(ctx, prefix, after) { // after an error it goes on after what it has given
				if err != nil {
					return err
				}
				all, after = append(all, l), l.Name
				if n++; n == pageSize {
					break
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		full = n == pageSize
	}
	return all, nil
}

// listed is a span as a list shows it.
type listed struct {
	first uint64
	size  int64
}

// spans lists the spans that begin after an index.
func (t *term) spans(after uint64) (all []listed, err error) {
	found, err := t.list(format.TimelineName(t.w.timeline), format.SpanName(t.w.timeline, after))
	for _, l := range found {
		if _, first, ok := format.ParseSpanName(l.Name); ok {
			all = append(all, listed{first, l.Size})
		}
	}
	return all, err
}

// survey measures the shipped log behind the newest snapshot, up to this term's beginning. It may take many requests and delays nothing:
// only the time of the next snapshot depends on it.
func (t *term) survey(snapshot, last uint64) {
	all, err := t.spans(snapshot)
	if err != nil {
		return // the next leader counts again, and a day is never missed
	}
	t.mu.Lock()
	for _, l := range all {
		if l.first <= last {
			t.shipped += l.size
		}
	}
	t.mu.Unlock()
	t.poke()
}

// manifests lists the indexes of all snapshots.
func (t *term) manifests() (all []uint64, err error) {
	found, err := t.list(format.SnapshotsName(t.w.timeline), "")
	for _, l := range found {
		if _, index, ok := format.ParseManifestName(l.Name); ok {
			all = append(all, index)
		}
	}
	return all, err
}

// from finds the end of the archive from a known index on. That is the end of a span, or a snapshot behind which the log continues (root).
// Nil: the archive does not have it any more. errTwoBeginnings: the end has to be found from a snapshot.
func (t *term) from(known uint64, root bool) (*beginning, error) {
	here, err := t.upTo(known, root)
	if err != nil || here == nil {
		return nil, err
	}
	tip, newest := here.tip, here.newest
	for {
		var before *format.Tip
		if tip.Last > known {
			before = &tip
		}
		s, err := t.examine(format.SpanName(t.w.timeline, tip.Last+1), before)
		if errors.Is(err, objstore.ErrAbsent) {
			return &beginning{tip: tip, newest: newest, since: -1}, nil
		}
		if err != nil {
			return nil, err
		}
		if before == nil && !linked(s.Before, tip.Hash) {
			// The two objects around known are links of two chains, and a restore cannot go from one to the other. Only walk can tell which
			// chain continues, and from which snapshot. It also judges whether one of them is another history.
			return nil, fmt.Errorf("%s: %w", s.Name, errTwoBeginnings)
		}
		tip, newest = s.Tip(), s.Name
	}
}

// mostOver is how many spans may begin between the beginning of one and its end: those that other shippers have left beside it.
const mostOver = 2 * flights

// upTo finds the object that has the entry at an index: a span, or the snapshot there (root). Nil: there is none, so that a span behind it
// would have a hole before it. The log does not stand in for an object: a restore reads objects.
func (t *term) upTo(index uint64, root bool) (*beginning, error) {
	begin, after := index, uint64(0)
	for n, back := 0, uint64(1<<10); n < mostOver; {
		after = index - min(index, back)
		found, err := t.lastBetween(after, begin)
		if err != nil {
			return nil, err
		}
		if found == 0 && after == 0 {
			break
		}
		if found == 0 {
			back <<= 4
			continue
		}
		s, err := t.examine(format.SpanName(t.w.timeline, found), nil)
		if err != nil {
			return nil, err
		}
		if s.Last >= index {
			return &beginning{tip: s.TipAt(index), newest: s.Name}, nil
		}
		begin = found - 1
		n++
	}
	if !root {
		return nil, nil
	}
	return &beginning{tip: format.Tip{Cluster: t.w.cluster, Timeline: t.w.timeline, Last: index}, newest: format.ManifestName(t.w.timeline, index)}, nil
}

// lastBetween is the first entry of the last span that begins after an index, and not after another one; 0 if there is none.
func (t *term) lastBetween(after, index uint64) (found uint64, err error) {
	err = t.steady().try(func(ctx context.Context) error {
		n := 0
		for l, err := range t.w.at().List(ctx, format.TimelineName(t.w.timeline), format.SpanName(t.w.timeline, after)) {
			if err != nil {
				return err
			}
			_, first, ok := format.ParseSpanName(l.Name)
			if !ok || first > index {
				break
			}
			if n++; n%pageSize == 0 {
				t.w.requests.add(1)
			}
			found = first
		}
		return nil
	})
	return found, err
}

// link is what walk keeps of a span.
type link struct {
	first   uint64 // 0: there is none
	before  format.Hash
	tip     format.Tip
	state   uint64
	further bool // this member had not applied all of it when it was compared
	err     error
}

// walk finds the end of an archive of which nothing is known. It starts from the newest snapshot with a span behind it, or else around the
// oldest one, and goes name by name. It reads every span from there on, some at a time. Any may be missing: spans that the previous leader
// had in flight may have arrived behind missing ones. The tip is zero if no span belongs to a snapshot.
func (t *term) walk(manifests []uint64) (b *beginning, err error) {
	newest := manifests[len(manifests)-1]
	var all []listed
	since := int64(0)
	end := func(begin []listed) (*beginning, error) {
		l, err := t.follow(all, begin)
		b := &beginning{tip: l.tip, since: since}
		if l.first > 0 {
			b.newest = format.SpanName(t.w.timeline, l.first)
		}
		return b, err
	}
	for _, index := range slices.Backward(manifests) {
		if all, err = t.spans(index); err != nil {
			return nil, err
		}
		if index == newest {
			for _, l := range all {
				since += l.size
			}
		}
		if len(all) > 0 && all[0].first == index+1 {
			return end(all[:1])
		}
	}
	if all, err = t.spans(0); err != nil {
		return nil, err
	}
	n := 0 // as many begin where the oldest snapshot has all there is before
	for n < len(all) && all[n].first <= manifests[0]+1 {
		n++
	}
	return end(all[:n])
}

// follow reads spans, and follows their names from each beginning: the link that ends furthest ends the archive.
func (t *term) follow(all, begin []listed) (furthest link, err error) {
	if len(begin) == 0 {
		return furthest, nil
	}
	links, err := t.fetch(all)
	if err != nil {
		return furthest, err
	}
	seen := make([]bool, len(links))
	for i := range begin {
		var tip format.Tip
		for found := true; found && !seen[i]; {
			seen[i] = true
			at := &links[i]
			switch {
			case at.err != nil:
				return furthest, at.err
			case at.further: // compared to its end now, before anything is put behind it
				if _, err := t.examine(format.SpanName(t.w.timeline, at.first), nil); err != nil {
					return furthest, err
				}
			}
			if tip.Last > 0 {
				if err := t.joins(format.SpanName(t.w.timeline, at.first), at.tip.Cluster, at.before, &tip, at.tip, at.state); err != nil {
					return furthest, err
				}
			}
			if tip = at.tip; tip.Last > furthest.tip.Last {
				furthest = *at
			}
			i, found = slices.BinarySearchFunc(links, tip.Last+1, func(l link, first uint64) int { return cmp.Compare(l.first, first) })
		}
	}
	return furthest, nil
}

// fetch reads spans and holds them against the log, some at a time. The error of one that is damaged is in its link: one beside the chain
// may be.
func (t *term) fetch(all []listed) ([]link, error) {
	var mu sync.Mutex
	var failed error // guarded by mu, as is what follows
	links, next, running, done := make([]link, len(all)), 0, min(flights, len(all)), make(chan struct{})
	work := func() {
		for {
			mu.Lock()
			i := next
			if i == len(all) || failed != nil {
				if running--; running == 0 {
					close(done)
				}
				mu.Unlock()
				return
			}
			next++
			mu.Unlock()
			l, err := t.link(all[i].first)
			mu.Lock()
			links[i] = l
			if failed == nil {
				failed = err
			}
			mu.Unlock()
		}
	}
	for range running {
		t.w.tasks.Go(work)
	}
	t.w.tasks.Wait(task.Forever, done) // each of them ends with the term
	return links, failed
}

func (t *term) link(first uint64) (link, error) {
	s, err := t.span(format.SpanName(t.w.timeline, first))
	var fault *format.Fault
	if errors.As(err, &fault) {
		return link{first: first, err: err}, nil
	}
	if err != nil {
		return link{}, err
	}
	applied := t.w.node.Status().Applied
	return link{first: first, before: s.Before, tip: s.Tip(), state: s.State, further: s.Last > applied}, t.compare(s, false)
}
