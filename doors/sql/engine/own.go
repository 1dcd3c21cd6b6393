package engine

import (
	"bytes"
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/sqltypes"

	sqlmachine "github.com/holdfastdb/holdfast/doors/sql/machine"
	"github.com/holdfastdb/holdfast/doors/sql/txn"
	"github.com/holdfastdb/holdfast/internal/tuple"
)

// The database holdfast has tables of what the server does at the moment: a reader gets rows that are made then. SHOW DATABASES does not show it, so that a
// dump of all databases does not have it.

// OwnDatabase is its name.
const OwnDatabase = "holdfast"

// Transaction is a row of holdfast.transactions.
type Transaction struct {
	txn.Shown
	Session uint32 // 0: none has it
	User    string // the account of its session
	Level   Level
}

// Lock is a row of holdfast.locks.
type Lock struct {
	txn.Locked
	HolderSession, WaiterSession uint32 // 0: none
	Waits                        time.Duration
}

// Digest is a row of holdfast.statements: what was counted of statements that differ in their values alone.
type Digest struct {
	User string // the account
	Text string // "": of all statements that there was no room for
	DigestCounts
}

// DigestCounts are sums over statements.
type DigestCounts struct {
	Calls, Errors, Rows uint64
	Total, Most         time.Duration
}

// ownColumn is a column of a table of the server's own.
type ownColumn struct {
	name string
	typ  sql.Type
}

// ownTable is such a table.
type ownTable struct {
	name   string
	schema sql.Schema
	rows   func(s *Session) []sql.Row
}

var _ sql.Table = (*ownTable)(nil)

func (t *ownTable) Name() string                   { return t.name }
func (t *ownTable) String() string                 { return t.name }
func (t *ownTable) Schema(*sql.Context) sql.Schema { return t.schema }
func (t *ownTable) Collation() sql.CollationID     { return defaultCollation }
func (t *ownTable) Partitions(*sql.Context) (sql.PartitionIter, error) {
	return sql.PartitionsToPartitionIter(span{}), nil
}

// PartitionRows makes the rows as they are now.
func (t *ownTable) PartitionRows(ctx *sql.Context, _ sql.Partition) (sql.RowIter, error) {
	return sql.RowsToRowIter(t.rows(sessionOf(ctx))...), nil
}

// ownDatabase is the database of these tables.
type ownDatabase struct{ tables []*ownTable }

var _ sql.VersionedDatabase = (*ownDatabase)(nil)
var _ sql.CollatedDatabase = (*ownDatabase)(nil)

func (d *ownDatabase) Name() string { return OwnDatabase }

func (d *ownDatabase) GetTableInsensitive(_ *sql.Context, name string) (sql.Table, bool, error) {
	for _, t := range d.tables {
		if strings.EqualFold(t.name, name) {
			return t, true, nil
		}
	}
	return nil, false, nil
}

// GetTableInsensitiveAsOf returns a table whose rows a statement reads beside those that it locks. Locks on the rows themselves have no meaning.
func (d *ownDatabase) GetTableInsensitiveAsOf(c *sql.Context, name string, asOf any) (sql.Table, bool, error) {
	mark, _ := asOf.(string)
	how, ok := readingOf(mark)
	if !ok || how.mode != plainRead.mode && !how.source {
		return nil, false, refused("locks on tables of the database holdfast")
	}
	return d.GetTableInsensitive(c, name)
}

func (d *ownDatabase) GetTableNames(*sql.Context) (names []string, err error) {
	for _, t := range d.tables {
		names = append(names, t.name)
	}
	return names, nil
}

func (d *ownDatabase) GetTableNamesAsOf(c *sql.Context, _ any) ([]string, error) {
	return d.GetTableNames(c)
}

func (d *ownDatabase) GetCollation(*sql.Context) sql.CollationID { return defaultCollation }

// SetCollation is never reached: ALTER DATABASE is refused.
func (d *ownDatabase) SetCollation(*sql.Context, sql.CollationID) error {
	return refused("ALTER DATABASE")
}

// newOwnDatabase makes the tables.
func newOwnDatabase() *ownDatabase {
	short, long := types.MustCreateString(sqltypes.VarChar, 255, defaultCollation), types.MustCreateString(sqltypes.VarChar, 4096, defaultCollation)
	make := func(name string, rows func(s *Session) []sql.Row, columns ...ownColumn) *ownTable {
		t := &ownTable{name: name, rows: rows}
		for _, c := range columns {
			t.schema = append(t.schema, &sql.Column{Name: c.name, Type: c.typ, Source: name, DatabaseSource: OwnDatabase, Nullable: true})
		}
		return t
	}
	return &ownDatabase{[]*ownTable{
		make("locks", lockRows, ownColumn{"lock_type", short}, ownColumn{"table_schema", short}, ownColumn{"table_name", short}, ownColumn{"index_name", short},
			ownColumn{"lock_data", long}, ownColumn{"lock_mode", short}, ownColumn{"holder", types.Uint64}, ownColumn{"holder_session", types.Uint64},
			ownColumn{"waiter", types.Uint64}, ownColumn{"waiter_session", types.Uint64}, ownColumn{"wait_ms", types.Uint64}),
		make("statements", digestRows, ownColumn{"user", short}, ownColumn{"digest", short}, ownColumn{"digest_text", long}, ownColumn{"calls", types.Uint64},
			ownColumn{"errors", types.Uint64}, ownColumn{"total_us", types.Uint64}, ownColumn{"max_us", types.Uint64}, ownColumn{"rows", types.Uint64}),
		make("transactions", transactionRows, ownColumn{"id", types.Uint64}, ownColumn{"session", types.Uint64}, ownColumn{"user", short}, ownColumn{"level", short},
			ownColumn{"state", short}, ownColumn{"xid", long}, ownColumn{"age_ms", types.Uint64}, ownColumn{"wait_ms", types.Uint64}, ownColumn{"rows_locked", types.Uint64},
			ownColumn{"bytes", types.Uint64}, ownColumn{"view_index", types.Uint64}, ownColumn{"view_age_ms", types.Uint64}, ownColumn{"view_pinned_bytes", types.Uint64}),
	}}
}

// known is a number, or NULL where it says that there is nothing.
func known[T ~uint32 | ~uint64](n T) any {
	if n == 0 {
		return nil
	}
	return uint64(n)
}

// knownText is a text, or NULL where it is empty.
func knownText(text string) any {
	if text == "" {
		return nil
	}
	return text
}

// since is a duration in ms, or NULL of none.
func since(d time.Duration) any {
	if d == 0 {
		return nil
	}
	return uint64(d.Milliseconds())
}

func transactionRows(s *Session) (rows []sql.Row) {
	all := s.e.opt.Operate.Transactions(s)
	slices.SortStableFunc(all, func(a, b Transaction) int { return cmp.Compare(a.ID, b.ID) })
	for i := range all {
		x := &all[i]
		r := sql.Row{known(x.ID), known(x.Session), knownText(x.User), nil, string(x.State), nil, since(x.Age), since(x.Waits), uint64(x.Rows), uint64(max(x.Bytes, 0)), nil, nil, nil}
		if x.Session != 0 {
			r[3] = x.Level.String()
		}
		if x.Name != nil {
			r[5] = nameOfXID(x.Name)
		}
		if x.View != nil {
			r[10], r[11], r[12] = x.View.Index, uint64(x.View.Age().Milliseconds()), uint64(x.View.Pinned())
		}
		rows = append(rows, r)
	}
	return rows
}

func digestRows(s *Session) (rows []sql.Row) {
	all := s.e.opt.Operate.Digests(s)
	slices.SortFunc(all, func(a, b Digest) int {
		return cmp.Or(cmp.Compare(b.Total, a.Total), cmp.Compare(a.User, b.User), cmp.Compare(a.Text, b.Text))
	})
	for i := range all {
		d := &all[i]
		r := sql.Row{knownText(d.User), nil, nil, d.Calls, d.Errors, uint64(d.Total.Microseconds()), uint64(d.Most.Microseconds()), d.Rows}
		if d.Text != "" {
			h := fnv.New64a()
			h.Write([]byte(d.Text))
			r[1], r[2] = fmt.Sprintf("%016x", h.Sum64()), d.Text
		}
		rows = append(rows, r)
	}
	return rows
}

func lockRows(s *Session) (rows []sql.Row) {
	all, more := s.e.opt.Operate.Locks(s)
	if more {
		s.Note(errNotSupported, "there are more locks than are shown; those that are waited for are all here")
	}
	places := s.places()
	for i := range all {
		l := &all[i]
		r := sql.Row{string(l.On), nil, nil, nil, nil, l.Mode.String(), known(l.Holder), known(l.HolderSession), known(l.Waiter), known(l.WaiterSession), since(l.Waits)}
		if l.On == txn.Name {
			r[4] = l.Name
		}
		if p := places[l.Table]; p != nil {
			r[1], r[2] = p.database, p.t.Name
			r[3], r[4] = p.shown(l)
		}
		rows = append(rows, r)
	}
	slices.SortStableFunc(rows, func(a, b sql.Row) int { return strings.Compare(fmt.Sprint(a...), fmt.Sprint(b...)) })
	return rows
}

// places are the tables of the catalogue by their ids.
func (s *Session) places() map[uint64]*whereTable {
	all := map[uint64]*whereTable{}
	for _, d := range s.catalogue().Databases() {
		for _, t := range d.Tables() {
			all[t.ID] = &whereTable{s.e, d.Name, t}
		}
	}
	return all
}

// whereTable is a table of a database.
type whereTable struct {
	e        *Engine
	database string
	t        *sqlmachine.Table
}

// shown is the name of an index, and the key or the range of a lock in it, as people read them.
func (p *whereTable) shown(l *Lock) (index, data any) {
	if l.On != txn.Row && l.On != txn.Range {
		return nil, nil
	}
	t, err := p.e.table(p.t, p.database)
	if err != nil {
		return nil, nil // a statement on the table says what is wrong with it
	}
	x := t.writtenAs(l.Index)
	if x == nil {
		return nil, fmt.Sprintf("0x%X", l.Key) // of an index that was dropped, and that a transaction has used before
	}
	if l.On == txn.Row {
		return x.name, t.keyText(x, l.Key)
	}
	return x.name, t.bound(x, l.Key, "from the first", "from ", "behind ") + t.bound(x, l.To, " to the end", " to before ", " through ")
}

// bound is the end of a range as people read it. A key with above is behind all that begin with it.
func (t *table) bound(x *index, key []byte, none, at, behind string) string {
	rest, all := bytes.CutSuffix(key, []byte{above})
	switch {
	case len(rest) == 0:
		return none
	case all:
		if text := t.keyText(x, rest); !strings.Contains(text, "0x") {
			return behind + text
		}
	}
	return at + t.keyText(x, key)
}

// writtenAs returns an index by its id, whether or not it may be read; 0 is the primary key. Nil: there is none.
func (t *table) writtenAs(id uint64) *index {
	if id == 0 {
		return &index{t: t, name: "PRIMARY", key: t.def.primary, parts: t.layout.primary}
	}
	for i := range t.all {
		if d := t.all[i].def; d.id == id {
			return &index{t: t, id: id, name: d.name, key: d.parts, parts: t.layout.indexes[t.all[i].parts]}
		}
	}
	return nil
}

// keyText is a key of an index as people read it: the values of its columns, and behind them those of the primary key where the entry has them.
func (t *table) keyText(x *index, key []byte) string {
	var all []string
	for part := range x.parts {
		if len(key) == 0 { // of a range
			return strings.Join(all, ", ")
		}
		text, rest, err := x.parts[part].Text(key)
		if err != nil {
			return strings.Join(append(all, fmt.Sprintf("0x%X", key)), ", ")
		}
		all, key = append(all, text), rest
	}
	switch {
	case len(key) == 0:
	case x.id != 0:
		all = append(all, t.keyText(t.writtenAs(0), key))
	default:
		n, rest, err := tuple.Uint(key)
		if err != nil || len(rest) > 0 || !t.hasNumbers() {
			return strings.Join(append(all, fmt.Sprintf("0x%X", key)), ", ")
		}
		all = append(all, fmt.Sprintf("row %d", n))
	}
	return strings.Join(all, ", ")
}
