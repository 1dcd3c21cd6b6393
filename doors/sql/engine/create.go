package engine

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/transform"
	"github.com/dolthub/go-mysql-server/sql/types"
)

// created is the row of SHOW CREATE TABLE with the statement as MySQL prints it. The library prints a default of ENUM and SET as the number that it
// keeps, and no NULL that is a default: a dump that was loaded again would not be the same table.
type created struct {
	sql.RowIter
	t       *tableView
	columns sql.Schema // with their defaults resolved
}

// create returns the rows of a plan, as created where it shows a table.
func create(ctx *sql.Context, n sql.Node, rows sql.RowIter) sql.RowIter {
	var show *plan.ShowCreateTable
	var t *tableView
	transform.InspectWithOpaque(ctx, n, func(_ *sql.Context, n sql.Node) bool {
		switch n := n.(type) {
		case *plan.ShowCreateTable:
			show = n
		case *plan.ResolvedTable:
			if show != nil && t == nil {
				t, _ = n.UnderlyingTable().(*tableView)
			}
		}
		return true
	})
	if t == nil {
		return rows
	}
	return &created{rows, t, show.TargetSchema()}
}

// Next implements sql.RowIter.
func (c *created) Next(ctx *sql.Context) (sql.Row, error) {
	r, err := c.RowIter.Next(ctx)
	if err != nil || len(r) < 2 {
		return r, err
	}
	text, err := c.t.statement(ctx, c.columns)
	if err != nil {
		return nil, err
	}
	r = r.Copy()
	r[1] = text
	return r, nil
}

// statement is the CREATE TABLE that makes the table.
func (t *tableView) statement(ctx *sql.Context, schema sql.Schema) (string, error) {
	form := &sql.MySqlSchemaFormatter{}
	var lines []string
	for _, c := range schema {
		if c.HiddenSystem {
			continue
		}
		c := *c
		if i := t.def.columnNamed(c.Name); i >= 0 && t.def.columns[i].gen != "" {
			lines = append(lines, t.def.columns[i].line(form, &c, t.def.collation))
			continue
		}
		def, err := defaultText(ctx, &c)
		if err != nil {
			return "", err
		}
		update := ""
		if c.OnUpdate != nil {
			update = momentText(c.OnUpdate)
		}
		if def == "NULL" && c.Default == nil {
			c.Default = &sql.ColumnDefaultValue{} // the library prints a default where there is one
		}
		line := form.GenerateCreateTableColumnDefinition(&c, def, update, t.def.collation)
		if c.Nullable && types.IsTimestampType(c.Type) { // without NULL an older MySQL's TIMESTAMP has none
			line = strings.Replace(line, " DEFAULT", " NULL DEFAULT", 1)
		}
		lines = append(lines, line)
	}
	columns := func(key []keyPart) []string {
		all := make([]string, len(key))
		for i, k := range key {
			all[i] = form.QuoteIdentifier(t.schema.Schema[k.column].Name)
			if k.prefix > 0 {
				all[i] += fmt.Sprintf("(%d)", k.prefix)
			}
		}
		return all
	}
	if len(t.def.primary) > 0 {
		lines = append(lines, "  PRIMARY KEY ("+strings.Join(columns(t.def.primary), ",")+")")
	}
	for _, x := range t.indexes {
		if x.id == 0 {
			continue
		}
		if line, ok := form.GenerateCreateTableIndexDefinition(x.unique, false, false, false, x.name, columns(x.key), x.comment); ok {
			lines = append(lines, line)
		}
	}
	for i := range t.def.foreign {
		lines = append(lines, "  "+t.def.foreign[i].text(t.def, t.database))
	}
	for i := range t.def.checks {
		lines = append(lines, t.def.checks[i].line())
	}
	next := ""
	if n := t.t.NextAuto(); t.auto >= 0 && n > 1 {
		next = strconv.FormatUint(n, 10)
	}
	return form.GenerateCreateTableStatement(t.t.Name, lines, "", next, t.def.collation.CharacterSet().Name(), t.def.collation.Name(), t.def.comment), nil
}

// defaultText is a column's default as SQL writes it. Empty: there is none. Columns of TEXT, BLOB and JSON have none that MySQL would print.
func defaultText(ctx *sql.Context, c *sql.Column) (string, error) {
	switch d := c.Default; {
	case d == nil && c.Nullable && !types.IsTextBlob(c.Type) && !types.IsJSON(c.Type):
		return "NULL", nil
	case d == nil:
		return "", nil
	case !d.IsLiteral() || types.IsTextBlob(c.Type) || types.IsJSON(c.Type): // of these types every default is an expression
		return momentText(d), nil
	}
	text, null, err := literalDefault(ctx, c)
	switch {
	case err != nil:
		return "", err
	case null:
		return "NULL", nil
	case types.IsBit(c.Type):
		return text, nil
	}
	return "'" + strings.ReplaceAll(strings.ReplaceAll(text, `\`, `\\`), "'", "''") + "'", nil
}

// momentText is a default that is no literal. MySQL prints the moment of a statement without its brackets, and without digits that it does not have. Any other
// expression keeps its brackets: without them it is no statement.
func momentText(d *sql.ColumnDefaultValue) string {
	text := d.String()
	bare := text
	if len(text) > 1 && text[0] == '(' && text[len(text)-1] == ')' {
		bare = text[1 : len(text)-1]
	}
	if moment := strings.ToUpper(bare); strings.HasPrefix(moment, "CURRENT_TIMESTAMP") || strings.HasPrefix(moment, "NOW(") {
		return strings.TrimSuffix(bare, "(0)")
	}
	if bare == text {
		text = "(" + text + ")"
	}
	return text
}

// literalDefault is the value of a default that is a literal, as MySQL shows it.
func literalDefault(ctx *sql.Context, c *sql.Column) (text string, null bool, err error) {
	v, err := c.Default.Eval(ctx, nil)
	if err != nil || v == nil {
		return "", v == nil, err
	}
	if v, _, err = c.Type.Convert(ctx, v); err != nil {
		return "", false, err
	}
	if types.IsBit(c.Type) {
		return fmt.Sprintf("b'%b'", v), false, nil
	}
	text = textOf(ctx, c.Type, v)
	if t, ok := c.Type.(shownTime); ok {
		if n, ok := v.(types.Timespan); ok {
			rounded, _ := roundTime(int64(n), t.digits)
			text = textOf(ctx, types.Time, rounded)
		}
		if point := strings.IndexByte(text, '.'); point >= 0 && t.digits == 0 {
			text = text[:point]
		} else if point >= 0 {
			text = text[:min(len(text), point+1+t.digits)]
		}
	}
	return text, false, nil
}
