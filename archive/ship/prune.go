package ship

import (
	"context"

	"github.com/holdfastdb/holdfast/archive/format"
)

// prune removes the snapshots that no restore within KeepAge needs, as long as KeepCount remain. It also removes the log in front of the
// oldest kept snapshot. A snapshot's manifest goes first, so that a partly removed one is no snapshot. The next call removes the rest. A
// failure waits for the next snapshot.
func (t *term) prune() {
	if t.w.opt.KeepAge < 0 {
		return
	}
	if err := t.pruned(); err != nil && !t.fails(err) {
		t.w.opt.Logger.Warn("what is old was not removed from the archive; it is tried again after the next snapshot", "err", err)
	}
}

func (t *term) pruned() error {
	manifests, err := t.manifests()
	if err != nil {
		return err
	}
	keep := uint64(0) // the index of the oldest one that stays
	limit := t.w.opt.Wall().Add(-t.w.opt.KeepAge).UnixNano()
	for i := len(manifests) - max(t.w.opt.KeepCount, 1); i > 0 && keep == 0; i-- {
		m, err := t.manifest(manifests[i])
		if err != nil {
			return err
		}
		if m.index > 0 && m.wallNs <= limit {
			keep = m.index
		}
	}
	if keep == 0 {
		return nil
	}
	var names []string
	for _, index := range manifests {
		if index < keep {
			names = append(names, format.ManifestName(t.w.timeline, index))
		}
	}
	if err := t.remove(names); err != nil {
		return err
	}
	found, err := t.list(format.AllPiecesName(t.w.timeline), "")
	if err != nil {
		return err
	}
	names = nil
	for _, l := range found {
		if l.Name < format.PiecesName(t.w.timeline, keep) {
			names = append(names, l.Name)
		}
	}
	if err := t.remove(names); err != nil {
		return err
	}
	return t.removeLog(keep)
}

// leastEntry is the least that an entry takes in a span: term, type, length of its data, checksum.
const leastEntry = 7

// removeLog removes the spans that end before an index and are not its own. A span's size shows well enough where it ends. One that could
// go further stays until a later time, with those behind it, so that the rest of the log has no hole.
func (t *term) removeLog(keep uint64) error {
	var names []string
	err := t.steady().try(func(ctx context.Context) error {
		names = nil
		for l, err := range t.w.at().List(ctx, format.TimelineName(t.w.timeline), "") {
			if err != nil {
				return err
			}
			_, first, ok := format.ParseSpanName(l.Name)
			if !ok || first > keep {
				break
			}
			if most := uint64(max(l.Size-format.SpanHeadBytes-format.SpanEndBytes, 0)) / leastEntry; first+most > keep+1 {
				break
			}
			if names = append(names, l.Name); len(names)%pageSize == 0 {
				t.w.requests.add(1)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return t.remove(names)
}

// remove removes objects, a page of them at a time.
func (t *term) remove(names []string) error {
	for len(names) > 0 {
		n := min(len(names), pageSize)
		err := t.steady().try(func(ctx context.Context) error {
			t.w.requests.add(n - 1)
			return t.w.at().Delete(ctx, names[:n]...)
		})
		if err != nil {
			return err
		}
		names = names[n:]
	}
	return nil
}
