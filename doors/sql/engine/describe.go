package engine

import (
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/transform"
)

// described are the rows of SHOW COLUMNS as MySQL prints them: a type without its collation, a default without quotes, and the key that a column is
// in. The library prints type and default as CREATE TABLE has them, its own collation beside each type, and a key by the first unique index alone.
// Programs read defaults from here.
type described struct {
	sql.RowIter
	columns map[string]*sql.Column // by name
	of      *tableView             // nil: not one of the catalogue's
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
	if t, ok := show.Child.(*plan.ResolvedTable); ok {
		d.of, _ = sql.GetUnderlyingTable(t.Table).(*tableView)
	}
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
	switch {
	case c == nil:
		return r, nil
	case c.HiddenSystem: // SHOW EXTENDED COLUMNS
		return d.Next(ctx)
	}
	r = r.Copy()
	if d.of != nil {
		r[d.at["Key"]] = d.of.keyOf(name)
	}
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
	if text, ok := r[d.at["Default"]].(string); ok && c.Default != nil && len(text) > 1 && text[0] == '(' && text[len(text)-1] == ')' && r[d.at["Extra"]] != "" {
		r[d.at["Default"]] = text[1 : len(text)-1] // of an expression, without the brackets of the clause
	}
	return r, nil
}

// keyOf is the key that a column is in, as MySQL names it: PRI of the primary key, or of the index that stands for one; UNI of a unique index by
// itself; MUL as the first of several columns, or of an index that is not unique.
func (t *table) keyOf(column string) string {
	i := t.def.columnNamed(column)
	key := ""
	for _, x := range t.indexes {
		switch {
		case i < 0 || x.key[0].column != i || key == "UNI":
		case x.unique && len(x.key) == 1:
			key = "UNI"
		default:
			key = "MUL"
		}
	}
	if i >= 0 && t.schema.Schema[i].PrimaryKey {
		return "PRI"
	}
	return key
}
