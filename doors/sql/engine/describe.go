package engine

import (
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/transform"
)

// described are the rows of SHOW COLUMNS as MySQL prints them: a type without its collation, a default without quotes. The library prints both
// as CREATE TABLE has them, and its own collation beside each type. Programs read defaults from here.
type described struct {
	sql.RowIter
	columns map[string]*sql.Column // by name
	at      map[string]int         // the places of a row, by heading
}

// describe returns the rows of a plan, as described where it shows columns.
func describe(ctx *sql.Context, n sql.Node, schema sql.Schema, rows sql.RowIter) sql.RowIter {
	var show *plan.ShowColumns
	transform.InspectWithOpaque(ctx, n, func(_ *sql.Context, n sql.Node) bool {
		if s, ok := n.(*plan.ShowColumns); ok {
			show = s
		}
		return show == nil
	})
	if show == nil {
		return rows
	}
	d := &described{RowIter: rows, columns: map[string]*sql.Column{}, at: map[string]int{}}
	for _, c := range show.TargetSchema() {
		d.columns[c.Name] = c
	}
	for i, c := range schema {
		d.at[c.Name] = i
	}
	return d
}

// Next implements sql.RowIter.
func (d *described) Next(ctx *sql.Context) (sql.Row, error) {
	r, err := d.RowIter.Next(ctx)
	if err != nil {
		return nil, err
	}
	name, _ := r[d.at["Field"]].(string)
	c := d.columns[name]
	if c == nil {
		return r, nil
	}
	r = r.Copy()
	if t, ok := c.Type.(sql.TypeWithCollation); ok {
		r[d.at["Type"]] = t.StringWithTableCollation(t.Collation())
		if at, full := d.at["Collation"]; full && t.Collation() != sql.Collation_binary {
			r[at] = t.Collation().Name()
		}
	}
	if c.Default != nil && c.Default.IsLiteral() {
		text, null, err := literalDefault(ctx, c)
		if err != nil {
			return nil, err
		}
		if r[d.at["Default"]] = text; null {
			r[d.at["Default"]] = nil
		}
	}
	return r, nil
}
