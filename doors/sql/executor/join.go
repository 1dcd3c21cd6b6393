package executor

import (
	"slices"
	"strings"

	"github.com/dolthub/vitess/go/vt/sqlparser"

	"github.com/holdfastdb/holdfast/doors/sql/row"
)

// joining is what a SELECT of two tables has beside that of one. Its first table is the Shape's.
type joining struct {
	database, table string
	terms           []term
}

// term is a condition of a join: a column is compared with a value, or is equal to another column.
type term struct {
	column named
	op     string
	to     operand
	other  named // "": it is to
}

// named is a column as the client names it.
type named struct{ table, column string }

// ofJoin takes a SELECT of two tables by conditions that all hold.
func (s *Shape) ofJoin(a *sqlparser.Select) bool {
	second := &Shape{}
	if len(a.From) != 2 || !second.table(a.From[1]) || strings.EqualFold(second.Table, s.Table) || s.locks || a.QueryOpts.Distinct || len(a.GroupBy) > 0 ||
		len(a.OrderBy) > 0 || a.Limit != nil {
		return false
	}
	s.with = &joining{database: second.Database, table: second.Table}
	if !s.terms(a.Where.Expr) {
		return false
	}
	folds := 0
	for _, e := range a.SelectExprs {
		e, ok := e.(*sqlparser.AliasedExpr)
		if !ok {
			return false
		}
		x, ok := s.expression(e.Expr)
		if !ok {
			return false
		}
		if x.fold != noFold {
			folds++
		}
		if x.name = e.As.String(); x.name == "" {
			x.name = e.InputExpression
		}
		s.selects = append(s.selects, x)
	}
	return folds == 0 || folds == len(s.selects)
}

// terms takes the conditions of a join.
func (s *Shape) terms(e sqlparser.Expr) bool {
	switch a := e.(type) {
	case *sqlparser.ParenExpr:
		return s.terms(a.Expr)
	case *sqlparser.AndExpr:
		return s.terms(a.Left) && s.terms(a.Right)
	case *sqlparser.ComparisonExpr:
		x := term{op: a.Operator}
		var ok bool
		if x.column, ok = s.named(a.Left); !ok || a.Escape != nil {
			return false
		}
		switch a.Operator {
		case sqlparser.EqualStr:
			x.other, ok = s.named(a.Right)
		case sqlparser.LessThanStr, sqlparser.LessEqualStr, sqlparser.GreaterThanStr, sqlparser.GreaterEqualStr:
			ok = false
		default:
			return false
		}
		if !ok {
			o := sumOf(a.Right)
			if o == nil {
				return false
			}
			x.to = *o
		}
		s.with.terms = append(s.with.terms, x)
		return true
	}
	return false
}

func (s *Shape) named(e sqlparser.Expr) (n named, ok bool) {
	if n.column, ok = s.name(e); ok {
		n.table = e.(*sqlparser.ColName).Qualifier.Name.String()
	}
	return n, ok
}

// words writes what statements that bind alike have in common.
func (j *joining) words(word func(string)) {
	word(j.database)
	word(j.table)
	for i := range j.terms {
		x := &j.terms[i]
		for _, w := range []string{x.column.table, x.column.column, x.op, x.other.table, x.other.column} {
			word(w)
		}
	}
}

// Second is the second table of a statement, as it names it. ok false: it has one.
func (s *Shape) Second() (database, table string, ok bool) {
	if s.with == nil {
		return "", "", false
	}
	return s.with.database, s.with.table, true
}

// join is a program of two tables: for each row of the outer one, which the values of the statement find, the row of the inner one whose primary key it says.
type join struct {
	tables  [2]*Table // the outer one, and the inner one
	key     []joinKey // of the inner row
	filters [2][]filter
	sent    []int // by place of Program.selects: whose column it is
	equal   []int // terms that are the Shape.equal of the outer table
	low     int   // terms that bound its range; -1: none
	high    int
}

// joinKey is where the value of a column of the inner key comes from.
type joinKey struct {
	part   *IndexPart
	term   int // negative: from the outer row
	column int // of the outer row
}

// filter is a condition on rows that were found.
type filter struct {
	column, term int
}

// bindJoin binds a statement to its two tables. Nil: it is left to the engine.
func bindJoin(t, with *Table, s *Shape) *Program {
	for _, tables := range [][2]*Table{{t, with}, {with, t}} {
		j := &join{tables: tables, low: -1, high: -1}
		p := &Program{t: tables[0], order: -1, group: -1, join: j}
		if j.bind(p, s, [2]string{nameIn(s, tables[0], t), nameIn(s, tables[1], t)}) {
			return p
		}
	}
	return nil
}

// nameIn is the name of a table in the statement.
func nameIn(s *Shape, t, first *Table) string {
	if t == first {
		return s.Table
	}
	return s.with.table
}

// column finds a column that a client names: whose table's it is, and its place. false: there is none, or both have one.
func (j *join) column(n named, names [2]string) (side, column int, ok bool) {
	side = -1
	for i, t := range j.tables {
		if n.table != "" && !strings.EqualFold(n.table, names[i]) {
			continue
		}
		if c := t.column(n.column); c >= 0 {
			if side >= 0 {
				return 0, 0, false
			}
			side, column = i, c
		}
	}
	return side, column, side >= 0
}

func (j *join) bind(p *Program, s *Shape, names [2]string) bool {
	outer, inner := j.tables[0], j.tables[1]
	terms := s.with.terms
	used := make([]bool, len(terms))
	// find returns a condition on a column that was not used yet.
	find := func(side, column int, ops ...string) int {
		for i := range terms {
			at, c, ok := j.column(terms[i].column, names)
			if ok && !used[i] && terms[i].other.column == "" && at == side && c == column && slices.Contains(ops, terms[i].op) {
				used[i] = true
				return i
			}
		}
		return -1
	}
	integer := func(t *Table, c int) bool { return t.Columns[c].Kind == row.Int || t.Columns[c].Kind == row.Uint }
	p.at = access{by: &outer.Rows}
	for i := range outer.Rows.Parts {
		part := &outer.Rows.Parts[i]
		c := &outer.Columns[part.Column]
		if !part.finds(c) {
			break
		}
		n := find(0, part.Column, sqlparser.EqualStr)
		if n < 0 {
			if integer(outer, part.Column) {
				j.low = find(0, part.Column, sqlparser.GreaterThanStr, sqlparser.GreaterEqualStr)
				j.high = find(0, part.Column, sqlparser.LessThanStr, sqlparser.LessEqualStr)
				p.at.ranged = j.low >= 0 || j.high >= 0
			}
			break
		}
		p.at.keys = append(p.at.keys, keyFrom{part: part, equal: len(j.equal), member: -1})
		j.equal = append(j.equal, n)
	}
	if len(p.at.keys) == 0 {
		return false
	}
	p.at.whole = len(p.at.keys) == len(outer.Rows.Parts)
	for i := range inner.Rows.Parts {
		part := &inner.Rows.Parts[i]
		if !part.finds(&inner.Columns[part.Column]) {
			return false
		}
		k := joinKey{part: part, term: find(1, part.Column, sqlparser.EqualStr), column: -1}
		for n := range terms {
			if k.term >= 0 || used[n] || terms[n].other.column == "" {
				continue
			}
			a, ac, ok := j.column(terms[n].column, names)
			b, bc, also := j.column(terms[n].other, names)
			if !ok || !also || a == b {
				return false
			}
			if a == 0 {
				ac, bc = bc, ac // a is the inner one's
			}
			if ac == part.Column && integer(outer, bc) && integer(inner, ac) {
				k.column, used[n] = bc, true
				break
			}
		}
		if k.term < 0 && k.column < 0 {
			return false
		}
		j.key = append(j.key, k)
	}
	if len(j.key) == 0 {
		return false
	}
	for i := range terms {
		if used[i] {
			continue
		}
		side, c, ok := j.column(terms[i].column, names)
		if !ok || terms[i].other.column != "" || !integer(j.tables[side], c) {
			return false
		}
		j.filters[side] = append(j.filters[side], filter{c, i})
	}
	for i := range s.selects {
		x := &s.selects[i]
		side, c := 0, -1
		if x.column != "" {
			var ok bool
			if side, c, ok = j.column(named{x.table, x.column}, names); !ok || !j.tables[side].folds(c, x.fold) {
				return false
			}
		}
		p.selects, p.folds, j.sent = append(p.selects, c), append(p.folds, x.fold), append(j.sent, side)
	}
	if p.folds[0] != noFold {
		return true
	}
	p.folds = nil
	return p.at.whole // one row at most: the order of the rows is the planner's choice
}

// holds reports whether a row's columns are as the filters say. ok false: a value is none that the executor compares.
func (j *join) holds(side int, s *Shape, r *Run, f *row.Fields) (holds, ok bool) {
	for _, x := range j.filters[side] {
		v, ok := s.with.terms[x.term].to.of(r.Params)
		if !ok || v.Kind != row.Int {
			return false, false
		}
		if f.Null(x.column) {
			return false, true
		}
		n := 0
		switch j.tables[side].Columns[x.column].Kind {
		case row.Uint:
			if u := f.Uint(x.column); v.Int < 0 || u > uint64(v.Int) {
				n = 1
			} else if u < uint64(v.Int) {
				n = -1
			}
		default:
			if i := f.Int(x.column); i > v.Int {
				n = 1
			} else if i < v.Int {
				n = -1
			}
		}
		switch s.with.terms[x.term].op {
		case sqlparser.EqualStr:
			holds = n == 0
		case sqlparser.LessThanStr:
			holds = n < 0
		case sqlparser.LessEqualStr:
			holds = n <= 0
		case sqlparser.GreaterThanStr:
			holds = n > 0
		default:
			holds = n >= 0
		}
		if !holds {
			return false, true
		}
	}
	return true, true
}

// readJoin runs a SELECT of two tables.
func (r *Run) readJoin(p *Program, s *Shape) (out Outcome, ok bool, err error) {
	j := p.join
	terms := s.with.terms
	outer := &r.outer
	outer.equal = outer.equal[:0]
	for _, n := range j.equal {
		outer.equal = append(outer.equal, compared{to: terms[n].to})
	}
	outer.low, outer.high = nil, nil
	if j.low >= 0 {
		outer.low = &bound{terms[j.low].to, terms[j.low].op == sqlparser.GreaterThanStr}
	}
	if j.high >= 0 {
		outer.high = &bound{terms[j.high].to, terms[j.high].op == sqlparser.LessThanStr}
	}
	for _, all := range j.filters {
		for _, x := range all {
			if v, ok := terms[x.term].to.of(r.Params); !ok || v.Kind != row.Int {
				return out, false, nil
			}
		}
	}
	for i := range j.key {
		if k := &j.key[i]; k.term >= 0 {
			if r.joined, ok = k.part.append(r.joined[:0], &j.tables[1].Columns[k.part.Column], &terms[k.term].to, r); !ok {
				return out, false, nil
			}
		}
	}
	spans, ok := r.spans(p, outer)
	if !ok {
		return out, false, nil
	}
	a := &r.answer
	*a = answer{p: p, s: s, most: -1}
	if p.folds != nil {
		a.sums.begin(p)
	}
	for _, at := range spans {
		if p.at.whole {
			err = r.point(a, at.from)
		} else {
			err = r.scan(a, at)
		}
		if err != nil {
			return a.out, true, err
		}
	}
	a.begin(r)
	if p.folds != nil {
		a.sums.send(r, p)
		a.out.Found = 1
	}
	return a.out, true, nil
}

// takeJoined takes a row of the outer table, which was split, and the row of the inner one that belongs to it.
func (r *Run) takeJoined(a *answer) error {
	j, s := a.p.join, a.s
	if holds, _ := j.holds(0, s, r, &r.fields); !holds {
		return nil
	}
	inner := j.tables[1]
	r.joined = r.joined[:0]
	for i := range j.key {
		k := &j.key[i]
		if k.term >= 0 {
			r.joined, _ = k.part.append(r.joined, &inner.Columns[k.part.Column], &s.with.terms[k.term].to, r) // readJoin has tried
			continue
		}
		if r.fields.Null(k.column) {
			return nil
		}
		r.joined = k.part.Part.AppendValue(r.joined, r.fields.Value(k.column))
	}
	value, exists, err := r.Tx.Get(inner.ID, 0, r.joined)
	if err != nil || !exists {
		return err
	}
	r.Reads++
	if err := inner.Layout.Split(value, &r.inner); err != nil {
		return inner.damaged(err)
	}
	if holds, _ := j.holds(1, s, r, &r.inner); !holds {
		return nil
	}
	if a.p.folds != nil {
		return a.sums.add(r, a.p)
	}
	a.begin(r)
	for i, c := range a.p.selects {
		if j.sent[i] == 0 {
			r.sendValue(j.tables[0], &r.fields, c)
		} else {
			r.sendValue(inner, &r.inner, c)
		}
	}
	a.out.Found++
	return r.To.Err()
}
