package engine

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/planbuilder"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"github.com/holdfastdb/holdfast/core/entry"
	sqlmachine "github.com/holdfastdb/holdfast/doors/sql/machine"
	sqlpart "github.com/holdfastdb/holdfast/doors/sql/part"
	"github.com/holdfastdb/holdfast/doors/sql/row"
	"github.com/holdfastdb/holdfast/doors/sql/txn"
	"github.com/holdfastdb/holdfast/doors/sql/wire"
)

// define runs a statement that changes the catalogue, in a transaction of its own. Its changes are one command of the log, but for the build of
// an index over rows that are there.
func (s *Session) define(ctx *sql.Context, st *Statement) (done wire.Done, err error) {
	tx, err := s.transaction()
	if err != nil {
		return done, err
	}
	switch a := st.ast.(type) {
	case *sqlparser.DBDDL:
		return done, s.defineDatabase(tx, a)
	case *sqlparser.AlterTable:
		if switchesKeys(a) {
			return done, s.switchKeys(a)
		}
		return done, s.alterTable(ctx, tx, a.Table, a.Statements, st.Text)
	case *sqlparser.DDL:
		switch strings.ToLower(a.Action) {
		case sqlparser.CreateStr:
			if a.OptLike != nil {
				return done, s.createLike(tx, a)
			}
			return done, s.createTable(ctx, tx, st, a)
		case sqlparser.DropStr:
			return done, s.dropTables(tx, a)
		case sqlparser.TruncateStr:
			return done, s.truncate(tx, a.Table)
		case sqlparser.AlterStr:
			return done, s.alterTable(ctx, tx, a.Table, []*sqlparser.DDL{a}, st.Text)
		case sqlparser.RenameStr:
			return done, s.renameTables(tx, a)
		}
	}
	return done, refused(firstWords(st.Text))
}

// change proposes changes, and turns the machine's rejection into MySQL's words.
func change(tx *txn.Tx, changes ...sqlpart.Change) (*sqlpart.Defined, error) {
	defined, err := tx.DefinePlaces(changes, slices.ContainsFunc(changes, func(c sqlpart.Change) bool {
		return (c.Verb == sqlpart.CreateTable || c.Verb == sqlpart.AlterTable) && len(c.Definition) > 0 && c.Definition[0] >= placedVersion
	}))
	var r *entry.Rejection
	if !errors.As(err, &r) {
		return defined, err
	}
	name := changes[0].Name
	switch r.Code {
	case sqlpart.DatabaseExists:
		return nil, wire.Errorf(1007, "Can't create database '%s'; database exists", name)
	case sqlpart.UnknownDatabase:
		return nil, wire.Errorf(1049, "Unknown database")
	case sqlpart.TableExists:
		return nil, wire.Errorf(1050, "Table '%s' already exists", name)
	case sqlpart.UnknownTable:
		return nil, wire.Errorf(1051, "Unknown table")
	case sqlpart.StaleDefinition:
		return nil, wire.Errorf(1412, "Table definition has changed, please retry transaction")
	}
	return nil, err
}

// databaseCollation decodes the definition of a database: nothing, or its collation.
func databaseCollation(b []byte) sql.CollationID {
	if len(b) == 0 {
		return defaultCollation
	}
	c, err := sql.ParseCollation("", string(b), false)
	if err != nil {
		return defaultCollation
	}
	return c
}

func (s *Session) defineDatabase(tx *txn.Tx, a *sqlparser.DBDDL) error {
	name := nameOf(a.DBName)
	if !s.mayUse(name) {
		return s.deniedDatabase(name)
	}
	if s.locked != nil {
		return wire.Errorf(1192, "Can't execute the given command because you have active locked tables or an active transaction")
	}
	there := s.catalogue().Database(name)
	if reservedDatabase(name) {
		return wire.Errorf(1044, "Access denied to database '%s'", name)
	}
	if a.Action == sqlparser.DropStr {
		if there == nil && a.IfExists {
			s.note(1008, "Can't drop database '%s'; database doesn't exist", name)
			return nil
		}
		if there == nil {
			return wire.Errorf(1008, "Can't drop database '%s'; database doesn't exist", name)
		}
		going := map[[2]string]bool{}
		for _, t := range there.Tables() {
			going[[2]string{name, t.Name}] = true
		}
		for key := range going { // any order: the client is told of one
			if err := s.judgeDrop(key[0], key[1], going); err != nil {
				return err
			}
		}
		for _, t := range there.Tables() { // a table that comes meanwhile makes the definition stale
			if isCopy(t.Name) { // who copies has the definition of the table that is copied
				continue
			}
			if err := s.lockTable(tx, t); err != nil {
				return err
			}
		}
		_, err := change(tx, sqlpart.Change{Verb: sqlpart.DropDatabase, Object: there.ID, Version: there.Version})
		if err == nil && s.GetCurrentDatabase() == name {
			s.SetCurrentDatabase("")
		}
		return err
	}
	if there != nil && a.IfNotExists {
		s.note(1007, "Can't create database '%s'; database exists", name)
		return nil
	}
	collation := defaultCollation
	charset, collate := "", ""
	for _, c := range a.CharsetCollate {
		if strings.EqualFold(c.Type, "collate") {
			collate = c.Value
		} else {
			charset = c.Value
		}
	}
	if own, ok := charsets[strings.ToLower(charset)]; ok && collate == "" { // the library has defaults of its own
		collate = own
	}
	if charset != "" || collate != "" {
		var err error
		if collation, err = sql.ParseCollation(charset, collate, false); err != nil && charset != "" && collate != "" {
			return wire.Errorf(1253, "COLLATION '%s' is not valid for CHARACTER SET '%s'", collate, charset)
		} else if err != nil {
			return err
		}
	}
	if !collations[collation] {
		return refused("collation " + collation.Name())
	}
	if err := goodName(name); err != nil {
		return err
	}
	_, err := change(tx, sqlpart.Change{Verb: sqlpart.CreateDatabase, Name: name, Definition: []byte(collation.Name())})
	return err
}

// reservedDatabase reports whether a name belongs to the server.
func reservedDatabase(name string) bool {
	return name == sql.InformationSchemaDatabaseName || name == "mysql" || name == "performance_schema" || name == "sys" || name == "holdfast"
}

// goodName refuses names that MySQL refuses.
func goodName(name string) error {
	if name == "" || len([]rune(name)) > 64 || strings.HasSuffix(name, " ") || strings.ContainsRune(name, 0) {
		return wire.Errorf(1102, "Incorrect name '%s'", name)
	}
	return nil
}

// collations are those whose order the keys of indexes have.
var collations = map[sql.CollationID]bool{
	sql.Collation_utf8mb4_general_ci: true, sql.Collation_utf8mb4_bin: true, sql.Collation_utf8mb4_0900_ai_ci: true,
	sql.Collation_latin1_swedish_ci: true, sql.Collation_binary: true,
}

// note adds a warning of level Note.
func (s *Session) note(code int, format string, args ...any) {
	s.Note(code, fmt.Sprintf(format, args...))
}

// named splits a table's name.
func (s *Session) named(n sqlparser.TableName) (databaseName, name string, err error) {
	databaseName, name = nameOf(n.DbQualifier.String()), nameOf(n.Name.String())
	if databaseName == "" {
		databaseName = s.GetCurrentDatabase()
	}
	if databaseName == "" {
		return "", "", wire.Errorf(1046, "No database selected")
	}
	if !s.mayUse(databaseName) {
		return "", "", s.deniedTable(name)
	}
	return databaseName, name, nil
}

func (s *Session) dropTables(tx *txn.Tx, a *sqlparser.DDL) error {
	var changes []sqlpart.Change
	var tables []*sqlmachine.Table
	var missing []string
	going := map[[2]string]bool{}
	for _, n := range a.FromTables {
		databaseName, name, err := s.named(n)
		if err != nil {
			return err
		}
		t, err := s.own(databaseName, name)
		if err != nil {
			return err
		}
		if t == nil {
			missing = append(missing, databaseName+"."+name)
			continue
		}
		tables = append(tables, t)
		changes = append(changes, sqlpart.Change{Verb: sqlpart.DropTable, Object: t.ID, Version: t.Version})
		going[[2]string{databaseName, name}] = true
	}
	for key := range going { // any order: the client is told of one
		if err := s.judgeDrop(key[0], key[1], going); err != nil {
			return err
		}
	}
	if len(missing) > 0 && !a.IfExists {
		return wire.Errorf(1051, "Unknown table '%s'", strings.Join(missing, ","))
	}
	if len(missing) > 0 {
		s.note(1051, "Unknown table '%s'", strings.Join(missing, ","))
	}
	if len(changes) == 0 {
		return nil
	}
	for _, t := range tables {
		if err := s.lockTable(tx, t); err != nil {
			return err
		}
	}
	_, err := change(tx, changes...)
	return err
}

// existing is the table of a name, and what its database and the table are called. Errors: 1146 if there is none.
func (s *Session) existing(n sqlparser.TableName) (t *sqlmachine.Table, databaseName, name string, err error) {
	if databaseName, name, err = s.named(n); err != nil {
		return nil, "", "", err
	}
	if t, err = s.own(databaseName, name); err == nil && t == nil {
		err = wire.Errorf(1146, "Table '%s.%s' doesn't exist", databaseName, name)
	}
	return t, databaseName, name, err
}

func (s *Session) truncate(tx *txn.Tx, n sqlparser.TableName) error {
	t, databaseName, name, err := s.existing(n)
	if err != nil {
		return err
	}
	if err := s.judgeTruncate(databaseName, name); err != nil {
		return err
	}
	if err := s.lockTable(tx, t); err != nil {
		return err
	}
	_, err = change(tx, sqlpart.Change{Verb: sqlpart.Truncate, Object: t.ID, Version: t.Version, NextAuto: 1})
	return err
}

// createTable has the library judge the columns, and keeps what the statement says of them.
func (s *Session) createTable(ctx *sql.Context, tx *txn.Tx, st *Statement, a *sqlparser.DDL) error {
	databaseName, name, err := s.named(a.Table)
	if err != nil {
		return err
	}
	d, err := s.newTable(databaseName, name, a.IfNotExists)
	if err != nil || d == nil {
		return err
	}
	if err := judgeConstraints(name, a.TableSpec); err != nil { // before the library, which has other words
		return err
	}
	for _, c := range a.TableSpec.Columns {
		if err := judgeGeneratedSpec(c); err != nil {
			return err
		}
	}
	create, err := s.planned(ctx, collated(a, databaseCollation(d.Definition)), st.Text)
	if err != nil {
		return err
	}
	def, next, err := s.definitionOf(ctx, create, databaseName, name, a.TableSpec)
	if err == nil {
		err = s.judgeExpressions(ctx, def, databaseName, name)
	}
	if err != nil {
		return err
	}
	_, err = change(tx, sqlpart.Change{Verb: sqlpart.CreateTable, Database: d.ID, Name: name, Definition: def.append(nil), Indexes: def.public(), NextAuto: next})
	return err
}

// newTable judges the name of a new table, and returns the database that it comes into. Nil: the table is there, and the statement says IF NOT EXISTS. Errors: 1049,
// 1050, 1100, 1102.
func (s *Session) newTable(databaseName, name string, orNot bool) (*sqlmachine.Database, error) {
	d := s.catalogue().Database(databaseName)
	if d == nil || reservedDatabase(databaseName) {
		return nil, wire.Errorf(1049, "Unknown database '%s'", databaseName)
	}
	if d.Table(name) != nil {
		if !orNot {
			return nil, wire.Errorf(1050, "Table '%s' already exists", name)
		}
		s.note(1050, "Table '%s' already exists", name)
		return nil, nil
	}
	if s.locked != nil {
		return nil, wire.Errorf(1100, "Table '%s' was not locked with LOCK TABLES", name)
	}
	return d, goodName(name)
}

// planned is what the library makes of a CREATE TABLE.
func (s *Session) planned(ctx *sql.Context, a *sqlparser.DDL, text string) (*plan.CreateTable, error) {
	node, flags, err := planbuilder.New(ctx, s.e.sql.Analyzer.Catalog, nil).BindOnly(ungenerated(plainTimes(a)), text, nil)
	if err != nil {
		return nil, err
	}
	if node, err = s.e.sql.Analyzer.Analyze(ctx, node, nil, flags); err != nil {
		return nil, err
	}
	create, _ := find[*plan.CreateTable](node)
	if create == nil {
		return nil, fmt.Errorf("CREATE TABLE was planned as %T", node)
	}
	return create, nil
}

// judgeConstraints judges the constraints of a CREATE TABLE by its columns' names.
func judgeConstraints(table string, spec *sqlparser.TableSpec) error {
	d := &definition{}
	for _, c := range spec.Columns {
		d.columns = append(d.columns, column{name: c.Name.String(), auto: bool(c.Type.Autoincrement)})
	}
	if err := d.checksOf(table, spec); err != nil {
		return err
	}
	if len(spec.Constraints) > mostConstraints {
		return refused(fmt.Sprintf("more than %d constraints of a table", mostConstraints))
	}
	return nil
}

// charsets are the collations of character sets where a statement names no collation.
var charsets = map[string]string{"utf8mb4": "utf8mb4_general_ci", "latin1": "latin1_swedish_ci", "binary": "binary"}

// collated is a CREATE TABLE that names its collation: the database's, where the statement says nothing. The library would take its own default.
func collated(a *sqlparser.DDL, ofDatabase sql.CollationID) *sqlparser.DDL {
	n, spec := *a, *a.TableSpec
	n.TableSpec = &spec
	spec.Constraints = slices.DeleteFunc(slices.Clone(spec.Constraints), func(c *sqlparser.ConstraintDefinition) bool { // foreign keys are judged by us
		_, foreign := c.Details.(*sqlparser.ForeignKeyDefinition)
		return foreign
	})
	collate := ofDatabase.Name()
	for _, o := range spec.TableOpts {
		switch strings.ToLower(o.Name) {
		case "collate":
			return &n
		case "character set", "charset":
			if c, ok := charsets[strings.ToLower(o.Value)]; ok {
				collate = c
			}
		}
	}
	spec.TableOpts = append(slices.Clone(spec.TableOpts), &sqlparser.TableOption{Name: "collate", Value: collate})
	return &n
}

// find is the first node of a kind in a plan, from its root down; false if there is none.
func find[N sql.Node](n sql.Node) (found N, ok bool) {
	if found, ok = n.(N); ok {
		return found, true
	}
	for _, child := range n.Children() {
		if found, ok = find[N](child); ok {
			return found, true
		}
	}
	return found, false
}

// mostKeyBytes is MySQL's bound on the columns of a key.
const mostKeyBytes = 3072

// definitionOf makes the definition of a new table.
func (s *Session) definitionOf(ctx *sql.Context, create *plan.CreateTable, databaseName, table string, spec *sqlparser.TableSpec) (def *definition, next uint64, err error) {
	schema := create.PkSchema()
	def = &definition{collation: create.Collation}
	if !collations[def.collation] {
		return nil, 0, refused("collation " + def.collation.Name())
	}
	if comment, ok := create.TableOpts["comment"].(string); ok {
		def.comment = comment
	}
	if len(schema.Schema) != len(spec.Columns) {
		return nil, 0, fmt.Errorf("CREATE TABLE has %d columns, and %d were planned", len(spec.Columns), len(schema.Schema))
	}
	for i, c := range schema.Schema {
		n, err := definedColumn(c, spec.Columns[i])
		if err != nil {
			return nil, 0, err
		}
		def.columns = append(def.columns, n)
	}
	for _, o := range schema.PkOrdinals {
		def.primary = append(def.primary, keyPart{column: o})
	}
	for _, x := range create.Indexes() {
		parts, err := def.partsOf(x.Columns, schema.Schema)
		if err != nil {
			return nil, 0, err
		}
		switch {
		case x.Constraint == sql.IndexConstraint_Primary:
			def.primary = parts
		case x.Constraint == sql.IndexConstraint_None || x.Constraint == sql.IndexConstraint_Unique:
			if err := def.addIndex(x.Name, x.IsUnique(), x.Comment, parts); err != nil {
				return nil, 0, err
			}
		default:
			return nil, 0, refused("an index of this kind")
		}
	}
	if err := def.checksOf(table, spec); err != nil {
		return nil, 0, err
	}
	if err := def.judgeGenerated(); err != nil {
		return nil, 0, err
	}
	if err := s.foreignOf(def, databaseName, table, spec, schema.Schema, false); err != nil {
		return nil, 0, err
	}
	if err := def.judgeKeys(ctx, schema.Schema); err != nil {
		return nil, 0, err
	}
	if v, ok := create.TableOpts["auto_increment"]; ok {
		if n, ok := integer(v); ok && n > 0 {
			next = uint64(n)
		}
	}
	return def, next, def.judgeTypes(schema.Schema)
}

// definedColumn is a column as a definition has it. planned is what the library makes of its spec.
func definedColumn(planned *sql.Column, spec *sqlparser.ColumnDefinition) (n column, err error) {
	n = column{name: planned.Name, typ: planned.Type.String(), nullable: planned.Nullable, auto: planned.AutoIncrement, comment: planned.Comment}
	if collated, ok := planned.Type.(sql.TypeWithCollation); ok {
		if n.collation = collated.Collation(); !collations[n.collation] {
			return n, refused("collation " + n.collation.Name())
		}
	}
	if n.digits, err = timeDigits(&spec.Type); err != nil {
		return n, err
	}
	if e := spec.Type.Default; e != nil {
		n.hasDef, n.def = true, sqlparser.String(e)
	}
	if e := spec.Type.OnUpdate; e != nil {
		n.onUpdate = sqlparser.String(e)
	}
	if e := spec.Type.GeneratedExpr; e != nil {
		n.gen, n.stored = sqlparser.String(bare(e)), bool(spec.Type.Stored)
	}
	return n, nil
}

// judgeTypes refuses types that do not come back from a definition, or that rows cannot have.
func (d *definition) judgeTypes(planned sql.Schema) error {
	check, err := d.schema("", "")
	if err != nil {
		return err
	}
	for i, c := range check.Schema { // a type whose text does not say all of it would come back as another one
		if !c.Type.Equals(planned[i].Type) {
			return refused("type " + planned[i].Type.String())
		}
	}
	if _, err = d.layout(check.Schema); errors.Is(err, row.ErrType) {
		err = refused(err.Error())
	}
	return err
}

// judgeKeys judges the types and lengths of all keys. Errors: 1071, 1170, 3152.
func (d *definition) judgeKeys(ctx *sql.Context, schema sql.Schema) error {
	all := [][]keyPart{d.primary}
	for i := range d.indexes {
		all = append(all, d.indexes[i].parts)
	}
	for _, parts := range all {
		size := uint32(0)
		for _, p := range parts {
			switch t := schema[p.column].Type; {
			case types.IsJSON(t):
				return wire.Errorf(3152, "JSON column '%s' supports indexing only via generated columns on a specified JSON path.", schema[p.column].Name)
			case p.prefix == 0 && types.IsTextBlob(t):
				return wire.Errorf(1170, "BLOB/TEXT column '%s' used in key specification without a key length", schema[p.column].Name)
			}
			n := schema[p.column].Type.MaxTextResponseByteLength(ctx)
			if p.prefix > 0 {
				n = uint32(p.prefix) * 4
			}
			size += n
		}
		if size > mostKeyBytes {
			return wire.Errorf(1071, "Specified key was too long; max key length is %d bytes", mostKeyBytes)
		}
	}
	return nil
}

// partsOf finds the columns of an index.
func (d *definition) partsOf(columns []sql.IndexColumn, schema sql.Schema) ([]keyPart, error) {
	var parts []keyPart
	for _, c := range columns {
		i := d.columnNamed(c.Name)
		if i < 0 {
			return nil, wire.Errorf(1072, "Key column '%s' doesn't exist in table", c.Name)
		}
		parts = append(parts, keyPart{column: i, prefix: int(c.Length)})
	}
	return parts, nil
}

// addIndex gives an index a name, if it has none, and a number that the table has never had. Errors: 1061, 1069.
func (d *definition) addIndex(name string, unique bool, comment string, parts []keyPart) error {
	if name == "" {
		base := d.columns[parts[0].column].name
		name = base
		for n := 2; d.indexNamed(name) >= 0; n++ {
			name = fmt.Sprintf("%s_%d", base, n)
		}
	}
	if strings.EqualFold(name, "PRIMARY") {
		return wire.Errorf(1280, "Incorrect index name '%s'", name)
	}
	if d.indexNamed(name) >= 0 {
		return wire.Errorf(1061, "Duplicate key name '%s'", name)
	}
	if len(d.indexes) >= sqlpart.MaxIndexes {
		return wire.Errorf(1069, "Too many keys specified; max %d keys allowed", sqlpart.MaxIndexes)
	}
	if d.lastIndex+1 >= sqlpart.NotesIndex {
		return wire.Errorf(1069, "Too many keys specified; the table has had all %d that it may have in its life: copy it into a new one", sqlpart.NotesIndex-1)
	}
	d.lastIndex++
	d.indexes = append(d.indexes, indexDef{id: d.lastIndex, name: name, unique: unique, parts: parts, comment: comment})
	return nil
}

func (d *definition) indexNamed(name string) int {
	return slices.IndexFunc(d.indexes, func(x indexDef) bool { return strings.EqualFold(x.name, name) })
}

// copy returns a definition that may be changed.
func (d *definition) copy() *definition {
	n := *d
	n.columns, n.primary, n.indexes = slices.Clone(d.columns), slices.Clone(d.primary), slices.Clone(d.indexes)
	n.checks, n.foreign, n.places = slices.Clone(d.checks), slices.Clone(d.foreign), slices.Clone(d.places)
	return &n
}
