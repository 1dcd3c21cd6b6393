package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	sqlpart "github.com/holdfastdb/holdfast/doors/sql/part"
	"github.com/holdfastdb/holdfast/doors/sql/row"
	"github.com/holdfastdb/holdfast/doors/sql/wire"
)

// altered is a column of a table that is altered.
type altered struct {
	column
	from int                         // its place in the table as it is; -1: it is new
	spec *sqlparser.ColumnDefinition // what the statement says of it; nil: nothing

	// Of a new column. value is that of the rows that are there, unless computed says that each has one of its own.
	planned  *sql.Column
	computed bool
}

// saysNull reports whether the statement says that the column may be NULL.
func (c *altered) saysNull() bool {
	return c.spec != nil && bool(c.spec.Type.Null) && !bool(c.spec.Type.NotNull)
}

func (a *alteration) columnNamed(name string) int {
	return slices.IndexFunc(a.columns, func(c altered) bool { return strings.EqualFold(c.name, name) })
}

// dropColumn drops a column. Errors: 1091, 1828, 1829, 3837, 3959.
func (a *alteration) dropColumn(name string) error {
	i := a.columnNamed(name)
	if i < 0 {
		return cannotDrop(name)
	}
	name = a.columns[i].name
	for _, f := range a.def.foreign {
		if slices.Contains(f.columns, a.columns[i].from) {
			return wire.Errorf(1828, "Cannot drop column '%s': needed in a foreign key constraint '%s'", name, f.name)
		}
	}
	all, err := a.s.referencesTo(a.t.database, a.t.t.Name)
	if err != nil {
		return err
	}
	for _, r := range all {
		if slices.ContainsFunc(r.foreign.parentColumns, func(n string) bool { return strings.EqualFold(n, name) }) {
			return wire.Errorf(1829, "Cannot drop column '%s': needed in a foreign key constraint '%s' of table '%s'", name, r.foreign.name, r.table)
		}
	}
	a.def.checks = slices.DeleteFunc(a.def.checks, func(c checkDef) bool { // as MySQL: a CHECK of this column alone goes with it
		named := namesOf(c.expr)
		return len(named) == 1 && named[strings.ToLower(name)]
	})
	if err := a.judgeUses(name, i); err != nil {
		return err
	}
	a.gone = append(a.gone, name)
	a.columns = slices.Delete(a.columns, i, i+1)
	return nil
}

// judgeUses refuses to drop or to rename a column that an expression of the definition names: expressions are kept as texts. Errors: 3108, 3837, 3959.
func (a *alteration) judgeUses(name string, place int) error {
	for i := range a.columns {
		if c := &a.columns[i]; i != place && c.gen != "" && namesOf(c.gen)[strings.ToLower(name)] {
			return wire.Errorf(3108, "Column '%s' has a generated column dependency.", name)
		}
		if c := &a.columns[i]; i != place && c.hasDef && namesColumn(c.def, name) {
			return wire.Errorf(3837, "Column '%s' of table '%s' has a default value expression dependency and cannot be dropped or renamed.", name, a.t.t.Name)
		}
	}
	for _, c := range a.def.checks {
		if namesOf(c.expr)[strings.ToLower(name)] {
			return wire.Errorf(3959, "Check constraint '%s' uses column '%s', hence column cannot be dropped or renamed.", c.name, name)
		}
	}
	return nil
}

// expressionOf parses an expression of a definition.
func expressionOf(text string) (sqlparser.SQLNode, error) {
	st, err := sqlparser.ParseWithOptions(context.Background(), "SELECT "+text, sqlparser.ParserOptions{})
	if err != nil {
		return nil, err
	}
	return st.(*sqlparser.Select).SelectExprs, nil
}

// namesOf are the columns that an expression names, in small letters.
func namesOf(text string) map[string]bool {
	all := map[string]bool{}
	st, err := expressionOf(text)
	if err != nil {
		return all
	}
	for _, e := range columnNames(st) {
		all[strings.ToLower(e)] = true
	}
	return all
}

func columnNames(n sqlparser.SQLNode) (all []string) {
	_ = sqlparser.Walk(func(n sqlparser.SQLNode) (bool, error) {
		if x, ok := n.(*sqlparser.ColName); ok {
			all = append(all, x.Name.String())
		}
		return true, nil
	}, n)
	return all
}

// was returns the place of a column by the name that it has before the statement; -1: there is none.
func (a *alteration) was(name string) int {
	return slices.IndexFunc(a.columns, func(c altered) bool { return c.from >= 0 && strings.EqualFold(a.t.def.columns[c.from].name, name) })
}

// renameColumn is RENAME COLUMN, and what CHANGE does with a name, and returns the column's place. That two columns have one name is judged behind all clauses.
// Error: 1054.
func (a *alteration) renameColumn(from, to string) (int, error) {
	i := a.was(from)
	if i < 0 || slices.ContainsFunc(a.renamed, func(n string) bool { return strings.EqualFold(n, from) }) {
		return -1, wire.Errorf(1054, "Unknown column '%s' in '%s'", from, a.t.t.Name)
	}
	if to == "" || len([]rune(to)) > 64 || strings.HasSuffix(to, " ") {
		return -1, wire.Errorf(1166, "Incorrect column name '%s'", to)
	}
	was := a.t.def.columns[a.columns[i].from].name
	a.renamed = append(a.renamed, was)
	if strings.EqualFold(was, to) {
		a.columns[i].name = to
		return i, nil
	}
	if err := a.judgeUses(was, i); err != nil {
		return -1, err
	}
	all, err := a.s.referencesTo(a.t.database, a.t.t.Name)
	if err != nil {
		return -1, err
	}
	for _, r := range all { // the child's definition has the name
		if slices.ContainsFunc(r.foreign.parentColumns, func(n string) bool { return strings.EqualFold(n, was) }) {
			return -1, refused("RENAME of a column that a foreign key leads to")
		}
	}
	a.columns[i].name = to
	return i, nil
}

// change is MODIFY, CHANGE, and SET and DROP DEFAULT.
func (a *alteration) change(all []*sqlparser.DDL) error {
	for i, c := range all {
		var err error
		switch {
		case c.AlterCollationSpec != nil:
			err = a.collate(c.AlterCollationSpec, a.options.converts[i])
		case c.ColumnAction == sqlparser.ChangeStr || c.ColumnAction == sqlparser.ModifyStr:
			err = a.changeColumn(c)
		case c.DefaultSpec != nil:
			err = a.changeDefault(c.DefaultSpec)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (a *alteration) changeColumn(c *sqlparser.DDL) error {
	spec := c.TableSpec.Columns[0]
	from := spec.Name.String()
	if c.ColumnAction == sqlparser.ChangeStr {
		from = c.Column.String()
	}
	i, err := a.renameColumn(from, spec.Name.String())
	if err != nil {
		return err
	}
	n, planned, err := a.plan(spec)
	if err == nil { // FIRST and AFTER come with those of new columns
		a.columns[i] = altered{column: n, from: a.columns[i].from, spec: spec, planned: planned}
	}
	return err
}

// changeDefault is ALTER COLUMN … SET DEFAULT and DROP DEFAULT. Rows keep the values that they have, and so do those that had none of the column when it came.
func (a *alteration) changeDefault(d *sqlparser.DefaultSpec) error {
	i := a.was(d.Column.String())
	if i < 0 {
		return wire.Errorf(1054, "Unknown column '%s' in '%s'", d.Column.String(), a.t.t.Name)
	}
	c := &a.columns[i]
	if d.Action == sqlparser.DropStr {
		c.hasDef, c.def = false, ""
		return nil
	}
	spec, err := specOf(&c.column)
	if err != nil {
		return err
	}
	spec.Type.Default = d.Value
	if _, _, err = a.plan(spec); err != nil {
		return err
	}
	c.hasDef, c.def = true, sqlparser.String(d.Value)
	return nil
}

// collate is CHARACTER SET and COLLATE of the table. converts: texts that are there get it too, and not those of new columns alone.
func (a *alteration) collate(c *sqlparser.AlterCollationSpec, converts bool) error {
	name := strings.ToLower(c.Collation)
	if name == "" {
		ok := false
		if name, ok = charsets[strings.ToLower(c.CharacterSet)]; !ok {
			if _, err := sql.ParseCollation(c.CharacterSet, "", false); err != nil {
				return err
			}
			return refused("character set " + c.CharacterSet)
		}
	}
	to, err := sql.ParseCollation(c.CharacterSet, name, false)
	if err != nil {
		return err
	}
	if !collations[to] {
		return refused("collation " + to.Name())
	}
	a.def.collation = to
	for i := range a.columns {
		n := &a.columns[i]
		if !converts || n.collation == 0 || n.collation == sql.Collation_binary {
			continue
		}
		only := definition{columns: []column{n.column}}
		schema, err := only.schema("", "")
		if err != nil {
			return err
		}
		t, err := schema.Schema[0].Type.(sql.TypeWithCollation).WithNewCollation(to)
		if err != nil {
			return err
		}
		n.typ, n.collation = t.String(), to
	}
	return nil
}

// specOf is a column as a statement defines it, with nothing but its name and type.
func specOf(c *column) (*sqlparser.ColumnDefinition, error) {
	text := "CREATE TABLE x (" + quotedNames([]string{c.name}) + " " + c.typ
	if !c.nullable {
		text += " NOT NULL"
	}
	st, err := sqlparser.ParseWithOptions(context.Background(), text+")", sqlparser.ParserOptions{})
	if err != nil {
		return nil, fmt.Errorf("%w: column %s: %w", ErrDefinition, c.name, err)
	}
	return st.(*sqlparser.DDL).TableSpec.Columns[0], nil
}

// plan has the library judge a column by itself. Its keys and constraints are judged elsewhere. A default that names columns is judged when
// all columns are known.
func (a *alteration) plan(spec *sqlparser.ColumnDefinition) (n column, planned *sql.Column, err error) {
	alone := *spec
	if err := judgeGeneratedSpec(spec); err != nil {
		return n, nil, err
	}
	alone.Type.GeneratedExpr, alone.Type.Stored = nil, false
	alone.Type.KeyOpt, alone.Type.Autoincrement, alone.Type.Constraint, alone.Type.ForeignKeyDef = 0, false, nil, nil
	if isAuto := bool(spec.Type.Autoincrement); isAuto || isPrimary(spec) {
		if isAuto && spec.Type.Default != nil {
			return n, nil, wire.Errorf(1067, "Invalid default value for '%s'", spec.Name.String())
		}
		if !bool(spec.Type.Null) {
			alone.Type.NotNull = true
		}
	}
	if spec.Type.Default != nil && len(columnNames(spec.Type.Default)) > 0 {
		alone.Type.Default = nil
	}
	schema, err := a.planAll([]*sqlparser.ColumnDefinition{&alone})
	if err != nil && alone.Type.Default != nil {
		alone.Type.Default = nil
		if _, e := a.planAll([]*sqlparser.ColumnDefinition{&alone}); e == nil {
			err = wire.Errorf(1067, "Invalid default value for '%s'", spec.Name.String())
		}
	}
	if err != nil {
		return n, nil, err
	}
	planned = schema[0]
	if n, err = definedColumn(planned, spec); err != nil {
		return n, nil, err
	}
	n.auto = bool(spec.Type.Autoincrement)
	if n.auto && !types.IsInteger(planned.Type) {
		return n, nil, wire.Errorf(1063, "Incorrect column specifier for column '%s'", n.name)
	}
	only := &definition{columns: []column{n}}
	return n, planned, only.judgeTypes(schema)
}

// planAll has the library judge columns, of a table that has no others.
func (a *alteration) planAll(specs []*sqlparser.ColumnDefinition) (sql.Schema, error) {
	create := &sqlparser.DDL{Action: sqlparser.CreateStr, Table: sqlparser.TableName{Name: sqlparser.NewTableIdent(a.t.t.Name), DbQualifier: sqlparser.NewTableIdent(a.t.database)},
		TableSpec: &sqlparser.TableSpec{Columns: specs}}
	p, err := a.s.planned(a.ctx, collated(create, a.def.collation), sqlparser.String(create))
	if err != nil {
		return nil, err
	}
	schema := p.PkSchema().Schema
	if len(schema) != len(specs) {
		return nil, fmt.Errorf("ALTER TABLE has %d columns, and %d were planned", len(specs), len(schema))
	}
	return schema, nil
}

// add adds columns.
func (a *alteration) add(all []*sqlparser.DDL) error {
	for _, c := range all {
		spec := (*sqlparser.ColumnDefinition)(nil)
		switch {
		case c.ColumnAction == sqlparser.AddStr:
			spec = c.TableSpec.Columns[0]
			n, planned, err := a.plan(spec)
			if err != nil {
				return err
			}
			if name := n.name; name == "" || len([]rune(name)) > 64 || strings.HasSuffix(name, " ") {
				return wire.Errorf(1166, "Incorrect column name '%s'", name)
			}
			a.columns = append(a.columns, altered{column: n, from: -1, spec: spec, planned: planned})
		case c.ColumnAction == sqlparser.ChangeStr || c.ColumnAction == sqlparser.ModifyStr:
			spec = c.TableSpec.Columns[0]
		}
		if spec == nil || c.ColumnOrder == nil {
			continue
		}
		i := slices.IndexFunc(a.columns, func(x altered) bool { return x.spec == spec })
		moved := a.columns[i]
		a.columns = slices.Delete(a.columns, i, i+1)
		to := 0
		if !c.ColumnOrder.First {
			after := c.ColumnOrder.AfterColumn.String()
			if to = 1 + a.columnNamed(after); to == 0 {
				return wire.Errorf(1054, "Unknown column '%s' in '%s'", after, a.t.t.Name)
			}
		}
		a.columns = slices.Insert(a.columns, to, moved)
	}
	return nil
}

// arrange gives the definition its columns in their order. All that names columns by their places follows: keys, foreign keys, the places of stored rows.
func (a *alteration) arrange([]*sqlparser.DDL) error {
	if len(a.columns) == 0 {
		return wire.Errorf(1090, "You can't delete all columns with ALTER TABLE; use DROP TABLE instead")
	}
	if len(a.columns) > mostColumns {
		return wire.Errorf(1117, "Too many columns")
	}
	to := make([]int, len(a.t.def.columns)) // by the place that a column had
	for i := range to {
		to[i] = -1
	}
	same := len(a.columns) == len(to)
	a.def.columns = make([]column, len(a.columns))
	for i := range a.columns {
		c := &a.columns[i]
		if name := c.name; a.columnNamed(name) != i {
			return wire.Errorf(1060, "Duplicate column name '%s'", name)
		}
		a.def.columns[i] = c.column
		if c.from >= 0 {
			to[c.from] = i
		}
		same = same && c.from == i
	}
	if !same {
		a.from = make([]int, len(a.columns))
		for i := range a.columns {
			a.from[i] = a.columns[i].from
		}
		a.moveKeys(to)
	}
	for _, p := range a.def.primary {
		c := &a.columns[p.column]
		if c.saysNull() {
			return wire.Errorf(1171, "All parts of a PRIMARY KEY must be NOT NULL; if you need NULL in a key, use UNIQUE instead")
		}
		c.nullable, a.def.columns[p.column].nullable = false, false
	}
	if err := a.def.judgeGenerated(); err != nil {
		return err
	}
	return a.fill(to, same)
}

// lastIndexID is the largest id that an index of a table may get. Ids are never given again.
const lastIndexID = sqlpart.MaxIndexID - 1

// moveKeys has the keys name the columns by their new places. A column that goes is taken out of them, unless another one comes in its name; a key without
// columns goes too.
func (a *alteration) moveKeys(to []int) {
	moved := func(parts []keyPart) (all []keyPart, same bool) {
		same = true
		for _, p := range parts {
			if i := to[p.column]; i >= 0 {
				all = append(all, keyPart{column: i, prefix: p.prefix})
				continue
			}
			same = false
			if i := a.columnNamed(a.t.def.columns[p.column].name); i >= 0 && a.columns[i].from < 0 {
				all = append(all, keyPart{column: i, prefix: p.prefix})
			}
		}
		return all, same
	}
	primary, same := moved(a.def.primary)
	if !same {
		a.anew = true
		a.emptied = append(a.emptied, "PRIMARY")
	}
	a.def.primary = primary
	var kept []indexDef
	for _, x := range a.def.indexes {
		parts, same := moved(x.parts)
		if !same {
			a.indexes = slices.DeleteFunc(a.indexes, func(p sqlpart.Index) bool { return p.ID == x.id })
			a.emptied = append(a.emptied, x.name)
			if len(parts) == 0 {
				continue
			}
			a.def.lastIndex++
			x.id = a.def.lastIndex
			a.anew = a.anew || x.id >= lastIndexID // a copy numbers them from 1
			a.indexes = append(a.indexes, sqlpart.Index{ID: x.id, State: sqlpart.Public})
		}
		x.parts = parts
		kept = append(kept, x)
	}
	a.def.indexes = kept
	for i := range a.def.foreign {
		f := &a.def.foreign[i]
		f.columns = slices.Clone(f.columns)
		for k := range f.columns {
			f.columns[k] = to[f.columns[k]] // one that a foreign key needs does not go
		}
	}
}

// fill decides how the rows that are there come to their new columns: whether a definition says it, or the rows are written anew.
func (a *alteration) fill(to []int, same bool) error {
	was, err := a.t.def.schema(a.t.database, a.t.t.Name)
	if err != nil {
		return err
	}
	is, err := a.def.schema(a.t.database, a.t.t.Name)
	if err != nil {
		return err
	}
	for i := range a.columns {
		c := &a.columns[i]
		switch {
		case c.from < 0:
			if c.computed = a.computed(c); c.computed {
				a.anew = true
			}
		default:
			old := &a.t.def.columns[c.from]
			if err := a.judgeStored(c, old); err != nil {
				return err
			}
			if c.gen != old.gen {
				a.anew = true
			}
			if err := a.judgeTypeOf(c, was.Schema[c.from].Type, is.Schema[i].Type); err != nil {
				return err
			}
			if !keeps(was.Schema[c.from].Type, old.digits, is.Schema[i].Type, c.digits) {
				a.anew, a.typed = true, true
			}
			if c.auto && !old.auto {
				a.anew = true
			}
			if old.nullable && !c.nullable {
				a.notNull = append(a.notNull, i)
				for _, f := range a.def.foreign {
					if (f.onDelete == actionSetNull || f.onUpdate == actionSetNull) && slices.Contains(f.columns, i) {
						return wire.Errorf(1830, "Column '%s' cannot be NOT NULL: needed in a foreign key constraint '%s' SET NULL", c.name, f.name)
					}
				}
			}
		}
	}
	if a.anew {
		a.def.wholeKeys(is.Schema)
	}
	if same {
		return nil
	}
	return a.place(to, is.Schema)
}

// wholeKeys takes prefixes out of keys that are as long as their columns have become.
func (d *definition) wholeKeys(schema sql.Schema) {
	whole := func(parts []keyPart) []keyPart {
		parts = slices.Clone(parts)
		for i, p := range parts {
			t, ok := schema[p.column].Type.(sql.StringType)
			if ok && !types.IsTextBlob(t) && int64(p.prefix) >= t.MaxCharacterLength() {
				parts[i].prefix = 0
			}
		}
		return parts
	}
	d.primary = whole(d.primary)
	for i := range d.indexes {
		d.indexes[i].parts = whole(d.indexes[i].parts)
	}
}

// computed reports whether each row that is there gets a value of its own in a new column, or none that a definition could have.
func (a *alteration) computed(c *altered) bool {
	switch {
	case c.auto, c.gen != "":
		return true
	case c.spec.Type.Default == nil:
		_, ok := implicitValue(a.ctx, c.planned.Type)
		return !c.nullable && !ok // no row can have it: the first one is told of
	}
	perRow := len(columnNames(c.spec.Type.Default)) > 0
	_ = sqlparser.Walk(func(n sqlparser.SQLNode) (bool, error) {
		if f, ok := n.(*sqlparser.FuncExpr); ok && rowFunctions[f.Name.Lowered()] {
			perRow = true
		}
		return true, nil
	}, c.spec.Type.Default)
	return perRow
}

// rowFunctions are those whose value differs from row to row of one statement.
var rowFunctions = set("rand", "uuid", "uuid_short", "sysdate", "random_bytes", "sleep", "benchmark")

// implicitValue is the value of a column that is not NULL and has no default. ok false: there is none, because no date is all zeros.
func implicitValue(ctx *sql.Context, t sql.Type) (v any, ok bool) {
	switch {
	case types.IsEnum(t):
		return uint16(1), true
	case types.IsSet(t), types.IsBit(t):
		return uint64(0), true
	case types.IsTime(t):
		return nil, false
	case types.IsTimespan(t):
		return types.Timespan(0), true
	case types.IsYear(t):
		return int16(0), true
	case types.IsJSON(t):
		return types.JSONDocument{}, true
	case types.IsDecimal(t), types.IsFloat(t), types.IsInteger(t):
		v, _, err := t.Convert(ctx, 0)
		return v, err == nil
	case types.IsTextOnly(t):
		return "", true
	}
	if s, ok := t.(sql.StringType); ok && isFixedBinary(t) {
		return make([]byte, s.MaxByteLength()), true
	}
	return []byte{}, true
}

// constant is the value of a new column in the rows that are there, as all of them have it.
func (a *alteration) constant(c *altered) (any, error) {
	if c.spec.Type.Default == nil {
		if c.nullable {
			return nil, nil
		}
		v, _ := implicitValue(a.ctx, c.planned.Type)
		return v, nil
	}
	if c.planned.Default == nil { // DEFAULT NULL
		return nil, nil
	}
	v, err := c.planned.Default.Eval(a.ctx, nil)
	if err != nil || v == nil {
		return nil, err
	}
	v, _, err = c.planned.Type.Convert(a.ctx, v)
	return v, err
}

// place gives new columns places in stored rows, and takes those of columns that go.
func (a *alteration) place(to []int, schema sql.Schema) error {
	d := a.def
	if a.anew {
		return nil
	}
	if d.places == nil {
		d.first = len(a.t.def.columns)
		for i := range a.t.def.columns {
			d.places = append(d.places, rowPlace{column: i})
		}
	}
	for i := range d.places {
		p := &d.places[i]
		if p.column < 0 {
			continue
		}
		if to[p.column] < 0 {
			*p = rowPlace{column: -1, kind: a.t.layout.rows.KindOf(p.column)}
			continue
		}
		p.column = to[p.column]
	}
	types := make([]sql.Type, len(schema))
	for i, c := range schema {
		types[i] = c.Type
	}
	values, err := row.NewLayout(types, func(i int) int { return d.columns[i].digits })
	if err != nil {
		return err
	}
	for i := range a.columns {
		c := &a.columns[i]
		if c.from >= 0 {
			continue
		}
		v, err := a.constant(c)
		if err != nil {
			return err
		}
		if v == nil && !c.nullable {
			return wire.Errorf(1067, "Invalid default value for '%s'", c.name)
		}
		p := rowPlace{column: i}
		if v != nil {
			if p.initial, err = values.AppendValue(a.ctx, nil, i, v); err != nil {
				return err
			}
		}
		d.places = append(d.places, p)
	}
	if len(d.places) > mostPlaces || len(d.append(nil)) > sqlpart.MaxDefinition {
		a.anew = true
	}
	return nil
}

// The keys that a column's own words may ask for, as the parser numbers them.
const (
	ownPrimary   = 1
	ownUnique    = 3
	ownUniqueKey = 4
	ownKey       = 5 // KEY alone is PRIMARY KEY
)

func isPrimary(spec *sqlparser.ColumnDefinition) bool {
	return spec.Type.KeyOpt == ownPrimary || spec.Type.KeyOpt == ownKey
}

// addOwnKey adds the key that a column's own words ask for.
func (a *alteration) addOwnKey(i int, schema sql.Schema) error {
	spec := a.columns[i].spec
	switch {
	case spec == nil || spec.Type.KeyOpt == 0:
		return nil
	case isPrimary(spec):
		return a.setPrimary([]keyPart{{column: i}})
	case spec.Type.KeyOpt == ownUnique || spec.Type.KeyOpt == ownUniqueKey:
		return a.addIndex(schema, &sqlparser.IndexSpec{Type: "unique", Fields: []*sqlparser.IndexField{{Column: sqlparser.NewColIdent(a.columns[i].name)}}})
	}
	return refused("an index of this kind")
}

// constrain adds CHECKs and foreign keys, and changes whether CHECKs are enforced.
func (a *alteration) constrain(all []*sqlparser.DDL) error {
	for i, c := range all {
		if x := a.options.enforced[i]; x != nil {
			at := slices.IndexFunc(a.def.checks, func(d checkDef) bool { return strings.EqualFold(d.name, x.name) })
			if at < 0 {
				return wire.Errorf(3821, "Check constraint '%s' is not found in the table.", x.name)
			}
			if x.enforced && !a.def.checks[at].enforced {
				a.newChecks = append(a.newChecks, a.def.checks[at].name)
			}
			a.def.checks[at].enforced = x.enforced
		}
		if c.TableSpec == nil || c.ConstraintAction != sqlparser.AddStr {
			continue
		}
		before := len(a.def.checks)
		if err := a.def.checksOf(a.t.t.Name, c.TableSpec); err != nil {
			return err
		}
		for _, x := range a.def.checks[before:] {
			if x.enforced {
				a.newChecks = append(a.newChecks, x.name)
			}
		}
		schema, err := a.def.schema(a.t.database, a.t.t.Name)
		if err != nil {
			return err
		}
		foreign, indexes := len(a.def.foreign), len(a.def.indexes)
		if err := a.s.foreignOf(a.def, a.t.database, a.t.t.Name, c.TableSpec, schema.Schema, true); err != nil {
			return err
		}
		a.newForeign += len(a.def.foreign) - foreign
		for _, x := range a.def.indexes[indexes:] {
			a.indexes = append(a.indexes, sqlpart.Index{ID: x.id, State: sqlpart.Public})
		}
	}
	if len(a.def.checks)+len(a.def.foreign) > mostConstraints {
		return refused(fmt.Sprintf("more than %d constraints of a table", mostConstraints))
	}
	return nil
}

// setOptions is what a statement says of the table as a whole.
func (a *alteration) setOptions(all []*sqlparser.DDL) error {
	for _, c := range all {
		if x := c.AlterCommentSpec; x != nil {
			a.def.comment = x.Comment
		}
		if x := c.AutoIncSpec; x != nil {
			v, ok := x.Value.(*sqlparser.SQLVal)
			if !ok || v.Type != sqlparser.IntVal {
				return refused("AUTO_INCREMENT of an expression")
			}
			if _, err := fmt.Sscan(string(v.Val), &a.nextAuto); err != nil {
				return wire.Errorf(1067, "Invalid default value for 'AUTO_INCREMENT'")
			}
			a.nextAuto = max(a.nextAuto, 1)
		}
	}
	a.anew = a.anew || a.options.anew
	return nil
}
