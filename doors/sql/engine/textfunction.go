package engine

import (
	"strings"
	"unicode/utf8"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/expression/function"
	"github.com/dolthub/go-mysql-server/sql/expression/function/aggregation"
	"github.com/dolthub/go-mysql-server/sql/types"

	"github.com/holdfastdb/holdfast/doors/sql/row"
)

// textFunction is a function of texts that goes by their collation. The library's goes by bytes, or knows no padding.
type textFunction struct {
	sql.Expression // the library's, for what does not depend on the values
	name           string
	args           []sql.Expression
	of             sql.CollationID
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
			of := x.Expr
			if types.IsJSON(of.Type(c)) && types.IsText(b.Cond.Type(c)) && !types.IsJSON(b.Cond.Type(c)) { // MySQL's CASE knows no JSON, and takes its text
				of = expression.NewConvert(of, expression.ConvertToChar)
			}
			equal := sql.Expression(expression.NewEquals(of, b.Cond))
			if o, err := ours(c, equal); o != nil || err != nil {
				if err != nil {
					return nil, err
				}
				equal, some = o, true
			}
			branches[i] = expression.CaseBranch{Cond: equal, Value: b.Value}
		}
		if !some {
			return nil, nil
		}
		return expression.NewCase(nil, branches, x.Else), nil
	case *aggregation.Sum, *aggregation.Avg:
		for _, child := range x.Children() {
			if temporal(child.Type(c)) {
				return nil, refused("SUM and AVG of dates and times")
			}
		}
		return nil, nil
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
	name := strings.ToLower(f.FunctionName())
	switch name {
	case "quote": // of NULL it is a word
		if args := e.Children(); types.IsTextOnly(e.Type(c)) && len(args) == 1 {
			return function.NewCoalesce(c, e, literal("NULL", types.CreateLongText(collationOf(c, e).id)))
		}
		return nil, nil
	case "strcmp", "instr", "greatest", "least", "field", "locate", "position", "find_in_set":
	default:
		return nil, nil
	}
	some, texts := false, f.Children()
	switch name {
	case "locate", "position":
		texts = texts[:min(2, len(texts))]
	}
	for _, a := range texts {
		if t := a.Type(c); !textual(t) && !types.IsText(t) {
			return nil, nil
		}
		of := collationOf(c, a)
		some = some || weighed(of.id) || of.id == sql.Collation_binary && of.level != ignorable
	}
	if !some {
		return nil, nil
	}
	of := together(c, texts...)
	if of.level == mixture {
		return nil, errMixed(collationOf(c, texts[0]), together(c, texts[1:]...), name)
	}
	return &textFunction{Expression: e, name: name, args: f.Children(), of: of.id}, nil
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
	text := func(i int) string {
		v, t := memberText(ctx, values[i], f.args[i].Type(ctx), types.LongText)
		return textOfValue(v, t)
	}
	for i := range min(2, len(values)) {
		if values[i] == nil {
			continue
		}
		if err := weighable(f.of, text(i)); err != nil {
			return nil, err
		}
	}
	switch f.name {
	case "instr":
		return f.place(text(0), text(1), 1), nil
	case "locate", "position":
		from := int64(1)
		if len(values) > 2 {
			n, _, err := types.Int64.Convert(ctx, values[2])
			if err != nil {
				return nil, err
			}
			from = n.(int64)
		}
		return f.place(text(1), text(0), from), nil
	case "find_in_set":
		if text(1) == "" || strings.Contains(text(0), ",") {
			return int64(0), nil
		}
		for i, one := range strings.Split(text(1), ",") {
			if utf8.RuneCountInString(one) == utf8.RuneCountInString(text(0)) && f.place(one, text(0), 1) == 1 { // without padding
				return int64(i + 1), nil
			}
		}
		return int64(0), nil
	}
	at := 0
	for i := 1; i < len(values); i++ {
		if f.name == "field" && (values[0] == nil || values[i] == nil) {
			continue
		}
		cmp, err := compareValues(ctx, f.of, f.args[at], f.args[i], values[at], values[i])
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

// place returns where a text stands in another, in characters from 1, at or behind a place; 0: it does not.
func (f *textFunction) place(in, what string, from int64) int64 {
	if f.of == sql.Collation_binary && from >= 1 && from <= int64(len(in))+1 {
		if at := strings.Index(in[from-1:], what); at >= 0 {
			return from + int64(at)
		}
		return 0
	}
	weight := row.Sorter(f.of)
	a, b := []rune(in), []rune(what)
	if from < 1 {
		return 0
	}
	for at := from - 1; at+int64(len(b)) <= int64(len(a)); at++ {
		same := true
		for i := 0; i < len(b) && same; i++ {
			same = weight(a[at+int64(i)]) == weight(b[i])
		}
		if same {
			return at + 1
		}
	}
	return 0
}
