package engine

import (
	"context"
	"encoding/hex"
	"slices"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/expression/function/aggregation"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/transform"
	"github.com/dolthub/go-mysql-server/sql/types"

	"github.com/holdfastdb/holdfast/doors/sql/row"
)

// folded is a padded text by its weights, as it stands in keys. The library sorts and groups by it where it would by the text.
type folded struct {
	expression.UnaryExpressionStub
	part row.Part
	of   sql.CollationID
	hex  bool // as a text: COUNT(DISTINCT …) makes one of everything
}

var _ sql.Expression = (*folded)(nil)

// fold returns the weights of an expression, or the expression itself where its values are no padded texts.
func fold(c *sql.Context, e sql.Expression) sql.Expression {
	if !foldable(c, e) {
		return e
	}
	return foldIn(c, e, collationOf(c, e).id)
}

// foldIn returns the weights of an expression in a collation.
func foldIn(c *sql.Context, e sql.Expression, id sql.CollationID) sql.Expression {
	part, err := row.NewPart(types.CreateLongText(id), 0, 0)
	if err != nil {
		return e
	}
	f := &folded{part: part, of: id}
	f.Child = e
	return f
}

func (f *folded) String() string { return f.Child.String() }
func (f *folded) Type(*sql.Context) sql.Type {
	if f.hex {
		return types.LongText
	}
	return types.LongBlob
}

func (f *folded) WithChildren(_ *sql.Context, children ...sql.Expression) (sql.Expression, error) {
	n := *f
	n.Child = children[0]
	return &n, nil
}

// Eval implements sql.Expression.
func (f *folded) Eval(ctx *sql.Context, r sql.Row) (any, error) {
	v, err := evalPlain(ctx, f.Child, r)
	if err != nil || v == nil {
		return nil, err
	}
	s, ok := v.(string)
	if !ok {
		w, t := memberText(ctx, v, f.Child.Type(ctx), types.LongText)
		s = textOfValue(w, t)
	}
	if err := weighable(f.of, s); err != nil {
		return nil, err
	}
	key, err := f.part.AppendKey(ctx, nil, s)
	if f.hex {
		return hex.EncodeToString(key), err
	}
	return key, err
}

// folding has a plan sort, group and join padded texts by their weights.
func folding(c *sql.Context, n sql.Node) (sql.Node, error) {
	n, _, err := transform.NodeWithOpaque(c, n, func(c *sql.Context, n sql.Node) (sql.Node, transform.TreeIdentity, error) {
		switch x := n.(type) {
		case *plan.Sort:
			if fields, ok := foldedFields(c, x.SortConditions); ok {
				return plan.NewSort(fields, x.Child), transform.NewTree, nil
			}
		case *plan.TopN:
			if fields, ok := foldedFields(c, x.SortConditions); ok {
				changed := *x
				changed.SortConditions = fields
				return &changed, transform.NewTree, nil
			}
		case *plan.GroupBy:
			keys, some := foldedAll(c, x.GroupByExprs)
			selected, counts, err := transform.Exprs(c, x.SelectDeps, aggregated)
			if err != nil {
				return nil, transform.SameTree, err
			}
			if some || counts == transform.NewTree {
				return plan.NewGroupBy(selected, keys, x.Child), transform.NewTree, nil
			}
		case *plan.Window:
			all, same, err := transform.Exprs(c, x.SelectExprs, aggregated)
			if err != nil || same == transform.SameTree {
				return n, transform.SameTree, err
			}
			return plan.NewWindow(all, x.Child), transform.NewTree, nil
		case *plan.Distinct:
			return distinct(c, x)
		case *plan.SetOp:
			return setOperation(c, x)
		case *plan.HashLookup:
			right, left, some := foldedKeys(c, x.RightEntryKey, x.LeftProbeKey)
			if some {
				return plan.NewHashLookup(c, x.Child, right, left, x.JoinType), transform.NewTree, nil
			}
		}
		return n, transform.SameTree, nil
	})
	return n, err
}

func foldedAll(c *sql.Context, all []sql.Expression) (folded []sql.Expression, some bool) {
	folded = make([]sql.Expression, len(all))
	for i, e := range all {
		folded[i] = fold(c, e)
		some = some || folded[i] != e
	}
	return folded, some
}

// aggregated has an aggregate or a window function take texts by their weights.
func aggregated(c *sql.Context, e sql.Expression) (sql.Expression, transform.TreeIdentity, error) {
	all, same := e, transform.SameTree
	switch x := e.(type) {
	case *aggregation.CountDistinct:
		made, changed, err := countedOnce(c, e)
		if err != nil {
			return nil, transform.SameTree, err
		}
		all, same = made, changed
	case *aggregation.Max, *aggregation.Min:
		child := e.Children()[0]
		if t, ok := child.Type(c).(sql.StringType); ok && foldable(c, child) {
			children := append([]sql.Expression{newInOrder(c, child, t)}, e.Children()[1:]...)
			made, err := x.WithChildren(c, children...)
			if err != nil {
				return nil, transform.SameTree, err
			}
			all, same = &extreme{Aggregation: sameColumn(e, made).(sql.Aggregation), typ: child.Type(c)}, transform.NewTree
		}
	}
	w, ok := all.(sql.WindowAdaptableExpression)
	if !ok || w.Window() == nil {
		return all, same, nil
	}
	for _, o := range w.Window().ToExpressions() {
		if hasSubquery(c, o) { // the library does not evaluate it for each row
			return nil, transform.SameTree, refused("a subquery in a window")
		}
	}
	framed, isFramed := newOverPeers(w)
	if isFramed {
		w, all, same = framed, framed, transform.NewTree
	}
	window := *w.Window()
	order, some := foldedFields(c, window.OrderBy)
	partition := append([]sql.Expression{}, window.PartitionBy...)
	for i, p := range partition {
		if t, ok := p.Type(c).(sql.StringType); ok && foldable(c, p) {
			partition[i], some = newInOrder(c, p, t), true
		}
	}
	if !some {
		return all, same, nil
	}
	window.OrderBy, window.PartitionBy = order, partition
	return sameColumn(e, w.WithWindow(c, &window)), transform.NewTree, nil
}

func hasSubquery(c *sql.Context, e sql.Expression) (found bool) {
	sql.Inspect(c, e, func(_ *sql.Context, e sql.Expression) bool {
		_, is := e.(*plan.Subquery)
		found = found || is
		return !found
	})
	return found
}

// extreme is MAX or MIN of texts in the order of their collation. Its type is the texts' own.
type extreme struct {
	sql.Aggregation
	typ sql.Type
}

// Type implements sql.Expression.
func (x *extreme) Type(*sql.Context) sql.Type { return x.typ }

// WithChildren implements sql.Expression.
func (x *extreme) WithChildren(ctx *sql.Context, children ...sql.Expression) (sql.Expression, error) {
	e, err := x.Aggregation.WithChildren(ctx, children...)
	if err != nil {
		return nil, err
	}
	return &extreme{e.(sql.Aggregation), x.typ}, nil
}

// WithId implements sql.IdExpression.
func (x *extreme) WithId(id sql.ColumnId) sql.IdExpression {
	return &extreme{x.Aggregation.WithId(id).(sql.Aggregation), x.typ}
}

// WithWindow implements sql.WindowAdaptableExpression.
func (x *extreme) WithWindow(ctx *sql.Context, w *sql.WindowDefinition) sql.WindowAdaptableExpression {
	return &extreme{x.Aggregation.WithWindow(ctx, w).(sql.Aggregation), x.typ}
}

// countedOnce has COUNT(DISTINCT …) count the weights of padded texts.
func countedOnce(c *sql.Context, e sql.Expression) (sql.Expression, transform.TreeIdentity, error) {
	count, ok := e.(*aggregation.CountDistinct)
	if !ok {
		return e, transform.SameTree, nil
	}
	children, some := foldedAll(c, count.Children())
	if !some {
		return e, transform.SameTree, nil
	}
	for _, e := range children {
		if f, ok := e.(*folded); ok {
			f.hex = true
		}
	}
	made, err := count.WithChildren(c, children...)
	return made, transform.NewTree, err
}

func foldedFields(c *sql.Context, fields sql.SortConditions) (sql.SortConditions, bool) {
	all, some := make(sql.SortConditions, len(fields)), false
	for i, f := range fields {
		all[i] = f
		if t, ok := f.Expr.Type(c).(sql.StringType); ok && foldable(c, f.Expr) {
			all[i].Expr, some = newInOrder(c, f.Expr, t), true
		}
	}
	return all, some
}

// inOrder is a padded text that rows are sorted by. The library evaluates it again for each comparison, so it does not make the weights of the whole
// text as folded does: most texts differ in their first characters.
type inOrder struct {
	expression.UnaryExpressionStub
	typ paddedText
}

var _ sql.Expression = (*inOrder)(nil)

func newInOrder(c *sql.Context, e sql.Expression, t sql.StringType) *inOrder {
	o := &inOrder{typ: paddedText{StringType: t, collation: collationOf(c, e).id}}
	o.Child = e
	return o
}

func (o *inOrder) String() string             { return o.Child.String() }
func (o *inOrder) Type(*sql.Context) sql.Type { return o.typ }

func (o *inOrder) WithChildren(_ *sql.Context, children ...sql.Expression) (sql.Expression, error) {
	n := *o
	n.Child = children[0]
	return &n, nil
}

// Eval implements sql.Expression.
func (o *inOrder) Eval(ctx *sql.Context, r sql.Row) (any, error) {
	v, err := evalPlain(ctx, o.Child, r)
	if err != nil || v == nil {
		return nil, err
	}
	return v, weighable(o.typ.collation, textOfValue(v, o.typ.StringType))
}

// paddedText is the type of a text that compares by its collation and PAD SPACE.
type paddedText struct {
	sql.StringType
	collation sql.CollationID
}

// Compare implements sql.Type.
func (t paddedText) Compare(_ context.Context, a, b any) (int, error) {
	if a == nil || b == nil {
		return compareInts(boolInt(a != nil), boolInt(b != nil)), nil
	}
	s, ok := a.(string)
	if !ok {
		s = textOfValue(a, t.StringType)
	}
	u, ok := b.(string)
	if !ok {
		u = textOfValue(b, t.StringType)
	}
	return compareText(t.collation, s, u), nil
}

func boolInt(is bool) int64 {
	if is {
		return 1
	}
	return 0
}

// foldedKeys are the keys of a join by hash, with the weights of the texts that are padded on both sides.
func foldedKeys(c *sql.Context, right, left sql.Expression) (foldedRight, foldedLeft sql.Expression, some bool) {
	r, several := right.(expression.Tuple)
	l, also := left.(expression.Tuple)
	if !several || !also || len(r) != len(l) {
		return foldedPair(c, right, left)
	}
	r, l = slices.Clone(r), slices.Clone(l)
	for i := range r {
		var one bool
		r[i], l[i], one = foldedPair(c, r[i], l[i])
		some = some || one
	}
	return r, l, some
}

func foldedPair(c *sql.Context, right, left sql.Expression) (foldedRight, foldedLeft sql.Expression, some bool) {
	for _, e := range []sql.Expression{right, left} {
		if !textual(e.Type(c)) {
			return right, left, false
		}
	}
	of := together(c, right, left)
	r, ok := foldIn(c, right, of.id).(*folded)
	l, also := foldIn(c, left, of.id).(*folded)
	if !ok || !also || !weighed(of.id) {
		return right, left, false
	}
	r.hex, l.hex = true, true
	return r, l, true
}

// distinct tells rows apart by the weights of padded texts, of which the library's DISTINCT knows nothing.
func distinct(c *sql.Context, x *plan.Distinct) (sql.Node, transform.TreeIdentity, error) {
	if len(x.DistinctOn()) > 0 {
		return x, transform.SameTree, nil
	}
	keys, some := foldedColumns(c, x.Child.Schema(c))
	if !some {
		return x, transform.SameTree, nil
	}
	return plan.NewDistinct(x.Child, keys...), transform.NewTree, nil
}

// setOperation has a UNION without ALL keep one of the padded texts that are equal, and INTERSECT and EXCEPT find them. The sort of all rows stands
// above: the library passes OFFSET over rows before it sorts them, and counts nothing of what it keeps.
func setOperation(c *sql.Context, x *plan.SetOp) (sql.Node, transform.TreeIdentity, error) {
	var n sql.Node
	switch {
	case x.SetOpType != plan.UnionType:
		n = newMatched(c, x)
	case x.Distinct || len(x.SortConditions) > 0:
		all := *x
		all.Distinct, all.SortConditions, all.Limit, all.Offset = false, nil, nil, nil
		n = &all
		if x.Distinct {
			once, _, err := distinct(c, plan.NewDistinct(n))
			if err != nil {
				return nil, transform.SameTree, err
			}
			n = once
		}
	default:
		return x, transform.SameTree, nil
	}
	if len(x.SortConditions) > 0 {
		conditions, _ := foldedFields(c, x.SortConditions)
		if x.Limit != nil && x.Offset == nil {
			return plan.NewTopN(conditions, x.Limit, n), transform.NewTree, nil
		}
		n = plan.NewSort(conditions, n)
	}
	if x.Offset != nil {
		n = plan.NewOffset(x.Offset, n)
	}
	if x.Limit != nil {
		n = plan.NewLimit(x.Limit, n)
	}
	return n, transform.NewTree, nil
}
