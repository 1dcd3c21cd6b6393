package engine

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"github.com/holdfastdb/holdfast/doors/sql/lock"
	"github.com/holdfastdb/holdfast/doors/sql/txn"
	"github.com/holdfastdb/holdfast/doors/sql/wire"
)

// gathered are the changes of an UPDATE or DELETE that reads what it changes: of several tables, or with a subquery of its own table. It reads the
// transaction's own writes. So the changes are made once it has read all, or it would miss rows that stand beside a changed one, and count
// others anew. A row is changed once, however many rows it stands beside.
type gathered struct {
	all     []rowChange
	known   map[string]bool // by table and key
	deletes bool
	ignores bool // a change that cannot be made is a warning
	ignored uint64
}

// rowChange is the change of one row.
type rowChange struct {
	e       *editor
	key     []byte
	was, is sql.Row // nil: the row is deleted
}

// newGathered returns nil for statements that change rows while they read.
func newGathered(st *Statement) *gathered {
	switch a := st.ast.(type) {
	case *sqlparser.Delete:
		if len(a.Targets) > 0 || subqueryReads(a, a.TableExprs) {
			return &gathered{known: map[string]bool{}, deletes: true}
		}
	case *sqlparser.Update:
		_, single := a.TableExprs[0].(*sqlparser.AliasedTableExpr)
		if len(a.TableExprs) > 1 || !single || subqueryReads(a, a.TableExprs) {
			return &gathered{known: map[string]bool{}, ignores: a.Ignore != ""}
		}
	}
	return nil
}

// subqueryReads reports whether a subquery of a statement names a table that the statement changes. Tables of the same name in two databases count as
// one: the changes of such a statement are gathered without need.
func subqueryReads(st sqlparser.SQLNode, changed sqlparser.TableExprs) (found bool) {
	names := map[string]bool{}
	named := func(in *bool) func(sqlparser.SQLNode) (bool, error) {
		return func(n sqlparser.SQLNode) (bool, error) {
			if t, ok := n.(sqlparser.TableName); ok {
				if name := strings.ToLower(t.Name.String()); in == nil {
					names[name] = true
				} else if names[name] {
					*in = true
				}
			}
			return true, nil
		}
	}
	_ = sqlparser.Walk(named(nil), changed) // no visitor of this function fails
	_ = sqlparser.Walk(func(n sqlparser.SQLNode) (bool, error) {
		if q, ok := n.(sqlparser.SelectStatement); ok && !found {
			return false, sqlparser.Walk(named(&found), q)
		}
		return !found, nil
	}, st)
	return found
}

// changeBytes is about what a change takes in memory beside its rows.
const changeBytes = 128

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
	size := len(name) + changeBytes
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
		size += len(before) + len(after)
	}
	if err := e.s.kept.add(size); err != nil {
		return err
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
		mark := tx.Mark()
		if x.is != nil {
			err = x.e.update(ctx, tx, x.was, x.is)
		} else {
			err = x.remove(ctx, tx)
		}
		if err != nil && g.ignores {
			if err = x.e.s.ignore(ctx, tx, mark, err); err == nil {
				g.ignored++
			}
		}
		tx.Passed(mark)
		if err != nil {
			return err
		}
	}
	return nil
}

// warnedOf are the errors of rows that IGNORE makes warnings of.
var warnedOf = map[uint16]bool{1048: true, 1062: true, 1451: true, 1452: true, 3819: true}

// ignore takes back what a change has written before it failed, and makes a warning of its error. Other errors stay.
func (s *Session) ignore(ctx *sql.Context, tx *txn.Tx, mark txn.Mark, err error) error {
	told := mysqlError("", s.GetCurrentDatabase(), err)
	var own *wire.Error
	if !errors.As(told, &own) || !warnedOf[own.Code] {
		return err
	}
	ctx.Warn(int(own.Code), "%s", own.Message)
	return tx.RollbackTo(mark)
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
