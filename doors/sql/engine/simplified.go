package engine

import (
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/analyzer"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/transform"
)

// simplifying are the library's rules by which BETWEEN, LIKE and NOT become comparisons. Its planner finds a range of an index by comparisons alone.
var simplifying = func() (all []analyzer.Rule) {
	for _, r := range analyzer.OnceBeforeDefault {
		switch r.Id.String() {
		case "simplifyFilters", "pushNotFilters":
			all = append(all, r)
		}
	}
	if len(all) != 2 {
		panic("engine: the library's rules for conditions have other names")
	}
	return all
}()

// simplified is an UPDATE or a DELETE with conditions by which the planner finds ranges. For these statements the library leaves the rules out where they
// are of one table: they would read, and so lock, every row of it. A condition that is always true or false stays as it is.
func simplified(c *sql.Context, n sql.Node, flags *sql.QueryFlags) (sql.Node, error) {
	switch n.(type) {
	case *plan.Update, *plan.DeleteFrom:
	default:
		return n, nil
	}
	n, _, err := transform.Node(c, n, func(c *sql.Context, n sql.Node) (sql.Node, transform.TreeIdentity, error) {
		same := transform.SameTree
		for _, r := range simplifying {
			if _, ok := n.(*plan.Filter); !ok {
				break
			}
			next, _, err := r.Apply(c, nil, n, nil, nil, flags)
			if err != nil {
				return n, same, err
			}
			if _, ok := next.(*plan.Filter); ok {
				n, same = next, transform.NewTree
			}
		}
		return n, same, nil
	})
	return n, err
}
