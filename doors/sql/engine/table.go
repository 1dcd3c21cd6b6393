package engine

import (
	"fmt"
	"io"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"

	"github.com/holdfastdb/holdfast/doors/sql/executor"
	sqlmachine "github.com/holdfastdb/holdfast/doors/sql/machine"
	sqlpart "github.com/holdfastdb/holdfast/doors/sql/part"
	"github.com/holdfastdb/holdfast/doors/sql/row"
)

// table is a table as one definition has it. It never changes, and sessions share it.
type table struct {
	e        *Engine
	t        *sqlmachine.Table
	database string
	def      *definition
	schema   sql.PrimaryKeySchema
	layout   *layout
	indexes  []*index // that may be read; the primary key is the first, if there is one
	auto     int      // column of AUTO_INCREMENT, -1: none
	all      []writtenIndex
	times    bool            // a column is a TIME
	exactly  sql.Schema      // the columns with texts that compare by their characters; nil: all do
	direct   *executor.Table // nil: the executor leaves the table alone
	weighed  []int           // columns of utf8mb4_0900_ai_ci in keys
}

// writtenIndex is an index whose entries a write keeps, whether or not it may be read yet.
type writtenIndex struct {
	def   *indexDef
	parts int // in layout.indexes
}

// newTable decodes a table's definition. Error: ErrDefinition.
func newTable(e *Engine, t *sqlmachine.Table, databaseName string) (*table, error) {
	def, err := decodeDefinition(t.Definition)
	if err != nil {
		return nil, fmt.Errorf("%s.%s: %w", databaseName, t.Name, err)
	}
	x := &table{e: e, t: t, database: databaseName, def: def, auto: -1}
	if x.schema, err = def.schema(databaseName, t.Name); err != nil {
		return nil, err
	}
	if x.layout, err = def.layout(x.schema.Schema); err != nil {
		return nil, err
	}
	for i := range def.columns {
		if def.columns[i].auto {
			x.auto = i
		}
		x.times = x.times || types.IsTimespan(x.schema.Schema[i].Type)
	}
	if len(def.primary) > 0 {
		x.indexes = append(x.indexes, &index{t: x, name: "PRIMARY", unique: true, key: def.primary, parts: x.layout.primary})
	}
	for i := range def.indexes {
		d := &def.indexes[i]
		x.all = append(x.all, writtenIndex{def: d, parts: i})
		for _, state := range t.Indexes {
			if state.ID == d.id && state.State == sqlpart.Public {
				x.indexes = append(x.indexes, &index{t: x, id: d.id, name: d.name, unique: d.unique, key: d.parts, parts: x.layout.indexes[i], comment: d.comment})
			}
		}
	}
	x.weighed = x.weighedColumns()
	if x.hasNumbers() {
		x.promote()
	}
	if err := x.compareExactly(); err != nil {
		return nil, err
	}
	x.direct = x.executable()
	if x.hasNumbers() {
		x.schema.Schema = x.numbered("")
	}
	return x, nil
}

// tableView is a table in a statement.
type tableView struct {
	*table
	how     reading
	columns sql.PrimaryKeySchema
	filter  sql.Expression // that stands right over the table, where its rows are locked; nil: none does
}

var (
	_ sql.IndexAddressableTable = (*tableView)(nil)
	_ sql.PrimaryKeyTable       = (*tableView)(nil)
	_ sql.InsertableTable       = (*tableView)(nil)
	_ sql.UpdatableTable        = (*tableView)(nil)
	_ sql.DeletableTable        = (*tableView)(nil)
	_ sql.ReplaceableTable      = (*tableView)(nil)
	_ sql.AutoIncrementTable    = (*tableView)(nil)
	_ sql.StatisticsTable       = (*tableView)(nil)
	_ sql.CommentedTable        = (*tableView)(nil)
	_ sql.CheckTable            = (*tableView)(nil)
)

func (t *tableView) Name() string                                       { return t.t.Name }
func (t *tableView) String() string                                     { return t.t.Name }
func (t *tableView) PrimaryKeySchema(*sql.Context) sql.PrimaryKeySchema { return t.columns }
func (t *tableView) Collation() sql.CollationID                         { return t.def.collation }
func (t *tableView) Comment() string                                    { return t.def.comment }

// Schema is the table's columns. A statement that shows them sees the digits of a TIME in its type.
func (t *tableView) Schema(ctx *sql.Context) sql.Schema {
	if s, ok := ctx.Session.(*Session); ok && s.shows && (t.times || t.def.generates()) {
		return t.shown()
	}
	if s, ok := ctx.Session.(*Session); ok && s.changes && t.exactly != nil {
		return t.exactColumns()
	}
	return t.columns.Schema
}

// RowCount is how many rows the table had at the applied index; for the planner.
func (t *tableView) RowCount(*sql.Context) (uint64, bool, error) { return t.t.Rows(), false, nil }

// DataLength is a guess, for the planner: a row is taken to have 100 bytes.
func (t *tableView) DataLength(*sql.Context) (uint64, error) { return t.t.Rows() * 100, nil }

// PreciseMatch reports whether a lookup by an index makes the filter superfluous. A locking read waits, and the row may have left the range by then.
func (t *tableView) PreciseMatch() bool { return false }

func (t *tableView) GetIndexes(*sql.Context) ([]sql.Index, error) {
	all := make([]sql.Index, 0, len(t.indexes))
	for _, x := range t.indexes {
		if t.how.hint.lets(x.name) {
			all = append(all, x)
		}
	}
	return all, nil
}

func (t *tableView) IndexedAccess(*sql.Context, sql.IndexLookup) sql.IndexedTable { return t }

// span is a piece of an index, from a key to before another; a nil to: to the end. exact: the span is one key.
type span struct {
	x        *index // nil: the rows, of a table without a primary key
	from, to []byte
	reverse  bool
	exact    bool
	more     []span // read behind it, in this order; of locking reads alone
}

func (span) Key() []byte { return []byte{0} }

// spans is a PartitionIter.
type spans struct{ rest []span }

func (s *spans) Next(*sql.Context) (sql.Partition, error) {
	if len(s.rest) == 0 {
		return nil, io.EOF
	}
	p := s.rest[0]
	s.rest = s.rest[1:]
	return p, nil
}

func (s *spans) Close(*sql.Context) error { return nil }

// Partitions is the whole table, by its rows or by the index that a hint forces.
func (t *tableView) Partitions(*sql.Context) (sql.PartitionIter, error) {
	return &spans{[]span{{x: t.forced()}}}, nil
}

// PartitionRows reads a span.
func (t *tableView) PartitionRows(ctx *sql.Context, p sql.Partition) (sql.RowIter, error) {
	return t.read(ctx, p.(span))
}

// index is an index that may be read.
type index struct {
	t       *table
	id      uint64 // 0: the rows themselves
	name    string
	unique  bool
	key     []keyPart
	parts   []row.Part
	comment string
}

var _ sql.OrderedIndex = (*index)(nil)

func (x *index) ID() string                                 { return x.name }
func (x *index) Database() string                           { return x.t.database }
func (x *index) Table() string                              { return x.t.t.Name }
func (x *index) IsUnique() bool                             { return x.unique }
func (x *index) IsSpatial() bool                            { return false }
func (x *index) IsFullText() bool                           { return false }
func (x *index) IsVector() bool                             { return false }
func (x *index) Comment() string                            { return x.comment }
func (x *index) IndexType() string                          { return "BTREE" }
func (x *index) IsGenerated() bool                          { return false }
func (x *index) CanSupport(*sql.Context, ...sql.Range) bool { return true }
func (x *index) CanSupportOrderBy(sql.Expression) bool      { return false }
func (x *index) CoversColumns([]string) bool                { return false }

// Order is that of the keys, where these say all of a value: a prefix does not order the rest.
func (x *index) Order(*sql.Context) sql.IndexOrder {
	for _, k := range x.key {
		if k.prefix > 0 {
			return sql.IndexOrderNone
		}
	}
	return sql.IndexOrderAsc
}

func (x *index) Reversible(ctx *sql.Context) bool { return x.Order(ctx) == sql.IndexOrderAsc }

func (x *index) Expressions() []string {
	all := make([]string, len(x.key))
	for i, k := range x.key {
		all[i] = x.t.t.Name + "." + x.t.schema.Schema[k.column].Name
	}
	return all
}

func (x *index) ColumnExpressionTypes(*sql.Context) []sql.ColumnExpressionType {
	all := make([]sql.ColumnExpressionType, len(x.key))
	for i, e := range x.Expressions() {
		all[i] = sql.ColumnExpressionType{Expression: e, Type: x.t.schema.Schema[x.key[i].column].Type}
	}
	return all
}

func (x *index) PrefixLengths() []uint16 {
	var all []uint16
	for i, k := range x.key {
		if k.prefix > 0 {
			if all == nil {
				all = make([]uint16, len(x.key))
			}
			all[i] = uint16(k.prefix)
		}
	}
	return all
}

// columnNamed returns the place of a column, -1: there is none.
func (d *definition) columnNamed(name string) int {
	for i := range d.columns {
		if strings.EqualFold(d.columns[i].name, name) {
			return i
		}
	}
	return -1
}
