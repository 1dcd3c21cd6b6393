package machine

import (
	"slices"
	"sync"
	"sync/atomic"
)

// pastLists chooses the way of reads in the past, and keeps their changes for later reads. Such a read either gathers the changes since
// (changes.go) or looks for every key of its interval in history (pastscan.go). Passing over a row by revision costs a tenth of a
// microsecond, a key in history several.
//
// Safe for concurrent use; everything but kept is set once.
type pastLists struct {
	rowsPerKey, rowsAlways int64 // changes are gathered if there are at most so many rows a key of the interval, or so few in all
	keptRows               int   // for how many rows walked changes are kept for the reads that follow, the later pages of a list above all
	most                   int   // bytes of all that are kept, and of those that are being gathered

	kept atomic.Pointer[[]*changes] // one of few rows if there is such a one, then oldest first; immutable
	mu   sync.Mutex                 // held to replace kept
	// gathering is held by the one read that may gather up to most bytes; the others gather less, or do without.
	gathering sync.Mutex
}

const (
	keptLists = 4
	// othersShare is the part of most for reads that gather beside another one: one in so many.
	othersShare = 16
)

func (l *pastLists) setUp(most int) {
	l.rowsPerKey, l.rowsAlways, l.keptRows, l.most = 32, 256, 256, most
}

// reset forgets what is kept.
func (l *pastLists) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kept.Store(nil)
}

// all returns what is kept. Asked before a state is pinned, none of it is of a later one.
func (l *pastLists) all() []*changes {
	if kept := l.kept.Load(); kept != nil {
		return *kept
	}
	return nil
}

// keep stores c in the place of the list that it continues, and drops the oldest if there is too much. A list of few rows, which is cheap
// to walk again, takes the place of another such one or a free one. It is the first to be dropped.
func (l *pastLists) keep(c *changes) {
	if c.bytes > l.most {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var kept []*changes
	bytes := c.bytes
	for _, k := range l.all() {
		if k.after == c.after && c.covers(k.key, k.end) || c.few && k.few {
			continue
		}
		kept = append(kept, k)
		bytes += k.bytes
	}
	for len(kept) > 0 && (len(kept) >= keptLists || bytes > l.most) {
		if c.few {
			return
		}
		bytes -= kept[0].bytes
		kept = kept[1:]
	}
	if c.few {
		kept = slices.Insert(kept, 0, c)
	} else {
		kept = append(kept[:len(kept):len(kept)], c)
	}
	l.kept.Store(&kept)
}

// past walks [key, end) as it was at rev, an earlier revision than p's; no end means the one key. delta is by how much the number of
// keys then differs from that of now, if that is known. keys is about how many the interval has now.
func (p *pinned) past(key, end []byte, rev, keys int64) (sc scanner, delta int64, known bool, err error) {
	var c *changes
	if len(end) > 0 && p.lists != nil {
		if c, err = p.changes(key, end, rev, max(p.lists.rowsPerKey*keys, p.lists.rowsAlways)); err != nil {
			return nil, 0, false, err
		}
	}
	switch {
	case c == nil:
		sc, err = newPastScan(p.view, key, end, rev)
		return sc, 0, false, err
	case c.full:
		sc, err = newPastScan(p.view, key, end, rev)
		return sc, c.delta, true, err
	}
	changed, delta := c.part(key, end)
	sc, err = newSinceScan(p.view, key, end, changed)
	return sc, delta, true, err
}

// changes returns the changes since rev of an interval that covers [key, end), or of exactly that one if the lists are full. It returns nil
// if it would have to walk more than rows.
func (p *pinned) changes(key, end []byte, rev, rows int64) (*changes, error) {
	most := p.lists.most / othersShare
	if p.lists.gathering.TryLock() {
		defer p.lists.gathering.Unlock()
		most = p.lists.most
	}
	for _, old := range p.listed {
		if old.after != rev || old.upTo > p.rev || !old.covers(key, end) {
			continue
		}
		if old.full {
			most = 0 // it will not be otherwise
			continue
		}
		if p.rev-old.upTo > rows {
			continue
		}
		if p.rev == old.upTo {
			return old, nil
		}
		more, err := readChanges(p.view, old.key, old.end, old.upTo, p.rev, rows, most)
		if err != nil {
			return nil, err
		}
		if more == nil || more.full {
			continue
		}
		c := old.then(more)
		c.few = old.few && more.rows < p.lists.keptRows && len(c.keys) < p.lists.keptRows
		if old.few || more.rows >= p.lists.keptRows {
			p.lists.keep(c)
		}
		return c, nil
	}
	if p.rev-rev > rows {
		return nil, nil
	}
	c, err := readChanges(p.view, key, end, rev, p.rev, rows, most)
	if c != nil {
		if c.few = c.rows < p.lists.keptRows; !c.full || !c.few && most == p.lists.most {
			p.lists.keep(c)
		}
	}
	return c, err
}
