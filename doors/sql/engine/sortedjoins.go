package engine

import (
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/analyzer"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/transform"
)

// outsideNested leaves the library's rule out that drops a sort where an index gives the order, if one join is inside of another. The rule has the sorted
// table of a join be read first, and forgets that for the inner join: the rows come by the order of the other table.
func outsideNested(rule analyzer.RuleFunc) analyzer.RuleFunc {
	return func(c *sql.Context, a *analyzer.Analyzer, n sql.Node, scope *plan.Scope, sel analyzer.RuleSelector, flags *sql.QueryFlags) (sql.Node, transform.TreeIdentity, error) {
		if nestedJoins(n) {
			return n, transform.SameTree, nil
		}
		return rule(c, a, n, scope, sel, flags)
	}
}

// nestedJoins reports whether a join of a plan has a join below it.
func nestedJoins(n sql.Node) bool {
	found := false
	transform.Inspect(n, func(n sql.Node) bool {
		if j, ok := n.(*plan.JoinNode); ok {
			for _, child := range j.Children() {
				transform.Inspect(child, func(n sql.Node) bool {
					_, is := n.(*plan.JoinNode)
					found = found || is
					return !found
				})
			}
		}
		return !found
	})
	return found
}
