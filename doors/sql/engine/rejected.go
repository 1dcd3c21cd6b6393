package engine

import (
	"errors"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/transform"

	"github.com/holdfastdb/holdfast/doors/sql/lock"
	"github.com/holdfastdb/holdfast/doors/sql/txn"
)

// lockedRow is the row that was locked last, until a condition has judged it. The zero value is none.
type lockedRow struct {
	tx    *txn.Tx
	locks int // that the transaction had before
	table uint64
	key   []byte
}

// giveBack unlocks a row that the statement does not want, if it has locked it first.
func (l *lockedRow) giveBack() {
	if l.tx != nil {
		l.tx.UnlockSince(l.locks, l.table, 0, l.key)
	}
	*l = lockedRow{}
}

// givesBack reports whether rows that are not wanted, or not there, are unlocked at once: at READ COMMITTED, as in InnoDB.
func (r *lockedRows) givesBack() bool { return r.s.level.EachStatement() }

// locks is how many locks the transaction has before it locks a row that it may give back.
func (r *lockedRows) locks() int {
	if !r.givesBack() {
		return 0
	}
	return r.tx.Locks()
}

// lock locks a row. wanted false: another transaction has it locked, and what is committed of it is not what the statement looks for. InnoDB calls that a
// semi-consistent read: an UPDATE at READ COMMITTED does not wait for rows that it would not change.
func (r *lockedRows) lock(ctx *sql.Context, key []byte) (value []byte, exists, wanted bool, err error) {
	id, mode := r.t.t.ID, r.t.how.mode
	if r.filter == nil {
		value, exists, _, err = r.tx.LockRow(id, 0, key, mode, r.wait(ctx))
		return value, exists, true, err
	}
	value, exists, _, err = r.tx.LockRow(id, 0, key, mode, txn.Wait{})
	if errors.Is(err, txn.ErrTooManyLocks) { // a request that waits may lock the table instead
		value, exists, _, err = r.tx.LockRow(id, 0, key, mode, r.wait(ctx))
	}
	if !errors.Is(err, txn.ErrBusy) {
		return value, exists, true, err
	}
	if value, exists, err = r.tx.Newest(id, 0, key); err != nil || !exists {
		return nil, false, false, err
	}
	row, err := r.t.decode(key, value)
	if err != nil {
		return nil, false, false, r.t.damaged(err)
	}
	if wanted, err = holds(ctx, r.filter, row); err != nil || !wanted {
		return nil, false, false, err
	}
	value, exists, _, err = r.tx.LockRow(id, 0, key, mode, r.wait(ctx))
	return value, exists, true, err
}

// holds reports whether a condition is true of a row.
func holds(ctx *sql.Context, condition sql.Expression, r sql.Row) (bool, error) {
	v, err := condition.Eval(ctx, r)
	if err != nil || v == nil {
		return false, err
	}
	return sql.ConvertToBool(ctx, v)
}

// judging is the condition of a filter over a table whose rows are locked as they are read.
type judging struct {
	expression.UnaryExpressionStub
}

var _ sql.Expression = (*judging)(nil)

// rejecting has the filters of a plan unlock the rows that they reject.
func rejecting(c *sql.Context, n sql.Node) (sql.Node, error) {
	n, _, err := transform.NodeWithOpaque(c, n, func(c *sql.Context, n sql.Node) (sql.Node, transform.TreeIdentity, error) {
		f, ok := n.(*plan.Filter)
		if !ok {
			return n, transform.SameTree, nil
		}
		v := locksRows(f.Child)
		if v == nil {
			return n, transform.SameTree, nil
		}
		v.filter = f.Expression
		return plan.NewFilter(c, &judging{expression.UnaryExpressionStub{Child: f.Expression}}, f.Child), transform.NewTree, nil
	})
	return n, err
}

// locksRows is the table that a node is, if its rows are locked. Nil: the node is something else.
func locksRows(n sql.Node) *tableView {
	if a, ok := n.(*plan.TableAlias); ok {
		n = a.Child
	}
	t, ok := n.(sql.TableNode)
	if !ok {
		return nil
	}
	if v, ok := sql.GetUnderlyingTable(t.UnderlyingTable()).(*tableView); ok && v.how.mode != lock.Metadata {
		return v
	}
	return nil
}

func (j *judging) String() string               { return j.Child.String() }
func (j *judging) Type(c *sql.Context) sql.Type { return j.Child.Type(c) }

// WithChildren implements sql.Expression.
func (j *judging) WithChildren(_ *sql.Context, children ...sql.Expression) (sql.Expression, error) {
	return &judging{expression.UnaryExpressionStub{Child: children[0]}}, nil
}

// Eval implements sql.Expression.
func (j *judging) Eval(c *sql.Context, r sql.Row) (any, error) {
	v, err := j.Child.Eval(c, r)
	if err != nil {
		return nil, err
	}
	if s := sessionOf(c); s.rejected.tx != nil {
		wanted := false
		if v != nil {
			wanted, err = sql.ConvertToBool(c, v)
		}
		if !wanted {
			s.rejected.giveBack()
		}
		s.rejected = lockedRow{}
	}
	return v, err
}
