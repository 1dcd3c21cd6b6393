package engine

import (
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/expression/function"
	"github.com/dolthub/go-mysql-server/sql/types"
)

// digitsOf is how many digits of a second a value has, as MySQL reads one in it.
func digitsOf(c *sql.Context, e sql.Expression) int {
	return digitsWith(c, e, func(f *expression.GetField) (int, bool) { return 0, false })
}

// digitsWith is digitsOf where known says the digits of columns that are expressions below.
func digitsWith(c *sql.Context, e sql.Expression, known func(*expression.GetField) (int, bool)) int {
	all := func(from []sql.Expression) (most int) {
		for _, e := range from {
			if e.Type(c) != types.Null {
				most = max(most, digitsWith(c, e, known))
			}
		}
		return most
	}
	t := e.Type(c)
	switch x := e.(type) {
	case *expression.Alias, *expression.Wrapper, *expression.DistinctExpression, *carried:
		return all(e.Children())
	case *momentFunction:
		if types.IsText(x.typ) {
			return mostDigits
		}
		return x.digits
	case *valueFunction:
		if x.name == "maketime" {
			switch t := x.args[2].Type(c).(type) {
			case sql.DecimalType:
				return min(int(t.Scale()), mostDigits)
			default:
				if types.IsInteger(t) || t == types.Null {
					return 0
				}
				return mostDigits
			}
		}
	case *expression.Literal:
		s, ok := x.Value().(string)
		if !ok {
			break
		}
		_, part, ok := strings.Cut(s, ".")
		if !ok {
			return 0
		}
		n := 0
		for n < len(part) && n < mostDigits && isDigit(part[n]) {
			n++
		}
		return n
	case *expression.GetField:
		if n, ok := known(x); ok {
			return n
		}
		if s, ok := c.Session.(*Session); ok && types.IsTimespan(t) {
			return s.timeDigits(x.Table(), x.Name())
		}
	case *expression.Case:
		children := []sql.Expression{}
		for _, b := range x.Branches {
			children = append(children, b.Value)
		}
		if x.Else != nil {
			children = append(children, x.Else)
		}
		if types.IsTime(t) || types.IsTimespan(t) {
			return all(children)
		}
	case *expression.Convert: // the library's, in a UNION
		if types.IsTime(t) || types.IsTimespan(t) {
			return all(x.Children())
		}
	case *function.Now, *function.CurrTime:
		children := e.Children()
		if len(children) == 0 {
			return 0
		}
		if l, ok := children[0].(*expression.Literal); ok {
			n, _ := integer(l.Value())
			return int(n)
		}
	case sql.FunctionExpression:
		if !types.IsTime(t) && !types.IsTimespan(t) {
			break
		}
		children := e.Children()
		switch name := strings.ToLower(x.FunctionName()); {
		case name == "coalesce", name == "ifnull", name == "greatest", name == "least":
			return all(children)
		case name == "if" && len(children) == 3:
			return all(children[1:])
		case (name == "nullif" || name == "convert_tz" || ofFirst[name]) && len(children) > 0:
			if w, ok := e.(sql.WindowAdaptableExpression); ok && name != "max" && name != "min" && name != "any_value" { // they stand behind their window
				children = children[min(len(children)-1, len(w.Window().ToExpressions())):]
			}
			return all(children[:1])
		}
	}
	switch {
	case types.IsDateType(t), types.IsInteger(t), types.IsYear(t), t == types.Null:
		return 0
	case types.IsTime(t):
		if d, ok := t.(sql.DatetimeType); ok {
			return d.Precision()
		}
	case types.IsDecimal(t):
		if d, ok := t.(sql.DecimalType); ok {
			return min(int(d.Scale()), mostDigits)
		}
	}
	return mostDigits
}
