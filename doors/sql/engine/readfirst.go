package engine

import (
	"errors"
	"io"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/transform"
)

// readFirst is a source of rows that is read to its end before the first of them goes on: INSERT or REPLACE of what is read from the same table in
// several goes. The library reads a row and writes a row, and a transaction reads what it has written, so that new rows were found and inserted again.
// MySQL has a temporary table here.
type readFirst struct{ plan.UnaryNode }

var _ sql.ExecBuilderNode = (*readFirst)(nil)

// readingFirst has statements that read the table they insert into read all rows first, where they read it in several goes.
func readingFirst(c *sql.Context, n sql.Node) (sql.Node, error) {
	n, _, err := transform.Node(c, n, func(c *sql.Context, n sql.Node) (sql.Node, transform.TreeIdentity, error) {
		into, ok := n.(*plan.InsertInto)
		if !ok {
			return n, transform.SameTree, nil
		}
		to, err := plan.GetInsertable(into.Destination)
		if err != nil {
			return n, transform.SameTree, nil // not a table of ours
		}
		t, ok := sql.GetUnderlyingTable(to).(*tableView)
		if !ok {
			return n, transform.SameTree, nil
		}
		changes := into.IsReplace || into.OnDupExprs.HasUpdates()
		again, err := readsAgain(c, into.Source, t.t.ID, changes)
		if err != nil || !again {
			return n, transform.SameTree, err
		}
		return into.WithSource(&readFirst{plan.UnaryNode{Child: into.Source}}), transform.NewTree, nil
	})
	return n, err
}

// readsAgain reports whether a plan reads a table once more after it has returned a row: in a join, a UNION or a subquery, or by several ranges of an index.
// One reading in one go does not meet rows that come meanwhile, and needs no memory for its rows: a table may double itself. It meets rows that the
// statement changes: where it does, once is again.
func readsAgain(c *sql.Context, n sql.Node, id uint64, changes bool) (bool, error) {
	reads, plans, once := 0, 0, !changes
	_, err := everywhere(c, n, func(c *sql.Context, n sql.Node) (sql.Node, error) {
		plans++ // one more for each subquery
		transform.InspectWithOpaque(c, n, func(_ *sql.Context, n sql.Node) bool {
			if t, ok := n.(sql.TableNode); ok && !isAlias(n) {
				if v, ok := sql.GetUnderlyingTable(t.UnderlyingTable()).(*tableView); ok && v.t.ID == id {
					reads++
				}
			}
			switch x := n.(type) {
			case nil, *plan.ResolvedTable, *plan.TableAlias, *plan.SubqueryAlias, *plan.Filter, *plan.Project, *plan.Having, *plan.GroupBy, *plan.Distinct,
				*plan.OrderedDistinct, *plan.Sort, *plan.TopN, *plan.Limit, *plan.Offset:
			case *plan.IndexedTableAccess:
				l := plan.GetIndexLookup(x)
				all, _ := l.Ranges.(sql.MySQLRangeCollection)
				once = once && len(all) < 2
			default:
				once = false
			}
			return true
		})
		return n, nil
	})
	return reads > 1 || reads == 1 && (!once || plans > 1), err
}

// isAlias reports whether a node stands for the table below it, which is counted itself.
func isAlias(n sql.Node) bool {
	_, ok := n.(*plan.TableAlias)
	return ok
}

// String implements sql.Node.
func (w *readFirst) String() string { return w.Child.String() }

// Schema implements sql.Node.
func (w *readFirst) Schema(c *sql.Context) sql.Schema { return w.Child.Schema(c) }

// IsReadOnly implements sql.Node.
func (w *readFirst) IsReadOnly() bool { return w.Child.IsReadOnly() }

// WithChildren implements sql.Node.
func (w *readFirst) WithChildren(_ *sql.Context, children ...sql.Node) (sql.Node, error) {
	if len(children) != 1 {
		return nil, sql.ErrInvalidChildrenNumber.New(w, len(children), 1)
	}
	return &readFirst{plan.UnaryNode{Child: children[0]}}, nil
}

// BuildRowIter implements sql.ExecBuilderNode. The rows count as memory of the statement.
func (w *readFirst) BuildRowIter(c *sql.Context, b sql.NodeExecBuilder, r sql.Row) (sql.RowIter, error) {
	from, err := b.Build(c, w.Child, r)
	if err != nil {
		return nil, err
	}
	kept := &sessionOf(c).kept
	var all []sql.Row
	for {
		one, err := from.Next(c)
		if errors.Is(err, io.EOF) {
			return sql.RowsToRowIter(all...), from.Close(c)
		}
		if err == nil {
			err = kept.add(rowSize(one))
		}
		if err != nil {
			return nil, errors.Join(err, from.Close(c))
		}
		all = append(all, one)
	}
}
