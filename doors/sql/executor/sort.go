package executor

import (
	"cmp"
	"slices"

	"github.com/holdfastdb/holdfast/doors/sql/row"
)

// item is a row that is sorted. Its place in the range decides between equal ones.
type item struct {
	place    int
	null     bool
	n        int64  // of an Int
	u        uint64 // of a Uint
	from, to int    // its value, in the arena
	text     int    // where a Text begins there
	size     int
}

// itemBytes is about what a row that is sorted takes beside its value.
const itemBytes = 96

// keep keeps the row that was split last.
func (r *Run) keep(p *Program, value []byte) error {
	if err := r.Keep(itemBytes + len(value)); err != nil {
		return err
	}
	x := item{place: len(r.items), null: r.fields.Null(p.order), from: len(r.arena)}
	r.arena = append(r.arena, value...)
	x.to = len(r.arena)
	if !x.null {
		switch p.t.Columns[p.order].Kind {
		case row.Int:
			x.n = r.fields.Int(p.order)
		case row.Uint:
			x.u = r.fields.Uint(p.order)
		default:
			at, size := r.fields.Place(p.order)
			x.text, x.size = x.from+at, size
		}
	}
	r.items = append(r.items, x)
	return nil
}

func (r *Run) text(x *item) []byte { return r.arena[x.text : x.text+x.size] }

// sendSorted sends what was kept.
func (r *Run) sendSorted(p *Program, s *Shape, out Outcome) (Outcome, error) {
	if err := r.Ctx.Err(); err != nil {
		return out, err
	}
	c := &p.t.Columns[p.order]
	compare := func(a, b *item) int {
		switch {
		case a.null || b.null:
			return cmp.Compare(boolean(b.null), boolean(a.null)) // NULL comes first
		case c.Kind == row.Int:
			return cmp.Compare(a.n, b.n)
		case c.Kind == row.Uint:
			return cmp.Compare(a.u, b.u)
		}
		return c.Order.Compare(r.text(a), r.text(b))
	}
	order := make([]*item, len(r.items))
	for i := range order {
		order[i] = &r.items[i]
	}
	slices.SortFunc(order, func(a, b *item) int {
		n := compare(a, b)
		if s.down {
			n = -n
		}
		if n == 0 {
			n = cmp.Compare(a.place, b.place)
		}
		return n
	})
	var before *item
	for _, x := range order {
		if s.distinct && before != nil && compare(before, x) == 0 {
			continue
		}
		before = x
		if err := p.t.Layout.Split(r.arena[x.from:x.to], &r.fields); err != nil {
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
