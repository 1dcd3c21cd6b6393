package engine

import (
	"bytes"
	"errors"
	"math"
	"strings"
	"time"

	"github.com/cockroachdb/apd/v3"
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/expression/function"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/transform"
	"github.com/dolthub/go-mysql-server/sql/types"

	"github.com/holdfastdb/holdfast/doors/sql/wire"
)

// The library compares a column with a constant of another type after it has converted the constant to the column's type, and its rounding finds
// rows that MySQL does not find. It knows nothing of PAD SPACE. So a constant that is exactly a value of the column's type becomes one before the
// statement is planned, and an index finds it. Comparisons with other constants are ours, and no index serves them. Comparisons of padded texts become
// ours behind the planner, which has chosen an index by then.

// operator is one of the comparisons.
type operator byte

const (
	opEqual operator = iota
	opSame           // <=>
	opLess
	opLessEqual
	opGreater
	opGreaterEqual
	opBetween
	opIn
)

// String is MySQL's name of the operator.
func (o operator) String() string {
	return [...]string{"=", "<=>", "<", "<=", ">", ">=", "between", " IN "}[o]
}

// compared is a comparison as MySQL makes it. Of BETWEEN it has three operands, of IN one more than the list has.
type compared struct {
	sql.Expression // the library's, for what does not depend on the values
	op             operator
	operands       []sql.Expression
	of             sql.CollationID // by which texts compare
}

// newCompared returns a comparison of ours. Error: 1267, where its texts have no collation that goes before the others.
func newCompared(c *sql.Context, e sql.Expression, op operator, operands []sql.Expression) (*compared, error) {
	of, err := ofComparison(c, op, operands)
	return &compared{Expression: e, op: op, operands: operands, of: of.id}, err
}

// ofComparison is the collation that texts are compared by. Error: 1267.
func ofComparison(c *sql.Context, op operator, operands []sql.Expression) (collation, error) {
	of := together(c, operands...)
	if of.level != mixture {
		return of, nil
	}
	for _, o := range operands {
		if !textual(o.Type(c)) {
			return of, nil
		}
	}
	return of, errMixed(collationOf(c, operands[0]), together(c, operands[1:]...), op.String())
}

func (x *compared) Children() []sql.Expression { return x.operands }

func (x *compared) WithChildren(_ *sql.Context, children ...sql.Expression) (sql.Expression, error) {
	n := *x
	n.operands = children
	return &n, nil
}

// Left, Right and Compare implement expression.Comparer, by which a merge join goes.
func (x *compared) Left() sql.Expression  { return x.operands[0] }
func (x *compared) Right() sql.Expression { return x.operands[1] }

// Compare implements expression.Comparer. Error: expression.ErrNilOperand, of a NULL.
func (x *compared) Compare(ctx *sql.Context, r sql.Row) (int, error) {
	left, err := evalPlain(ctx, x.operands[0], r)
	if err != nil {
		return 0, err
	}
	right, err := evalPlain(ctx, x.operands[1], r)
	if err != nil {
		return 0, err
	}
	if left == nil || right == nil {
		return 0, expression.ErrNilOperand.New()
	}
	return compareValues(ctx, x.of, x.operands[0], x.operands[1], left, right)
}

func (x *compared) Type(*sql.Context) sql.Type { return types.Boolean }

func (x *compared) Resolved() bool {
	for _, o := range x.operands {
		if !o.Resolved() {
			return false
		}
	}
	return true
}

// Eval implements sql.Expression.
func (x *compared) Eval(ctx *sql.Context, r sql.Row) (any, error) {
	left, err := evalPlain(ctx, x.operands[0], r)
	if err != nil {
		return nil, err
	}
	mixed := x.op == opBetween && mixed(ctx, x.operands)
	with := func(i int) (cmp int, null bool, err error) {
		right, err := evalPlain(ctx, x.operands[i], r)
		if err != nil || left == nil || right == nil {
			return 0, true, err
		}
		if mixed {
			return compareNumbers(ctx, x.operands[0], x.operands[i], left, right), false, nil
		}
		cmp, err = compareValues(ctx, x.of, x.operands[0], x.operands[i], left, right)
		return cmp, false, err
	}
	switch x.op {
	case opSame:
		right, err := evalPlain(ctx, x.operands[1], r)
		if err != nil {
			return nil, err
		}
		if left == nil || right == nil {
			return left == nil && right == nil, nil
		}
		cmp, err := compareValues(ctx, x.of, x.operands[0], x.operands[1], left, right)
		return cmp == 0, err
	case opBetween:
		low, lowNull, err := with(1)
		if err != nil {
			return nil, err
		}
		high, highNull, err := with(2)
		switch {
		case err != nil:
			return nil, err
		case !lowNull && low < 0, !highNull && high > 0:
			return false, nil
		case lowNull || highNull:
			return nil, nil
		}
		return true, nil
	case opIn:
		null := left == nil
		for i := 1; i < len(x.operands); i++ {
			cmp, isNull, err := with(i)
			switch {
			case err != nil:
				return nil, err
			case isNull:
				null = true
			case cmp == 0:
				return true, nil
			}
		}
		if null {
			return nil, nil
		}
		return false, nil
	}
	cmp, null, err := with(1)
	if err != nil || null {
		return nil, err
	}
	switch x.op {
	case opLess:
		return cmp < 0, nil
	case opLessEqual:
		return cmp <= 0, nil
	case opGreater:
		return cmp > 0, nil
	case opGreaterEqual:
		return cmp >= 0, nil
	}
	return cmp == 0, nil
}

// evalPlain evaluates an operand and reads a large value.
func evalPlain(ctx *sql.Context, e sql.Expression, r sql.Row) (any, error) {
	v, err := e.Eval(ctx, r)
	if err != nil || v == nil {
		return nil, err
	}
	if w, ok := v.(sql.AnyWrapper); ok {
		if _, json := v.(sql.JSONWrapper); !json {
			return w.UnwrapAny(ctx)
		}
	}
	return v, nil
}

// compareValues compares two values that are not NULL, by the types of their expressions. of is the collation of texts.
func compareValues(ctx *sql.Context, of sql.CollationID, left, right sql.Expression, a, b any) (int, error) {
	t, u := left.Type(ctx), right.Type(ctx)
	switch {
	case types.IsJSON(t) || types.IsJSON(u):
		return compareJSON(ctx, left, right, a, b)
	case temporal(t):
		if cmp, ok, err := compareMoments(ctx, t, right, a, b); ok || err != nil {
			return cmp, err
		}
	case temporal(u):
		cmp, ok, err := compareMoments(ctx, u, left, b, a)
		if ok || err != nil {
			return -cmp, err
		}
	}
	a, t = memberText(ctx, a, t, u)
	b, u = memberText(ctx, b, u, t)
	if types.IsText(t) && types.IsText(u) {
		x, xBytes := a.([]byte)
		y, yBytes := b.([]byte)
		if xBytes || yBytes || types.IsBinaryType(t) || types.IsBinaryType(u) {
			if !xBytes {
				x = []byte(textOfValue(a, t))
			}
			if !yBytes {
				y = []byte(textOfValue(b, u))
			}
			return bytes.Compare(x, y), nil
		}
		s, o := textOfValue(a, t), textOfValue(b, u)
		for _, text := range []string{s, o} {
			if err := weighable(of, text); err != nil {
				return 0, err
			}
		}
		return compareText(of, s, o), nil
	}
	return compareNumbers(ctx, left, right, a, b), nil
}

// mixed reports whether the three operands of BETWEEN are compared as numbers, because they are texts and numbers.
func mixed(ctx *sql.Context, operands []sql.Expression) bool {
	texts, numbers := false, false
	for _, o := range operands {
		switch t := o.Type(ctx); {
		case temporal(t):
			return false
		case types.IsText(t):
			texts = true
		case types.IsNumber(t):
			numbers = true
		}
	}
	return texts && numbers
}

// compareNumbers compares two values as numbers.
func compareNumbers(ctx *sql.Context, left, right sql.Expression, a, b any) int {
	x, xExact := numeric(left, a, left.Type(ctx))
	y, yExact := numeric(right, b, right.Type(ctx))
	if xExact && yExact {
		return x.decimal().Cmp(y.decimal())
	}
	f, _ := x.float()
	g, _ := y.float()
	switch {
	case f < g:
		return -1
	case f > g:
		return 1
	}
	return 0
}

// memberText turns a member of an ENUM or SET into its text, unless it is compared with a number.
func memberText(ctx *sql.Context, v any, t, other sql.Type) (any, sql.Type) {
	if !types.IsEnum(t) && !types.IsSet(t) || types.IsNumber(other) {
		return v, t
	}
	if s, ok := v.(string); ok { // of a function
		return s, types.LongText
	}
	s, _, err := types.ConvertToCollatedString(ctx, v, t)
	if err != nil {
		return v, t
	}
	return s, types.LongText
}

func textOfValue(v any, t sql.Type) string {
	switch s := textValue(v, t).(type) {
	case string:
		return s
	case []byte:
		return string(s)
	}
	return ""
}

// numeric is a value as a number. exact: it is compared as it is, and otherwise as a DOUBLE.
func numeric(e sql.Expression, v any, t sql.Type) (n numberRead, exact bool) {
	_, literal := e.(*expression.Literal)
	a := &assigned{typ: t, hex: literal && t == types.LongBlob}
	if s, ok := a.textOfNumber(v, t); ok {
		if n = readNumber(s); n.text == "" {
			n.text = "0"
		}
		return n, false
	}
	switch x := v.(type) {
	case float32:
		return numberRead{text: decimalOf(float64(x)).Text('e')}, false
	case float64:
		return numberRead{text: decimalOf(x).Text('e')}, false
	case *apd.Decimal:
		return numberRead{text: x.Text('e')}, true
	case time.Time:
		return numberRead{text: numberOfMoment(x, t).Text('f')}, true
	case types.Timespan:
		return numberRead{text: numberOfTime(x).Text('f')}, true
	}
	w, _ := a.whole(v, t, "integer")
	d := new(apd.Decimal)
	d.Coeff.SetUint64(w.size)
	d.Negative = w.negative
	return numberRead{text: d.Text('f')}, true
}

// temporal reports whether a type's values are dates or times.
func temporal(t sql.Type) bool { return types.IsTime(t) || types.IsTimespan(t) || types.IsYear(t) }

// compareMoments compares a date or a time with a value of any type, which becomes one. ok false: it is none, and both are compared as numbers.
// Error: 1525, as MySQL says it of a text that is no date.
func compareMoments(ctx *sql.Context, t sql.Type, with sql.Expression, a, b any) (cmp int, ok bool, err error) {
	other := with.Type(ctx)
	to := &assigned{column: "", digits: mostDigits}
	switch {
	case types.IsTimespan(t):
		if types.IsTime(other) {
			return 0, false, nil
		}
		to.typ = types.Time
	case types.IsYear(t):
		if types.IsTime(other) || types.IsTimespan(other) {
			return 0, false, nil
		}
		to.typ = types.Year
		year, ok := integer(a)
		c, problem := to.year(b)
		if n, also := c.(int16); ok && also && problem == nil {
			return compareInts(year, int64(n)), true, nil
		}
		return 0, false, nil
	default:
		to.typ = types.DatetimeMaxPrecision
	}
	if types.IsTimespan(other) && !types.IsTimespan(t) {
		return 0, false, nil
	}
	if types.IsTimespan(t) { // beyond the largest TIME there are values to compare with
		n, _ := a.(types.Timespan)
		m, _ := to.micros(b)
		return compareInts(int64(n), m), true, nil
	}
	c, problem := to.convert(ctx, b, other)
	if problem != nil {
		text, isText := b.(string)
		if !isText {
			return 0, false, nil
		}
		if _, constant := with.(*expression.Literal); !constant {
			return 1, true, nil // a text that is no date stands before all of them
		}
		kind := strings.ToUpper(strings.TrimRight(t.String(), "()0123456789"))
		return 0, false, wire.Errorf(1525, "Incorrect %s value: '%s'", kind, text)
	}
	switch x := a.(type) {
	case time.Time:
		if y, isTime := c.(time.Time); isTime {
			return x.Compare(y), true, nil
		}
	}
	return 0, false, nil
}

func compareInts(a, b int64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// takenApart is a comparison of the library's. ok false: the expression is none.
func takenApart(e sql.Expression) (op operator, operands []sql.Expression, ok bool) {
	switch x := e.(type) {
	case *expression.Equals:
		return opEqual, x.Children(), true
	case *expression.NullSafeEquals:
		return opSame, x.Children(), true
	case *expression.LessThan:
		return opLess, x.Children(), true
	case *expression.LessThanOrEqual:
		return opLessEqual, x.Children(), true
	case *expression.GreaterThan:
		return opGreater, x.Children(), true
	case *expression.GreaterThanOrEqual:
		return opGreaterEqual, x.Children(), true
	case *expression.Between:
		return opBetween, x.Children(), true
	case *expression.InTuple:
		if list, ok := x.Right().(expression.Tuple); ok {
			return opIn, append([]sql.Expression{x.Left()}, list.Children()...), true
		}
	case *expression.HashInTuple:
		if list, ok := x.Right().(expression.Tuple); ok {
			return opIn, append([]sql.Expression{x.Left()}, list.Children()...), true
		}
	}
	return 0, nil, false
}

// exactConstants makes constants values of the type of the column that they are compared with, or the comparison ours. Error: errConverted, where a
// parameter of a plan that is kept stands in such a place: what it is depends on its value.
func exactConstants(c *sql.Context, n sql.Node) (sql.Node, error) {
	var exact func(c *sql.Context, e sql.Expression) (sql.Expression, transform.TreeIdentity, error)
	exact = func(c *sql.Context, e sql.Expression) (sql.Expression, transform.TreeIdentity, error) {
		switch x := e.(type) {
		case *expression.Like:
			if hasParameter(c, x.RightChild) { // the library makes an equality of the sentinel, and keeps the pattern of the first execution
				return nil, transform.SameTree, errConverted
			}
			if made, err := likeOf(c, x); made != nil || err != nil {
				return made, transform.NewTree, err
			}
			return characters(c, x)
		case *plan.InSubquery:
			return otherwise(c, x)
		case sql.FunctionExpression:
			if strings.HasPrefix(strings.ToLower(x.FunctionName()), "regexp_") && hasParameter(c, x) { // it keeps its first pattern too
				return nil, transform.SameTree, errConverted
			}
		}
		op, operands, ok := takenApart(e)
		if !ok {
			return e, transform.SameTree, nil
		}
		if other, err := otherCollation(c, op, operands); other || err != nil { // an index would find what is equal in the column's
			made, e := newCompared(c, e, op, operands)
			return made, transform.NewTree, errors.Join(err, e)
		}
		operands, folded := constants(c, operands)
		column, ok := soleColumn(operands)
		if ok {
			t := operands[column].Type(c)
			if within := beyond(c, op, operands, column, t); within != nil { // what is left of it may still have to be made exact
				made, _, err := transform.Expr(c, within, exact)
				return made, transform.NewTree, err
			}
			if op == opBetween && types.IsText(t) && mixed(c, operands) {
				made, err := newCompared(c, e, op, operands)
				return made, transform.NewTree, err
			}
			pads := types.IsTextOnly(t) && padded(collationOf(c, operands[column]).id)
			for i, o := range operands {
				if i == column {
					continue
				}
				switch x := o.(type) {
				case *parameter:
					if judged(t, x.typ) {
						return nil, transform.SameTree, errConverted
					}
				case *expression.Literal:
					if s, ok := x.Value().(string); ok && pads && strings.HasSuffix(s, " ") { // it is equal, and the planner's order knows no padding
						operands[i], folded = literal(strings.TrimRight(s, " "), x.Type(c)), true
						continue
					}
					if limitless(t, x.Value()) {
						made, err := newCompared(c, e, op, operands)
						return made, transform.NewTree, err
					}
					if x.Value() == nil || !judged(t, x.Type(c)) && !oversized(x.Value()) {
						continue
					}
					v, clean := exactly(c, operands[column], x, op)
					if !clean {
						made, err := newCompared(c, e, op, operands)
						return made, transform.NewTree, err
					}
					operands[i], folded = literal(v, t), true
				}
			}
		}
		if !folded {
			return e, transform.SameTree, nil
		}
		if op == opIn {
			return expression.NewInTuple(operands[0], expression.NewTuple(operands[1:]...)), transform.NewTree, nil
		}
		made, err := e.WithChildren(c, operands...)
		return made, transform.NewTree, err
	}
	n, _, err := transform.NodeExprsWithOpaque(c, n, exact)
	return n, err
}

// characters has LIKE of a padded text judged by the library character by character: LIKE pads nothing. The planner takes LIKE for a comparison where
// it can. It keeps one with an escape as it is, and finds a range of an index by the comparison beside it.
func characters(c *sql.Context, l *expression.Like) (sql.Expression, transform.TreeIdentity, error) {
	pattern, ok := l.RightChild.(*expression.Literal)
	if !ok || l.Escape != nil {
		return l, transform.SameTree, nil
	}
	text, _ := pattern.Value().(string)
	bound := func(s string) sql.Expression { return literal(s, pattern.Type(c)) }
	prefix, wild, plain := patternOf(text)
	if !foldable(c, l.LeftChild) || !plain || prefix == "" {
		if strings.Contains(text, `\`) { // the planner takes the backslash for a character
			return expression.NewLike(l.LeftChild, l.RightChild, bound(`\`)), transform.NewTree, nil
		}
		return l, transform.SameTree, nil // the planner leaves these
	}
	within := sql.Expression(expression.NewEquals(l.LeftChild, bound(prefix)))
	if wild && padded(collationOf(c, l.LeftChild).id) { // a character below the space sorts before the text without it
		within = expression.NewGreaterThanOrEqual(l.LeftChild, bound(prefix+"\x00"))
	} else if wild {
		within = expression.NewGreaterThanOrEqual(l.LeftChild, bound(prefix))
	}
	return expression.JoinAnd(within, expression.NewLike(l.LeftChild, l.RightChild, bound(`\`))), transform.NewTree, nil
}

// patternOf is what a pattern of LIKE begins with, and whether any text may follow it. plain false: it has other wildcards.
func patternOf(text string) (prefix string, wild, plain bool) {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\' && i+1 < len(text):
			i++
			b.WriteByte(text[i])
		case c == '%' && i == len(text)-1:
			return b.String(), true, true
		case c == '%' || c == '_':
			return "", false, false
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), false, true
}

// constants returns operands in which a number with a sign before it, or a date that is made of constants, is a literal, and whether any was.
func constants(c *sql.Context, operands []sql.Expression) (all []sql.Expression, some bool) {
	all = append([]sql.Expression{}, operands...)
	for i, o := range all {
		if l, ok := constant(c, o); ok && l != o {
			all[i], some = l, true
		}
	}
	return all, some
}

func constant(c *sql.Context, e sql.Expression) (*expression.Literal, bool) {
	switch x := e.(type) {
	case *expression.Literal:
		return x, true
	case *momentFunction: // an index finds what it makes
		for _, a := range x.args {
			if _, ok := constant(c, a); !ok {
				return nil, false
			}
		}
		if v, err := x.Eval(c, nil); err == nil && v != nil {
			return expression.NewLiteral(v, x.typ), true
		}
	case *valueFunction, *integers:
		for _, a := range x.Children() {
			if _, ok := constant(c, a); !ok {
				return nil, false
			}
		}
		if v, err := x.Eval(c, nil); err == nil && v != nil {
			return expression.NewLiteral(v, x.Type(c)), true
		}
	case *expression.UnaryMinus:
		if l, ok := constant(c, x.Child); ok && l.Value() != nil && types.IsNumber(l.Type(c)) {
			minus := expression.NewUnaryMinus(l)
			if v, err := minus.Eval(c, nil); err == nil {
				return expression.NewLiteral(v, minus.Type(c)), true
			}
		}
	}
	return nil, false
}

// soleColumn returns the place of the operand that is a column. false: there is none, or several.
func soleColumn(operands []sql.Expression) (int, bool) {
	at := -1
	for i, o := range operands {
		if _, ok := o.(*expression.GetField); ok {
			if at >= 0 {
				return 0, false
			}
			at = i
		}
	}
	return at, at >= 0
}

// judged reports whether constants of a type that are compared with a column of another are converted by us.
func judged(column, t sql.Type) bool {
	binary := types.IsBinaryType(t) && !types.IsJSON(t)
	switch {
	case types.IsJSON(column):
		return false
	case types.IsInteger(column) && !types.IsYear(column), types.IsTextOnly(column):
		return binary || types.IsTextOnly(column) && (types.IsTime(t) || types.IsTimespan(t))
	case types.IsBinaryType(column):
		return types.IsNumber(t)
	}
	return temporal(column) || types.IsDecimal(column) || types.IsFloat(column) || types.IsBit(column) || types.IsEnum(column) || types.IsSet(column)
}

// oversized reports whether a constant is an integer above the largest signed one.
func oversized(v any) bool {
	n, ok := v.(uint64)
	return ok && n > math.MaxInt64
}

// exactly returns a constant as a value of a column's type. false: there is no such value, or none that stands for the constant.
func exactly(c *sql.Context, column sql.Expression, l *expression.Literal, op operator) (any, bool) {
	t := column.Type(c)
	if types.IsTextOnly(t) || types.IsBinaryType(t) {
		return nil, false
	}
	if (types.IsEnum(t) || types.IsSet(t)) && op != opEqual && op != opSame && op != opIn {
		return nil, false
	}
	a := &assigned{typ: t, digits: mostDigits, hex: l.Type(c) == types.LongBlob}
	if types.IsTime(t) && !types.IsDateType(t) {
		a.typ = types.DatetimeMaxPrecision
	}
	v, problem := a.convert(c, l.Value(), l.Type(c))
	if problem != nil {
		return nil, false
	}
	made := literal(v, t)
	cmp, err := compareValues(c, c.GetCollation(), made, l, v, l.Value())
	if err != nil || cmp != 0 {
		return nil, false
	}
	if f, ok := v.(float64); ok && f == 0 {
		v = 0.0 // without a sign: a key has none
	}
	if f, ok := v.(float32); ok && f == 0 {
		v = float32(0)
	}
	if d, ok := t.(sql.DatetimeType); ok && types.IsTime(t) && !types.IsDateType(t) {
		m, ok := v.(time.Time)
		if !ok || !roundMoment(m, d.Precision()).Equal(m) || types.IsTimestampType(t) && (m.Unix() < 1 || m.Unix() > math.MaxInt32) {
			return nil, false
		}
	}
	return v, true
}

// comparing makes comparisons of texts ours where their collation pads, and of numbers with texts.
func comparing(c *sql.Context, n sql.Node) (sql.Node, error) {
	n, _, err := transform.NodeExprsWithOpaque(c, n, func(c *sql.Context, e sql.Expression) (sql.Expression, transform.TreeIdentity, error) {
		if f, ok := e.(*function.NullIf); ok { // which compares inside
			if x, err := ours(c, expression.NewEquals(f.LeftChild, f.RightChild)); x != nil || err != nil {
				return function.NewIf(c, x, literal(nil, types.Null), f.LeftChild), transform.NewTree, err
			}
		}
		if x, err := ours(c, e); x != nil || err != nil {
			return x, transform.NewTree, err
		}
		if x, err := ofTexts(c, e); x != nil || err != nil {
			return x, transform.NewTree, err
		}
		return e, transform.SameTree, nil
	})
	return n, err
}

// ours is a comparison that the library makes otherwise than MySQL. Nil: the expression is none. Error: 1267.
func ours(c *sql.Context, e sql.Expression) (sql.Expression, error) {
	op, operands, ok := takenApart(e)
	if !ok {
		return nil, nil
	}
	is := false
	for _, o := range operands {
		t := o.Type(c)
		if types.IsTuple(t) {
			return nil, nil
		}
		l, literal := o.(*expression.Literal)
		is = is || literal && l.Type(c) == types.LongBlob || foldable(c, o) || types.IsEnum(t) || types.IsSet(t) || types.IsJSON(t)
	}
	t, u := operands[0].Type(c), operands[len(operands)-1].Type(c)
	if !is && !types.IsFloat(t) && types.IsDecimal(t) == types.IsDecimal(u) &&
		!(types.IsInteger(t) && types.IsInteger(u) && types.IsUnsigned(t) != types.IsUnsigned(u)) {
		return nil, nil
	}
	return newCompared(c, e, op, operands)
}

// foldable reports whether an expression's values are texts that compare otherwise than byte by byte.
func foldable(c *sql.Context, e sql.Expression) bool {
	return types.IsTextOnly(e.Type(c)) && weighed(collationOf(c, e).id)
}

func weighed(id sql.CollationID) bool {
	return id != sql.Collation_binary && id != sql.Collation_utf8mb4_0900_bin
}

// otherCollation reports whether columns compare by another collation than their own. Error: 1267.
func otherCollation(c *sql.Context, op operator, operands []sql.Expression) (bool, error) {
	for _, o := range operands {
		if t := o.Type(c); isList(o) || !types.IsText(t) && !types.IsEnum(t) && !types.IsSet(t) && t != types.Null {
			return false, nil
		}
	}
	of, err := ofComparison(c, op, operands)
	for _, o := range operands {
		if _, ok := o.(*expression.GetField); ok && types.IsTextOnly(o.Type(c)) && collationOf(c, o).id != of.id {
			return true, err
		}
	}
	return false, err
}

// otherwise has IN look a text up by the collation of both sides. The planner makes a join of it, which goes by indexes of either side.
func otherwise(c *sql.Context, in *plan.InSubquery) (sql.Expression, transform.TreeIdentity, error) {
	q, ok := in.Right().(*plan.Subquery)
	if !ok || !types.IsTextOnly(in.Left().Type(c)) || !types.IsTextOnly(q.Type(c)) {
		return in, transform.SameTree, nil
	}
	of, err := ofComparison(c, opIn, []sql.Expression{in.Left(), q})
	if err != nil {
		return nil, transform.SameTree, err
	}
	left, same := in.Left(), transform.SameTree
	if collationOf(c, left).id != of.id {
		left, same = carry(c, left, of), transform.NewTree
	}
	if ofColumn(c, q.Query, 0).id != of.id {
		k := &carrier{c: c}
		q, same = q.WithQuery(k.inside(q.Query, 0, of)), transform.NewTree
	}
	if same {
		return in, same, nil
	}
	made, err := in.WithChildren(c, left, q)
	return made, same, err
}
