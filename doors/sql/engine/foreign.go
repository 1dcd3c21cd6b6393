package engine

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"github.com/holdfastdb/holdfast/doors/sql/lock"
	sqlmachine "github.com/holdfastdb/holdfast/doors/sql/machine"
	"github.com/holdfastdb/holdfast/doors/sql/wire"
)

// foreignDef is a foreign key of a table: a row whose columns are not NULL has a row in the parent.
type foreignDef struct {
	name             string
	columns          []int
	parentDB, parent string // in small letters, as the catalogue has them
	parentColumns    []string
	onDelete         action
	onUpdate         action
}

// action is what becomes of the rows of a parent that goes or changes.
type action byte

// The actions. The first is where none is written, and the first three are one.
const (
	actionDefault action = iota
	actionRestrict
	actionNone
	actionCascade
	actionSetNull
	actions
)

var actionWords = [actions]string{"", "RESTRICT", "NO ACTION", "CASCADE", "SET NULL"}

func actionOf(a sqlparser.ReferenceAction) (action, error) {
	switch a {
	case sqlparser.DefaultAction:
		return actionDefault, nil
	case sqlparser.Restrict:
		return actionRestrict, nil
	case sqlparser.NoAction:
		return actionNone, nil
	case sqlparser.Cascade:
		return actionCascade, nil
	case sqlparser.SetNull:
		return actionSetNull, nil
	}
	return 0, refused("SET DEFAULT of a foreign key")
}

// names are the columns of the table that has the foreign key.
func (f *foreignDef) names(d *definition) []string {
	all := make([]string, len(f.columns))
	for i, c := range f.columns {
		all[i] = d.columns[c].name
	}
	return all
}

func quotedNames(all []string) string {
	quoted := make([]string, len(all))
	for i, n := range all {
		quoted[i] = "`" + strings.ReplaceAll(n, "`", "``") + "`"
	}
	return strings.Join(quoted, ", ")
}

// text is the constraint as SHOW CREATE TABLE and errors have it. database is that of the table that has it.
func (f *foreignDef) text(d *definition, database string) string {
	parent := quotedNames([]string{f.parent})
	if f.parentDB != database {
		parent = quotedNames([]string{f.parentDB}) + "." + parent
	}
	text := fmt.Sprintf("CONSTRAINT %s FOREIGN KEY (%s) REFERENCES %s (%s)", quotedNames([]string{f.name}), quotedNames(f.names(d)), parent, quotedNames(f.parentColumns))
	if w := actionWords[f.onDelete]; w != "" && f.onDelete != actionNone {
		text += " ON DELETE " + w
	}
	if w := actionWords[f.onUpdate]; w != "" && f.onUpdate != actionNone {
		text += " ON UPDATE " + w
	}
	return text
}

// keyFor returns the index, or the primary key, whose first columns are the given ones, in their order. A unique one with no others comes first. Nil: there is none.
func (t *table) keyFor(columns []int) (found *index) {
	for _, x := range t.indexes {
		if len(x.key) < len(columns) {
			continue
		}
		serves := true
		for i, c := range columns {
			serves = serves && x.key[i].column == c && x.key[i].prefix == 0
		}
		switch {
		case !serves:
		case x.unique && len(x.key) == len(columns):
			return x
		case found == nil:
			found = x
		}
	}
	return found
}

// foreignOf takes the foreign keys of a CREATE TABLE, or of an ALTER TABLE, and adds the indexes that they need. Errors: 1072, 1826, 1830, 3780, 1822, 1824.
func (s *Session) foreignOf(d *definition, databaseName, table string, spec *sqlparser.TableSpec, schema sql.Schema, altered bool) error {
	for _, c := range spec.Constraints {
		fk, ok := c.Details.(*sqlparser.ForeignKeyDefinition)
		if !ok {
			continue
		}
		f := foreignDef{name: c.Name, parentDB: nameOf(fk.ReferencedTable.DbQualifier.String()), parent: nameOf(fk.ReferencedTable.Name.String())}
		if f.parentDB == "" {
			f.parentDB = databaseName
		}
		var err error
		if f.onDelete, err = actionOf(fk.OnDelete); err != nil {
			return err
		}
		if f.onUpdate, err = actionOf(fk.OnUpdate); err != nil {
			return err
		}
		for n := 1; f.name == "" || c.Name == "" && d.foreignNamed(f.name); n++ {
			f.name = fmt.Sprintf("%s_ibfk_%d", table, n)
		}
		if d.foreignNamed(f.name) || s.foreignExists(databaseName, f.name) {
			return wire.Errorf(1826, "Duplicate foreign key constraint name '%s'", f.name)
		}
		if len(fk.Source) != len(fk.ReferencedColumns) || len(fk.Source) == 0 {
			return wire.Errorf(1239, "Incorrect foreign key definition for '%s': Key reference and table reference don't match", f.name)
		}
		for i, n := range fk.Source {
			at := d.columnNamed(n.String())
			if at < 0 {
				return wire.Errorf(1072, "Key column '%s' doesn't exist in table", n.String())
			}
			if (f.onDelete == actionSetNull || f.onUpdate == actionSetNull) && !d.columns[at].nullable {
				return wire.Errorf(1830, "Column '%s' cannot be NOT NULL: needed in a foreign key constraint '%s' SET NULL", d.columns[at].name, f.name)
			}
			if d.columns[at].gen != "" {
				if err := judgeForeignGenerated(&f, &d.columns[at]); err != nil {
					return err
				}
			}
			f.columns = append(f.columns, at)
			f.parentColumns = append(f.parentColumns, fk.ReferencedColumns[i].Lowered())
		}
		if err := s.judgeParent(d, &f, databaseName, table, schema, altered); err != nil {
			return err
		}
		if err := d.indexForeign(&f, c.Name); err != nil {
			return err
		}
		d.foreign = append(d.foreign, f)
	}
	return nil
}

// judgeForeignGenerated refuses a foreign key of a generated column whose actions would write it. Errors: 3104, 3733.
func judgeForeignGenerated(f *foreignDef, c *column) error {
	if !c.stored {
		return wire.Errorf(3733, "Foreign key '%s' uses virtual column '%s' which is not supported.", f.name, c.name)
	}
	for _, x := range []struct {
		on   string
		what action
	}{{"ON DELETE", f.onDelete}, {"ON UPDATE", f.onUpdate}} {
		if x.what == actionSetNull || x.what == actionCascade && x.on == "ON UPDATE" {
			return wire.Errorf(3104, "Cannot define foreign key with %s %s clause on a generated column.", x.on, actionWords[x.what])
		}
	}
	return nil
}

func (d *definition) foreignNamed(name string) bool {
	return slices.ContainsFunc(d.foreign, func(f foreignDef) bool { return strings.EqualFold(f.name, name) })
}

// leads reports whether a key begins with columns.
func leads(key []keyPart, columns []int) bool {
	if len(key) < len(columns) {
		return false
	}
	for i, c := range columns {
		if key[i].column != c || key[i].prefix > 0 {
			return false
		}
	}
	return true
}

// indexForeign adds an index for the columns of a foreign key, if there is none that serves: the rows of a parent are looked up by it. As in MySQL it has the name
// that the client has given the foreign key, or the column's.
func (d *definition) indexForeign(f *foreignDef, name string) error {
	if leads(d.primary, f.columns) || slices.ContainsFunc(d.indexes, func(x indexDef) bool { return leads(x.parts, f.columns) }) {
		return nil
	}
	parts := make([]keyPart, len(f.columns))
	for i, c := range f.columns {
		parts[i] = keyPart{column: c}
	}
	if d.indexNamed(name) >= 0 {
		name = ""
	}
	return d.addIndex(name, false, "", parts)
}

// judgeParent judges the table that a foreign key refers to, and keeps others off it until the definition is in the log: rows that go meanwhile would have no
// children to look for. Without foreign_key_checks it may not be there.
func (s *Session) judgeParent(d *definition, f *foreignDef, databaseName, table string, schema sql.Schema, altered bool) error {
	incompatible := func(i int) error {
		return wire.Errorf(3780, "Referencing column '%s' and referenced column '%s' in foreign key constraint '%s' are incompatible.",
			d.columns[f.columns[i]].name, f.parentColumns[i], f.name)
	}
	missing := wire.Errorf(1822, "Failed to add the foreign key constraint. Missing index for constraint '%s' in the referenced table '%s'", f.name, f.parent)
	if f.parentDB == databaseName && f.parent == table {
		columns := make([]int, len(f.parentColumns))
		for i, n := range f.parentColumns {
			if columns[i] = d.columnNamed(n); columns[i] < 0 {
				return wire.Errorf(3734, "Failed to add the foreign key constraint. Missing column '%s' for constraint '%s' in the referenced table '%s'", n, f.name, f.parent)
			}
			if !comparable(schema[columns[i]].Type, schema[f.columns[i]].Type) {
				return incompatible(i)
			}
		}
		if !leads(d.primary, columns) && !slices.ContainsFunc(d.indexes, func(x indexDef) bool { return leads(x.parts, columns) }) {
			return missing
		}
		return nil
	}
	t, err := s.relatedClosed(f.parentDB, f.parent, altered) // rows are judged for long
	switch {
	case err != nil:
		return err
	case t == nil && !s.foreignChecks():
		return nil
	case t == nil:
		return wire.Errorf(1824, "Failed to open the referenced table '%s'", f.parent)
	}
	columns, ok := t.columnsNamed(f.parentColumns)
	if !ok {
		return wire.Errorf(3734, "Failed to add the foreign key constraint. Missing column '%s' for constraint '%s' in the referenced table '%s'",
			strings.Join(f.parentColumns, "', '"), f.name, f.parent)
	}
	for i, c := range columns {
		if !comparable(t.schema.Schema[c].Type, schema[f.columns[i]].Type) {
			return incompatible(i)
		}
	}
	if t.keyFor(columns) == nil {
		return missing
	}
	return nil
}

// comparable reports whether the keys of two types are the same for the same values.
func comparable(a, b sql.Type) bool {
	x, text := a.(sql.StringType)
	y, also := b.(sql.StringType)
	if text && also {
		return x.Collation() == y.Collation() && types.IsBinaryType(a) == types.IsBinaryType(b)
	}
	return a.Equals(b)
}

// columnsNamed returns the places of columns. ok false: one of them is not there.
func (t *table) columnsNamed(names []string) (columns []int, ok bool) {
	for _, n := range names {
		i := t.def.columnNamed(n)
		if i < 0 {
			return nil, false
		}
		columns = append(columns, i)
	}
	return columns, true
}

// foreignExists reports whether a database has a foreign key of a name.
func (s *Session) foreignExists(databaseName, name string) bool {
	d := s.catalogue().Database(databaseName)
	if d == nil {
		return false
	}
	for _, t := range d.Tables() {
		if isCopy(t.Name) {
			continue
		}
		if x, err := s.e.table(t, databaseName); err == nil && x.def.foreignNamed(name) {
			return true
		}
	}
	return false
}

// foreignChecks reports whether foreign keys are heeded.
func (s *Session) foreignChecks() bool {
	v, _ := s.GetSessionVariable(nil, "foreign_key_checks") // the library knows the variable
	n, ok := integer(v)
	return !ok || n != 0
}

// related finds a table that a statement touches without naming it, with any locks and rights of the client. Nil: there is none.
func (s *Session) related(databaseName, name string, mode lock.Mode) (*table, error) {
	locked, rights := s.locked, s.rights
	s.locked, s.rights = nil, nil
	defer func() { s.locked, s.rights = locked, rights }()
	t, err := s.useTable(databaseName, name, mode)
	if err != nil || t == nil {
		return nil, err
	}
	return s.e.table(t, databaseName)
}

// relatedClosed finds a table in that way, locks its definition, and closes it. shared: others may read it all the time. Nil: there is none.
func (s *Session) relatedClosed(databaseName, name string, shared bool) (*table, error) {
	locked := s.locked
	s.locked = nil
	defer func() { s.locked = locked }()
	t, err := s.own(databaseName, name)
	if err != nil || t == nil {
		return nil, err
	}
	tx, err := s.transaction()
	switch {
	case err != nil:
	case shared:
		err = tx.ShareTable(t.ID, t.Version, s.TableWait())
	default:
		err = s.lockTable(tx, t)
	}
	if err != nil {
		return nil, err
	}
	return s.e.table(t, databaseName)
}

// reference is a foreign key, seen from its parent.
type reference struct {
	database, table string // that has it
	foreign         foreignDef
	child           *definition
}

// references are all foreign keys of one catalogue, by the parent's database and name.
type references struct {
	catalogue *sqlmachine.Catalogue
	of        map[[2]string][]reference
}

// referencesTo returns the foreign keys that refer to a table.
func (s *Session) referencesTo(databaseName, name string) ([]reference, error) {
	c := s.catalogue()
	e := s.e
	e.mu.RLock()
	known := e.references
	e.mu.RUnlock()
	if known == nil || known.catalogue != c {
		known = &references{catalogue: c, of: map[[2]string][]reference{}}
		for _, d := range c.Databases() {
			for _, t := range d.Tables() {
				if isCopy(t.Name) {
					continue
				}
				x, err := e.table(t, d.Name)
				if err != nil {
					return nil, err
				}
				for _, f := range x.def.foreign {
					key := [2]string{f.parentDB, f.parent}
					known.of[key] = append(known.of[key], reference{d.Name, t.Name, f, x.def})
				}
			}
		}
		e.mu.Lock()
		e.references = known
		e.mu.Unlock()
	}
	return known.of[[2]string{databaseName, name}], nil
}

// judgeDrop refuses to drop a table that another one refers to. going: tables that go with it, by database and name.
func (s *Session) judgeDrop(databaseName, name string, going map[[2]string]bool) error {
	all, err := s.referencesTo(databaseName, name)
	if err != nil || !s.foreignChecks() {
		return err
	}
	for _, r := range all {
		if !going[[2]string{r.database, r.table}] {
			return wire.Errorf(3730, "Cannot drop table '%s' referenced by a foreign key constraint '%s' on table '%s'.", name, r.foreign.name, r.table)
		}
	}
	return nil
}

// judgeTruncate refuses to empty a table that another one refers to.
func (s *Session) judgeTruncate(databaseName, name string) error {
	all, err := s.referencesTo(databaseName, name)
	if err != nil || !s.foreignChecks() {
		return err
	}
	for _, r := range all {
		if r.database != databaseName || r.table != name {
			return wire.Errorf(1701, "Cannot truncate a table referenced in a foreign key constraint (`%s`.`%s`, %s)", r.database, r.table, r.foreign.text(r.child, r.database))
		}
	}
	return nil
}

// judgeDropIndex refuses to drop an index that a foreign key needs, of the table or of one that refers to it.
func (s *Session) judgeDropIndex(a *alteration, name string) error {
	all, err := s.referencesTo(a.t.database, a.t.t.Name)
	if err != nil {
		return err
	}
	serves := func(columns []int) bool {
		return leads(a.def.primary, columns) || slices.ContainsFunc(a.def.indexes, func(x indexDef) bool { return leads(x.parts, columns) })
	}
	needed := wire.Errorf(1553, "Cannot drop index '%s': needed in a foreign key constraint", name)
	for _, f := range a.def.foreign {
		if !serves(f.columns) {
			return needed
		}
	}
	for _, r := range all {
		if r.database == a.t.database && r.table == a.t.t.Name && !a.def.foreignNamed(r.foreign.name) {
			continue // it is dropped too
		}
		columns := make([]int, len(r.foreign.parentColumns))
		for i, n := range r.foreign.parentColumns {
			columns[i] = a.def.columnNamed(n)
		}
		if !slices.Contains(columns, -1) && !serves(columns) {
			return needed
		}
	}
	return nil
}
