package engine

import (
	"sync"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"

	sqlmachine "github.com/holdfastdb/holdfast/doors/sql/machine"
	"github.com/holdfastdb/holdfast/doors/sql/txn"
)

// autos gives values of AUTO_INCREMENT. The leader's memory has the next one of each table. A value that was given and not committed is not given
// again by this member; what the log has counts too, so that a member that leads anew goes on behind what others have given and committed.
type autos struct {
	mu   sync.Mutex
	next map[autoKey]uint64 // guarded by mu
}

// autoKey is a table between two truncations.
type autoKey struct{ table, version uint64 }

func (a *autos) take(t *sqlmachine.Table) uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	key := autoKey{t.ID, t.Version}
	v := max(a.next[key], t.NextAuto(), 1)
	a.set(key, v+1)
	return v
}

// raise makes the next value larger than one that a client has given itself.
func (a *autos) raise(t *sqlmachine.Table, v uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if key := (autoKey{t.ID, t.Version}); v >= a.next[key] {
		a.set(key, v+1)
	}
}

func (a *autos) set(key autoKey, v uint64) {
	if a.next == nil {
		a.next = map[autoKey]uint64{}
	}
	a.next[key] = v
}

// given notes a value that goes into a row: the commit carries it to the log.
func (a *autos) given(ctx *sql.Context, tx *txn.Tx, t *table, v any) {
	n, _, err := types.Uint64.Convert(ctx, v)
	value, ok := n.(uint64)
	if err != nil || !ok || value == 0 || value == 1<<64-1 {
		return // nothing that the next value could follow
	}
	a.raise(t.t, value)
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
	return t.e.autos.take(t.t), nil
}

// PeekNextAutoIncrementValue implements sql.AutoIncrementGetter.
func (t *tableView) PeekNextAutoIncrementValue(*sql.Context) (uint64, error) {
	a := &t.e.autos
	a.mu.Lock()
	defer a.mu.Unlock()
	return max(a.next[autoKey{t.t.ID, t.t.Version}], t.t.NextAuto(), 1), nil
}

// AutoIncrementSetter implements sql.AutoIncrementTable.
func (t *tableView) AutoIncrementSetter(*sql.Context) sql.AutoIncrementSetter { return autoSetter{t} }

// autoSetter raises the next value. The log learns it with the row.
type autoSetter struct{ t *tableView }

func (a autoSetter) SetAutoIncrementValue(_ *sql.Context, v uint64) error {
	if v > 0 {
		a.t.e.autos.raise(a.t.t, v-1)
	}
	return nil
}

// AcquireAutoIncrementLock takes none: values of one statement need not follow each other (innodb_autoinc_lock_mode 2).
func (a autoSetter) AcquireAutoIncrementLock(*sql.Context) (func(), error) { return func() {}, nil }
func (a autoSetter) Close(*sql.Context) error                              { return nil }
