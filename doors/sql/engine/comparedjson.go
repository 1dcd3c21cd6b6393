package engine

import (
	"github.com/cockroachdb/apd/v3"
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/types"
)

// compareJSON compares two values of which one is a JSON document: the other one becomes a scalar of JSON (MySQL 8.0 Reference Manual, "Comparison and
// Ordering of JSON Values"). A text is a string of JSON, and never read as a document.
func compareJSON(ctx *sql.Context, left, right sql.Expression, a, b any) (int, error) {
	x, err := jsonOf(ctx, left, a)
	if err != nil {
		return 0, err
	}
	y, err := jsonOf(ctx, right, b)
	if err != nil {
		return 0, err
	}
	return types.CompareJSON(ctx, x, y)
}

// jsonOf is a value as JSON has it. The literals TRUE and FALSE are booleans there, and 1 and 0 are numbers.
func jsonOf(ctx *sql.Context, e sql.Expression, v any) (any, error) {
	if w, ok := v.(sql.JSONWrapper); ok {
		return w.ToInterface(ctx)
	}
	t := e.Type(ctx)
	switch x := v.(type) {
	case bool:
		if _, literal := e.(*expression.Literal); literal {
			return x, nil
		}
		return boolInt(x), nil
	case *apd.Decimal:
		return x.Float64()
	}
	switch {
	case types.IsJSON(t):
		doc, _, err := types.JSON.Convert(ctx, v)
		if err != nil {
			return nil, err
		}
		if w, ok := doc.(sql.JSONWrapper); ok {
			return w.ToInterface(ctx)
		}
		return doc, nil
	case types.IsNumber(t):
		return v, nil
	case types.IsText(t):
		return textOfValue(v, t), nil
	}
	s, _, err := types.ConvertToCollatedString(ctx, v, t)
	return s, err
}
