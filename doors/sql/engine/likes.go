package engine

import (
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/types"
)

// likes is LIKE in another collation than its left side has: that of its pattern, which goes before, as with LIKE BINARY. No index serves it.
type likes struct {
	*expression.Like
	of sql.CollationID
}

// likeOf returns LIKE where the collation of its left side does not decide. Nil: it does. Error: 1267.
func likeOf(c *sql.Context, x *expression.Like) (sql.Expression, error) {
	left, right := x.LeftChild, x.RightChild
	if !types.IsText(left.Type(c)) || !types.IsText(right.Type(c)) {
		return nil, nil
	}
	of := together(c, left, right)
	switch {
	case of.level == mixture:
		return nil, errMixed(collationOf(c, left), collationOf(c, right), "like")
	case of.id == collationOf(c, left).id || of.level == ignorable:
		return nil, nil
	}
	return &likes{Like: x, of: of.id}, nil
}

// WithChildren implements sql.Expression.
func (x *likes) WithChildren(_ *sql.Context, children ...sql.Expression) (sql.Expression, error) {
	return &likes{Like: expression.NewLike(children[0], children[1], x.Escape).(*expression.Like), of: x.of}, nil
}

// Eval implements sql.Expression.
func (x *likes) Eval(ctx *sql.Context, r sql.Row) (any, error) {
	var texts [2]string
	for i, e := range []sql.Expression{x.LeftChild, x.RightChild} {
		v, err := evalPlain(ctx, e, r)
		if err != nil || v == nil {
			return nil, err
		}
		texts[i] = plainText(ctx, v, e.Type(ctx))
	}
	escape := '\\'
	if x.Escape != nil {
		v, err := evalPlain(ctx, x.Escape, r)
		if err != nil {
			return nil, err
		}
		if v != nil {
			all := []rune(plainText(ctx, v, x.Escape.Type(ctx)))
			switch len(all) {
			case 0:
				escape = 0
			case 1:
				escape = all[0]
			default:
				return nil, sql.ErrInvalidArgument.New("ESCAPE")
			}
		}
	}
	m, err := expression.ConstructLikeMatcher(x.of, texts[1], escape)
	if err != nil {
		return nil, err
	}
	return m.Match(texts[0]), nil
}
