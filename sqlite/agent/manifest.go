package agent

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/holdfastdb/holdfast/sqlite/replica"
)

// manifestMost is how old the manifest gets while groups are made without a pause.
const manifestMost = time.Minute

// manifest writes the manifest when there is something new to say, and removes what is replaced.
func (d *database) manifest(now time.Time) {
	if !d.stale || d.mending || d.files == nil || d.stored.Empty() || d.stored.Fence {
		return
	}
	d.mu.Lock()
	ending := !d.ending.IsZero()
	d.mu.Unlock()
	if !ending && now.Sub(d.changed) < d.agent.restful() && now.Sub(d.tidy) < manifestMost {
		return
	}
	keep, gone := d.sort(now)
	m := &replica.Manifest{Owner: d.owner, Epoch: d.epoch, Head: d.stored, Files: keep}
	d.mending, d.stale, d.tidy = true, false, now
	d.jobs++
	times := d.times
	d.async(func(ctx context.Context) func() {
		err := d.put(ctx, "the manifest", 0, func(ctx context.Context) error {
			// Files that no manifest named are known from a list: their headers are read once.
			if err := d.target.Replica.Fill(ctx, m.Files); err != nil {
				return err
			}
			return d.target.Replica.PutManifest(ctx, m)
		})
		if err == nil && len(gone) > 0 {
			if err := d.once(ctx, 0, func(ctx context.Context) error { return d.target.Replica.Remove(ctx, gone...) }); err != nil {
				d.log.Warn("remove files that others replace", "err", err) // the next time they are orphans, and removed as such
			}
		}
		return func() {
			d.jobs--
			if times != d.times {
				return
			}
			d.mending = false
			switch {
			case errors.Is(err, replica.ErrFenced):
				d.fenced()
			case errors.Is(err, replica.ErrOutdated):
				d.fail(err)
			case isSwapped(err):
				d.swapped(err)
			case err != nil:
				d.stale = true
			default:
				d.remember(m.Files, gone)
			}
		}
	})
}

// sort divides the files that are known into those that a restore may need and those that others replace and that are old enough.
func (d *database) sort(now time.Time) (keep, gone []replica.File) {
	old := func(f replica.File, after time.Duration) bool { return !f.Time.IsZero() && now.Sub(f.Time) > after }
	// The oldest snapshot that is kept is the newest of those past their time: every state within the retention is made from it.
	var base replica.TXID
	for _, f := range d.known {
		if f.Snapshot() && old(f, d.agent.cfg.Retention) {
			base = max(base, f.Max)
		}
	}
	// Nothing at or before base is read any more but the files that have the whole database there.
	passed := func(f replica.File) bool { return f.Max < base || f.Max == base && !f.Snapshot() }
	// A group gives way to a file of level 1, which ends soon after it. A file of a higher level or a snapshot may end much later. The
	// states in between would be lost where a file of level 1 was never made. All groups of such a file go together: with some of them the
	// states between would be listed and could not be made.
	replaced := func(f replica.File) bool {
		return slices.ContainsFunc(d.known, func(g replica.File) bool {
			return g.Level == 1 && g.Min <= f.Min && g.Max >= f.Max && old(g, d.agent.cfg.L0Retention)
		})
	}
	for _, f := range d.known {
		last := f.Level == 0 && f.Max == d.stored.TXID
		switch {
		case f.Fence || last:
			keep = append(keep, f)
		case passed(f) && old(f, d.agent.cfg.Retention):
			gone = append(gone, f)
		case f.Level == 0 && replaced(f) && old(f, d.agent.cfg.L0Retention):
			gone = append(gone, f)
		default:
			keep = append(keep, f)
		}
	}
	slices.SortFunc(keep, replica.ByPlace)
	return keep, gone
}

// remember takes over what was read of files, and forgets those that were removed.
func (d *database) remember(read, gone []replica.File) {
	type name struct {
		level    int
		min, max replica.TXID
	}
	filled := make(map[name]replica.File, len(read))
	for _, f := range read {
		filled[name{f.Level, f.Min, f.Max}] = f
	}
	d.known = slices.DeleteFunc(d.known, func(f replica.File) bool { return slices.Contains(gone, f) })
	for i, f := range d.known {
		if g, ok := filled[name{f.Level, f.Min, f.Max}]; ok {
			d.known[i] = g
		}
	}
}
