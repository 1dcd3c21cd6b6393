package engine

import (
	"slices"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	sqlmachine "github.com/holdfastdb/holdfast/doors/sql/machine"
	"github.com/holdfastdb/holdfast/doors/sql/wire"
)

// Generated columns are computed where a row is written, from its other columns, and stored with them, the VIRTUAL ones too: an index of either has what
// the row has. The library knows none of them: for it such a column has no value, and what a client would give it is refused before.

func (d *definition) generates() bool {
	return slices.ContainsFunc(d.columns, func(c column) bool { return c.gen != "" })
}

// bare is an expression without the brackets of its clause.
func bare(e sqlparser.Expr) sqlparser.Expr {
	if p, ok := e.(*sqlparser.ParenExpr); ok {
		return p.Expr
	}
	return e
}

// ungenerated is a CREATE TABLE whose generated columns are plain ones.
func ungenerated(a *sqlparser.DDL) *sqlparser.DDL {
	n, spec := *a, *a.TableSpec
	n.TableSpec = &spec
	spec.Columns = slices.Clone(spec.Columns)
	for i, c := range spec.Columns {
		if c.Type.GeneratedExpr != nil {
			plain := *c
			plain.Type.GeneratedExpr, plain.Type.Stored = nil, false
			spec.Columns[i] = &plain
		}
	}
	return &n
}

// generatedWords are what EXTRA says.
func (c *column) generatedWords() string {
	if c.stored {
		return "STORED GENERATED"
	}
	return "VIRTUAL GENERATED"
}

// line is a generated column in SHOW CREATE TABLE.
func (c *column) line(form *sql.MySqlSchemaFormatter, planned *sql.Column, table sql.CollationID) string {
	plain := sql.Column{Name: planned.Name, Type: planned.Type, Nullable: true}
	line := form.GenerateCreateTableColumnDefinition(&plain, "", "", table) + " GENERATED ALWAYS AS (" + (&checkDef{expr: c.gen}).shown() + ")"
	if c.stored {
		line += " STORED"
	} else {
		line += " VIRTUAL"
	}
	if !c.nullable {
		line += " NOT NULL"
	}
	if c.comment != "" {
		line += " COMMENT '" + strings.ReplaceAll(strings.ReplaceAll(c.comment, `\\`, `\\\\`), "'", "''") + "'"
	}
	return line
}

// judgeGeneratedSpec refuses what a generated column may not be beside. Errors: 1221, 3106.
func judgeGeneratedSpec(c *sqlparser.ColumnDefinition) error {
	switch t := &c.Type; {
	case t.GeneratedExpr == nil:
		return nil
	case t.Default != nil:
		return wire.Errorf(1221, "Incorrect usage of DEFAULT and generated column")
	case bool(t.Autoincrement):
		return wire.Errorf(1221, "Incorrect usage of AUTO_INCREMENT and generated column")
	case t.OnUpdate != nil:
		return wire.Errorf(1221, "Incorrect usage of ON UPDATE and generated column")
	case isPrimary(c) && !bool(t.Stored):
		return wire.Errorf(3106, "'Defining a virtual generated column as primary key' is not supported for generated columns.")
	}
	return nil
}

// judgeGenerated judges the expressions of generated columns by their names. Errors: 1054, 3102, 3106, 3107, 3109, 3763.
func (d *definition) judgeGenerated() error {
	for i := range d.columns {
		c := &d.columns[i]
		if c.gen == "" {
			continue
		}
		e, err := expressionOf(c.gen)
		if err != nil {
			return err
		}
		err = sqlparser.Walk(func(n sqlparser.SQLNode) (bool, error) {
			switch x := n.(type) {
			case *sqlparser.ColName:
				k := d.columnNamed(x.Name.String())
				switch {
				case strings.HasPrefix(x.Name.String(), "@"):
					return false, wire.Errorf(3772, "Default value expression of column '%s' cannot refer user or system variables.", c.name)
				case k < 0:
					return false, wire.Errorf(1054, "Unknown column '%s' in 'generated column function'", x.Name.String())
				case d.columns[k].auto:
					return false, wire.Errorf(3109, "Generated column '%s' cannot refer to auto-increment column.", c.name)
				case d.columns[k].gen != "" && k >= i:
					return false, wire.Errorf(3107, "Generated column can refer only to generated columns defined prior to it.")
				}
			case *sqlparser.Subquery, *sqlparser.ExistsExpr, sqlparser.SelectStatement:
				return false, wire.Errorf(3102, "Expression of generated column '%s' contains a disallowed function.", c.name)
			case *sqlparser.FuncExpr:
				if changing[x.Name.Lowered()] {
					return false, wire.Errorf(3763, "Expression of generated column '%s' contains a disallowed function: %s.", c.name, x.Name.Lowered())
				}
			case *sqlparser.Default, *sqlparser.ValuesFuncExpr:
				return false, wire.Errorf(3102, "Expression of generated column '%s' contains a disallowed function.", c.name)
			case *sqlparser.SQLVal:
				if x.Type == sqlparser.ValArg {
					return false, refused("a parameter in a generated column")
				}
			}
			return true, nil
		}, e)
		if err != nil {
			return err
		}
	}
	for _, p := range d.primary {
		if c := &d.columns[p.column]; c.gen != "" && !c.stored {
			return wire.Errorf(3106, "'Defining a virtual generated column as primary key' is not supported for generated columns.")
		}
	}
	return nil
}

// judgeStored refuses to make a column VIRTUAL, or to make a VIRTUAL one another. Error: 3106.
func (a *alteration) judgeStored(c *altered, was *column) error {
	virtual, wasVirtual := c.gen != "" && !c.stored, was.gen != "" && !was.stored
	if virtual != wasVirtual {
		return wire.Errorf(3106, "'Changing the STORED status' is not supported for generated columns.")
	}
	return nil
}

// judgeExpressions has the library judge the expressions of a definition's generated columns.
func (s *Session) judgeExpressions(ctx *sql.Context, d *definition, databaseName, name string) error {
	if !d.generates() {
		return nil
	}
	plain := d.copy()
	plain.first, plain.places = 0, nil
	x, err := newTable(s.e, &sqlmachine.Table{Name: name, Version: ^uint64(0), Definition: plain.append(nil)}, databaseName)
	if err != nil {
		return err
	}
	was := s.altered
	s.altered = x
	defer func() { s.altered = was }()
	_, err = s.plannedExpressions(ctx, databaseName, name, d.generatedTexts())
	return err
}

func (d *definition) generatedTexts() (all []string) {
	for i := range d.columns {
		if c := &d.columns[i]; c.gen != "" {
			all = append(all, "("+c.gen+")")
		}
	}
	return all
}

// generate computes the generated columns of a row that is about to be written. Error: 1048, and those of expressions and of values that are stored.
func (e *editor) generate(ctx *sql.Context, r sql.Row) error {
	if !e.t.def.generates() {
		return nil
	}
	if e.generated == nil {
		var err error
		if e.generated, err = e.s.plannedGenerated(ctx, e.t); err != nil {
			return err
		}
	}
	n := 0
	for i := range e.t.def.columns {
		c := &e.t.def.columns[i]
		if c.gen == "" {
			continue
		}
		v, err := e.generated[n].Eval(ctx, r)
		if err != nil {
			return err
		}
		if n++; v != nil {
			var in sql.ConvertInRange
			if v, in, err = e.t.schema.Schema[i].Type.Convert(ctx, v); err != nil {
				return err
			} else if in != sql.InRange {
				return wire.Errorf(1264, "Out of range value for column '%s' at row %d", c.name, max(e.s.row, 1))
			}
		} else if !c.nullable {
			return wire.Errorf(1048, "Column '%s' cannot be null", c.name)
		}
		r[i] = v
	}
	return nil
}

// plannedGenerated plans the generated columns of a table. Each computes what its column stores.
func (s *Session) plannedGenerated(c *sql.Context, t *tableView) ([]sql.Expression, error) {
	key := checkKey{tableKey{t.t.ID, t.t.Version}, s.settingsKey()}
	if all := s.computed[key]; all != nil {
		return all, nil
	}
	planned, err := s.plannedExpressions(c, t.database, t.t.Name, t.def.generatedTexts())
	if err != nil {
		return nil, err
	}
	all := make([]sql.Expression, 0, len(planned))
	for i := range t.def.columns {
		if n := &t.def.columns[i]; n.gen != "" {
			v := &assigned{column: n.name, typ: t.schema.Schema[i].Type, digits: n.digits}
			v.Child = planned[len(all)]
			all = append(all, v)
		}
	}
	if len(s.computed) >= mostChecked {
		clear(s.computed)
	}
	if s.computed == nil {
		s.computed = map[checkKey][]sql.Expression{}
	}
	s.computed[key] = all
	return all, nil
}

// judgeValues refuses values that a client gives to generated columns. DEFAULT is none. Error: 3105.
func (s *Session) judgeValues(st *Statement) error {
	switch a := st.ast.(type) {
	case *sqlparser.Insert:
		t := s.generating(a.Table)
		if t == nil {
			return nil
		}
		names := make([]string, 0, len(a.Columns))
		for _, c := range a.Columns {
			names = append(names, c.String())
		}
		if len(names) == 0 {
			for i := range t.def.columns {
				names = append(names, t.def.columns[i].name)
			}
		}
		values, _ := a.Rows.(*sqlparser.AliasedValues)
		for i, name := range names {
			if !t.generated(name) {
				continue
			}
			if values == nil {
				return t.noValue(name)
			}
			for _, row := range values.Values {
				if i < len(row) && len(row) == len(names) && !isDefault(row[i]) {
					return t.noValue(name)
				}
			}
		}
		for _, x := range a.OnDup {
			if name := x.Name.Name.String(); t.generated(name) && !isDefault(x.Expr) {
				return t.noValue(name)
			}
		}
	case *sqlparser.Update:
		var tables []*table
		var known []string
		_ = sqlparser.Walk(func(n sqlparser.SQLNode) (bool, error) {
			if x, ok := n.(*sqlparser.AliasedTableExpr); ok {
				if name, ok := x.Expr.(sqlparser.TableName); ok {
					if t := s.generating(name); t != nil {
						as := x.As.String()
						if as == "" {
							as = name.Name.String()
						}
						tables, known = append(tables, t), append(known, as)
					}
				}
				return false, nil
			}
			return true, nil
		}, a.TableExprs)
		for _, x := range a.Exprs {
			of := x.Name.Qualifier.Name.String()
			for i, t := range tables {
				if name := x.Name.Name.String(); t.generated(name) && (of == "" || strings.EqualFold(of, known[i])) && !isDefault(x.Expr) {
					return t.noValue(name)
				}
			}
		}
	}
	return nil
}

func isDefault(e sqlparser.Expr) bool {
	d, ok := e.(*sqlparser.Default)
	return ok && d.ColName == ""
}

func (t *table) generated(column string) bool {
	i := t.def.columnNamed(column)
	return i >= 0 && t.def.columns[i].gen != ""
}

func (t *table) noValue(column string) error {
	return wire.Errorf(3105, "The value specified for generated column '%s' in table '%s' is not allowed.", t.def.columns[t.def.columnNamed(column)].name, t.t.Name)
}

// generating is the table of a name, if it has generated columns; nil: it has none, or there is none that the client may see.
func (s *Session) generating(n sqlparser.TableName) *table {
	databaseName := nameOf(n.DbQualifier.String())
	if databaseName == "" {
		databaseName = s.GetCurrentDatabase()
	}
	if !s.mayUse(databaseName) {
		return nil
	}
	t := tableOf(s.catalogue().Database(databaseName), nameOf(n.Name.String()))
	if t == nil {
		return nil
	}
	x, err := s.e.table(t, databaseName)
	if err != nil || !x.def.generates() {
		return nil // what opens the table tells of the error
	}
	return x
}

// generatedText is GENERATION_EXPRESSION of a column.
func generatedText(c *sql.Context, name [3]string) string {
	s := sessionOf(c)
	t := s.generating(sqlparser.TableName{Name: sqlparser.NewTableIdent(name[1]), DbQualifier: sqlparser.NewTableIdent(name[0])})
	if t == nil || !t.generated(name[2]) {
		return ""
	}
	return (&checkDef{expr: t.def.columns[t.def.columnNamed(name[2])].gen}).shown()
}
