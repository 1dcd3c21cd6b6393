package engine

import (
	"strings"

	"github.com/cockroachdb/apd/v3"
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression/function/json"
	"github.com/dolthub/go-mysql-server/sql/types"

	"github.com/holdfastdb/holdfast/doors/sql/wire"
)

// jsonContains is JSON_CONTAINS. The library's knows one kind of numbers.
type jsonContains struct {
	sql.Expression // the library's, for what does not depend on the values, and for its errors
	args           []sql.Expression
}

var _ sql.FunctionExpression = (*jsonContains)(nil)

func init() {
	functions["json_contains"] = sql.FunctionN{Name: "json_contains", Fn: newJSONContains}
}

func newJSONContains(c *sql.Context, args ...sql.Expression) (sql.Expression, error) {
	e, err := json.NewJSONContains(c, args...)
	if err != nil {
		return nil, err
	}
	return &jsonContains{Expression: e, args: args}, nil
}

// FunctionName implements sql.FunctionExpression.
func (x *jsonContains) FunctionName() string { return "json_contains" }

// Description implements sql.FunctionExpression.
func (x *jsonContains) Description() string { return "says whether a document contains another." }

func (x *jsonContains) Children() []sql.Expression { return x.args }

// WithChildren implements sql.Expression.
func (x *jsonContains) WithChildren(c *sql.Context, children ...sql.Expression) (sql.Expression, error) {
	return newJSONContains(c, children...)
}

// Eval implements sql.Expression.
func (x *jsonContains) Eval(ctx *sql.Context, r sql.Row) (any, error) {
	var all [2]any
	for i := range all {
		v, err := x.args[i].Eval(ctx, r)
		if err != nil || v == nil {
			return nil, err
		}
		t := x.args[i].Type(ctx)
		if !types.IsJSON(t) && !types.IsTextOnly(t) {
			return nil, wire.Errorf(3146, "Invalid data type for JSON data in argument %d to function json_contains; a JSON string or JSON type is required.", i+1)
		}
		d, _, err := types.JSON.Convert(ctx, v)
		if err != nil {
			return x.Expression.Eval(ctx, r)
		}
		doc, ok := d.(sql.JSONWrapper)
		if !ok {
			return x.Expression.Eval(ctx, r)
		}
		if i == 0 && len(x.args) == 3 {
			path, err := evalPlain(ctx, x.args[2], r)
			if err != nil || path == nil {
				return nil, err
			}
			found, err := types.LookupJSONValue(ctx, doc, plainText(ctx, path, x.args[2].Type(ctx)))
			if err != nil {
				return nil, err
			}
			if found == nil {
				return nil, nil
			}
			doc = found
		}
		if all[i], err = doc.ToInterface(ctx); err != nil {
			return nil, err
		}
	}
	return containsJSON(all[0], all[1]), nil
}

// containsJSON reports whether a document contains another, as MySQL's manual has it of JSON_CONTAINS.
func containsJSON(target, of any) bool {
	switch t := target.(type) {
	case []any:
		if list, ok := of.([]any); ok {
			for _, one := range list {
				if !containsJSON(t, one) {
					return false
				}
			}
			return true
		}
		for _, one := range t {
			if containsJSON(one, of) {
				return true
			}
		}
		return false
	case map[string]any:
		o, ok := of.(map[string]any)
		for k, v := range o {
			inner, has := t[k]
			if !has || !containsJSON(inner, v) {
				return false
			}
		}
		return ok
	case nil:
		return of == nil
	case bool:
		b, ok := of.(bool)
		return ok && b == t
	case string:
		s, ok := of.(string)
		return ok && s == t
	}
	a, isNumber := jsonNumber(target)
	b, too := jsonNumber(of)
	_, float := target.(float64)
	if _, also := of.(float64); float != also { // one of them was read as a DOUBLE
		x, _ := a.Float64()
		y, _ := b.Float64()
		return isNumber && too && x == y
	}
	return isNumber && too && a.Cmp(b) == 0
}

// jsonNumber is a number of a document.
func jsonNumber(v any) (*apd.Decimal, bool) {
	switch n := v.(type) {
	case *apd.Decimal:
		return n, true
	case float32:
		return decimalOf(float64(n)), true
	case float64:
		return decimalOf(n), true
	case uint64:
		d := new(apd.Decimal)
		d.Coeff.SetUint64(n)
		return d, true
	}
	if s, ok := v.(interface{ String() string }); ok { // a number that was read as it is written
		if n := readNumber(strings.TrimSpace(s.String())); n.text != "" && !n.rest {
			return n.decimal(), true
		}
	}
	n, ok := integer(v)
	return apd.New(n, 0), ok
}
