package engine

import (
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/transform"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/vt/sqlparser"
)

// assigning puts the values that a plan stores behind expressions that convert them.
func (s *Session) assigning(c *sql.Context, st *Statement, n sql.Node) (sql.Node, error) {
	lenient := ignores(st.ast)
	_, first := st.ast.(*sqlparser.Update) // ON DUPLICATE KEY UPDATE counts no row of its own
	n, _, err := transform.NodeExprs(c, n, func(c *sql.Context, e sql.Expression) (sql.Expression, transform.TreeIdentity, error) {
		set, ok := e.(*expression.SetField)
		if !ok {
			return e, transform.SameTree, nil
		}
		field, ok := set.LeftChild.(*expression.GetField)
		if !ok || !storable(set.RightChild) {
			return e, transform.SameTree, nil
		}
		_, literal := set.RightChild.(*expression.Literal)
		a := &assigned{column: field.Name(), typ: field.Type(c), digits: s.timeDigits(field.Table(), field.Name()), lenient: lenient,
			hex: literal && isHex(c, set.RightChild)}
		a.Child, a.first = set.RightChild, first
		first = false
		return expression.NewSetField(set.LeftChild, a), transform.NewTree, nil
	})
	if err != nil {
		return nil, err
	}
	n, _, err = transform.Node(c, n, func(c *sql.Context, n sql.Node) (sql.Node, transform.TreeIdentity, error) {
		into, ok := n.(*plan.InsertInto)
		if !ok {
			return n, transform.SameTree, nil
		}
		project, ok := into.Source.(*plan.Project)
		schema := into.Destination.Schema(c)
		if !ok || len(project.Projections) != len(schema) {
			return nil, transform.SameTree, refused("INSERT of this kind")
		}
		first := true
		stored := func(i int, e sql.Expression, hex bool) sql.Expression {
			if !storable(e) {
				return e
			}
			a := &assigned{column: schema[i].Name, typ: schema[i].Type, digits: s.timeDigits(schema[i].Source, schema[i].Name), lenient: lenient, hex: hex,
				first: first}
			a.Child, first = e, false
			return a
		}
		values, isValues := project.Child.(*plan.Values)
		column := map[int]int{} // of the table, by the place in VALUES
		all := make([]sql.Expression, len(schema))
		for i, e := range project.Projections {
			field, ok := e.(*expression.GetField)
			if isValues && ok {
				column[field.Index()] = i
				all[i] = e
				continue
			}
			all[i] = stored(i, e, false)
		}
		source, err := project.WithExpressions(c, all...)
		if err != nil {
			return nil, transform.SameTree, err
		}
		if isValues { // the types of the client's own expressions are known here alone
			tuples := make([][]sql.Expression, len(values.ExpressionTuples))
			for n, tuple := range values.ExpressionTuples {
				tuples[n], first = make([]sql.Expression, len(tuple)), true
				for j, e := range tuple {
					tuples[n][j] = e
					if i, ok := column[j]; ok {
						_, literal := e.(*expression.Literal)
						tuples[n][j] = stored(i, e, literal && isHex(c, e))
					}
				}
			}
			changed := *values
			changed.ExpressionTuples = tuples
			source, err = source.WithChildren(c, &changed)
		}
		if err != nil {
			return nil, transform.SameTree, err
		}
		return into.WithSource(source), transform.NewTree, nil
	})
	return n, err
}

// ignores reports whether a statement is an INSERT IGNORE or UPDATE IGNORE.
func ignores(ast sqlparser.Statement) bool {
	switch a := ast.(type) {
	case *sqlparser.Insert:
		return a.Ignore != ""
	case *sqlparser.Update:
		return a.Ignore != ""
	}
	return false
}

// storable reports whether an expression is one of the client's values. The library looks for the others by their Go type.
func storable(e sql.Expression) bool {
	switch e := e.(type) {
	case *sql.ColumnDefaultValue, *expression.AutoIncrement, *assigned, nil:
		return false
	case *expression.Wrapper:
		return storable(e.Unwrap())
	}
	return true
}

// isHex reports whether an expression has the type of literals such as 0x10. Parameters have another one.
func isHex(c *sql.Context, e sql.Expression) bool { return e.Type(c) == types.LongBlob }
