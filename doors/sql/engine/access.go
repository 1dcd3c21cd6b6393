package engine

import (
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/vt/proto/query"
)

// How EXPLAIN names the access to a table: const, eq_ref, ref, range, index or ALL.

// read begins the row of a table. v is nil for a table that is none of the catalogue's.
func (b *block) read(name, alias string, t sql.Table) (r *tableRead, v *tableView) {
	r = &tableRead{block: b.id, verb: b.verb, table: name, how: "ALL", equal: map[string]bool{}}
	if alias != "" {
		r.table = alias
	}
	b.reads = append(b.reads, r)
	v, _ = sql.GetUnderlyingTable(t).(*tableView)
	if v == nil {
		return r, nil
	}
	r.rows = max(v.t.Rows(), 1)
	for _, i := range v.indexes {
		if v.how.hint.lets(i.name) && b.conditions.serve(r.table, v.schema.Schema[i.key[0].column].Name) {
			r.possible = append(r.possible, i.name)
		}
	}
	return r, v
}

// whole is a table that is read from its beginning to its end.
func (b *block) whole(a *plan.ResolvedTable, alias string) {
	r, v := b.read(a.Name(), alias, a.Table)
	if v == nil {
		return
	}
	if i := v.forced(); i != nil {
		r.how, r.key, r.length = "index", i.name, i.lengthOf(len(i.key))
	}
}

// indexed is a table that is read by an index.
func (b *block) indexed(a *plan.IndexedTableAccess, alias string) {
	r, v := b.read(a.Name(), alias, a.Table)
	i, ok := a.Index().(*index)
	if v == nil || !ok {
		return
	}
	r.key = i.name
	if l := plan.GetIndexLookup(a); !l.IsEmpty() {
		b.ranged(r, v, i, l)
	} else {
		b.joined(r, i, a)
	}
	if r.how != "index" && !slices.Contains(r.possible, i.name) {
		r.possible = append(r.possible, i.name)
	}
}

// joined is a lookup for each row of the tables before it.
func (b *block) joined(r *tableRead, i *index, a *plan.IndexedTableAccess) {
	r.how = "ref"
	keys, nulls := a.Expressions(), a.NullMask()
	for n, e := range keys {
		r.ref = append(r.ref, b.reference(e))
		r.equal[b.column(i, n)] = i.key[n].prefix == 0
		if n < len(nulls) && nulls[n] {
			r.how = "ref_or_null"
		}
	}
	r.length = i.lengthOf(len(keys))
	if i.unique && len(keys) == len(i.key) && r.how == "ref" {
		r.how, r.rows = "eq_ref", 1
		return
	}
	r.how, r.rows = "ref", max(r.rows/guessedShare, 1)
}

// guessedShare is how many keys an index is taken to have, where each lookup has another one and nothing can be counted.
const guessedShare = 10

func (b *block) column(i *index, n int) string {
	return strings.ToLower(i.t.schema.Schema[i.key[n].column].Name)
}

// reference is what a key is compared with, as MySQL prints it.
func (b *block) reference(e sql.Expression) string {
	switch e := e.(type) {
	case *expression.GetField:
		return strings.TrimPrefix(e.Database()+"."+e.Table()+"."+e.Name(), ".")
	case *expression.Literal, *expression.BindVar:
		return "const"
	}
	return "func"
}

// ranged is a lookup of ranges that the statement has.
func (b *block) ranged(r *tableRead, v *tableView, i *index, l sql.IndexLookup) {
	ranges, _ := l.Ranges.(sql.MySQLRangeCollection)
	equal, used := 0, 0
	for _, of := range ranges {
		e, u, _ := shapeOfRange(of)
		equal, used = e, max(used, u)
	}
	r.length = i.lengthOf(used)
	rows, err := b.s.dive(b.c, v, l)
	if err != nil {
		b.err = err
		return
	}
	r.rows = max(min(rows, r.rows), 1)
	if used == 0 {
		r.how, r.length = "index", i.lengthOf(len(i.key))
		return
	}
	r.how = "range"
	if len(ranges) != 1 || equal != used {
		return
	}
	for n := range equal {
		r.ref = append(r.ref, "const")
		r.equal[b.column(i, n)] = i.key[n].prefix == 0
	}
	_, _, null := shapeOfRange(ranges[0])
	switch {
	case b.verb == "UPDATE" || b.verb == "DELETE": // MySQL looks at the conditions of such a statement again
		r.equal = nil
	case i.unique && equal == len(i.key) && !null:
		r.how = "const"
	default:
		r.how = "ref"
	}
}

// shapeOfRange returns how many leading columns of a range have one value, how many it bounds at all, and whether a value is NULL.
func shapeOfRange(r sql.MySQLRange) (equal, used int, null bool) {
	for _, c := range r {
		from, point := c.LowerBound.(sql.Below)
		to, above := c.UpperBound.(sql.Above)
		_, fromNull := c.LowerBound.(sql.BelowNull)
		_, toNull := c.UpperBound.(sql.AboveNull)
		_, toAll := c.UpperBound.(sql.AboveAll)
		switch {
		case fromNull && toAll:
			return equal, used, null
		case fromNull && toNull:
			null = true
		case !point || !above || !reflect.DeepEqual(from.Key, to.Key):
			return equal, used + 1, null
		}
		equal, used = equal+1, used+1
	}
	return equal, used, null
}

// mostDived bounds the entries that are counted for EXPLAIN.
const mostDived = 1000

// dive counts the rows of some ranges. Where there are more than mostDived it returns how many rows the table has.
func (s *Session) dive(c *sql.Context, t *tableView, l sql.IndexLookup) (n uint64, err error) {
	tx, err := s.transaction()
	if err == nil {
		err = s.snapshot()
	}
	if err != nil {
		return 0, err
	}
	all, err := t.LookupPartitions(c, l)
	if err != nil {
		return 0, err
	}
	for _, p := range all.(*spans).rest {
		it, err := tx.Scan(t.t.ID, p.id(), p.from, p.to)
		if err != nil {
			return 0, err
		}
		begun := false
		for n <= mostDived && move(it, &begun, false) {
			n++
		}
		if err := it.Close(); err != nil {
			return 0, err
		}
	}
	if n > mostDived {
		return t.t.Rows(), nil
	}
	return n, nil
}

// lengthOf is how many bytes the first columns of a key take in MySQL, as EXPLAIN prints it.
func (x *index) lengthOf(columns int) string {
	n := 0
	for _, k := range x.key[:min(columns, len(x.key))] {
		c := x.t.schema.Schema[k.column]
		n += keyBytes(c.Type, k.prefix)
		if c.Nullable {
			n++
		}
	}
	return strconv.Itoa(n)
}

// keyBytes is what MySQL takes for a value in a key.
func keyBytes(t sql.Type, prefix int) int {
	switch a := t.(type) {
	case sql.DecimalType:
		digits := func(n int) int { return n/9*4 + []int{0, 1, 1, 2, 2, 3, 3, 4, 4}[n%9] }
		scale := int(a.Scale())
		return digits(int(a.Precision())-scale) + digits(scale)
	case types.BitType:
		return (int(a.NumberOfBits()) + 7) / 8
	case sql.EnumType:
		if a.NumberOfElements() > 255 {
			return 2
		}
		return 1
	case sql.SetType:
		return []int{1, 1, 2, 3, 4, 8, 8, 8, 8}[(int(a.NumberOfElements())+7)/8]
	case sql.StringType:
		characters, each := int(a.MaxCharacterLength()), int(a.Collation().CharacterSet().MaxLength())
		if prefix > 0 {
			characters = prefix
		}
		if kind := t.Type(); kind == query.Type_CHAR || kind == query.Type_BINARY {
			return characters * each
		}
		return characters*each + 2
	case sql.DatetimeType:
		switch {
		case types.IsDateType(t):
			return 3
		case types.IsTimestampType(t):
			return 4 + (a.Precision()+1)/2
		}
		return 5 + (a.Precision()+1)/2
	}
	switch t.Type() {
	case query.Type_INT8, query.Type_UINT8, query.Type_YEAR:
		return 1
	case query.Type_INT16, query.Type_UINT16:
		return 2
	case query.Type_INT24, query.Type_UINT24, query.Type_TIME:
		return 3
	case query.Type_INT32, query.Type_UINT32, query.Type_FLOAT32:
		return 4
	}
	return 8
}
