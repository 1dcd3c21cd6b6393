package engine

import (
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/transform"
	"github.com/dolthub/go-mysql-server/sql/types"
)

// lists has lists of values compared member by member, and texts found in a subquery by their weights. The library compares the bytes of what is in a
// list. An order of lists, and a list that is looked for in a subquery or beside one, are refused.
func lists(c *sql.Context, n sql.Node) (sql.Node, error) {
	n, _, err := transform.NodeExprsWithOpaque(c, n, func(c *sql.Context, e sql.Expression) (sql.Expression, transform.TreeIdentity, error) {
		if in, ok := e.(*plan.InSubquery); ok {
			return inSubquery(c, in)
		}
		op, operands, ok := takenApart(e)
		if !ok || !isList(operands[0]) && !isList(operands[len(operands)-1]) {
			return e, transform.SameTree, nil
		}
		if op != opEqual && op != opSame && op != opIn {
			return nil, transform.SameTree, refused("an order of lists of values")
		}
		var some []sql.Expression
		for _, o := range operands[1:] {
			all, err := memberwise(op, operands[0], o)
			if err != nil {
				return nil, transform.SameTree, err
			}
			some = append(some, all)
		}
		return expression.JoinOr(some...), transform.NewTree, nil
	})
	return n, err
}

func isList(e sql.Expression) bool {
	_, ok := e.(expression.Tuple)
	return ok
}

// memberwise is the condition that two lists are equal.
func memberwise(op operator, left, right sql.Expression) (sql.Expression, error) {
	a, ok := left.(expression.Tuple)
	b, also := right.(expression.Tuple)
	if !ok || !also {
		return nil, refused("a list of values beside something else")
	}
	if len(a) != len(b) {
		return nil, sql.ErrInvalidOperandColumns.New(len(a), len(b))
	}
	var all []sql.Expression
	for i := range a {
		one := sql.Expression(expression.NewEquals(a[i], b[i]))
		switch {
		case isList(a[i]) || isList(b[i]):
			var err error
			if one, err = memberwise(op, a[i], b[i]); err != nil {
				return nil, err
			}
		case op == opSame:
			one = expression.NewNullSafeEquals(a[i], b[i])
		}
		all = append(all, one)
	}
	return expression.JoinAnd(all...), nil
}

// inSubquery has a text that is padded looked for by its weights. The planner has turned most of these into joins.
func inSubquery(c *sql.Context, in *plan.InSubquery) (sql.Expression, transform.TreeIdentity, error) {
	q, ok := in.Right().(*plan.Subquery)
	if isList(in.Left()) {
		return nil, transform.SameTree, refused("a list of values in a subquery that is no condition of its own")
	}
	if !ok || !types.IsTextOnly(in.Left().Type(c)) || !types.IsTextOnly(q.Type(c)) {
		return in, transform.SameTree, nil
	}
	of, err := ofComparison(c, opIn, []sql.Expression{in.Left(), q})
	if err != nil {
		return nil, transform.SameTree, err
	}
	left, text := foldIn(c, in.Left(), of.id).(*folded)
	if !text || !weighed(of.id) {
		return in, transform.SameTree, nil
	}
	return &among{InSubquery: in, left: left, q: q}, transform.NewTree, nil
}

// among is IN of a subquery that gives texts. It belongs to one run of a plan.
type among struct {
	*plan.InSubquery
	left *folded
	q    *plan.Subquery

	of   *any // the values that found is made of: the subquery returns them anew where it depends on the row
	n    int
	null bool
	keys map[string]bool
}

// WithChildren implements sql.Expression.
func (a *among) WithChildren(ctx *sql.Context, children ...sql.Expression) (sql.Expression, error) {
	made, err := a.InSubquery.WithChildren(ctx, children...)
	if err != nil {
		return nil, err
	}
	in, ok := made.(*plan.InSubquery)
	if !ok {
		return made, nil
	}
	e, _, err := inSubquery(ctx, in)
	return e, err
}

// Eval implements sql.Expression.
func (a *among) Eval(ctx *sql.Context, r sql.Row) (any, error) {
	values, err := a.q.EvalMultiple(ctx, r)
	if err != nil || len(values) == 0 {
		return false, err
	}
	if a.keys == nil || a.of != &values[0] || a.n != len(values) {
		a.of, a.n, a.null, a.keys = &values[0], len(values), false, make(map[string]bool, len(values))
		for _, v := range values {
			if v == nil {
				a.null = true
				continue
			}
			key, err := a.key(ctx, a.q, v)
			if err != nil {
				return nil, err
			}
			a.keys[string(key)] = true
		}
	}
	v, err := evalPlain(ctx, a.left.Child, r)
	if err != nil || v == nil {
		return nil, err
	}
	key, err := a.key(ctx, a.left.Child, v)
	switch {
	case err != nil:
		return nil, err
	case a.keys[string(key)]:
		return true, nil
	case a.null:
		return nil, nil
	}
	return false, nil
}

// key is a value by its weights.
func (a *among) key(ctx *sql.Context, of sql.Expression, v any) ([]byte, error) {
	s, ok := v.(string)
	if !ok {
		s = textOfValue(v, of.Type(ctx))
	}
	if err := weighable(a.left.of, s); err != nil {
		return nil, err
	}
	return a.left.part.AppendKey(ctx, nil, s)
}
