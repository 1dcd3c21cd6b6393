package executor

import (
	"bytes"
	"fmt"
	"math/big"
	"time"

	"github.com/holdfastdb/holdfast/core/store"
	sqlmachine "github.com/holdfastdb/holdfast/doors/sql/machine"
	"github.com/holdfastdb/holdfast/doors/sql/row"
	"github.com/holdfastdb/holdfast/doors/sql/wire"
)

// above sorts behind every key that begins with the key before it.
const above = 0xff

// read runs a Select. One that can find nothing opens no snapshot.
func (r *Run) read(p *Program, s *Shape) (out Outcome, ok bool, err error) {
	skip, most, ok := r.limits(s)
	if !ok {
		return out, false, nil
	}
	spans, ok := r.spans(p, s)
	if !ok {
		return out, false, nil
	}
	if s.locks && r.Ranges && !p.at.whole {
		return out, false, nil
	}
	a := &r.answer
	*a = answer{p: p, skip: skip, most: most}
	if p.folds != nil && p.group < 0 {
		a.sums.begin(p)
	}
	if p.order >= 0 {
		r.sorting = newSorting()
	}
	for i, at := range spans {
		if most == 0 || a.full() {
			break
		}
		if err := r.ended(i); err != nil {
			return a.out, true, err
		}
		switch {
		case s.locks:
			err = r.readLocked(a, at)
		case p.at.whole:
			err = r.point(a, at.from)
		default:
			err = r.scan(a, at)
		}
		if err != nil {
			return a.out, true, err
		}
	}
	a.begin(r)
	switch {
	case p.group >= 0:
		for i := range a.groups {
			a.groups[i].sums.send(r, p)
		}
		a.out.Found = int64(len(a.groups))
	case p.folds != nil:
		a.sums.send(r, p)
		a.out.Found = 1
	case p.order >= 0:
		out, err = r.sendSorted(p, s, a.out)
		return out, true, err
	}
	return a.out, true, nil
}

// answer is the result of a Select as it is made.
type answer struct {
	p          *Program
	s          *Shape // of a join
	skip, most int64  // most below 0: there is no LIMIT
	sums       sums
	groups     []group          // in the order in which the first row of each was found
	places     map[groupKey]int // of groups, once they are many
	begun      bool
	out        Outcome
}

// full reports whether the result has all rows that it may have.
func (a *answer) full() bool { return a.most >= 0 && a.out.Found >= a.most }

// begin sends what stands before the first row.
func (a *answer) begin(r *Run) {
	if !a.begun {
		r.To.Columns(a.p.Columns)
		a.out.Rows, a.begun = true, true
	}
}

// take takes a row, which was split.
func (a *answer) take(r *Run, value []byte) error {
	switch {
	case a.p.join != nil:
		return r.takeJoined(a)
	case a.p.group >= 0:
		return a.grouped(r)
	case a.p.folds != nil:
		return a.sums.add(r, a.p)
	case a.p.order >= 0:
		return r.keep(a.p, value)
	case a.skip > 0:
		a.skip--
	default:
		a.begin(r)
		r.send(a.p)
		a.out.Found++
		return r.To.Err()
	}
	return nil
}

// group are the sums of the rows that have one value.
type group struct {
	key  groupKey
	sums sums
}

// groupKey is a value of GROUP BY.
type groupKey struct {
	null bool
	n    uint64
}

// manyGroups is from how many groups on they are found by a map.
const manyGroups = 16

// grouped adds a row to its group.
func (a *answer) grouped(r *Run) error {
	k := groupKey{null: r.fields.Null(a.p.group)}
	if !k.null {
		k.n = r.fields.Uint(a.p.group) // an Int as it is stored: it is told apart, and that is all
	}
	if a.places != nil {
		if at, known := a.places[k]; known {
			return a.groups[at].sums.add(r, a.p)
		}
	} else {
		for i := len(a.groups) - 1; i >= 0; i-- { // the rows of a group mostly lie behind each other
			if a.groups[i].key == k {
				return a.groups[i].sums.add(r, a.p)
			}
		}
	}
	if err := r.Keep(groupBytes * (1 + len(a.p.selects))); err != nil {
		return err
	}
	a.groups = append(a.groups, group{key: k})
	if len(a.groups) == manyGroups {
		a.places = map[groupKey]int{}
		for i := range a.groups {
			a.places[a.groups[i].key] = i
		}
	} else if a.places != nil {
		a.places[k] = len(a.groups) - 1
	}
	g := &a.groups[len(a.groups)-1]
	g.sums.begin(a.p)
	return g.sums.add(r, a.p)
}

// groupBytes is about what a group, and each of its sums, takes in memory.
const groupBytes = 96

// split counts a row and finds its values.
func (r *Run) split(t *Table, value []byte) error {
	r.Reads++
	if err := t.Layout.Split(value, &r.fields); err != nil {
		return t.damaged(err)
	}
	return nil
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

// point takes the row of a key.
func (r *Run) point(a *answer, key []byte) error {
	if err := r.Open(); err != nil {
		return err
	}
	value, exists, err := r.Tx.Get(a.p.t.ID, 0, key)
	if err != nil || !exists {
		return err
	}
	if err := r.split(a.p.t, value); err != nil {
		return err
	}
	return a.take(r, value)
}

// checkEvery is how many rows are read between two looks whether the statement is to end.
const checkEvery = 64

// ended looks at each 64th of what a statement goes through whether it is to end.
func (r *Run) ended(i int) error {
	if i%checkEvery != checkEvery-1 {
		return nil
	}
	return r.Ctx.Err()
}

// scan takes the rows of a span.
func (r *Run) scan(a *answer, at span) error {
	if at.to != nil && bytes.Compare(at.from, at.to) >= 0 {
		return nil
	}
	if err := r.Open(); err != nil {
		return err
	}
	t, by := a.p.t, a.p.at.by
	it, err := r.Tx.ScanStill(t.ID, by.ID, at.from, at.to)
	if err != nil {
		return err
	}
	defer it.Close()
	for ok := first(it, a.p.back); ok && !a.full(); ok = next(it, a.p.back) {
		value, err := it.Value()
		if err != nil {
			return err
		}
		if by.ID != 0 {
			r.Entries++
			primary, err := row.PrimaryOf(it.Key()[sqlmachine.PrefixBytes:], value)
			if err != nil {
				return t.damaged(err)
			}
			exists := false
			if value, exists, err = r.Tx.Get(t.ID, 0, primary); err != nil {
				return err
			}
			if !exists {
				return t.damaged(fmt.Errorf("index %s has an entry without a row", by.Name))
			}
		}
		if err := r.split(t, value); err != nil {
			return err
		}
		if r.Reads%checkEvery == 0 {
			if err := r.Ctx.Err(); err != nil {
				return err
			}
		}
		if err := a.take(r, value); err != nil {
			return err
		}
	}
	return it.Error()
}

// readLocked locks the rows of a span and takes them.
func (r *Run) readLocked(a *answer, at span) error {
	most := int64(-1)
	if a.most >= 0 {
		most = a.most + a.skip - a.out.Found
	}
	return r.lockSpan(a.p, at, most, func(_, value []byte, _ int) error { return a.take(r, value) })
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
		r.sendValue(p.t, &r.fields, c)
	}
}

// sendValue sends a value of a row.
func (r *Run) sendValue(t *Table, f *row.Fields, c int) {
	if f.Null(c) {
		r.To.Null()
		return
	}
	switch t.Columns[c].Kind {
	case row.Int:
		r.To.Int(f.Int(c))
	case row.Uint:
		r.To.Uint(f.Uint(c))
	case row.Float:
		r.To.Float(f.Float(c))
	case row.Decimal:
		r.digits = f.AppendDecimal(r.digits[:0], c)
		r.To.Bytes(r.digits)
	case row.Moment:
		r.To.Moment(momentOf(f.Micros(c)))
	default:
		r.To.Bytes(f.Text(c))
	}
}

// sums are the sums and counts of a result.
type sums struct{ of []sum }

// sum is one of them. A sum that is too large for an int64 goes on in large.
type sum struct {
	n     int64
	u     uint64 // of MIN and MAX of a Uint column
	large *big.Int
	some  bool
	known map[uint64]struct{} // values of COUNT(DISTINCT)
}

func (s *sums) begin(p *Program) { s.of = make([]sum, len(p.selects)) }

// add adds a row.
func (s *sums) add(r *Run, p *Program) error {
	for i, c := range p.selects {
		x, f, t := &s.of[i], &r.fields, p.t
		if p.join != nil && p.join.sent[i] == 1 {
			f, t = &r.inner, p.join.tables[1]
		}
		if c >= 0 && f.Null(c) {
			continue
		}
		unsigned := c >= 0 && t.Columns[c].Kind == row.Uint
		switch p.folds[i] {
		case foldCount:
			x.n++
		case foldDistinct:
			n := f.Uint(c)
			if _, known := x.known[n]; !known {
				if err := r.Keep(distinctBytes); err != nil {
					return err
				}
				if x.known == nil {
					x.known = map[uint64]struct{}{}
				}
				x.known[n] = struct{}{}
			}
		case noFold: // of GROUP BY
			if x.u = f.Uint(c); !unsigned {
				x.n = f.Int(c)
			}
		case foldSum:
			switch {
			case t.Columns[c].Kind == row.Decimal:
				if n, ok := f.Scaled(c); ok {
					x.add(n)
				} else {
					x.addLarge(f.LargeScaled(c))
				}
			case !unsigned:
				x.add(f.Int(c))
			case f.Uint(c) < 1<<63:
				x.add(int64(f.Uint(c)))
			default:
				x.addLarge(new(big.Int).SetUint64(f.Uint(c)))
			}
		case foldMin, foldMax:
			if unsigned {
				if n := f.Uint(c); !x.some || n < x.u == (p.folds[i] == foldMin) {
					x.u = n
				}
			} else if n := f.Int(c); !x.some || n < x.n == (p.folds[i] == foldMin) {
				x.n = n
			}
		}
		x.some = true
	}
	return nil
}

// distinctBytes is about what a value of COUNT(DISTINCT) takes in memory.
const distinctBytes = 32

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
		x, t := &s.of[i], p.t
		if p.join != nil {
			t = p.join.tables[p.join.sent[i]]
		}
		switch {
		case p.folds[i] == foldCount:
			r.To.Int(x.n)
		case p.folds[i] == foldDistinct:
			r.To.Int(int64(len(x.known)))
		case !x.some:
			r.To.Null()
		case t.Columns[c].Kind == row.Decimal:
			n := x.large
			if n == nil {
				n = big.NewInt(x.n)
			}
			r.digits = t.Layout.AppendScaled(r.digits[:0], c, n)
			r.To.Bytes(r.digits)
		case p.folds[i] != foldSum && t.Columns[c].Kind == row.Uint:
			r.To.Uint(x.u)
		case p.folds[i] != foldSum:
			r.To.Int(x.n)
		case x.large != nil:
			r.To.Text(x.large.String())
		default:
			r.To.Digits(x.n)
		}
	}
}

// momentOf is a Moment as packets have it.
func momentOf(micros int64) wire.Moment {
	t := time.UnixMicro(micros).UTC()
	if micros == row.ZeroMicros {
		return wire.Moment{}
	}
	year, month, day := t.Date()
	hour, minute, second := t.Clock()
	return wire.Moment{Year: uint16(year), Month: byte(month), Day: uint32(day), Hour: byte(hour), Minute: byte(minute), Second: byte(second), Micro: uint32(t.Nanosecond() / 1000)}
}
