package engine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/planbuilder"

	"github.com/holdfastdb/holdfast/doors/sql/row"
	"github.com/holdfastdb/holdfast/internal/wire"
)

// definitionVersion is the first byte of a table's definition, and constrainedVersion that of one with constraints, which a build before refuses. That of
// one with places or generated columns, or of a copy, is placedVersion: it is in no log below sqlpart.PlacesLevel.
const (
	definitionVersion  = 1
	constrainedVersion = 2
	placedVersion      = 3
)

// ErrDefinition: the bytes of a definition are damaged, or of a later build.
var ErrDefinition = errors.New("table definition is damaged, or was written by a later build")

// definition is a table as the door has defined it. It never changes: an altered table has another one.
type definition struct {
	columns   []column
	primary   []keyPart // empty: each row has a number instead (numbered.go)
	indexes   []indexDef
	collation sql.CollationID
	comment   string
	lastIndex uint64 // the largest id that an index has had
	checks    []checkDef
	foreign   []foreignDef
	// first is how many places rows of the first version have, and places are all that there are. Nil: rows have the columns in their order.
	first  int
	places []rowPlace
	// copyOf is the id of the table in whose place this one is to be: rows are copied into it. 0: the table is none of these.
	copyOf uint64
}

// rowPlace is a place of stored rows (row.Place).
type rowPlace struct {
	column  int // -1: it was dropped
	kind    row.Kind
	initial []byte // of rows that do not have the place; nil: NULL
}

// column is a column of a definition.
type column struct {
	name      string
	typ       string // as SQL writes it
	nullable  bool
	auto      bool // AUTO_INCREMENT
	def       string
	hasDef    bool
	onUpdate  string
	comment   string
	collation sql.CollationID // of a text
	digits    int             // behind the point of a TIME
	gen       string          // the expression of a generated column; "": it is none
	stored    bool            // of a generated one: STORED, and not VIRTUAL. Rows have the values of both.
}

// keyPart is a column of a key.
type keyPart struct {
	column int
	prefix int // characters; 0: the whole value
}

// indexDef is an index of a definition. Whether it may be read is in the catalogue.
type indexDef struct {
	id      uint64
	name    string
	unique  bool
	parts   []keyPart
	comment string
}

const (
	flagNullable = 1 << iota
	flagAuto
	flagDefault
	flagOnUpdate
	flagDigits
	flagGenerated // of placedVersion
	flagStored    // of placedVersion
)

// append encodes the definition. docs/formats/sql.md has the table of its bytes.
func (d *definition) append(b []byte) []byte {
	version := byte(definitionVersion)
	switch {
	case d.places != nil || d.copyOf != 0 || d.generates():
		version = placedVersion
	case len(d.checks)+len(d.foreign) > 0:
		version = constrainedVersion
	}
	b = append(b, version)
	b = binary.AppendUvarint(b, uint64(d.collation))
	b = wire.AppendBytes(b, d.comment)
	b = binary.AppendUvarint(b, uint64(len(d.columns)))
	for i := range d.columns {
		c := &d.columns[i]
		flags := uint64(0)
		for bit, on := range map[uint64]bool{flagNullable: c.nullable, flagAuto: c.auto, flagDefault: c.hasDef, flagOnUpdate: c.onUpdate != "",
			flagDigits: c.digits > 0, flagGenerated: c.gen != "", flagStored: c.stored} {
			if on {
				flags |= bit
			}
		}
		b = wire.AppendBytes(b, c.name)
		b = wire.AppendBytes(b, c.typ)
		b = binary.AppendUvarint(b, uint64(c.collation))
		b = binary.AppendUvarint(b, flags)
		if c.hasDef {
			b = wire.AppendBytes(b, c.def)
		}
		if c.onUpdate != "" {
			b = wire.AppendBytes(b, c.onUpdate)
		}
		if c.digits > 0 {
			b = binary.AppendUvarint(b, uint64(c.digits))
		}
		if c.gen != "" {
			b = wire.AppendBytes(b, c.gen)
		}
		b = wire.AppendBytes(b, c.comment)
	}
	b = appendParts(b, d.primary)
	b = binary.AppendUvarint(b, d.lastIndex)
	b = binary.AppendUvarint(b, uint64(len(d.indexes)))
	for i := range d.indexes {
		x := &d.indexes[i]
		b = binary.AppendUvarint(b, x.id)
		b = wire.AppendBytes(b, x.name)
		unique := uint64(0)
		if x.unique {
			unique = 1
		}
		b = binary.AppendUvarint(b, unique)
		b = appendParts(b, x.parts)
		b = wire.AppendBytes(b, x.comment)
	}
	if version >= constrainedVersion {
		b = d.appendConstraints(b)
	}
	if version == placedVersion {
		b = d.appendPlaces(b)
	}
	return b
}

func (d *definition) appendPlaces(b []byte) []byte {
	b = binary.AppendUvarint(b, d.copyOf)
	b = binary.AppendUvarint(b, uint64(len(d.places)))
	if d.places == nil {
		return b
	}
	b = binary.AppendUvarint(b, uint64(d.first))
	for i := range d.places {
		p := &d.places[i]
		b = binary.AppendUvarint(b, uint64(p.column+1))
		switch {
		case p.column < 0:
			b = append(b, byte(p.kind))
		case i >= d.first && p.initial == nil:
			b = binary.AppendUvarint(b, 0)
		case i >= d.first:
			b = append(binary.AppendUvarint(b, uint64(len(p.initial))), p.initial...)
		}
	}
	return b
}

// decodePlaces is the inverse of appendPlaces. Whether values are those of their columns is judged by the layout.
func (d *definition) decodePlaces(r *wire.Reader) {
	d.copyOf = r.Uvarint()
	n := r.Uvarint()
	if n == 0 {
		if d.copyOf == 0 && !d.generates() {
			r.Fail(ErrDefinition)
		}
		return
	}
	first := r.Uvarint()
	if n > mostPlaces || first > n {
		r.Fail(ErrDefinition)
		return
	}
	d.first = int(first)
	for i := range int(n) {
		column := r.Uvarint()
		if column > uint64(len(d.columns)) || r.Err() != nil {
			r.Fail(ErrDefinition)
			return
		}
		p := rowPlace{column: int(column) - 1}
		switch {
		case p.column < 0:
			p.kind = row.Kind(r.Byte())
		case i >= d.first:
			if b := r.Bytes(); len(b) > 0 {
				p.initial = append([]byte(nil), b...)
			}
		}
		d.places = append(d.places, p)
	}
}

// mostPlaces bounds the places of a table's rows. A table whose columns have come and gone as often is copied.
const mostPlaces = 2 * mostColumns

func (d *definition) appendConstraints(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(d.checks)))
	for _, c := range d.checks {
		enforced := uint64(0)
		if c.enforced {
			enforced = 1
		}
		b = wire.AppendBytes(b, c.name)
		b = wire.AppendBytes(b, c.expr)
		b = binary.AppendUvarint(b, enforced)
	}
	b = binary.AppendUvarint(b, uint64(len(d.foreign)))
	for i := range d.foreign {
		f := &d.foreign[i]
		b = wire.AppendBytes(b, f.name)
		b = wire.AppendBytes(b, f.parentDB)
		b = wire.AppendBytes(b, f.parent)
		b = append(b, byte(f.onDelete), byte(f.onUpdate))
		b = binary.AppendUvarint(b, uint64(len(f.columns)))
		for k, c := range f.columns {
			b = wire.AppendBytes(binary.AppendUvarint(b, uint64(c)), f.parentColumns[k])
		}
	}
	return b
}

// mostConstraints bounds those of a table.
const mostConstraints = 512

// constraints is the inverse of appendConstraints.
func (d *definition) constraints(r *wire.Reader) {
	n := r.Uvarint()
	if n > mostConstraints {
		r.Fail(ErrDefinition)
		return
	}
	for range n {
		d.checks = append(d.checks, checkDef{name: r.Text(), expr: r.Text(), enforced: r.Uvarint() == 1})
	}
	if n = r.Uvarint(); n > mostConstraints {
		r.Fail(ErrDefinition)
		return
	}
	for range n {
		f := foreignDef{name: r.Text(), parentDB: r.Text(), parent: r.Text(), onDelete: action(r.Uvarint()), onUpdate: action(r.Uvarint())}
		columns := r.Uvarint()
		if f.onDelete >= actions || f.onUpdate >= actions || columns > mostColumns {
			r.Fail(ErrDefinition)
			return
		}
		for range columns {
			c, name := r.Uvarint(), r.Text()
			if c >= uint64(len(d.columns)) {
				r.Fail(ErrDefinition)
				return
			}
			f.columns, f.parentColumns = append(f.columns, int(c)), append(f.parentColumns, name)
		}
		d.foreign = append(d.foreign, f)
	}
}

func appendParts(b []byte, parts []keyPart) []byte {
	b = binary.AppendUvarint(b, uint64(len(parts)))
	for _, p := range parts {
		b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(p.column)), uint64(p.prefix))
	}
	return b
}

// mostDigits is how many digits a second may have behind its point.
const mostDigits = 6

// mostColumns is MySQL's bound on the columns of a table.
const mostColumns = 4096

// decodeDefinition is the inverse of append. Error: ErrDefinition.
func decodeDefinition(b []byte) (*definition, error) {
	if len(b) == 0 || b[0] < definitionVersion || b[0] > placedVersion {
		return nil, ErrDefinition
	}
	r := wire.NewReader(b[1:]) // the first error sticks: End tells it
	d := &definition{collation: sql.CollationID(r.Uvarint()), comment: r.Text()}
	n := r.Uvarint()
	if n > mostColumns {
		return nil, ErrDefinition
	}
	for range n {
		c := column{name: r.Text(), typ: r.Text(), collation: sql.CollationID(r.Uvarint())}
		flags := r.Uvarint()
		c.nullable, c.auto, c.hasDef = flags&flagNullable != 0, flags&flagAuto != 0, flags&flagDefault != 0
		if c.hasDef {
			c.def = r.Text()
		}
		if flags&flagOnUpdate != 0 {
			c.onUpdate = r.Text()
		}
		if flags&flagDigits != 0 {
			if c.digits = int(r.Uvarint()); c.digits < 1 || c.digits > mostDigits {
				return nil, ErrDefinition
			}
		}
		if flags&flagGenerated != 0 {
			if c.gen, c.stored = r.Text(), flags&flagStored != 0; c.gen == "" || b[0] != placedVersion {
				return nil, ErrDefinition
			}
		}
		c.comment = r.Text()
		d.columns = append(d.columns, c)
	}
	d.primary = d.parts(&r)
	d.lastIndex = r.Uvarint()
	n = r.Uvarint()
	if n > mostColumns {
		return nil, ErrDefinition
	}
	for range n {
		x := indexDef{id: r.Uvarint(), name: r.Text(), unique: r.Uvarint() == 1, parts: d.parts(&r), comment: r.Text()}
		d.indexes = append(d.indexes, x)
	}
	if b[0] >= constrainedVersion {
		d.constraints(&r)
	}
	if b[0] == placedVersion {
		d.decodePlaces(&r)
	}
	if r.End() != nil {
		return nil, ErrDefinition
	}
	return d, nil
}

func (d *definition) parts(r *wire.Reader) []keyPart {
	n := r.Uvarint()
	if n > mostColumns {
		r.Fail(ErrDefinition)
		return nil
	}
	var all []keyPart
	for range n {
		p := keyPart{column: int(r.Uvarint()), prefix: int(r.Uvarint())}
		if p.column < 0 || p.column >= len(d.columns) {
			r.Fail(ErrDefinition)
			return nil
		}
		all = append(all, p)
	}
	return all
}

// schema makes the engine's schema of a definition. The defaults in it are not resolved: the planner does that.
func (d *definition) schema(database, table string) (sql.PrimaryKeySchema, error) {
	s := make(sql.Schema, len(d.columns))
	for i := range d.columns {
		c := &d.columns[i]
		t, err := planbuilder.ParseColumnTypeString(sql.NewEmptyContext(), c.typ)
		if err != nil {
			return sql.PrimaryKeySchema{}, fmt.Errorf("%w: column %s: %w", ErrDefinition, c.name, err)
		}
		if collated, ok := t.(sql.TypeWithCollation); ok && c.collation != 0 && collated.Collation() != c.collation {
			if t, err = collated.WithNewCollation(c.collation); err != nil {
				return sql.PrimaryKeySchema{}, fmt.Errorf("%w: column %s: %w", ErrDefinition, c.name, err)
			}
		}
		s[i] = &sql.Column{Name: c.name, Type: t, Source: table, DatabaseSource: database, Nullable: c.nullable, AutoIncrement: c.auto, Comment: c.comment}
		if c.auto {
			s[i].Extra = "auto_increment"
		}
		if c.hasDef {
			s[i].Default = sql.NewUnresolvedColumnDefaultValue(c.def)
		}
		if c.gen != "" { // the planner gives it no value: the statement that writes the row does
			s[i].Nullable, s[i].Extra = true, c.generatedWords()
		}
		if c.onUpdate != "" {
			s[i].OnUpdate = sql.NewUnresolvedColumnDefaultValue(c.onUpdate)
			s[i].Extra = strings.TrimSpace(s[i].Extra + " on update CURRENT_TIMESTAMP")
		}
	}
	ordinals := make([]int, len(d.primary))
	for i, p := range d.primary {
		ordinals[i] = p.column
		s[p.column].PrimaryKey = true
	}
	return sql.PrimaryKeySchema{Schema: s, PkOrdinals: ordinals}, nil
}

// layout is how the rows and keys of a table are written.
type layout struct {
	rows    *row.Layout
	primary []row.Part
	indexes [][]row.Part // as in the definition
}

func (d *definition) layout(s sql.Schema) (*layout, error) {
	types := make([]sql.Type, len(s))
	for i, c := range s {
		types[i] = c.Type
	}
	digits := func(i int) int { return d.columns[i].digits }
	rows, err := d.rowLayout(types, digits)
	if err != nil {
		return nil, err
	}
	l := &layout{rows: rows}
	parts := func(key []keyPart) []row.Part {
		all := make([]row.Part, len(key))
		for i, k := range key {
			p, e := row.NewPart(s[k.column].Type, k.prefix, digits(k.column))
			if e != nil {
				err = e
			}
			all[i] = p
		}
		return all
	}
	l.primary = parts(d.primary)
	for i := range d.indexes {
		l.indexes = append(l.indexes, parts(d.indexes[i].parts))
	}
	return l, err
}

func (d *definition) rowLayout(types []sql.Type, digits func(int) int) (*row.Layout, error) {
	if d.places == nil {
		return row.NewLayout(types, digits)
	}
	places := make([]row.Place, len(d.places))
	for i, p := range d.places {
		places[i] = row.Place{Column: p.column, Kind: p.kind, Initial: p.initial}
	}
	return row.NewPlaced(types, digits, d.first, places)
}
