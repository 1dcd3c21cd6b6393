package engine

import (
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/expression/function"
	"github.com/dolthub/go-mysql-server/sql/expression/function/aggregation"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/types"
)

// carried is an expression that the library gives another collation than MySQL does, with MySQL's in its type.
type carried struct {
	expression.UnaryExpressionStub
	of  collation
	typ sql.Type
}

var _ sql.Expression = (*carried)(nil)
var _ sql.CollationCoercible = (*carried)(nil)

func (x *carried) String() string             { return x.Child.String() }
func (x *carried) Type(*sql.Context) sql.Type { return x.typ }

// CollationCoercibility implements sql.CollationCoercible.
func (x *carried) CollationCoercibility(*sql.Context) (sql.CollationID, byte) {
	return x.of.id, byte(x.of.level)
}

// Eval implements sql.Expression.
func (x *carried) Eval(ctx *sql.Context, r sql.Row) (any, error) { return x.Child.Eval(ctx, r) }

// WithChildren implements sql.Expression.
func (x *carried) WithChildren(_ *sql.Context, children ...sql.Expression) (sql.Expression, error) {
	n := *x
	n.Child = children[0]
	return &n, nil
}

// inCollation is a type of texts in another collation. It is the type itself where it has none.
func inCollation(t sql.Type, id sql.CollationID) sql.Type {
	x, ok := t.(sql.TypeWithCollation)
	if !ok || !types.IsTextOnly(t) || x.Collation() == id {
		return t
	}
	if id == sql.Collation_binary {
		return types.LongBlob
	}
	made, err := x.WithNewCollation(id)
	if err != nil { // too long for the wider characters
		return types.CreateLongText(id)
	}
	return made
}

// carry returns an expression of texts with a collation in its type.
func carry(c *sql.Context, e sql.Expression, of collation) sql.Expression {
	return carryAs(e, of, inCollation(e.Type(c), of.id))
}

// carryAs is carry with a type of that collation.
func carryAs(e sql.Expression, of collation, t sql.Type) sql.Expression {
	x := &carried{of: of, typ: t}
	if inner, ok := e.(*carried); ok {
		e = inner.Child
	}
	x.Child = e
	return x
}

// carrying has the columns of derived tables, set operations and subqueries carry the collations of the expressions that they are made of. The library
// gives them those of types, which texts of functions do not have. It comes before the planner, which makes conditions of joins from them.
func carrying(c *sql.Context, n sql.Node) (sql.Node, error) {
	k := &carrier{c: c, known: map[sql.ColumnId]collation{}, texts: map[sql.ColumnId]bool{}, digits: map[sql.ColumnId]int{}}
	n, err := k.node(n)
	if s, ok := c.Session.(*Session); ok && err == nil {
		s.digits = k.shown(n)
	}
	return n, err
}

// carrier goes through one statement. known are the columns that it has met, by the planner's numbers, and texts those that are texts, though the library
// may take them for an ENUM.
type carrier struct {
	c     *sql.Context
	known map[sql.ColumnId]collation
	texts map[sql.ColumnId]bool
	// digits are those behind the point of columns whose types do not say them.
	digits map[sql.ColumnId]int
}

func (k *carrier) node(n sql.Node) (sql.Node, error) {
	var err error
	if into, ok := n.(*plan.InsertInto); ok {
		source, err := k.node(into.Source)
		if err != nil {
			return nil, err
		}
		if source != into.Source {
			n = into.WithSource(source)
		}
	}
	if n, err = k.children(n); err != nil {
		return nil, err
	}
	if r, ok := n.(*plan.RecursiveCte); ok && r.Union().Distinct {
		for _, column := range r.Schema(k.c) {
			if types.IsTextOnly(column.Type) { // the library compares their bytes
				return nil, refused("UNION DISTINCT of texts in WITH RECURSIVE")
			}
		}
	}
	if s, ok := n.(*plan.SetOp); ok {
		if n, err = k.merged(s); err != nil {
			return nil, err
		}
	}
	if s, ok := n.(*plan.SubqueryAlias); ok {
		n = k.renamed(s)
	}
	if n, err = k.expressions(n); err != nil {
		return nil, err
	}
	switch x := n.(type) {
	case *plan.Project:
		k.note(x.Projections)
	case *plan.GroupBy:
		k.note(x.SelectDeps)
	case *plan.Window:
		k.note(x.SelectExprs)
	}
	return n, nil
}

func (k *carrier) children(n sql.Node) (sql.Node, error) {
	children := n.Children()
	var made []sql.Node
	for i, child := range children {
		is, err := k.node(child)
		if err != nil {
			return nil, err
		}
		if r, ok := n.(*plan.RecursiveCte); ok && i == 0 {
			k.recursive(r, is)
		}
		if is == child {
			continue
		}
		if made == nil {
			made = append(made, children...)
		}
		made[i] = is
	}
	if made == nil {
		return n, nil
	}
	return n.WithChildren(k.c, made...)
}

func (k *carrier) expressions(n sql.Node) (sql.Node, error) {
	x, ok := n.(sql.Expressioner)
	if !ok {
		return n, nil
	}
	all := x.Expressions()
	var made []sql.Expression
	for i, e := range all {
		is, changed, err := k.expression(n, e, true)
		if err != nil {
			return nil, err
		}
		if m, ok := k.queried(is); ok {
			is, changed = m, true
		}
		if !changed {
			continue
		}
		if made == nil {
			made = append(made, all...)
		}
		made[i] = is
	}
	if made == nil {
		return n, nil
	}
	return x.WithExpressions(k.c, made...)
}

// expression returns an expression with collations that are MySQL's, and whether it is another one. whole: it is all of a column.
func (k *carrier) expression(n sql.Node, e sql.Expression, whole bool) (made sql.Expression, changed bool, err error) {
	switch x := e.(type) {
	case nil:
		return nil, false, nil
	case *plan.Subquery:
		query, err := k.node(x.Query)
		if err != nil || query == x.Query {
			return e, false, err
		}
		return x.WithQuery(query), true, nil
	case *expression.GetField:
		made, changed = k.field(n, x, whole)
		return made, changed, nil
	}
	alias, isAlias := e.(*expression.Alias)
	children := e.Children()
	var all []sql.Expression
	for i, child := range children {
		is, another, err := k.expression(n, child, whole && isAlias)
		if err != nil {
			return nil, false, err
		}
		switch e.(type) {
		case *plan.InSubquery, *plan.ExistsSubquery:
		default:
			if m, ok := k.queried(is); ok {
				is, another = m, true
			}
		}
		if !another {
			continue
		}
		if all == nil {
			all = append(all, children...)
		}
		all[i] = is
	}
	made = e
	if all != nil {
		if made, err = e.WithChildren(k.c, all...); err != nil {
			return nil, false, err
		}
		made, changed = sameColumn(e, made), true
		if x, ok := made.(*function.Char); ok {
			x.Collation = e.(*function.Char).Collation
		}
	}
	if !isAlias {
		if made, another, err := k.members(made); err != nil || another {
			own, _ := k.own(made)
			return own, true, err
		}
		own, another := k.own(made)
		return own, changed || another, nil
	}
	from, ok := generalized(alias)
	if !ok || !types.IsTextOnly(made.Type(k.c)) {
		return made, changed, nil
	}
	of := collationOf(k.c, from)
	if x, ok := from.(*expression.GetField); ok {
		f, _ := k.field(n, x, true)
		of = k.ofField(n, f.(*expression.GetField))
	}
	child := made.Children()[0]
	if x, ok := child.(*carried); ok {
		child = x.Child
	}
	made, err = made.WithChildren(k.c, carry(k.c, child, of))
	return sameColumn(alias, made), true, err
}

// queried is a subquery whose value is a member of an ENUM or SET: it is a text there. ok false: the expression is none.
func (k *carrier) queried(e sql.Expression) (sql.Expression, bool) {
	q, ok := e.(*plan.Subquery)
	if !ok || len(q.Query.Schema(k.c)) != 1 {
		return e, false
	}
	if t := q.Type(k.c); !types.IsEnum(t) && !types.IsSet(t) {
		return e, false
	}
	m := &member{typ: types.CreateLongText(collationOf(k.c, q).id)}
	m.Child = q
	return m, true
}

// sameColumn gives an expression that was made from another its number. The library forgets it.
func sameColumn(was, is sql.Expression) sql.Expression {
	if a, ok := was.(*expression.Alias); ok {
		if b, ok := is.(*expression.Alias); ok && a.Unreferencable() {
			is = b.AsUnreferencable()
		}
	}
	if a, ok := was.(sql.IdExpression); ok {
		if b, ok := is.(sql.IdExpression); ok && b.Id() != a.Id() {
			return b.WithId(a.Id())
		}
	}
	return is
}

// generalized is the column that the library has converted to a text because another one stands below it in a UNION. ok false: the client wrote it.
func generalized(a *expression.Alias) (sql.Expression, bool) {
	if a.Id() != 0 || a.Unreferencable() {
		return nil, false
	}
	child := a.Child
	if x, ok := child.(*carried); ok {
		child = x.Child
	}
	convert, ok := child.(*expression.Convert)
	if !ok {
		return nil, false
	}
	return convert.Child, true
}

// members has a function of texts take members of an ENUM or SET as texts. The library gives some their numbers.
func (k *carrier) members(e sql.Expression) (sql.Expression, bool, error) {
	name := ""
	switch x := e.(type) {
	case *expression.CollatedExpression, *expression.ConvertUsing:
	case *expression.Convert:
		return k.moments(e)
	case *expression.Case:
		if !types.IsText(e.Type(k.c)) {
			return e, false, nil
		}
		return k.moments(e)
	case *expression.BitOp:
		made, err := ofBits(k.c, x)
		return made, true, err
	case *function.Char:
		return ofCodes(x, x.Collation), true, nil
	case *function.Extract:
		return k.extracted(x)
	case *expression.Arithmetic:
		if made := ofIntegers(k.c, x); made != nil {
			return made, true, nil
		}
		return k.numbers(e)
	case *expression.Div, *expression.IntDiv, *expression.Mod, *expression.UnaryMinus:
		return k.numbers(e)
	case *aggregation.GroupConcat:
		if hasSubquery(k.c, e) { // the library evaluates it for other rows
			return nil, false, refused("a subquery in GROUP_CONCAT")
		}
		return k.moments(e)
	case sql.WindowAdaptableExpression:
		return e, false, nil
	case sql.FunctionExpression:
		if name = strings.ToLower(x.FunctionName()); !ofMembers[name] {
			return e, false, nil
		}
		if made := picked(k.c, name, e.Children(), k.digitsOf); made != nil {
			return made, true, nil
		}
		if err := k.sameMoments(name, e); err != nil {
			return nil, false, err
		}
		for _, child := range e.Children() {
			if t := child.Type(k.c); (name == "greatest" || name == "least") && !textual(t) && !types.IsText(t) {
				return e, false, nil
			}
		}
	default:
		return e, false, nil
	}
	children, some := append([]sql.Expression{}, e.Children()...), false
	for i, child := range children {
		t := child.Type(k.c)
		if !types.IsEnum(t) && !types.IsSet(t) || i == 0 && ofOthers[name] {
			continue
		}
		m := &member{typ: types.CreateLongText(collationOf(k.c, child).id)}
		m.Child = child
		children[i], some = m, true
	}
	if !some {
		return k.moments(e)
	}
	made, err := e.WithChildren(k.c, children...)
	if err != nil {
		return nil, false, err
	}
	made, _, err = k.moments(made)
	return made, true, err
}

// sameMoments refuses GREATEST and LEAST of dates and other values, which the library takes for 0.
func (k *carrier) sameMoments(name string, e sql.Expression) error {
	if name != "greatest" && name != "least" {
		return nil
	}
	moments, others := false, false
	for _, child := range e.Children() {
		t := child.Type(k.c)
		moments = moments || types.IsTime(t) || types.IsTimespan(t)
		others = others || !types.IsTime(t) || types.IsDateType(t) // the library shows a DATE with a time of day
	}
	if moments && others {
		return refused("GREATEST and LEAST of DATE or TIME")
	}
	return nil
}

// ofMembers are functions of texts.
var ofMembers = set("concat", "concat_ws", "upper", "ucase", "lower", "lcase", "left", "right", "substring", "substr", "mid", "replace", "lpad", "rpad", "reverse",
	"repeat", "insert", "trim", "ltrim", "rtrim", "substring_index", "quote", "hex", "length", "char_length", "character_length", "octet_length", "ascii", "ord",
	"instr", "locate", "position", "strcmp", "md5", "sha1", "sha", "sha2", "to_base64", "soundex", "coalesce", "ifnull", "nullif", "if", "elt", "make_set", "crc32",
	"greatest", "least", "bit_length", "regexp_like", "regexp_instr", "regexp_replace", "regexp_substr")

// member is a member of an ENUM or SET as a text.
type member struct {
	expression.UnaryExpressionStub
	typ sql.Type
}

var _ sql.Expression = (*member)(nil)

func (m *member) String() string             { return m.Child.String() }
func (m *member) Type(*sql.Context) sql.Type { return m.typ }

// WithChildren implements sql.Expression.
func (m *member) WithChildren(_ *sql.Context, children ...sql.Expression) (sql.Expression, error) {
	n := *m
	n.Child = children[0]
	return &n, nil
}

// Eval implements sql.Expression.
func (m *member) Eval(ctx *sql.Context, r sql.Row) (any, error) {
	v, err := evalPlain(ctx, m.Child, r)
	if err != nil || v == nil {
		return nil, err
	}
	text, _ := memberText(ctx, v, m.Child.Type(ctx), types.LongText)
	return text, nil
}

// own carries the collation of a function whose own differs.
func (k *carrier) own(e sql.Expression) (sql.Expression, bool) {
	switch e.(type) {
	case *expression.Case, *expression.Convert, *expression.ConvertUsing:
	case sql.WindowAdaptableExpression:
		return e, false
	case sql.FunctionExpression:
	default:
		return e, false
	}
	t := e.Type(k.c)
	of := collationOf(k.c, e)
	if _, ok := e.(*expression.ConvertUsing); ok && of.id != sql.Collation_binary {
		t = types.CreateLongText(of.id)
		x := &carried{of: of, typ: t}
		x.Child = e
		return x, true
	}
	if !types.IsTextOnly(t) {
		return e, false
	}
	id, level := sql.GetCoercibility(k.c, e)
	if x, ok := t.(sql.TypeWithCollation); !ok || id == of.id && coercibility(level) == of.level && x.Collation() == of.id {
		return e, false
	}
	return carry(k.c, e, of), true
}

// field is a column by the collation that is known of it.
func (k *carrier) field(n sql.Node, f *expression.GetField, whole bool) (sql.Expression, bool) {
	t := f.Type(k.c)
	if (types.IsEnum(t) || types.IsSet(t)) && k.texts[f.Id()] {
		return asField(k.c, f, types.CreateLongText(k.known[f.Id()].id)), true
	}
	if !types.IsTextOnly(t) {
		return f, false
	}
	of := k.ofField(n, f)
	made := inField(k.c, f, of.id)
	if of.level != implicit && !whole {
		return carry(k.c, made, of), true
	}
	return made, made != f
}

// ofField is the collation of a column.
func (k *carrier) ofField(n sql.Node, f *expression.GetField) collation {
	of, ok := k.known[f.Id()]
	if !ok && f.Table() == "" { // of an expression without a name
		of, ok = k.named(n, f.Name())
	}
	if !ok || !types.IsTextOnly(f.Type(k.c)) {
		return collationOf(k.c, f)
	}
	return of
}

// inField is a column with another collation in its type.
func inField(c *sql.Context, f *expression.GetField, id sql.CollationID) *expression.GetField {
	t := inCollation(f.Type(c), id)
	if t == f.Type(c) {
		return f
	}
	return asField(c, f, t)
}

// asField is a column with another type.
func asField(c *sql.Context, f *expression.GetField, t sql.Type) *expression.GetField {
	made := expression.NewGetFieldWithTable(f.Index(), int(f.TableId()), t, f.Database(), f.Table(), f.Name(), f.IsNullable(c))
	return made.WithId(f.Id()).(*expression.GetField)
}

// named looks for a column of a node's rows by its name.
func (k *carrier) named(n sql.Node, name string) (collation, bool) {
	for _, child := range n.Children() {
		for i, column := range child.Schema(k.c) {
			if strings.EqualFold(column.Name, name) {
				return ofColumn(k.c, child, i), true
			}
		}
	}
	return collation{}, false
}

// note remembers the columns that expressions are.
func (k *carrier) note(all []sql.Expression) {
	for _, e := range all {
		x, ok := e.(sql.IdExpression)
		if _, field := e.(*expression.GetField); !ok || field || x.Id() == 0 {
			continue
		}
		if k.undecided(e.Type(k.c)) {
			k.digits[x.Id()] = k.digitsOf(e)
		}
		if types.IsText(e.Type(k.c)) {
			k.known[x.Id()], k.texts[x.Id()] = collationOf(k.c, e), types.IsTextOnly(e.Type(k.c))
		}
	}
}

// renamed remembers the columns of a derived table, and has its mapping, by which the planner moves conditions into it, say the same of them.
func (k *carrier) renamed(s *plan.SubqueryAlias) sql.Node {
	schema := s.Child.Schema(k.c)
	if s.Columns().Len() != len(schema) {
		return s
	}
	i, mapping, some := 0, map[sql.ColumnId]sql.Expression{}, false
	s.Columns().ForEach(func(id sql.ColumnId) {
		at := i
		i++
		inner, field := s.ScopeMapping[id].(*expression.GetField)
		if e, ok := s.ScopeMapping[id]; ok {
			mapping[id] = e
		}
		if k.undecided(schema[at].Type) {
			k.digits[id] = k.columnDigits(s.Child, at)
		}
		of, ok := k.known[id]
		if !ok && !(field && inner.Id() == id) && types.IsText(schema[at].Type) { // a set operation's columns are in no order
			of, ok = ofColumn(k.c, s.Child, at), true
			k.known[id], k.texts[id] = of, types.IsTextOnly(schema[at].Type)
		}
		if ok && field && types.IsTextOnly(inner.Type(k.c)) {
			if made := inField(k.c, inner, of.id); made != inner {
				mapping[id], some = made, true
			}
		}
	})
	if !some {
		return s
	}
	return s.WithScopeMapping(mapping)
}

// recursive remembers the columns of a recursive table: those of the rows that it begins with.
func (k *carrier) recursive(r *plan.RecursiveCte, first sql.Node) {
	schema := first.Schema(k.c)
	if r.Columns().Len() != len(schema) {
		return
	}
	i := 0
	r.Columns().ForEach(func(id sql.ColumnId) {
		if types.IsTextOnly(schema[i].Type) {
			k.known[id] = ofColumn(k.c, first, i)
		}
		i++
	})
}

// merged gives both sides of a set operation the collation that they have together. Error: 1267, where they have none.
func (k *carrier) merged(s *plan.SetOp) (sql.Node, error) {
	left, right := s.Left(), s.Right()
	ids := columnIDs(k.c, left)
	for i := range left.Schema(k.c) {
		l, r := left.Schema(k.c), right.Schema(k.c)
		alike(shownIn(left, i), shownIn(right, i))
		if i < len(r) && i < len(ids) && ids[i] != 0 && k.undecided(s.Schema(k.c)[i].Type) {
			k.digits[ids[i]] = k.columnDigits(s, i)
		}
		if i >= len(r) || !types.IsTextOnly(l[i].Type) && !types.IsTextOnly(r[i].Type) {
			continue
		}
		a, b := ofColumn(k.c, left, i), ofColumn(k.c, right, i)
		of := a
		switch {
		case a.level == ignorable:
			of = b
		case b.level != ignorable:
			of = a.with(b)
		}
		if of.level == mixture {
			return nil, errMixed(a, b, "UNION")
		}
		switch { // NULL takes the type of the other side: the planner has made bytes of it
		case a.level == ignorable && !types.IsTextOnly(l[i].Type):
			right = k.inside(right, i, of)
			left = k.insideAs(left, i, of, right.Schema(k.c)[i].Type)
		case b.level == ignorable && !types.IsTextOnly(r[i].Type):
			left = k.inside(left, i, of)
			right = k.insideAs(right, i, of, left.Schema(k.c)[i].Type)
		default:
			left, right = k.inside(left, i, of), k.inside(right, i, of)
		}
		if i < len(ids) && ids[i] != 0 {
			k.known[ids[i]] = of
		}
	}
	s = k.sortedAs(s, left.Schema(k.c), right.Schema(k.c))
	if left == s.Left() && right == s.Right() {
		return s, nil
	}
	return s.WithChildren(k.c, left, right)
}

// sortedAs is a set operation that sorts columns of which its first side has only NULL as the other side has them. As NULL all values are alike.
func (k *carrier) sortedAs(s *plan.SetOp, first, other sql.Schema) *plan.SetOp {
	changed := *s
	changed.SortConditions = append(sql.SortConditions{}, s.SortConditions...)
	some := false
	for i := range changed.SortConditions {
		f, ok := changed.SortConditions[i].Expr.(*expression.GetField)
		if !ok || f.Type(k.c) != types.Null {
			continue
		}
		for j, column := range first {
			if strings.EqualFold(column.Name, f.Name()) && j < len(other) {
				changed.SortConditions[i].Expr, some = asField(k.c, f, other[j].Type), true
			}
		}
	}
	if !some {
		return s
	}
	return &changed
}

// inside gives a column of a result a collation.
func (k *carrier) inside(n sql.Node, i int, of collation) sql.Node {
	return k.insideAs(n, i, of, inCollation(n.Schema(k.c)[i].Type, of.id))
}

// insideAs gives a column of a result a collation, and the type of it.
func (k *carrier) insideAs(n sql.Node, i int, of collation, t sql.Type) sql.Node {
	schema := n.Schema(k.c)
	if t == schema[i].Type {
		return n
	}
	p, ok := n.(*plan.Project)
	if !ok {
		fields := make([]sql.Expression, len(schema))
		ids := columnIDs(k.c, n)
		for i, column := range schema {
			fields[i] = expression.NewGetFieldWithTable(int(ids[i]), 0, column.Type, column.DatabaseSource, column.Source, column.Name, column.Nullable)
		}
		p = plan.NewProject(k.c, fields, n)
	}
	all := append([]sql.Expression{}, p.Projections...)
	switch x := all[i].(type) {
	case *expression.Alias:
		changed, err := x.WithChildren(k.c, carryAs(x.Child, of, t))
		if err != nil {
			return n
		}
		all[i] = sameColumn(x, changed)
	case *expression.GetField:
		all[i] = asField(k.c, x, t)
	default:
		all[i] = expression.NewAlias(k.c, schema[i].Name, carryAs(x, of, t))
	}
	changed := *p
	changed.Projections = all
	return &changed
}

// columnIDs are the planner's numbers of a result's columns. 0: it has none.
func columnIDs(c *sql.Context, n sql.Node) []sql.ColumnId {
	ids := make([]sql.ColumnId, len(n.Schema(c)))
	switch x := n.(type) {
	case *plan.Project:
		for i, e := range x.Projections {
			if id, ok := e.(sql.IdExpression); ok && i < len(ids) {
				ids[i] = id.Id()
			}
		}
	case *plan.SetOp:
		return columnIDs(c, x.Left())
	case plan.TableIdNode:
		i := 0
		x.Columns().ForEach(func(id sql.ColumnId) {
			if i < len(ids) {
				ids[i] = id
			}
			i++
		})
	default:
		if children := n.Children(); len(children) > 0 {
			return columnIDs(c, children[0])
		}
	}
	return ids
}
