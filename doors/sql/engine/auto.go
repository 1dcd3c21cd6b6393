package engine

import (
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"

	"github.com/holdfastdb/holdfast/doors/sql/txn"
)

// given notes a value of AUTO_INCREMENT that goes into a row: the next one is larger, and the commit carries it to the log.
func (t *table) given(ctx *sql.Context, tx *txn.Tx, v any) {
	n, _, err := types.Uint64.Convert(ctx, v)
	value, ok := n.(uint64)
	if err != nil || !ok || value == 0 || value == 1<<64-1 {
		return // nothing that the next value could follow
	}
	tx.SetNextAuto(t.t.ID, value+1)
}

// GetNextAutoIncrementValue gives a value to a row that has none. One that the client has given stays.
func (t *tableView) GetNextAutoIncrementValue(ctx *sql.Context, given any) (uint64, error) {
	if given != nil {
		n, _, err := types.Uint64.Convert(ctx, given)
		if v, ok := n.(uint64); err == nil && ok && v > 0 {
			return v, nil
		}
	}
	tx, err := sessionOf(ctx).transaction()
	if err != nil {
		return 0, err
	}
	sessionOf(ctx).inserted.generated = true
	return tx.NextAuto(t.t.ID, 1)
}

// PeekNextAutoIncrementValue is the value that the log has, for SHOW CREATE TABLE.
func (t *tableView) PeekNextAutoIncrementValue(*sql.Context) (uint64, error) {
	return max(t.t.NextAuto(), 1), nil
}

// AutoIncrementSetter implements sql.AutoIncrementTable.
func (t *tableView) AutoIncrementSetter(*sql.Context) sql.AutoIncrementSetter { return autoSetter{t} }

// autoSetter raises the next value. The log learns it with the row.
type autoSetter struct{ t *tableView }

func (a autoSetter) SetAutoIncrementValue(ctx *sql.Context, v uint64) error {
	tx, err := sessionOf(ctx).transaction()
	if err == nil {
		tx.SetNextAuto(a.t.t.ID, v)
	}
	return err
}

// AcquireAutoIncrementLock takes none: values of one statement need not follow each other (innodb_autoinc_lock_mode 2).
func (a autoSetter) AcquireAutoIncrementLock(*sql.Context) (func(), error) { return func() {}, nil }
func (a autoSetter) Close(*sql.Context) error                              { return nil }
