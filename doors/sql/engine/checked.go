package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/planbuilder"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"github.com/holdfastdb/holdfast/doors/sql/wire"
)

// checkDef is a CHECK of a table. A row for which it is false is not written; one for which it is NULL is.
type checkDef struct {
	name     string
	expr     string // as the parser writes it, for the default sql_mode
	enforced bool
}

// changing are functions whose value is not that of their arguments: what they were true of yesterday they are not today.
var changing = set("now", "current_timestamp", "localtime", "localtimestamp", "curdate", "current_date", "curtime", "current_time", "utc_date", "utc_time",
	"utc_timestamp", "sysdate", "unix_timestamp", "rand", "uuid", "uuid_short", "connection_id", "user", "current_user", "session_user", "system_user", "database", "schema",
	"version", "last_insert_id", "found_rows", "row_count", "sleep", "benchmark", "get_lock", "release_lock", "release_all_locks", "is_free_lock", "is_used_lock", "load_file",
	"default", "values")

// checksOf takes the CHECKs of a CREATE TABLE. Errors: 3812 to 3822.
func (d *definition) checksOf(table string, spec *sqlparser.TableSpec) error {
	add := func(name string, c *sqlparser.CheckConstraintDefinition, of string) error {
		if name == "" {
			for n := 1; name == "" || d.checkNamed(name); n++ {
				name = fmt.Sprintf("%s_chk_%d", table, n)
			}
		} else if d.checkNamed(name) {
			return wire.Errorf(3822, "Duplicate check constraint name '%s'.", name)
		}
		if err := d.judgeCheck(name, c.Expr, of); err != nil {
			return err
		}
		d.checks = append(d.checks, checkDef{name: name, expr: sqlparser.String(c.Expr), enforced: c.Enforced})
		return nil
	}
	for _, c := range spec.Columns { // MySQL numbers those of columns first
		if c.Type.Constraint == nil {
			continue
		}
		check, ok := c.Type.Constraint.Details.(*sqlparser.CheckConstraintDefinition)
		if !ok {
			return refused("a constraint of this kind")
		}
		if err := add(c.Type.Constraint.Name, check, c.Name.String()); err != nil {
			return err
		}
	}
	for _, c := range spec.Constraints {
		if check, ok := c.Details.(*sqlparser.CheckConstraintDefinition); ok && !atColumn(spec, check) {
			if err := add(c.Name, check, ""); err != nil {
				return err
			}
		}
	}
	return nil
}

// atColumn reports whether a CHECK is written at a column: the parser has it at the table too.
func atColumn(spec *sqlparser.TableSpec, check *sqlparser.CheckConstraintDefinition) bool {
	return slices.ContainsFunc(spec.Columns, func(c *sqlparser.ColumnDefinition) bool {
		return c.Type.Constraint != nil && c.Type.Constraint.Details == sqlparser.ConstraintInfo(check)
	})
}

// Warn adds a warning, with MySQL's number and words where the library has others.
func (s *Session) Warn(w *sql.Warning) {
	if name, ok := strings.CutPrefix(w.Message, `Check constraint "`); ok && w.Code != 3819 {
		name, _, _ = strings.Cut(name, `"`)
		w = &sql.Warning{Level: "Warning", Code: 3819, Message: fmt.Sprintf("Check constraint '%s' is violated.", name)}
	}
	if v := s.violated; v != nil && w.Code == int(v.Code) {
		w = &sql.Warning{Level: "Warning", Code: w.Code, Message: v.Message}
	}
	s.BaseSession.Warn(w)
}

func (d *definition) checkNamed(name string) bool {
	for _, c := range d.checks {
		if strings.EqualFold(c.name, name) {
			return true
		}
	}
	return false
}

// judgeCheck refuses what an expression of a CHECK may not have. of: the only column that it may name; "": all.
func (d *definition) judgeCheck(name string, e sqlparser.Expr, of string) error {
	return sqlparser.Walk(func(n sqlparser.SQLNode) (bool, error) {
		switch x := n.(type) {
		case *sqlparser.ColName:
			i := d.columnNamed(x.Name.String())
			switch {
			case strings.HasPrefix(x.Name.String(), "@"):
				return false, wire.Errorf(3816, "An expression of a check constraint '%s' cannot refer to a user or system variable.", name)
			case i < 0:
				return false, wire.Errorf(3820, "Check constraint '%s' refers to non-existing column '%s'.", name, x.Name.String())
			case d.columns[i].auto:
				return false, wire.Errorf(3818, "Check constraint '%s' cannot refer to an auto-increment column.", name)
			case of != "" && !strings.EqualFold(of, x.Name.String()):
				return false, wire.Errorf(3813, "Column check constraint '%s' references other column.", name)
			}
		case *sqlparser.Subquery, *sqlparser.ExistsExpr, sqlparser.SelectStatement:
			return false, wire.Errorf(3815, "An expression of a check constraint '%s' contains disallowed function.", name)
		case *sqlparser.FuncExpr:
			if changing[x.Name.Lowered()] {
				return false, wire.Errorf(3814, "An expression of a check constraint '%s' contains disallowed function: %s.", name, x.Name.Lowered())
			}
		case *sqlparser.Default, *sqlparser.ValuesFuncExpr:
			return false, wire.Errorf(3814, "An expression of a check constraint '%s' contains disallowed function: %s.", name, sqlparser.String(n))
		case *sqlparser.SQLVal:
			if x.Type == sqlparser.ValArg {
				return false, refused("a parameter in CHECK")
			}
		}
		return true, nil
	}, e)
}

// mostChecked bounds the tables whose CHECKs a session keeps planned.
const mostChecked = 64

// checkKey is what planned CHECKs depend on.
type checkKey struct {
	table    tableKey
	settings string
}

// check judges a row that is about to be written. Error: sql.ErrCheckConstraintViolated.
func (e *editor) check(c *sql.Context, r sql.Row) error {
	if len(e.t.def.checks) == 0 {
		return nil
	}
	if e.checks == nil {
		var err error
		if e.checks, err = e.s.plannedChecks(c, e.t); err != nil {
			return err
		}
	}
	for i, x := range e.checks {
		v, err := x.Eval(c, r)
		if err != nil {
			return err
		}
		if v == nil || !e.t.def.checks[i].enforced {
			continue
		}
		if ok, err := sql.ConvertToBool(c, v); err != nil {
			return err
		} else if !ok {
			return sql.ErrCheckConstraintViolated.New(e.t.def.checks[i].name)
		}
	}
	return nil
}

// plannedChecks plans the CHECKs of a table as a SELECT of them would be, so that they compare and compute as every other expression does.
func (s *Session) plannedChecks(c *sql.Context, t *tableView) ([]sql.Expression, error) {
	key := checkKey{tableKey{t.t.ID, t.t.Version}, s.settingsKey()}
	if all := s.checks[key]; all != nil {
		return all, nil
	}
	exprs := make([]string, len(t.def.checks))
	for i, x := range t.def.checks {
		exprs[i] = "(" + x.expr + ")"
	}
	all, err := s.plannedExpressions(c, t.database, t.t.Name, exprs)
	if err != nil {
		return nil, err
	}
	if len(s.checks) >= mostChecked {
		clear(s.checks)
	}
	if s.checks == nil {
		s.checks = map[checkKey][]sql.Expression{}
	}
	s.checks[key] = all
	return all, nil
}

// plannedExpressions plans expressions over the rows of a table as a SELECT of them would be.
func (s *Session) plannedExpressions(c *sql.Context, databaseName, table string, exprs []string) ([]sql.Expression, error) {
	st, _, err := s.e.Parse(sql.NewSqlModeFromString(""), fmt.Sprintf("SELECT %s FROM `%s`.`%s`", strings.Join(exprs, ", "),
		strings.ReplaceAll(databaseName, "`", "``"), strings.ReplaceAll(table, "`", "``")))
	if err != nil {
		return nil, err
	}
	shares := s.shares
	s.shares = false // nothing is read
	defer func() { s.shares = shares }()
	node, flags, err := bound(c, planbuilder.New(c, s.e.sql.Analyzer.Catalog, nil), st.ast, st.Text)
	if err == nil {
		node, err = s.e.sql.Analyzer.Analyze(c, node, nil, flags)
	}
	if err == nil {
		node, err = s.repaired(c, st, node)
	}
	if err != nil {
		return nil, err
	}
	project, _ := find[*plan.Project](node)
	if project == nil || len(project.Projections) != len(exprs) {
		return nil, fmt.Errorf("an expression over %s.%s was planned as %T", databaseName, table, node)
	}
	return project.Projections, nil
}

// checkLine is a CHECK in SHOW CREATE TABLE.
func (c *checkDef) line() string {
	line := fmt.Sprintf("  CONSTRAINT `%s` CHECK (%s)", strings.ReplaceAll(c.name, "`", "``"), c.shown())
	if !c.enforced {
		line += " /*!80016 NOT ENFORCED */"
	}
	return line
}

// shown is the expression in brackets, with names in quotes, as MySQL prints it.
func (c *checkDef) shown() string {
	e, err := sqlparser.ParseWithOptions(context.Background(), "SELECT "+c.expr, sqlparser.ParserOptions{})
	if err != nil {
		return "(" + c.expr + ")"
	}
	buf := sqlparser.NewTrackedBuffer(func(buf *sqlparser.TrackedBuffer, n sqlparser.SQLNode) {
		if x, ok := n.(*sqlparser.ColName); ok {
			buf.WriteString("`" + strings.ReplaceAll(x.Name.String(), "`", "``") + "`")
			return
		}
		n.Format(buf)
	})
	buf.Myprintf("%v", e.(*sqlparser.Select).SelectExprs[0])
	text := buf.String()
	if text[0] == '(' && closes(text) {
		return text
	}
	return "(" + text + ")"
}

// closes reports whether the bracket that a text begins with is closed by its last letter.
func closes(text string) bool {
	depth := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\'', '"', '`':
			i = closing(text, i) - 1
		case '(':
			depth++
		case ')':
			if depth--; depth == 0 {
				return i == len(text)-1
			}
		}
	}
	return false
}

// GetChecks implements sql.CheckTable, for information_schema alone: the planner of a write would judge rows that are not converted yet.
func (t *tableView) GetChecks(c *sql.Context) (all []sql.CheckDefinition, err error) {
	if !sessionOf(c).shows {
		return nil, nil
	}
	for i := range t.def.checks {
		x := &t.def.checks[i]
		all = append(all, sql.CheckDefinition{Name: x.name, CheckExpression: x.shown(), Enforced: x.enforced})
	}
	return all, nil
}
