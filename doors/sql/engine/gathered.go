package engine

import (
	"bytes"
	"encoding/binary"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"github.com/holdfastdb/holdfast/doors/sql/lock"
	"github.com/holdfastdb/holdfast/doors/sql/txn"
)

// mostGathered bounds the changes that one statement gathers, in bytes. A transaction could not write many more.
const mostGathered = 8 << 20

// gathered are the changes of an UPDATE or DELETE of several tables. Its join reads what the transaction has written. So the changes are made once
// the join has ended, or it would miss rows that stand beside a changed one. A row is changed once, however many rows it stands beside.
type gathered struct {
	all     []rowChange
	known   map[string]bool // by table and key
	bytes   int
	deletes bool
}

// rowChange is the change of one row.
type rowChange struct {
	e       *editor
	key     []byte
	was, is sql.Row // nil: the row is deleted
}

// newGathered returns nil for statements that change rows while they read. UPDATE IGNORE is one of them: its reader skips a change that fails.
func newGathered(st *Statement) *gathered {
	switch a := st.ast.(type) {
	case *sqlparser.Delete:
		if len(a.Targets) > 0 {
			return &gathered{known: map[string]bool{}, deletes: true}
		}
	case *sqlparser.Update:
		_, single := a.TableExprs[0].(*sqlparser.AliasedTableExpr)
		if a.Ignore == "" && (len(a.TableExprs) > 1 || !single) {
			return &gathered{known: map[string]bool{}}
		}
	}
	return nil
}

// add gathers a change. is nil: the row is deleted.
func (g *gathered) add(ctx *sql.Context, e *editor, was, is sql.Row) error {
	if e.t.missing(was) {
		return nil
	}
	key, err := e.t.primaryKey(ctx, was)
	if err != nil {
		return err
	}
	name := string(binary.BigEndian.AppendUint64(nil, e.t.t.ID)) + string(key)
	if g.known[name] {
		return nil
	}
	if is != nil {
		before, err := e.t.encode(ctx, was)
		if err != nil {
			return err
		}
		after, err := e.t.encode(ctx, is)
		if err != nil {
			return err
		}
		if bytes.Equal(before, after) { // a later row of the join may change it
			return nil
		}
		g.bytes += len(before) + len(after)
	}
	g.bytes += len(name)
	if g.bytes > mostGathered {
		return txn.ErrTooLarge
	}
	g.known[name] = true
	g.all = append(g.all, rowChange{e, key, was, is})
	return nil
}

// apply makes the changes.
func (g *gathered) apply(ctx *sql.Context) error {
	for i := range g.all {
		x := &g.all[i]
		tx, err := x.e.s.transaction()
		if err != nil {
			return err
		}
		if x.is != nil {
			err = x.e.update(ctx, tx, x.was, x.is)
		} else {
			err = x.remove(ctx, tx)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (x *rowChange) remove(ctx *sql.Context, tx *txn.Tx) error {
	t := x.e.t
	value, exists, _, err := tx.LockRow(t.t.ID, 0, x.key, lock.Exclusive, x.e.s.wait(ctx))
	if err != nil {
		return err
	}
	if !exists {
		return sql.ErrDeleteRowNotFound.New()
	}
	r, err := t.decode(x.key, value)
	if err != nil {
		return t.damaged(err)
	}
	_, err = x.e.remove(ctx, tx, x.key, r)
	return err
}
