package engine

import (
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/transform"
)

// everywhere has f change a plan, the plans of the subqueries in its expressions, and what an INSERT selects from: the library's transforms stop there.
// f returns the plan that it got if nothing changes.
func everywhere(c *sql.Context, n sql.Node, f func(*sql.Context, sql.Node) (sql.Node, error)) (sql.Node, error) {
	n, _, err := transform.NodeWithOpaque(c, n, func(c *sql.Context, n sql.Node) (sql.Node, transform.TreeIdentity, error) {
		n, same, err := transform.OneNodeExpressions(c, n, func(c *sql.Context, e sql.Expression) (sql.Expression, transform.TreeIdentity, error) {
			q, ok := e.(*plan.Subquery)
			if !ok {
				return e, transform.SameTree, nil
			}
			inner, err := everywhere(c, q.Query, f)
			if err != nil || inner == q.Query {
				return e, transform.SameTree, err
			}
			return q.WithQuery(inner), transform.NewTree, nil
		})
		into, ok := n.(*plan.InsertInto)
		if err != nil || !ok {
			return n, same, err
		}
		source, err := everywhere(c, into.Source, f)
		if err != nil || source == into.Source {
			return n, same, err
		}
		return into.WithSource(source), transform.NewTree, nil
	})
	if err != nil {
		return nil, err
	}
	return f(c, n)
}
