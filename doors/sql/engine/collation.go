package engine

import (
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/expression/function"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/types"

	"github.com/holdfastdb/holdfast/doors/sql/wire"
)

// coercibility says how much an expression's collation counts beside another's: the lower, the more. The numbers are MySQL's.
type coercibility byte

const (
	explicit  coercibility = iota // COLLATE
	mixture                       // two collations of which none goes before the other
	implicit                      // a column
	system                        // USER()
	coercible                     // a literal
	numbered                      // a number or a moment
	ignorable                     // NULL
)

// collation is how an expression's texts compare.
type collation struct {
	id    sql.CollationID
	level coercibility
	ascii bool // its texts hold nothing else
}

// errMixed is MySQL's 1267.
func errMixed(a, b collation, operation string) error {
	return wire.Errorf(1267, "Illegal mix of collations (%s,%s) and (%s,%s) for operation '%s'", a.id.Name(), a.level, b.id.Name(), b.level, operation)
}

// String is MySQL's word.
func (c coercibility) String() string {
	return [...]string{"EXPLICIT", "NONE", "IMPLICIT", "SYSCONST", "COERCIBLE", "NUMERIC", "IGNORABLE"}[c]
}

// with is the collation that two texts have together, by the rules of MySQL 8.0 ("Collation Coercibility in Expressions"). mixture: they have none.
func (c collation) with(d collation) collation {
	ascii := c.ascii && d.ascii
	take := func(x collation) collation { return collation{x.id, x.level, ascii} }
	if c.id.CharacterSet() == d.id.CharacterSet() {
		switch {
		case c.level < d.level:
			return take(c)
		case d.level < c.level:
			return take(d)
		case c.id == d.id:
			return take(c)
		case c.level == explicit:
		case byteOrder(c.id):
			return take(c)
		case byteOrder(d.id):
			return take(d)
		}
		return collation{c.id.CharacterSet().BinaryCollation(), mixture, ascii}
	}
	switch {
	case c.id == sql.Collation_binary && c.level <= d.level:
		return take(c)
	case c.id == sql.Collation_binary:
		return take(d)
	case d.id == sql.Collation_binary && d.level <= c.level:
		return take(d)
	case d.id == sql.Collation_binary:
		return take(c)
	case c.holds(d):
		return take(c)
	case d.holds(c):
		return take(d)
	case c.level < d.level && d.level >= system:
		return take(c)
	case d.level < c.level && c.level >= system:
		return take(d)
	}
	return collation{sql.Collation_binary, mixture, ascii}
}

// holds reports whether texts of another character set become texts of this one.
func (c collation) holds(d collation) bool {
	first := func(has, hasToo bool) bool { return has && (c.level < d.level || c.level == d.level && !hasToo) }
	return first(c.id.CharacterSet().MaxLength() > 1, d.id.CharacterSet().MaxLength() > 1) || d.ascii && first(true, c.ascii)
}

// byteOrder reports whether a collation has an order of its own for each character.
func byteOrder(c sql.CollationID) bool { return strings.HasSuffix(c.Name(), "_bin") }

// together is the collation that several expressions have.
func together(c *sql.Context, all ...sql.Expression) collation {
	sum := collation{sql.Collation_binary, ignorable, true}
	for i, e := range all {
		if one := collationOf(c, e); i == 0 || sum.level == ignorable {
			sum = one
		} else if one.level != ignorable {
			sum = sum.with(one)
		}
	}
	return sum
}

// collationOf says by which collation an expression's texts compare. The library takes that of the expression's type, which most functions give no
// collation.
func collationOf(c *sql.Context, e sql.Expression) collation {
	switch x := e.(type) {
	case nil:
		return collation{sql.Collation_binary, ignorable, true}
	case *carried:
		return x.of
	case *extreme:
		return together(c, x.Children()...)
	case *expression.CollatedExpression:
		id, _ := x.CollationCoercibility(c)
		return collation{id, explicit, false}
	case *expression.Alias, *expression.DistinctExpression, *expression.Wrapper, *folded, *inOrder, *member, *expression.EnumToString:
		return together(c, e.Children()...)
	case *expression.GetField:
		return byType(c, x.Type(c), implicit)
	case *expression.Literal:
		if x.Value() == nil {
			return collation{sql.Collation_binary, ignorable, true}
		}
		of := byType(c, x.Type(c), coercible)
		if s, ok := x.Value().(string); ok {
			of.ascii = ascii(s)
		}
		if id := c.GetCollation(); of.id != sql.Collation_binary && id.CharacterSet() == of.id.CharacterSet() { // the library may give it a column's type
			of.id = id
		}
		return of
	case *parameter:
		id, level := x.CollationCoercibility(c)
		return collation{id, coercibility(level), level >= byte(numbered)}
	case *expression.UserVar: // the library keeps no collation beside the value
		of := byType(c, x.Type(c), implicit)
		if types.IsTextOnly(x.Type(c)) {
			of.id = c.GetCollation()
		}
		return of
	case *expression.SystemVar:
		of := byType(c, x.Type(c), system)
		return collation{c.GetCollation(), of.level, true}
	case *plan.Subquery:
		return ofColumn(c, x.Query, 0)
	case *expression.Convert:
		if of := byType(c, x.Type(c), implicit); of.level == numbered || of.id == sql.Collation_binary {
			return of
		}
		return collation{c.GetCollation(), implicit, false}
	case *expression.ConvertUsing:
		return collation{ofCharset(x.TargetCharSet), implicit, false}
	case *expression.Binary:
		return collation{sql.Collation_binary, implicit, false}
	case *expression.Case:
		var all []sql.Expression
		for _, b := range x.Branches {
			all = append(all, b.Value)
		}
		if x.Else != nil {
			all = append(all, x.Else)
		}
		return together(c, all...)
	case *textFunction:
		return together(c, x.args...)
	case *codes:
		return collation{x.of, coercible, false}
	}
	t := e.Type(c)
	if !textual(t) && !types.IsText(t) {
		return byType(c, t, coercible)
	}
	if of, ok := ofFunction(c, e); ok {
		return of
	}
	return together(c, e.Children()...)
}

// textual reports whether values are texts with a collation.
func textual(t sql.Type) bool { return types.IsTextOnly(t) || types.IsEnum(t) || types.IsSet(t) }

// ofCharset is the collation of a character set where none is named.
func ofCharset(set sql.CharacterSetID) sql.CollationID {
	if set == defaultCollation.CharacterSet() {
		return defaultCollation
	}
	return set.DefaultCollation()
}

// byType is the collation of a type's values, where nothing but the type says it.
func byType(c *sql.Context, t sql.Type, level coercibility) collation {
	switch {
	case t == nil || t == types.Null:
		return collation{sql.Collation_binary, ignorable, true}
	case types.IsJSON(t):
		return collation{sql.Collation_utf8mb4_bin, level, false}
	case types.IsBinaryType(t) || types.IsBit(t):
		return collation{sql.Collation_binary, level, false}
	}
	if x, ok := t.(sql.TypeWithCollation); ok && textual(t) {
		return collation{x.Collation(), level, false}
	}
	return collation{c.GetCollation(), numbered, true}
}

// ofFunction is the collation of a function's texts. false: it is that of all its arguments together.
func ofFunction(c *sql.Context, e sql.Expression) (collation, bool) {
	if x, ok := e.(*function.NullIf); ok {
		return together(c, x.LeftChild), true
	}
	f, ok := e.(sql.FunctionExpression)
	if !ok {
		return collation{}, false
	}
	name, args := strings.ToLower(f.FunctionName()), e.Children()
	if w, ok := e.(sql.WindowAdaptableExpression); ok {
		if ofFirst[name] && name != "max" && name != "min" && name != "any_value" { // they stand behind their window
			args = args[min(len(args), len(w.Window().ToExpressions())):]
		}
		return together(c, args[:min(1, len(args))]...), name != "group_concat"
	}
	switch {
	case ofFirst[name] && len(args) > 0:
		return together(c, args[0]), true
	case ofOthers[name] && len(args) > 0:
		return together(c, args[1:]...), true
	case name == "insert" && len(args) == 4:
		return together(c, args[0], args[3]), true
	case (name == "lpad" || name == "rpad") && len(args) == 3:
		return together(c, args[0], args[2]), true
	case name == "substring_index" && len(args) == 3:
		return together(c, args[0], args[1]), true
	case ofSystem[name]:
		return collation{c.GetCollation(), system, true}, true
	case strings.HasPrefix(name, "json_"):
		return collation{sql.Collation_utf8mb4_bin, coercible, false}, true
	case ofSession[name]:
		return collation{c.GetCollation(), coercible, false}, true
	}
	return collation{}, false
}

var (
	// ofFirst are the functions whose texts are parts of their first argument.
	ofFirst = set("upper", "ucase", "lower", "lcase", "left", "right", "substring", "substr", "mid", "reverse", "repeat", "quote", "soundex", "any_value",
		"first_value", "last_value", "nth_value", "lag", "lead", "max", "min")
	// ofOthers are those whose first argument only chooses.
	ofOthers = set("if", "elt", "make_set", "export_set")
	// ofSystem are those that tell of the server and the session.
	ofSystem = set("user", "current_user", "session_user", "system_user", "database", "schema", "version", "current_role", "charset", "collation", "connection_id")
	// ofSession are those that make texts of their own.
	ofSession = set("hex", "conv", "bin", "oct", "md5", "sha", "sha1", "sha2", "uuid", "date_format", "time_format", "date_add", "date_sub", "adddate", "subdate", "dayname", "monthname", "format",
		"to_base64", "inet_ntoa", "inet6_ntoa", "get_format", "format_bytes", "format_pico_time", "bin_to_uuid", "weight_string", "space", "statement_digest")
)

// ofColumn is the collation of a column of a result.
func ofColumn(c *sql.Context, n sql.Node, i int) collation {
	switch x := n.(type) {
	case *plan.Project:
		if i < len(x.Projections) {
			return collationOf(c, x.Projections[i])
		}
	case *plan.GroupBy:
		if i < len(x.SelectDeps) {
			return collationOf(c, x.SelectDeps[i])
		}
	case *plan.Window:
		if i < len(x.SelectExprs) {
			return collationOf(c, x.SelectExprs[i])
		}
	case *plan.SetOp:
		l, r := ofColumn(c, x.Left(), i), ofColumn(c, x.Right(), i)
		switch {
		case l.level == ignorable:
			return r
		case r.level == ignorable:
			return l
		}
		return l.with(r)
	case *plan.Distinct, *plan.Sort, *plan.Limit, *plan.Offset, *plan.TopN, *plan.Having, *plan.Filter, *plan.SubqueryAlias, *plan.Max1Row, *plan.TableAlias:
		return ofColumn(c, n.Children()[0], i)
	}
	schema := n.Schema(c)
	if i >= len(schema) {
		return collation{sql.Collation_binary, ignorable, true}
	}
	return byType(c, schema[i].Type, implicit)
}

func ascii(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}
