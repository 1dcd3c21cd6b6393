package executor

import (
	"cmp"
	"slices"
	"sync"

	"github.com/holdfastdb/holdfast/doors/sql/row"
)

// item is a row that is sorted. Its place in the range decides between equal ones.
type item struct {
	first    uint64 // sorts as the value does: an integer, or the beginning of a text
	from, to int    // its row, in the arena
	text     int    // where a Text begins there
	size     int
	null     bool
}

// itemBytes is about what a row that is sorted takes beside its value.
const itemBytes = 64

// sorting are the rows of a range that are sorted before they are sent.
type sorting struct {
	arena []byte
	items []item
	order []int32 // places of items
	whole bool    // texts are compared as a whole: the beginning of one is no number
}

// sortings are those that no execution uses at present.
var sortings = sync.Pool{New: func() any { return &sorting{} }}

// newSorting returns one without rows.
func newSorting() *sorting {
	s := sortings.Get().(*sorting)
	s.arena, s.items, s.order, s.whole = s.arena[:0], s.items[:0], s.order[:0], false
	return s
}

func (s *sorting) text(x *item) []byte { return s.arena[x.text : x.text+x.size] }

// keep keeps the row that was split last.
func (r *Run) keep(p *Program, value []byte) error {
	if err := r.Keep(itemBytes + len(value)); err != nil {
		return err
	}
	s := r.sorting
	x := item{null: r.fields.Null(p.order), from: len(s.arena)}
	s.arena = append(s.arena, value...)
	x.to = len(s.arena)
	if !x.null {
		c := &p.t.Columns[p.order]
		switch c.Kind {
		case row.Int:
			x.first = uint64(r.fields.Int(p.order)) ^ 1<<63
		case row.Uint:
			x.first = r.fields.Uint(p.order)
		default:
			at, size, ok := r.fields.Spot(p.order)
			if x.text, x.size = x.from+at, size; !ok {
				x.text = len(s.arena)
				s.arena = append(s.arena, r.fields.Text(p.order)...)
			}
			x.first, ok = c.Order.Prefix(s.text(&x))
			s.whole = s.whole || !ok
		}
	}
	s.order = append(s.order, int32(len(s.items)))
	s.items = append(s.items, x)
	return nil
}

// compare compares the values of two rows.
func (s *sorting) compare(a, b *item, c *Column) int {
	switch {
	case a.null || b.null:
		return cmp.Compare(boolean(b.null), boolean(a.null)) // NULL comes first
	case c.Kind != row.Text:
		return cmp.Compare(a.first, b.first)
	case !s.whole && a.first != b.first:
		return cmp.Compare(a.first, b.first)
	}
	return c.Order.Compare(s.text(a), s.text(b))
}

// sendSorted sends what was kept.
func (r *Run) sendSorted(p *Program, shape *Shape, out Outcome) (Outcome, error) {
	if err := r.Ctx.Err(); err != nil {
		return out, err
	}
	s, c := r.sorting, &p.t.Columns[p.order]
	slices.SortFunc(s.order, func(a, b int32) int {
		n := s.compare(&s.items[a], &s.items[b], c)
		if shape.orders[0].down {
			n = -n
		}
		if n == 0 {
			n = cmp.Compare(a, b)
		}
		return n
	})
	var before *item
	for _, i := range s.order {
		x := &s.items[i]
		if shape.distinct && before != nil && s.compare(before, x, c) == 0 {
			continue
		}
		before = x
		if err := p.t.Layout.Split(s.arena[x.from:x.to], &r.fields); err != nil {
			return out, p.t.damaged(err)
		}
		r.send(p)
		out.Found++
		if err := r.To.Err(); err != nil {
			return out, err
		}
	}
	return out, nil
}

func boolean(b bool) int {
	if b {
		return 1
	}
	return 0
}
