package engine

import (
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/expression/function/aggregation"
	"github.com/dolthub/go-mysql-server/sql/types"

	"github.com/holdfastdb/holdfast/doors/sql/row"
)

// textFunction is a function of texts that goes by their collation. The library's goes by bytes, or knows no padding.
type textFunction struct {
	sql.Expression // the library's, for what does not depend on the values
	name           string
	args           []sql.Expression
}

// ofTexts returns a function or a CASE whose texts compare by their collation. Nil: the expression is none, or the library's is right.
func ofTexts(c *sql.Context, e sql.Expression) (sql.Expression, error) {
	switch x := e.(type) {
	case *expression.Case:
		if x.Expr == nil {
			return nil, nil
		}
		branches, some := make([]expression.CaseBranch, len(x.Branches)), false
		for i, b := range x.Branches {
			equal := sql.Expression(expression.NewEquals(x.Expr, b.Cond))
			if o, ok := ours(c, equal); ok {
				equal, some = o, true
			}
			branches[i] = expression.CaseBranch{Cond: equal, Value: b.Value}
		}
		if !some {
			return nil, nil
		}
		return expression.NewCase(nil, branches, x.Else), nil
	case *aggregation.GroupConcat:
		for _, o := range x.Children() {
			if strings.HasPrefix(x.String(), "group_concat(distinct ") && foldable(c, o) { // the library says it nowhere else
				return nil, refused("GROUP_CONCAT(DISTINCT) of texts")
			}
		}
		return nil, nil
	}
	f, ok := e.(sql.FunctionExpression)
	if !ok {
		return nil, nil
	}
	switch f.FunctionName() {
	case "strcmp", "instr", "greatest", "least", "field":
	default:
		return nil, nil
	}
	some := false
	for _, a := range f.Children() {
		if !types.IsTextOnly(a.Type(c)) {
			return nil, nil
		}
		some = some || foldable(c, a)
	}
	if !some {
		return nil, nil
	}
	return &textFunction{Expression: e, name: f.FunctionName(), args: f.Children()}, nil
}

func (f *textFunction) Children() []sql.Expression { return f.args }

func (f *textFunction) WithChildren(_ *sql.Context, children ...sql.Expression) (sql.Expression, error) {
	n := *f
	n.args = children
	return &n, nil
}

func (f *textFunction) Resolved() bool { return expression.ExpressionsResolved(f.args...) }

// Eval implements sql.Expression.
func (f *textFunction) Eval(ctx *sql.Context, r sql.Row) (any, error) {
	values := make([]any, len(f.args))
	for i, a := range f.args {
		v, err := evalPlain(ctx, a, r)
		if err != nil {
			return nil, err
		}
		if v == nil && f.name != "field" {
			return nil, nil
		}
		values[i] = v
	}
	if f.name == "instr" {
		return f.instr(ctx, textOfValue(values[0], f.args[0].Type(ctx)), textOfValue(values[1], f.args[1].Type(ctx))), nil
	}
	at := 0
	for i := 1; i < len(values); i++ {
		if f.name == "field" && (values[0] == nil || values[i] == nil) {
			continue
		}
		cmp, err := compareValues(ctx, f.args[at], f.args[i], values[at], values[i])
		switch {
		case err != nil:
			return nil, err
		case f.name == "strcmp":
			return cmp, nil
		case f.name == "field" && cmp == 0:
			return int64(i), nil
		case f.name == "greatest" && cmp < 0, f.name == "least" && cmp > 0:
			at = i
		}
	}
	if f.name == "field" {
		return int64(0), nil
	}
	return values[at], nil
}

// instr returns the place of a text in another, in characters from 1; 0: it is not there.
func (f *textFunction) instr(ctx *sql.Context, in, what string) int64 {
	c, n := sql.GetCoercibility(ctx, f.args[0])
	d, m := sql.GetCoercibility(ctx, f.args[1])
	c, _ = sql.ResolveCoercibility(c, n, d, m)
	weight := row.Sorter(c)
	a, b := []rune(in), []rune(what)
	for at := 0; at+len(b) <= len(a); at++ {
		same := true
		for i := 0; i < len(b) && same; i++ {
			same = weight(a[at+i]) == weight(b[i])
		}
		if same {
			return int64(at + 1)
		}
	}
	return 0
}
