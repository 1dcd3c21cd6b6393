package replica

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/holdfastdb/holdfast/objstore"
)

// Chain is a replica's content at a moment.
type Chain struct {
	Head  Head
	Epoch uint64 // takeovers so far, from 1; 0 of an empty replica
	// Manifest is the store's manifest; nil: none, or none that is whole, and then Damage says why.
	Manifest *Manifest
	Damage   error
	// Files is every file that a restore may need: the manifest's and those of level 0 behind it, or without one all that there are. By
	// level, then by Min. Files outside the manifest have no checksums and no time before Fill.
	Files []File
	// Orphans are files of level 0 that were seen and are not part of the chain, and never will be. Ahead lie behind the name at which the
	// chain can go on: they were in flight when their owner died, and were never acknowledged.
	Orphans, Ahead []File
}

// Missing is the file with which the chain can go on.
func (c *Chain) Missing() (f File) {
	f.Min, f.Max = c.Head.Next()
	return f
}

// Read finds the end of the chain: by the manifest and the list behind its head, or without one by listing everything. If the last file is
// damaged, there is a *Fault and the chain, whose head is then a TXID and no more.
//
// It may be called while the owner works. Between the manifest and the list the owner may write the next manifest and remove the files it
// drops. The gap this leaves is no end of the chain. So at a gap, or a missing link between files, the manifest is read once more. If it
// has changed, everything is read again.
func (r *Replica) Read(ctx context.Context) (*Chain, error) {
	for {
		c, version, err := r.read(ctx)
		var fault *Fault
		if err != nil && !errors.As(err, &fault) {
			return nil, err
		}
		if len(c.Ahead) > 0 || err != nil {
			if _, e := r.manifest(ctx); e != nil && !errors.Is(e, ErrBadManifest) {
				return nil, e
			}
			if r.known() != version {
				continue
			}
		}
		slices.SortFunc(c.Files, ByPlace)
		r.setEmpty(c.Head.Empty())
		return c, err
	}
}

// read is Read without the second look. version is the manifest's that it began with.
func (r *Replica) read(ctx context.Context) (c *Chain, version string, err error) {
	c = &Chain{}
	m, err := r.manifest(ctx)
	switch {
	case errors.Is(err, ErrBadManifest):
		c.Damage = err
	case err != nil:
		return nil, "", err
	}
	version = r.known()
	if c.Manifest = m; m != nil {
		c.Head, c.Epoch, c.Files = m.Head, m.Epoch, slices.Clone(m.Files)
		return c, version, r.follow(ctx, c)
	}
	return c, version, r.survey(ctx, c)
}

// known is the manifest's version as it was last seen.
func (r *Replica) known() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.version
}

// Moved reads the manifest once more, and reports whether it has changed since the last read. Then the owner has advanced, and may have
// removed files that an earlier chain names.
func (r *Replica) Moved(ctx context.Context) (bool, error) {
	was := r.known()
	if _, err := r.manifest(ctx); err != nil && !errors.Is(err, ErrBadManifest) {
		return false, err
	}
	return r.known() != was, nil
}

// manifest reads it, nil if there is none, and remembers its version.
func (r *Replica) manifest(ctx context.Context) (*Manifest, error) {
	b, version, err := r.store.GetVersion(ctx, ManifestName)
	if err != nil && !errors.Is(err, objstore.ErrAbsent) {
		return nil, fmt.Errorf("read %s: %w", ManifestName, err)
	}
	var m *Manifest
	var damage error
	if err == nil {
		m, damage = DecodeManifest(b)
	}
	r.mu.Lock()
	r.version, r.seen, r.seenOwner, r.seenEpoch = version, true, 0, 0
	if m != nil {
		r.seenOwner, r.seenEpoch = m.Owner, m.Epoch
	}
	r.mu.Unlock()
	if damage != nil {
		return nil, fmt.Errorf("%s: %w", ManifestName, damage)
	}
	return m, nil
}

// list yields the files of a level behind an object name, in the order of names.
func (r *Replica) list(ctx context.Context, level int, after string, each func(f File) (more bool)) error {
	for l, err := range r.store.List(ctx, r.layout.folder(level), after) {
		if err != nil {
			return fmt.Errorf("list level %d: %w", level, err)
		}
		if f, ok := r.layout.Parse(l.Name); ok {
			f.Size = l.Size
			f.Fence = level == 0 && l.Size == FenceSize
			if !each(f) {
				return nil
			}
		}
	}
	return nil
}

// link is a file of level 0 that comes behind the head at, which it moves on: one that counts, or not. A list has it in the order of names,
// so behind a name that comes after the wanted one that one does not come.
func (c *Chain) link(at *place, f File) {
	min, max := next(at.id, at.fence)
	switch {
	case f.Min == min && f.Max == max:
		c.Files = append(c.Files, f)
		if at.id, at.fence, at.last = f.Max, f.Fence, f; f.Fence {
			c.Epoch++
		}
	case f.Max < min || f.Min <= max && max != min: // before the chain's end, or in the range that the one behind a fence passes over
		c.Orphans = append(c.Orphans, f)
	default:
		c.Ahead = append(c.Ahead, f)
	}
}

// place is a position of the chain while it is followed.
type place struct {
	id    TXID
	fence bool
	last  File // Min 0: none was met yet
}

// follow goes on from the chain's head along level 0.
func (r *Replica) follow(ctx context.Context, c *Chain) error {
	at := place{id: c.Head.TXID, fence: c.Head.Fence}
	// The name without its end sorts before all that begin at the next TXID.
	after := r.layout.folder(0) + "/" + (at.id + 1).String()
	if err := r.list(ctx, 0, after, func(f File) bool { c.link(&at, f); return true }); err != nil {
		return err
	}
	return r.reach(ctx, c, at)
}

// Objects yields every object below the replica's prefix, also those that are none of its files.
func (r *Replica) Objects(ctx context.Context) iter.Seq2[objstore.Listed, error] {
	return r.store.List(ctx, "", "")
}

// reach reads what the head needs to know of the last file of the chain.
func (r *Replica) reach(ctx context.Context, c *Chain, at place) error {
	if at.last.Min == 0 {
		return nil
	}
	c.Head = Head{TXID: at.id, Fence: at.fence}
	h, t, err := r.Stat(ctx, at.last)
	if err != nil {
		return err
	}
	c.Head = headOf(h, t.PostApplyChecksum, at.fence)
	return nil
}

// survey finds everything by listing. Groups of level 0 that a higher level covers may be gone; fences are not.
func (r *Replica) survey(ctx context.Context, c *Chain) error {
	var covered File // the one of a higher level that reaches furthest
	for level := 1; level < levels; level++ {
		if err := r.list(ctx, level, "", func(f File) bool {
			if c.Files = append(c.Files, f); f.Max > covered.Max {
				covered = f
			}
			return true
		}); err != nil {
			return err
		}
	}
	at := place{}
	c.Epoch = 1
	if err := r.list(ctx, 0, "", func(f File) bool {
		for at.id < covered.Max { // over what was removed
			min, max := next(at.id, at.fence)
			switch {
			case f.Min <= max:
			case at.fence: // the one behind a fence has one size
				at = place{id: max}
				continue
			case f.Min > min:
				at = place{id: f.Min - 1}
				if covered.Max < at.id {
					at.id = covered.Max
				}
				continue
			}
			break
		}
		c.link(&at, f)
		return true
	}); err != nil {
		return err
	}
	switch at.id = max(at.id, covered.Max); {
	case at.id == 0:
		c.Epoch = 0
		return nil
	case at.last.Max == at.id:
	case covered.Max == at.id: // the chain has no file of level 0 at its end
		at.last, at.fence = covered, false
	default:
		c.Head = Head{TXID: at.id}
		return &Fault{Name: r.Name(at.last), Reason: fmt.Sprintf("nothing that is there goes from it to %s", at.id), Gap: true}
	}
	return r.reach(ctx, c, at)
}

// fillers is how many files are read at a time.
const fillers = 8

// Fill reads the checksums and the times of those files that have none, a few at a time, by two small requests each.
func (r *Replica) Fill(ctx context.Context, files []File) error {
	return r.fill(ctx, files, func(_ int, err error) error { return err })
}

// Whole is Fill for files of which some may be damaged or gone. It returns those that are not, filled, and of each of the others the fault.
func (r *Replica) Whole(ctx context.Context, files []File) (whole []File, faults []*Fault, err error) {
	whole = slices.Clone(files)
	var mu sync.Mutex
	bad := map[int]*Fault{} // guarded by mu
	err = r.fill(ctx, whole, func(i int, err error) error {
		var fault *Fault
		if errors.Is(err, objstore.ErrAbsent) {
			fault = &Fault{Name: r.Name(whole[i]), Reason: "it is not there", Absent: true}
		} else if !errors.As(err, &fault) {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		bad[i] = fault
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	left := whole[:0]
	for i, f := range whole {
		if fault := bad[i]; fault != nil {
			faults = append(faults, fault)
		} else {
			left = append(left, f)
		}
	}
	return left, faults, nil
}

// fill is Fill; judge is called with the place of an unreadable file and its error, from several goroutines. An error from judge ends the
// call.
func (r *Replica) fill(ctx context.Context, files []File, judge func(i int, err error) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wait sync.WaitGroup
	slots := make(chan struct{}, fillers)
	for i := range files {
		if !files[i].Time.IsZero() {
			continue
		}
		slots <- struct{}{}
		one := func() {
			defer func() { <-slots }()
			h, t, err := r.Stat(ctx, files[i])
			if err != nil {
				if err = judge(i, err); err != nil {
					cancel(err) // the first is returned
				}
				return
			}
			files[i].Pre, files[i].Post, files[i].Time = h.PreApplyChecksum, t.PostApplyChecksum, time.UnixMilli(h.Timestamp).UTC()
		}
		if r.serial {
			one()
			continue
		}
		wait.Go(one)
	}
	wait.Wait()
	return context.Cause(ctx)
}
