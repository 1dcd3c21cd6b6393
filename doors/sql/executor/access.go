package executor

import (
	"bytes"
	"slices"
	"strings"

	"github.com/holdfastdb/holdfast/doors/sql/row"
)

// access is how a program finds rows: by one index, whose first columns have values that the statement gives.
type access struct {
	by     *Index
	keys   []keyFrom
	ranged bool // the column behind keys is in a range
	whole  bool // keys are the whole primary key, so that each tuple is one row at most
	// open: rows may come in an order that the index decides, and no statement asked for. The planner must read by the same one.
	open bool
}

// keyFrom is where the value of a key's column comes from.
type keyFrom struct {
	part   *IndexPart
	equal  int // place in Shape.equal; negative: of the list
	member int // place in a tuple of the list
}

// find chooses the index that all conditions are about. false: there is none.
func (p *Program) find(s *Shape) bool {
	t := p.t
	if p.at.reads(t, &t.Rows, s) {
		return true
	}
	for i := range t.Indexes {
		if x := &t.Indexes[i]; x.Public && p.at.reads(t, x, s) {
			return true
		}
	}
	return false
}

// reads has the access be by an index, if its first columns are those of all conditions.
func (a *access) reads(t *Table, x *Index, s *Shape) bool {
	*a = access{by: x, open: true}
	want := len(s.equal)
	if s.in != nil {
		want += len(s.in.columns)
	}
	if len(x.Parts) < want {
		return false
	}
	for i := range x.Parts[:want] {
		part := &x.Parts[i]
		c := &t.Columns[part.Column]
		from := keyFrom{part: part, equal: slices.IndexFunc(s.equal, func(e compared) bool { return strings.EqualFold(e.column, c.Name) }), member: -1}
		if from.equal < 0 && s.in != nil {
			from.member = slices.IndexFunc(s.in.columns, func(name string) bool { return strings.EqualFold(name, c.Name) })
		}
		if from.equal < 0 && from.member < 0 || !part.finds(c) {
			return false
		}
		a.keys = append(a.keys, from)
	}
	if s.ranged == "" {
		a.whole = x.ID == 0 && want == len(x.Parts)
		a.open = !a.whole || s.in != nil
		return want > 0
	}
	if want == len(x.Parts) {
		return false
	}
	next := &x.Parts[want]
	c := &t.Columns[next.Column]
	a.ranged = strings.EqualFold(c.Name, s.ranged)
	return a.ranged && (c.Kind == row.Int || c.Kind == row.Uint) && next.finds(c)
}

// finds reports whether a value stands for one key of the part.
func (p *IndexPart) finds(c *Column) bool {
	return p.Prefix == 0 && p.Part.Takes(c.Kind) && (c.Kind == row.Int || c.Kind == row.Uint || c.Kind == row.Text && c.Order != nil)
}

// bindOrder decides how rows come in the order that the statement asks for.
func (p *Program) bindOrder(s *Shape) bool {
	t, a := p.t, &p.at
	if a.whole && s.in == nil || len(s.orders) == 0 {
		return true
	}
	equal := func(c int) bool {
		return slices.ContainsFunc(a.keys, func(k keyFrom) bool { return k.equal >= 0 && k.part.Column == c })
	}
	var columns []int
	for _, o := range s.orders {
		c := t.column(o.column)
		if c < 0 {
			return false
		}
		columns = append(columns, c)
	}
	// The index has the rows in this order already: behind the columns that are equal come those of ORDER BY, all forwards or all backwards.
	from := len(a.keys)
	if s.in != nil && len(s.in.columns) == 1 && a.keys[from-1].member == 0 {
		from-- // the tuples are read in the order of their keys
	} else if s.in != nil {
		from = len(a.by.Parts)
	}
	lies := len(columns) <= len(a.by.Parts)-from
	for i := 0; lies && i < len(columns); i++ {
		part := &a.by.Parts[from+i]
		lies = part.Column == columns[i] && part.Prefix == 0 && sorts(&t.Columns[part.Column]) && s.orders[i].down == s.orders[0].down
	}
	// No two rows are equal in it, where the columns have the primary key.
	sole := len(t.Rows.Parts) > 0
	for _, part := range t.Rows.Parts {
		sole = sole && (equal(part.Column) || slices.Contains(columns, part.Column))
	}
	if sole {
		a.open = false
	}
	switch {
	case lies && sole:
		p.back = s.orders[0].down
		return true
	case lies && !s.orders[0].down && !s.distinct && s.limit == nil:
		return true
	}
	if len(columns) != 1 || s.limit != nil { // which of equal rows are within a limit is the engine's to say
		return false
	}
	p.order = columns[0]
	return sorts(&t.Columns[p.order])
}

// sorts reports whether the executor sorts by a column.
func sorts(c *Column) bool {
	return c.Kind == row.Int || c.Kind == row.Uint || c.Kind == row.Text && c.Order != nil
}

// span is where rows lie: from a key to before another; a nil to: to the end.
type span struct{ from, to []byte }

// spans finds where the rows of an execution lie, in the order of the keys. ok false: a value is none that stands for a key.
func (r *Run) spans(p *Program, s *Shape) (all []span, ok bool) {
	r.key, r.found = r.key[:0], r.found[:0]
	tuples := 1
	if s.in != nil {
		tuples = len(s.in.tuples)
	}
	for n := range tuples {
		if !r.spanOf(p, s, n) {
			return nil, false
		}
	}
	if tuples > 1 {
		slices.SortFunc(r.found, func(a, b span) int { return bytes.Compare(a.from, b.from) })
		r.found = slices.CompactFunc(r.found, func(a, b span) bool { return bytes.Equal(a.from, b.from) })
		if p.back {
			slices.Reverse(r.found)
		}
	}
	return r.found, true
}

// spanOf finds where the rows of a tuple lie.
func (r *Run) spanOf(p *Program, s *Shape, tuple int) (ok bool) {
	start := len(r.key)
	for i := range p.at.keys {
		k := &p.at.keys[i]
		o := (*operand)(nil)
		if k.equal >= 0 {
			o = &s.equal[k.equal].to
		} else {
			o = &s.in.tuples[tuple][k.member]
		}
		if r.key, ok = k.part.append(r.key, &p.t.Columns[k.part.Column], o, r); !ok {
			return false
		}
	}
	prefix := len(r.key)
	if p.at.whole {
		r.found = append(r.found, span{from: r.key[start:prefix:prefix]})
		return true
	}
	if p.at.ranged {
		next := &p.at.by.Parts[len(p.at.keys)]
		c := &p.t.Columns[next.Column]
		if s.low != nil {
			if r.key, ok = next.append(r.key, c, &s.low.operand, r); !ok {
				return false
			}
			if s.low.open {
				r.key = append(r.key, above)
			}
		} else if s.high != nil && c.Nullable { // NULL is below everything, and in no range
			r.key = append(next.Part.AppendValue(r.key, row.Value{Kind: row.Null}), above)
		}
		middle := len(r.key)
		r.key = append(r.key, r.key[start:prefix]...)
		switch {
		case s.high == nil:
			r.key = append(r.key, above)
		default:
			if r.key, ok = next.append(r.key, c, &s.high.operand, r); !ok {
				return false
			}
			if !s.high.open {
				r.key = append(r.key, above)
			}
		}
		r.found = append(r.found, span{r.key[start:middle:middle], r.key[middle:len(r.key):len(r.key)]})
		return true
	}
	r.key = append(append(r.key, r.key[start:prefix]...), above)
	r.found = append(r.found, span{r.key[start:prefix:prefix], r.key[prefix:len(r.key):len(r.key)]})
	return true
}

// append appends the key of a value. ok false: it is of another kind than the column, or one that the column cannot have.
func (p *IndexPart) append(dst []byte, c *Column, o *operand, r *Run) (key []byte, ok bool) {
	v, ok := o.of(r.Params)
	if !ok {
		return dst, false
	}
	if c.Kind == row.Text {
		if v.Kind != row.Text {
			return dst, false
		}
		if _, ok = c.assign(v); !ok {
			return dst, false
		}
	} else if v.Kind != row.Int && v.Kind != row.Uint {
		return dst, false
	}
	return p.Part.AppendValue(dst, v), true
}
