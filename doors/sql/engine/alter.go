package engine

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	sqlmachine "github.com/holdfastdb/holdfast/doors/sql/machine"
	sqlpart "github.com/holdfastdb/holdfast/doors/sql/part"
	"github.com/holdfastdb/holdfast/doors/sql/txn"
	"github.com/holdfastdb/holdfast/doors/sql/wire"
)

// alterTable is ALTER TABLE, CREATE INDEX and DROP INDEX. All clauses take effect at once. Indexes that are dropped go first, names change behind that, and
// indexes are added at last, so that the order of the clauses does not matter, as in MySQL.
func (s *Session) alterTable(ctx *sql.Context, tx *txn.Tx, n sqlparser.TableName, clauses []*sqlparser.DDL) error {
	t, databaseName, _, err := s.existing(n)
	if err != nil {
		return err
	}
	for leftHalfBuilt(t) { // nobody builds it: the definition is locked
		if err := s.settle(ctx, tx, databaseName, t); err != nil {
			return err
		}
		if t, databaseName, _, err = s.existing(n); err != nil { // the build may have been one that renames
			return err
		}
	}
	decoded, err := s.e.table(t, databaseName)
	if err != nil {
		return err
	}
	to := goal{def: decoded.def.copy(), indexes: slices.Clone(t.Indexes)}
	names, dropped := false, ""
	for _, c := range clauses {
		names = names || c.Action == sqlparser.RenameStr || c.ColumnAction == sqlparser.RenameStr
		if x := c.IndexSpec; x != nil && strings.EqualFold(x.Action, sqlparser.DropStr) {
			dropped = x.ToName.String()
			if err := to.dropIndex(dropped); err != nil {
				return err
			}
		}
	}
	if names {
		if err := s.judgeNames(decoded); err != nil {
			return err
		}
	}
	if err := to.rename(clauses); err != nil {
		return err
	}
	for _, c := range clauses {
		switch x := c.IndexSpec; {
		case c.Action == sqlparser.RenameStr:
			if err := s.moveTo(t, &to, c.ToTables[0]); err != nil {
				return err
			}
		case x != nil && strings.EqualFold(x.Action, sqlparser.CreateStr):
			if err := to.addIndex(decoded.schema.Schema, x); err != nil {
				return err
			}
		}
	}
	if dropped != "" {
		if err := s.judgeDropIndex(decoded, to.def, dropped); err != nil {
			return err
		}
	}
	if err := to.def.judgeKeys(ctx, decoded.schema.Schema); err != nil {
		return err
	}
	return s.build(ctx, tx, databaseName, t, decoded.def, to)
}

// judgeNames refuses to rename a table, or columns of one, that foreign keys lead from or to: they have the names in their definitions.
func (s *Session) judgeNames(t *table) error {
	all, err := s.referencesTo(t.database, t.t.Name)
	if err == nil && len(all)+len(t.def.foreign) > 0 {
		err = refused("RENAME of a table with foreign keys, or of its columns")
	}
	return err
}

func (g *goal) dropIndex(name string) error {
	i := g.def.indexNamed(name)
	if i < 0 {
		return wire.Errorf(1091, "Can't DROP '%s'; check that column/key exists", name)
	}
	id := g.def.indexes[i].id
	g.def.indexes = slices.Delete(g.def.indexes, i, i+1)
	g.indexes = slices.DeleteFunc(g.indexes, func(p sqlpart.Index) bool { return p.ID == id })
	return nil
}

// rename gives columns and indexes their new names, all at once.
func (g *goal) rename(clauses []*sqlparser.DDL) error {
	columns, indexes := map[int]string{}, map[int]string{}
	for _, c := range clauses {
		switch x := c.IndexSpec; {
		case c.ColumnAction == sqlparser.RenameStr:
			i := g.def.columnNamed(c.Column.String())
			if i < 0 || columns[i] != "" {
				return wire.Errorf(1054, "Unknown column '%s' in '%s'", c.Column.String(), "table")
			}
			if err := g.def.mayRename(i); err != nil {
				return err
			}
			columns[i] = c.ToColumn.String()
		case x != nil && strings.EqualFold(x.Action, sqlparser.RenameStr):
			i := g.def.indexNamed(x.FromName.String())
			if i < 0 || indexes[i] != "" {
				return wire.Errorf(1176, "Key '%s' doesn't exist in table", x.FromName.String())
			}
			if strings.EqualFold(x.ToName.String(), "PRIMARY") {
				return wire.Errorf(1280, "Incorrect index name '%s'", x.ToName.String())
			}
			indexes[i] = x.ToName.String()
		}
	}
	for i, name := range columns { // any order: names are judged behind it
		if name == "" || len([]rune(name)) > 64 || strings.HasSuffix(name, " ") {
			return wire.Errorf(1166, "Incorrect column name '%s'", name)
		}
		g.def.columns[i].name = name
	}
	for i, name := range indexes { // any order: names are judged behind it
		if err := goodName(name); err != nil {
			return wire.Errorf(1280, "Incorrect index name '%s'", name)
		}
		g.def.indexes[i].name = name
	}
	for i := range g.def.columns {
		if name := g.def.columns[i].name; g.def.columnNamed(name) != i {
			return wire.Errorf(1060, "Duplicate column name '%s'", name)
		}
	}
	for i := range g.def.indexes {
		if name := g.def.indexes[i].name; g.def.indexNamed(name) != i {
			return wire.Errorf(1061, "Duplicate key name '%s'", name)
		}
	}
	return nil
}

// mayRename refuses to rename a column that an expression of the definition names: expressions are kept as texts.
func (d *definition) mayRename(i int) error {
	for k := range d.columns {
		if c := &d.columns[k]; c.hasDef && namesColumn(c.def, d.columns[i].name) {
			return refused("RENAME COLUMN of one that the default of another column names")
		}
	}
	for _, c := range d.checks {
		if namesColumn(c.expr, d.columns[i].name) {
			return refused("RENAME COLUMN of one that a CHECK names")
		}
	}
	return nil
}

// namesColumn reports whether an expression may name a column.
func namesColumn(text, name string) bool {
	return slices.Contains(wordsOf(text), strings.ToLower(name)) || strings.Contains(text, "`"+name+"`")
}

// addIndex adds an index that is not built yet.
func (g *goal) addIndex(schema sql.Schema, x *sqlparser.IndexSpec) error {
	var columns []sql.IndexColumn
	for _, f := range x.Fields {
		c := sql.IndexColumn{Name: f.Column.String()}
		if f.Length != nil {
			if _, err := fmt.Sscan(string(f.Length.Val), &c.Length); err != nil {
				return wire.Errorf(1089, "Incorrect prefix key")
			}
		}
		columns = append(columns, c)
	}
	parts, err := g.def.partsOf(columns, schema)
	if err != nil {
		return err
	}
	comment := ""
	for _, o := range x.Options {
		if strings.EqualFold(o.Name, "comment") && o.Value != nil {
			comment = string(o.Value.Val)
		} else if o.Name != "" && !strings.EqualFold(o.Name, "using") {
			return refused("index option " + strings.ToUpper(o.Name))
		}
	}
	if err := g.def.addIndex(x.ToName.String(), strings.EqualFold(x.Type, "unique"), comment, parts); err != nil {
		return err
	}
	g.indexes = append(g.indexes, sqlpart.Index{ID: g.def.lastIndex, State: sqlpart.Public})
	return nil
}

// moveTo gives the table of a goal another name, in its database or another one.
func (s *Session) moveTo(t *sqlmachine.Table, g *goal, n sqlparser.TableName) error {
	d, name, err := s.destination(n)
	if err != nil {
		return err
	}
	if there := d.Table(name); there != nil && there.ID != t.ID {
		return wire.Errorf(1050, "Table '%s' already exists", name)
	}
	g.database, g.name = d, name
	return nil
}

// destination is where a table is to be under another name.
func (s *Session) destination(n sqlparser.TableName) (*sqlmachine.Database, string, error) {
	databaseName, name, err := s.named(n)
	if err != nil {
		return nil, "", err
	}
	d := s.catalogue().Database(databaseName)
	if d == nil || reservedDatabase(databaseName) {
		return nil, "", wire.Errorf(1049, "Unknown database '%s'", databaseName)
	}
	return d, name, goodName(name)
}

// renameTables is RENAME TABLE. The names change one after the other, and all at once for everybody else.
func (s *Session) renameTables(tx *txn.Tx, a *sqlparser.DDL) error {
	if s.locked != nil {
		return wire.Errorf(1192, "Can't execute the given command because you have active locked tables or an active transaction")
	}
	type place struct {
		database uint64
		name     string
	}
	now := map[place]*sqlmachine.Table{} // names that this statement has given or taken; nil: taken
	owned := map[uint64]*sqlmachine.Table{}
	var changes []sqlpart.Change
	for i := range a.FromTables {
		databaseName, name, err := s.named(a.FromTables[i])
		if err != nil {
			return err
		}
		d := s.catalogue().Database(databaseName)
		if d == nil {
			return wire.Errorf(1146, "Table '%s.%s' doesn't exist", databaseName, name)
		}
		from := place{d.ID, name}
		t, known := now[from]
		if !known {
			if t, err = s.own(databaseName, name); err != nil {
				return err
			}
		}
		if t == nil {
			return wire.Errorf(1146, "Table '%s.%s' doesn't exist", databaseName, name)
		}
		if owned[t.ID] == nil {
			decoded, err := s.e.table(t, databaseName)
			if err == nil {
				err = s.judgeNames(decoded)
			}
			if err != nil {
				return err
			}
		}
		owned[t.ID] = t
		to, name, err := s.destination(a.ToTables[i])
		if err != nil {
			return err
		}
		there, known := now[place{to.ID, name}]
		if !known {
			there = to.Table(name)
		}
		if there != nil {
			return wire.Errorf(1050, "Table '%s' already exists", name)
		}
		now[from], now[place{to.ID, name}] = nil, t
		changes = append(changes, sqlpart.Change{Verb: sqlpart.AlterTable, Object: t.ID, Version: t.Version, Database: to.ID, Name: name, Definition: t.Definition, Indexes: t.Indexes})
	}
	for _, c := range changes {
		if err := s.lockTable(tx, owned[c.Object]); err != nil {
			return err
		}
	}
	_, err := change(tx, changes...)
	return err
}
