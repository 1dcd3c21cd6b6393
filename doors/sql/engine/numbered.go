package engine

import (
	"slices"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"

	"github.com/holdfastdb/holdfast/doors/sql/row"
	"github.com/holdfastdb/holdfast/doors/sql/txn"
	"github.com/holdfastdb/holdfast/internal/tuple"
)

// A table without a primary key gives each row a number, under which the row lies. The number is never stored in the row, and never given again
// (txn.Tx.NextRow). Inside a statement it is the value of one more column, behind the others: equal rows are told apart by it wherever the planner
// carries a row, in joins too. Finding a row again by its other values was rejected: a join that changes one of two equal rows cannot say which.
//
// The library knows columns of the kind (HiddenSystem) by the beginning of their names. It leaves them out of `*`, of INSERT and of everything that
// shows a table, and refuses expressions that name one.

// hasNumbers reports whether the table has no primary key.
func (t *table) hasNumbers() bool { return len(t.def.primary) == 0 }

// numbered returns the columns of a table and the one of the row's number. Each table of a statement has another name for it: NATURAL JOIN joins by
// all names that two tables share.
func (t *table) numbered(name string) sql.Schema {
	n := len(t.def.columns)
	visible := t.schema.Schema[:n:n]
	return append(visible, &sql.Column{Name: sql.HiddenSystemColumnPrefix + "row!" + name, Type: types.Uint64, Source: t.t.Name,
		DatabaseSource: t.database, HiddenSystem: true,
		Nullable: true, // a row that is inserted has none yet
		// The library updates no join of tables without a key.
		PrimaryKey: !slices.ContainsFunc(visible, func(c *sql.Column) bool { return c.PrimaryKey }),
	})
}

// promote has the columns of the first unique index that no NULL is in shown as the table's key, as MySQL does: clients that edit rows find them by
// it. The rows lie under their numbers all the same.
func (t *table) promote() {
	for _, x := range t.indexes {
		if !x.unique || slices.ContainsFunc(x.key, func(k keyPart) bool { return t.def.columns[k.column].nullable || k.prefix > 0 }) {
			continue
		}
		for _, k := range x.key {
			t.schema.Schema[k.column].PrimaryKey = true
		}
		return
	}
}

// decode decodes a stored row as statements have it. Error: row.ErrForm.
func (t *table) decode(key, value []byte) (sql.Row, error) {
	if !t.hasNumbers() {
		return t.layout.rows.Decode(value, 0)
	}
	n, rest, err := tuple.Uint(key)
	if err != nil || len(rest) != 0 {
		return nil, row.ErrForm
	}
	r, err := t.layout.rows.Decode(value, 1)
	return append(r, n), err
}

// encode is the inverse of decode, of the value.
func (t *table) encode(ctx *sql.Context, r sql.Row) ([]byte, error) {
	return t.layout.rows.Append(ctx, nil, r[:len(t.def.columns)])
}

// missing reports whether a row stands for none, on the outer side of a join: the key of a row is never NULL.
func (t *table) missing(r sql.Row) bool {
	if t.hasNumbers() {
		return r[len(t.def.columns)] == nil
	}
	for _, p := range t.def.primary {
		if r[p.column] == nil {
			return true
		}
	}
	return false
}

// numberKey returns the key of a row that has its number.
func (t *table) numberKey(r sql.Row) ([]byte, error) {
	n, ok := r[len(t.def.columns)].(uint64)
	if !ok {
		return nil, errValue(types.Uint64, r[len(t.def.columns)])
	}
	return tuple.AppendUint(nil, n), nil
}

// freshKey returns the key of a row that is inserted.
func (e *editor) freshKey(ctx *sql.Context, tx *txn.Tx, r sql.Row) ([]byte, error) {
	if !e.t.hasNumbers() {
		return e.t.primaryKey(ctx, r)
	}
	n, err := tx.NextRow(e.t.t.ID)
	if err != nil {
		return nil, err
	}
	return tuple.AppendUint(nil, n), nil
}
