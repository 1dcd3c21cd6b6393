package engine

import (
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/transform"
)

// filled are rows of SHOW INDEX, SHOW TABLE STATUS and SHOW ENGINES with what the library leaves open, or claims without asking.
type filled struct {
	sql.RowIter
	fill func(r sql.Row, at map[string]int)
	at   map[string]int // the places of a row, by heading
}

// Next implements sql.RowIter.
func (s *filled) Next(ctx *sql.Context) (sql.Row, error) {
	r, err := s.RowIter.Next(ctx)
	if err != nil {
		return nil, err
	}
	r = r.Copy()
	s.fill(r, s.at)
	return r, nil
}

// fill returns the rows of a plan, as filled where it is one of these statements.
func fill(ctx *sql.Context, n sql.Node, schema sql.Schema, rows sql.RowIter) sql.RowIter {
	s := &filled{RowIter: rows, at: map[string]int{}}
	for i, c := range schema {
		s.at[c.Name] = i
	}
	transform.InspectWithOpaque(ctx, n, func(ctx *sql.Context, n sql.Node) bool {
		switch n := n.(type) {
		case *plan.ShowIndexes:
			if t, ok := n.Child.(*plan.ResolvedTable); ok {
				if t, ok := t.UnderlyingTable().(*tableView); ok {
					s.fill = t.fillIndex
				}
			}
		case *plan.ShowTableStatus:
			if d, ok := n.Database().(*database); ok {
				s.fill = d.fillStatus
			}
		case *plan.ResolvedTable:
			if _, ok := s.at["Savepoints"]; ok && n.Name() == "engines" {
				s.fill = fillEngine
			}
		}
		return s.fill == nil
	})
	if s.fill == nil {
		return rows
	}
	return s
}

// fillIndex completes a row of SHOW INDEX. How many values the first columns of an index have is not counted.
func (t *tableView) fillIndex(r sql.Row, at map[string]int) {
	r[at["Collation"]], r[at["Cardinality"]] = "A", nil
	for _, x := range t.indexes {
		if x.name != r[at["Key_name"]] {
			continue
		}
		i, _ := r[at["Seq_in_index"]].(int)
		if i < 1 || i > len(x.key) {
			return
		}
		if p := x.key[i-1].prefix; p > 0 {
			r[at["Sub_part"]] = int64(p)
		}
		if x.unique && i == len(x.key) {
			r[at["Cardinality"]] = int64(t.t.Rows())
		}
	}
}

// fillStatus completes a row of SHOW TABLE STATUS.
func (d *database) fillStatus(r sql.Row, at map[string]int) {
	r[at["Row_format"]], r[at["Create_options"]] = "Dynamic", ""
	name, _ := r[at["Name"]].(string)
	t := d.d.Table(name)
	if t == nil {
		return
	}
	if x, err := d.e.table(t, d.d.Name); err == nil && x.auto >= 0 {
		r[at["Auto_increment"]] = max(t.NextAuto(), 1)
	}
}

// fillEngine says of the only engine what this server has.
func fillEngine(r sql.Row, at map[string]int) {
	r[at["Comment"]] = "Holdfast: transactions and row-level locking on the replicated log"
	r[at["XA"]], r[at["Savepoints"]] = "YES", "YES"
}
