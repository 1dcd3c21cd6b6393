package executor

import (
	"bytes"
	"math/big"

	"github.com/holdfastdb/holdfast/core/store"
	"github.com/holdfastdb/holdfast/doors/sql/row"
)

// above sorts behind every key that begins with the key before it.
const above = 0xff

// read runs a Select. One that can find nothing opens no snapshot.
func (r *Run) read(p *Program, s *Shape) (out Outcome, ok bool, err error) {
	skip, most, ok := r.limits(s)
	if !ok {
		return out, false, nil
	}
	if s.equal != nil {
		if r.key, ok = p.t.keyOf(r.key[:0], s.equal, r.Params); !ok {
			return out, false, nil
		}
		out, err = r.point(p, skip, most)
		return out, true, err
	}
	from, to, ok := r.ends(p.t, s)
	if !ok {
		return out, false, nil
	}
	out, err = r.scan(p, s, from, to, skip, most)
	return out, true, err
}

// limits are OFFSET and LIMIT. most below 0: there is none.
func (r *Run) limits(s *Shape) (skip, most int64, ok bool) {
	most = -1
	for i, o := range []*operand{s.limit, s.offset} {
		if o == nil {
			continue
		}
		v, ok := o.of(r.Params)
		if !ok || v.Kind != row.Int || v.Int < 0 {
			return 0, 0, false
		}
		if i == 0 {
			most = v.Int
		} else {
			skip = v.Int
		}
	}
	return skip, most, true
}

// ends are the keys between which a range lies; a nil to: to the end.
func (r *Run) ends(t *Table, s *Shape) (from, to []byte, ok bool) {
	r.key = r.key[:0]
	if s.low != nil {
		if r.key, ok = t.keyOf(r.key, &s.low.operand, r.Params); !ok {
			return nil, nil, false
		}
		if s.low.open {
			r.key = append(r.key, above)
		}
	}
	n := len(r.key)
	if s.high != nil {
		if r.key, ok = t.keyOf(r.key, &s.high.operand, r.Params); !ok {
			return nil, nil, false
		}
		if !s.high.open {
			r.key = append(r.key, above)
		}
		to = r.key[n:]
	}
	return r.key[:n:n], to, true
}

// point sends the row of a key, or makes a sum of it.
func (r *Run) point(p *Program, skip, most int64) (out Outcome, err error) {
	var value []byte
	exists := false
	if most != 0 {
		if err := r.Open(); err != nil {
			return out, err
		}
		if value, exists, err = r.Tx.Get(p.t.ID, 0, r.key); err != nil {
			return out, err
		}
	}
	if exists {
		r.Reads++
		if err := p.t.Layout.Split(value, &r.fields); err != nil {
			return out, p.t.damaged(err)
		}
	}
	r.To.Columns(p.Columns)
	out.Rows = true
	if p.sums {
		var sums sums
		sums.begin(p)
		if exists {
			sums.add(p, &r.fields)
		}
		sums.send(r, p)
		out.Found = 1
		return out, nil
	}
	if exists && skip == 0 {
		r.send(p)
		out.Found = 1
	}
	return out, nil
}

// checkEvery is how many rows are read between two looks whether the statement is to end.
const checkEvery = 64

// scan sends the rows of a range, or makes sums of them.
func (r *Run) scan(p *Program, s *Shape, from, to []byte, skip, most int64) (out Outcome, err error) {
	var sums sums
	if p.sums {
		sums.begin(p)
	}
	sorts, begun := p.order >= 0, false
	begin := func() {
		if !begun {
			r.To.Columns(p.Columns)
			out.Rows, begun = true, true
		}
	}
	if sorts {
		r.sorting = newSorting()
	}
	if most != 0 && (to == nil || bytes.Compare(from, to) < 0) {
		if err := r.Open(); err != nil {
			return out, err
		}
		it, err := r.Tx.ScanStill(p.t.ID, 0, from, to)
		if err != nil {
			return out, err
		}
		defer it.Close()
		back := s.down && !sorts && s.order != ""
		for ok := first(it, back); ok && (most < 0 || out.Found < most); ok = next(it, back) {
			if r.Reads++; r.Reads%checkEvery == 0 {
				if err := r.Ctx.Err(); err != nil {
					return out, err
				}
			}
			value, err := it.Value()
			if err != nil {
				return out, err
			}
			if err := p.t.Layout.Split(value, &r.fields); err != nil {
				return out, p.t.damaged(err)
			}
			switch {
			case p.sums:
				sums.add(p, &r.fields)
			case sorts:
				if err := r.keep(p, value); err != nil {
					return out, err
				}
			case skip > 0:
				skip--
			default:
				begin()
				r.send(p)
				out.Found++
				if err := r.To.Err(); err != nil {
					return out, err
				}
			}
		}
		if err := it.Error(); err != nil {
			return out, err
		}
	}
	begin()
	switch {
	case p.sums:
		sums.send(r, p)
		out.Found = 1
	case sorts:
		return r.sendSorted(p, s, out)
	}
	return out, nil
}

func first(it store.Iter, back bool) bool {
	if back {
		return it.Last()
	}
	return it.First()
}

func next(it store.Iter, back bool) bool {
	if back {
		return it.Prev()
	}
	return it.Next()
}

// send sends the row that was split last.
func (r *Run) send(p *Program) {
	for _, c := range p.selects {
		if r.fields.Null(c) {
			r.To.Null()
			continue
		}
		switch p.t.Columns[c].Kind {
		case row.Int:
			r.To.Int(r.fields.Int(c))
		case row.Uint:
			r.To.Uint(r.fields.Uint(c))
		case row.Float:
			r.To.Float(r.fields.Float(c))
		default:
			r.To.Bytes(r.fields.Text(c))
		}
	}
}

// sums are the sums and counts of a result.
type sums struct{ of []sum }

// sum is one of them. A sum that is too large for an int64 goes on in large.
type sum struct {
	n     int64
	large *big.Int
	some  bool
}

func (s *sums) begin(p *Program) { s.of = make([]sum, len(p.selects)) }

// add adds a row.
func (s *sums) add(p *Program, f *row.Fields) {
	for i, c := range p.selects {
		x := &s.of[i]
		switch {
		case c < 0:
			x.n++
		case f.Null(c):
		case p.t.Columns[c].Kind == row.Uint:
			x.some = true
			if n := f.Uint(c); n < 1<<63 {
				x.add(int64(n))
			} else {
				x.addLarge(new(big.Int).SetUint64(n))
			}
		default:
			x.some = true
			x.add(f.Int(c))
		}
	}
}

func (x *sum) add(n int64) {
	if x.large == nil {
		if sum := x.n + n; (sum > x.n) == (n > 0) {
			x.n = sum
			return
		}
	}
	x.addLarge(big.NewInt(n))
}

func (x *sum) addLarge(n *big.Int) {
	if x.large == nil {
		x.large = big.NewInt(x.n)
	}
	x.large.Add(x.large, n)
}

// send sends the row of sums.
func (s *sums) send(r *Run, p *Program) {
	for i, c := range p.selects {
		x := &s.of[i]
		switch {
		case c < 0:
			r.To.Int(x.n)
		case !x.some:
			r.To.Null()
		case x.large != nil:
			r.To.Text(x.large.String())
		default:
			r.To.Digits(x.n)
		}
	}
}
