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

// alterTable is ALTER TABLE, CREATE INDEX and DROP INDEX. All clauses take effect at once. Drops go first, names and columns change behind that, and
// indexes and constraints are added at last, so that the order of the clauses does not matter, as in MySQL.
func (s *Session) alterTable(ctx *sql.Context, tx *txn.Tx, n sqlparser.TableName, clauses []*sqlparser.DDL, text string) error {
	options, err := s.optionsOf(clauses, text)
	if err != nil {
		return err
	}
	if len(clauses) == 1 && clauses[0].Action == sqlparser.RenameStr && s.locked == nil && len(clauses[0].ToTables) == 1 {
		foreign, err := s.hasForeign(n)
		if err != nil {
			return err
		}
		if foreign {
			return s.renameTables(tx, &sqlparser.DDL{FromTables: sqlparser.TableNames{n}, ToTables: clauses[0].ToTables})
		}
	}
	t, databaseName, _, err := s.existing(n)
	if err != nil {
		return err
	}
	for leftHalfBuilt(t) { // no session builds it: the definition is locked
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
	a := &alteration{goal: goal{def: decoded.def.copy(), indexes: slices.Clone(t.Indexes)}, options: options, s: s, ctx: ctx, t: decoded}
	if err := a.clauses(clauses); err != nil {
		return err
	}
	return s.carryOut(ctx, tx, a)
}

// alteration is what the clauses of an ALTER TABLE make of a table.
type alteration struct {
	goal
	options alterOptions
	s       *Session
	ctx     *sql.Context
	t       *table // as it is

	columns []altered // all that there will be, in their order
	gone    []string  // columns that are dropped, by name
	renamed []string  // columns that are, by their names before

	anew       bool     // the rows are written anew
	typed      bool     // because a type changes
	notNull    []int    // columns that may be NULL no more, by place
	newChecks  []string // by name
	newForeign int      // how many foreign keys come, behind the others
	emptied    []string // names of indexes that are dropped
}

// clauses goes through all clauses.
func (a *alteration) clauses(all []*sqlparser.DDL) error {
	for i := range a.def.columns {
		a.columns = append(a.columns, altered{column: a.def.columns[i], from: i})
	}
	for _, step := range []func([]*sqlparser.DDL) error{a.drop, a.rename, a.change, a.add, a.arrange, a.addKeys, a.constrain, a.setOptions} {
		if err := step(all); err != nil {
			return err
		}
	}
	if err := a.judgeAuto(); err != nil {
		return err
	}
	if err := a.def.judgeGenerated(); err != nil { // keys have come
		return err
	}
	schema, err := a.def.schema(a.t.database, a.t.t.Name)
	if err != nil {
		return err
	}
	for _, name := range a.emptied {
		if err := a.s.judgeDropIndex(a, name); err != nil {
			return err
		}
	}
	return a.def.judgeKeys(a.ctx, schema.Schema)
}

// drop drops indexes, constraints and columns.
func (a *alteration) drop(all []*sqlparser.DDL) error {
	for _, c := range all {
		switch x := c.IndexSpec; {
		case x != nil && strings.EqualFold(x.Action, sqlparser.DropStr) && (x.Type == sqlparser.PrimaryStr || strings.EqualFold(x.ToName.String(), "PRIMARY")):
			if err := a.dropPrimary(); err != nil {
				return err
			}
		case x != nil && strings.EqualFold(x.Action, sqlparser.DropStr):
			if err := a.dropIndex(x.ToName.String()); err != nil {
				return err
			}
			a.emptied = append(a.emptied, x.ToName.String())
		case c.ConstraintAction == sqlparser.DropStr:
			if err := a.dropConstraint(c.TableSpec.Constraints[0]); err != nil {
				return err
			}
		}
	}
	for _, c := range all {
		if c.ColumnAction == sqlparser.DropStr {
			if err := a.dropColumn(c.Column.String()); err != nil {
				return err
			}
		}
	}
	return nil
}

func (a *alteration) dropPrimary() error {
	if len(a.def.primary) == 0 {
		return cannotDrop("PRIMARY")
	}
	a.def.primary, a.anew = nil, true
	a.emptied = append(a.emptied, "PRIMARY")
	return nil
}

func cannotDrop(name string) error {
	return wire.Errorf(1091, "Can't DROP '%s'; check that column/key exists", name)
}

// dropConstraint is DROP CHECK, DROP FOREIGN KEY and DROP CONSTRAINT, which finds any.
func (a *alteration) dropConstraint(c *sqlparser.ConstraintDefinition) error {
	check := slices.IndexFunc(a.def.checks, func(x checkDef) bool { return strings.EqualFold(x.name, c.Name) })
	foreign := slices.IndexFunc(a.def.foreign, func(x foreignDef) bool { return strings.EqualFold(x.name, c.Name) })
	unique := a.def.indexNamed(c.Name)
	if unique >= 0 && !a.def.indexes[unique].unique {
		unique = -1
	}
	primary := strings.EqualFold(c.Name, "PRIMARY") && len(a.def.primary) > 0
	switch c.Details.(type) {
	case *sqlparser.CheckConstraintDefinition:
		if check < 0 {
			return wire.Errorf(3821, "Check constraint '%s' is not found in the table.", c.Name)
		}
		foreign, unique, primary = -1, -1, false
	case *sqlparser.ForeignKeyDefinition:
		if foreign < 0 {
			return cannotDrop(c.Name)
		}
		check, unique, primary = -1, -1, false
	}
	found := 0
	for _, is := range []bool{check >= 0, foreign >= 0, unique >= 0, primary} {
		if is {
			found++
		}
	}
	switch {
	case found == 0:
		return wire.Errorf(3940, "Constraint '%s' does not exist.", c.Name)
	case found > 1:
		return wire.Errorf(3939, "Table has multiple constraints with the name '%s'. Please use constraint specific 'DROP' clause.", c.Name)
	case check >= 0:
		a.def.checks = slices.Delete(a.def.checks, check, check+1)
	case foreign >= 0:
		a.def.foreign = slices.Delete(a.def.foreign, foreign, foreign+1)
	case primary:
		return a.dropPrimary()
	default:
		a.emptied = append(a.emptied, c.Name)
		return a.dropIndex(c.Name)
	}
	return nil
}

// rename gives the table, its columns and its indexes other names, all at once.
func (a *alteration) rename(all []*sqlparser.DDL) error {
	for _, c := range all {
		if c.Action == sqlparser.RenameStr {
			if err := a.s.judgeNames(a.t); err != nil {
				return err
			}
			if err := a.s.moveTo(a.t.t, &a.goal, c.ToTables[0]); err != nil {
				return err
			}
		}
		if c.ColumnAction == sqlparser.RenameStr {
			if _, err := a.renameColumn(c.Column.String(), c.ToColumn.String()); err != nil {
				return err
			}
		}
	}
	return a.renameIndexes(all)
}

// addKeys adds indexes and a primary key.
func (a *alteration) addKeys(all []*sqlparser.DDL) error {
	schema, err := a.def.schema(a.t.database, a.t.t.Name)
	if err != nil {
		return err
	}
	for i := range a.columns {
		if err := a.addOwnKey(i, schema.Schema); err != nil {
			return err
		}
	}
	for _, c := range all {
		switch x := c.IndexSpec; {
		case x == nil || !strings.EqualFold(x.Action, sqlparser.CreateStr):
		case x.Type == sqlparser.PrimaryStr:
			if err := a.addPrimary(schema.Schema, x); err != nil {
				return err
			}
		default:
			if err := a.addIndex(schema.Schema, x); err != nil {
				return err
			}
		}
	}
	return nil
}

func (a *alteration) addPrimary(schema sql.Schema, x *sqlparser.IndexSpec) error {
	parts, err := a.def.fieldsOf(x.Fields, schema)
	if err != nil {
		return err
	}
	return a.setPrimary(parts)
}

// setPrimary gives the table a primary key, whose columns are never NULL.
func (a *alteration) setPrimary(parts []keyPart) error {
	if len(a.def.primary) > 0 {
		return wire.Errorf(1068, "Multiple primary key defined")
	}
	for _, p := range parts {
		c := &a.def.columns[p.column]
		if c.nullable && a.columns[p.column].saysNull() {
			return wire.Errorf(1171, "All parts of a PRIMARY KEY must be NOT NULL; if you need NULL in a key, use UNIQUE instead")
		}
		c.nullable = false
	}
	a.def.primary, a.anew = parts, true
	return nil
}

// judgeAuto judges the column of AUTO_INCREMENT. Error: 1075.
func (a *alteration) judgeAuto() error {
	wrong := wire.Errorf(1075, "Incorrect table definition; there can be only one auto column and it must be defined as a key")
	auto := -1
	for i := range a.def.columns {
		if a.def.columns[i].auto {
			if auto >= 0 {
				return wrong
			}
			auto = i
		}
	}
	if auto < 0 || leads(a.def.primary, []int{auto}) || slices.ContainsFunc(a.def.indexes, func(x indexDef) bool { return leads(x.parts, []int{auto}) }) {
		return nil
	}
	return wrong
}

// judgeNames refuses to rename a table that foreign keys lead from or to in one statement with other clauses: the definitions of all these tables have the names.
func (s *Session) judgeNames(t *table) error {
	all, err := s.referencesTo(t.database, t.t.Name)
	if err == nil && len(all)+len(t.def.foreign) > 0 {
		err = refused("RENAME of a table with foreign keys, beside other clauses")
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

// renameIndexes gives indexes their new names, all at once.
func (g *goal) renameIndexes(clauses []*sqlparser.DDL) error {
	indexes := map[int]string{}
	for _, c := range clauses {
		if x := c.IndexSpec; x != nil && strings.EqualFold(x.Action, sqlparser.RenameStr) {
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
	for i, name := range indexes { // any order: names are judged behind it
		if err := goodName(name); err != nil {
			return wire.Errorf(1280, "Incorrect index name '%s'", name)
		}
		g.def.indexes[i].name = name
	}
	for i := range g.def.indexes {
		if name := g.def.indexes[i].name; g.def.indexNamed(name) != i {
			return wire.Errorf(1061, "Duplicate key name '%s'", name)
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
	parts, err := g.def.fieldsOf(x.Fields, schema)
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

// fieldsOf finds the columns of an index.
func (d *definition) fieldsOf(fields []*sqlparser.IndexField, schema sql.Schema) ([]keyPart, error) {
	var columns []sql.IndexColumn
	for _, f := range fields {
		c := sql.IndexColumn{Name: f.Column.String()}
		if f.Length != nil {
			if _, err := fmt.Sscan(string(f.Length.Val), &c.Length); err != nil {
				return nil, wire.Errorf(1089, "Incorrect prefix key")
			}
		}
		columns = append(columns, c)
	}
	return d.partsOf(columns, schema)
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

// renameTables is RENAME TABLE. The names change one after the other, and all at once for everybody else. Foreign keys follow the tables that they lead to.
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
	moved := movedTables{}
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
			moved.begin(t.ID, databaseName, name)
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
		moved.reach(t.ID, to.Name, name)
		changes = append(changes, sqlpart.Change{Verb: sqlpart.AlterTable, Object: t.ID, Version: t.Version, Database: to.ID, Name: name, Definition: t.Definition, Indexes: t.Indexes})
	}
	for _, c := range changes {
		if err := s.lockTable(tx, owned[c.Object]); err != nil {
			return err
		}
	}
	changes, err := s.followTables(tx, moved, changes)
	if err != nil {
		return err
	}
	_, err = change(tx, changes...)
	return err
}
