package executor

import (
	"bytes"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/dolthub/vitess/go/vt/sqlparser"

	"github.com/holdfastdb/holdfast/doors/sql/row"
	"github.com/holdfastdb/holdfast/doors/sql/wire"
)

// Verb is what a statement does.
type Verb byte

// The verbs.
const (
	Select Verb = iota
	Insert
	Update
	Delete
)

// Shape is a statement that the executor may run, as it is written. It never changes. Any goroutine.
type Shape struct {
	Verb     Verb
	Database string // "": the default one
	Table    string

	key string // of the statement without its values: shapes of one key bind alike

	selects  []selected
	distinct bool
	orders   []ordered
	limit    *operand // nil: none
	offset   *operand
	locks    bool // FOR UPDATE

	group string   // the column of GROUP BY; "": there is none
	with  *joining // nil: the statement is about one table

	equal  []compared
	ranged string // the column that is in a range; "": none is
	low    *bound
	high   *bound
	in     *list // nil: there is none

	sets []assignment

	columns []string // of INSERT; nil: all
	rows    [][]operand
}

// Locks reports whether the statement reads rows to lock them.
func (s *Shape) Locks() bool { return s.locks }

// selected is an expression of a SELECT.
type selected struct {
	table  string // that the client names
	column string // "": COUNT(*), or all columns
	name   string // that the client gives it, or as it is written
	fold   fold
	star   bool
}

// fold is what a result has of a column of all rows.
type fold byte

const (
	noFold fold = iota
	foldSum
	foldCount // of all rows, or of the column's values that are not NULL
	foldMin
	foldMax
	foldDistinct // COUNT(DISTINCT)
)

// ordered is a column of ORDER BY.
type ordered struct {
	column string
	down   bool
}

// compared is a column that is equal to something.
type compared struct {
	column string
	to     operand
}

// list is IN: the columns have the values of one of the tuples.
type list struct {
	columns []string
	tuples  [][]operand
}

// bound is an end of a range.
type bound struct {
	operand
	open bool // the bound itself is outside
}

// assignment is one of UPDATE.
type assignment struct {
	column string
	to     operand
	adds   int64 // 1, -1: the column's own value with the operand added or taken away; 0: the operand
}

// operand is a literal or a parameter.
type operand struct {
	param int // its number; negative: it is a literal
	value row.Value
	plus  int64 // is added to it
}

// of returns the value in an execution. false: it is of a kind that is left to the engine.
func (o *operand) of(params []wire.Param) (v row.Value, ok bool) {
	if o.plus != 0 {
		one := operand{param: o.param, value: o.value}
		if v, ok = one.of(params); !ok || v.Kind != row.Int || (v.Int+o.plus > v.Int) != (o.plus > 0) {
			return v, false
		}
		v.Int += o.plus
		return v, true
	}
	if o.param < 0 {
		return o.value, true
	}
	switch p := &params[o.param]; p.Kind {
	case wire.IsNull:
		return row.Value{Kind: row.Null}, true
	case wire.IsInt:
		return row.Value{Kind: row.Int, Int: p.Int}, true
	case wire.IsUint:
		return row.Value{Kind: row.Uint, Uint: p.Uint}, true
	case wire.IsDouble:
		return row.Value{Kind: row.Float, Uint: math.Float64bits(p.Float)}, true
	case wire.IsBytes:
		if p.Type == wire.VarString || p.Type == wire.String || p.Type == wire.VarChar {
			return row.Value{Kind: row.Text, Bytes: p.Bytes}, true
		}
	}
	return v, false
}

// ShapeOf returns the shape of a statement as the parser has made it. Nil: it is none of the executor's.
func ShapeOf(ast sqlparser.Statement) *Shape {
	s := &Shape{}
	ok := false
	switch a := ast.(type) {
	case *sqlparser.Select:
		ok = s.ofSelect(a)
	case *sqlparser.Insert:
		ok = s.ofInsert(a)
	case *sqlparser.Update:
		ok = s.ofUpdate(a)
	case *sqlparser.Delete:
		ok = s.ofDelete(a)
	}
	if !ok {
		return nil
	}
	s.key = s.text()
	return s
}

func (s *Shape) ofSelect(a *sqlparser.Select) bool {
	s.Verb = Select
	o := &a.QueryOpts
	if a.Into != nil || a.With != nil || a.Having != nil || len(a.GroupBy) > 1 || len(a.Window) > 0 || !s.lock(a.Lock) || hinted(a.Comments) ||
		len(o.DistinctOn) > 0 || o.StraightJoinHint || o.SQLCalcFoundRows || len(a.From) == 0 || !s.table(a.From[0]) || a.Where == nil {
		return false
	}
	if len(a.From) > 1 {
		return s.ofJoin(a)
	}
	if !s.condition(a.Where.Expr) {
		return false
	}
	if len(a.GroupBy) == 1 {
		if s.group, _ = s.name(a.GroupBy[0]); s.group == "" || o.Distinct || s.locks || len(a.OrderBy) > 0 || a.Limit != nil {
			return false
		}
	}
	s.distinct = o.Distinct
	named := false // an expression has a name of its own
	folds := 0
	for _, e := range a.SelectExprs {
		switch e := e.(type) {
		case *sqlparser.StarExpr:
			if !e.TableName.IsEmpty() || len(a.SelectExprs) > 1 {
				return false
			}
			s.selects = append(s.selects, selected{star: true})
		case *sqlparser.AliasedExpr:
			x, ok := s.expression(e.Expr)
			if !ok {
				return false
			}
			if x.fold != noFold || s.group != "" && strings.EqualFold(x.column, s.group) {
				folds++
			}
			named = named || !e.As.IsEmpty()
			if x.name = e.As.String(); x.name == "" {
				x.name = e.InputExpression
			}
			s.selects = append(s.selects, x)
		default:
			return false
		}
	}
	for _, by := range a.OrderBy {
		c, ok := s.name(by.Expr)
		if !ok || named || folds > 0 {
			return false
		}
		s.orders = append(s.orders, ordered{c, by.Direction == sqlparser.DescScr})
	}
	if l := a.Limit; l != nil {
		if s.limit = operandOf(l.Rowcount); s.limit == nil || folds > 0 {
			return false
		}
		if l.Offset != nil {
			if s.offset = operandOf(l.Offset); s.offset == nil {
				return false
			}
		}
	}
	if s.distinct && (len(s.selects) != 1 || s.selects[0].column == "" || folds > 0 || len(s.orders) != 1 || !strings.EqualFold(s.selects[0].column, s.orders[0].column)) {
		return false
	}
	return folds == len(s.selects) || folds == 0 && s.group == ""
}

// lock takes FOR UPDATE, and no other locking clause.
func (s *Shape) lock(l *sqlparser.Lock) bool {
	if l == nil || l.Type == "" {
		return true
	}
	s.locks = true
	return l.Type == sqlparser.ForUpdateStr && len(l.Tables) == 0
}

// expression is a column, or COUNT, SUM, MIN or MAX of one.
func (s *Shape) expression(e sqlparser.Expr) (x selected, ok bool) {
	if x.column, ok = s.name(e); ok {
		x.table = e.(*sqlparser.ColName).Qualifier.Name.String()
		return x, true
	}
	f, ok := e.(*sqlparser.FuncExpr)
	if !ok || f.Over != nil || !f.Qualifier.IsEmpty() || len(f.Exprs) != 1 || f.Distinct && f.Name.Lowered() != "count" {
		return x, false
	}
	switch f.Name.Lowered() {
	case "count":
		x.fold = foldCount
		if star, ok := f.Exprs[0].(*sqlparser.StarExpr); ok {
			return x, star.TableName.IsEmpty() && !f.Distinct
		}
		if f.Distinct {
			x.fold = foldDistinct
		}
	case "sum":
		x.fold = foldSum
	case "min":
		x.fold = foldMin
	case "max":
		x.fold = foldMax
	default:
		return x, false
	}
	arg, ok := f.Exprs[0].(*sqlparser.AliasedExpr)
	if !ok {
		return x, false
	}
	of := arg.Expr
	if p, ok := of.(*sqlparser.ParenExpr); ok {
		of = p.Expr
	}
	if x.column, ok = s.name(of); ok {
		x.table = of.(*sqlparser.ColName).Qualifier.Name.String()
	}
	return x, ok
}

func (s *Shape) ofInsert(a *sqlparser.Insert) bool {
	s.Verb = Insert
	if a.Action != sqlparser.InsertStr || a.Ignore != "" || len(a.OnDup) > 0 || a.With != nil || len(a.Partitions) > 0 || len(a.Returning) > 0 || hinted(a.Comments) ||
		!s.target(a.Table) {
		return false
	}
	values, ok := a.Rows.(*sqlparser.AliasedValues)
	if !ok || !values.As.IsEmpty() || len(values.Columns) > 0 || len(values.Values) == 0 {
		return false
	}
	for _, c := range a.Columns {
		s.columns = append(s.columns, c.String())
	}
	width := len(values.Values[0])
	if width == 0 || s.columns != nil && width != len(s.columns) {
		return false
	}
	all := make([]operand, 0, width*len(values.Values))
	for _, tuple := range values.Values {
		if len(tuple) != width {
			return false
		}
		for _, e := range tuple {
			o := operandOf(e)
			if o == nil {
				return false
			}
			all = append(all, *o)
		}
		s.rows = append(s.rows, all[len(all)-width:])
	}
	return true
}

func (s *Shape) ofUpdate(a *sqlparser.Update) bool {
	s.Verb = Update
	if a.Ignore != "" || a.With != nil || len(a.OrderBy) > 0 || a.Limit != nil || len(a.Returning) > 0 || hinted(a.Comments) || len(a.TableExprs) != 1 ||
		!s.table(a.TableExprs[0]) || a.Where == nil || !s.condition(a.Where.Expr) || s.ranged != "" {
		return false
	}
	for _, e := range a.Exprs {
		x := assignment{}
		var ok bool
		if x.column, ok = s.name(e.Name); !ok {
			return false
		}
		value := e.Expr
		if sum, ok := value.(*sqlparser.BinaryExpr); ok {
			if own, ok := s.name(sum.Left); ok && strings.EqualFold(own, x.column) {
				switch sum.Operator {
				case sqlparser.PlusStr:
					x.adds = 1
				case sqlparser.MinusStr:
					x.adds = -1
				default:
					return false
				}
				value = sum.Right
			}
		}
		o := sumOf(value)
		if o == nil || x.adds != 0 && o.plus != 0 {
			return false
		}
		x.to = *o
		s.sets = append(s.sets, x)
	}
	return len(s.sets) > 0
}

func (s *Shape) ofDelete(a *sqlparser.Delete) bool {
	s.Verb = Delete
	return len(a.Targets) == 0 && len(a.TableExprs) == 1 && a.With == nil && len(a.Partitions) == 0 && len(a.OrderBy) == 0 && a.Limit == nil && len(a.Returning) == 0 &&
		!hinted(a.Comments) && s.table(a.TableExprs[0]) && a.Where != nil && s.condition(a.Where.Expr) && s.ranged == ""
}

// hinted reports whether a comment is a hint that may count. Those of TiDB are for no other server.
func hinted(all sqlparser.Comments) bool {
	for _, c := range all {
		if bytes.Contains(c, []byte("+")) && !foreignHint.Match(c) {
			return true
		}
	}
	return false
}

var foreignHint = regexp.MustCompile(`^/\*\+ *TIDB_[A-Z]+\([a-z_, ]*\) *\*/$`)

// table takes the only table of a statement, which has no other name and no hint.
func (s *Shape) table(e sqlparser.TableExpr) bool {
	a, ok := e.(*sqlparser.AliasedTableExpr)
	if !ok || a.Hints != nil || a.AsOf != nil || !a.As.IsEmpty() || len(a.Partitions) > 0 || a.Lateral {
		return false
	}
	n, ok := a.Expr.(sqlparser.TableName)
	return ok && s.target(n)
}

func (s *Shape) target(n sqlparser.TableName) bool {
	s.Database, s.Table = n.DbQualifier.String(), n.Name.String()
	return n.SchemaQualifier.IsEmpty() && s.Table != "" && !strings.EqualFold(s.Table, "dual")
}

// name is the column that an expression names.
func (s *Shape) name(e sqlparser.Expr) (string, bool) {
	c, ok := e.(*sqlparser.ColName)
	if !ok || c.StoredProcVal != nil || !c.Qualifier.DbQualifier.IsEmpty() || !c.Qualifier.SchemaQualifier.IsEmpty() {
		return "", false
	}
	if q := c.Qualifier.Name.String(); q != "" && !strings.EqualFold(q, s.Table) && (s.with == nil || !strings.EqualFold(q, s.with.table)) {
		return "", false
	}
	name := c.Name.String()
	return name, name != "" && name[0] != '@'
}

// condition takes comparisons of columns: that they are equal to something, that one is in a range, and that some are in a list.
func (s *Shape) condition(e sqlparser.Expr) bool {
	switch a := e.(type) {
	case *sqlparser.ParenExpr:
		return s.condition(a.Expr)
	case *sqlparser.AndExpr:
		return s.condition(a.Left) && s.condition(a.Right)
	case *sqlparser.RangeCond:
		c, ok := s.name(a.Left)
		return ok && a.Operator == sqlparser.BetweenStr && s.lower(c, a.From, false) && s.upper(c, a.To, false)
	case *sqlparser.ComparisonExpr:
		if a.Escape != nil {
			return false
		}
		if a.Operator == sqlparser.InStr {
			return s.member(a.Left, a.Right)
		}
		c, ok := s.name(a.Left)
		if !ok {
			return false
		}
		switch a.Operator {
		case sqlparser.EqualStr:
			o := sumOf(a.Right)
			if o == nil || s.compares(c) {
				return false
			}
			s.equal = append(s.equal, compared{c, *o})
			return true
		case sqlparser.GreaterEqualStr:
			return s.lower(c, a.Right, false)
		case sqlparser.GreaterThanStr:
			return s.lower(c, a.Right, true)
		case sqlparser.LessEqualStr:
			return s.upper(c, a.Right, false)
		case sqlparser.LessThanStr:
			return s.upper(c, a.Right, true)
		}
	}
	return false
}

// compares reports whether a condition has named a column before.
func (s *Shape) compares(column string) bool {
	for i := range s.equal {
		if strings.EqualFold(s.equal[i].column, column) {
			return true
		}
	}
	return strings.EqualFold(s.ranged, column) && column != "" || s.in != nil && slices.ContainsFunc(s.in.columns, func(c string) bool { return strings.EqualFold(c, column) })
}

// member takes IN of a list of values, or of tuples of values.
func (s *Shape) member(left, right sqlparser.Expr) bool {
	tuples, ok := right.(sqlparser.ValTuple)
	if !ok || s.in != nil {
		return false
	}
	names := sqlparser.ValTuple{left}
	several, isTuple := left.(sqlparser.ValTuple)
	if isTuple {
		names = several
	}
	in := &list{}
	for _, n := range names {
		c, ok := s.name(n)
		if !ok || s.compares(c) || slices.ContainsFunc(in.columns, func(x string) bool { return strings.EqualFold(x, c) }) {
			return false
		}
		in.columns = append(in.columns, c)
	}
	all := make([]operand, 0, len(tuples)*len(names))
	for _, t := range tuples {
		values := sqlparser.ValTuple{t}
		if isTuple {
			if values, ok = t.(sqlparser.ValTuple); !ok || len(values) != len(names) {
				return false
			}
		}
		for _, v := range values {
			o := operandOf(v)
			if o == nil {
				return false
			}
			all = append(all, *o)
		}
		in.tuples = append(in.tuples, all[len(all)-len(names):])
	}
	s.in = in
	return len(in.tuples) > 0
}

// bounds takes the column that is in a range, which is the same for both ends.
func (s *Shape) bounds(column string) bool {
	if s.ranged == "" && !s.compares(column) {
		s.ranged = column
	}
	return strings.EqualFold(s.ranged, column)
}

func (s *Shape) lower(column string, e sqlparser.Expr, open bool) bool {
	o := sumOf(e)
	if o == nil || s.low != nil || !s.bounds(column) {
		return false
	}
	s.low = &bound{*o, open}
	return true
}

func (s *Shape) upper(column string, e sqlparser.Expr, open bool) bool {
	o := sumOf(e)
	if o == nil || s.high != nil || !s.bounds(column) {
		return false
	}
	s.high = &bound{*o, open}
	return true
}

// sumOf returns a literal or a parameter, perhaps with an integer added to it or taken away. Nil: the expression is another one.
func sumOf(e sqlparser.Expr) *operand {
	sum, ok := e.(*sqlparser.BinaryExpr)
	if !ok {
		return operandOf(e)
	}
	o, by := operandOf(sum.Left), operandOf(sum.Right)
	if o == nil || by == nil || by.param >= 0 || by.value.Kind != row.Int || by.value.Int == math.MinInt64 || o.param < 0 && o.value.Kind != row.Int {
		return nil
	}
	switch sum.Operator {
	case sqlparser.PlusStr:
		o.plus = by.value.Int
	case sqlparser.MinusStr:
		o.plus = -by.value.Int
	default:
		return nil
	}
	return o
}

// operandOf returns a literal or a parameter. Nil: the expression is another one.
func operandOf(e sqlparser.Expr) *operand {
	o := &operand{param: -1}
	switch a := e.(type) {
	case *sqlparser.NullVal:
		o.value.Kind = row.Null
		return o
	case *sqlparser.UnaryExpr:
		l, ok := a.Expr.(*sqlparser.SQLVal)
		if !ok || a.Operator != sqlparser.UMinusStr || l.Type != sqlparser.IntVal {
			return nil
		}
		n, err := strconv.ParseInt("-"+string(l.Val), 10, 64)
		o.value = row.Value{Kind: row.Int, Int: n}
		if err != nil {
			return nil
		}
		return o
	case *sqlparser.SQLVal:
		switch a.Type {
		case sqlparser.IntVal:
			n, err := strconv.ParseInt(string(a.Val), 10, 64)
			o.value = row.Value{Kind: row.Int, Int: n}
			if err != nil { // a larger one: the engine has types for it
				return nil
			}
			return o
		case sqlparser.StrVal:
			o.value = row.Value{Kind: row.Text, Bytes: a.Val}
			return o
		case sqlparser.ValArg: // :v1 and so on
			n, err := strconv.Atoi(strings.TrimPrefix(string(a.Val), ":v"))
			if err != nil || n < 1 {
				return nil
			}
			o.param = n - 1
			return o
		}
	}
	return nil
}

// text is the statement without its values.
func (s *Shape) text() string {
	var b strings.Builder
	word := func(w string) {
		b.WriteString(strconv.Itoa(len(w)))
		b.WriteByte(' ')
		b.WriteString(w)
	}
	flag := func(on ...bool) {
		for _, x := range on {
			if x {
				b.WriteByte('1')
			} else {
				b.WriteByte('0')
			}
		}
	}
	b.WriteByte('a' + byte(s.Verb))
	for _, x := range s.selects {
		word(x.table)
		word(x.column)
		word(x.name)
		b.WriteByte('0' + byte(x.fold))
		flag(x.star)
	}
	b.WriteByte(';')
	for _, x := range s.orders {
		word(x.column)
		flag(x.down)
	}
	b.WriteByte(';')
	for i := range s.equal {
		word(s.equal[i].column)
	}
	b.WriteByte(';')
	word(s.ranged)
	word(s.group)
	if s.with != nil {
		s.with.words(word)
	}
	flag(s.distinct, s.limit != nil, s.locks)
	if s.in != nil {
		for _, c := range s.in.columns {
			word(c)
		}
	}
	b.WriteByte(';')
	for i := range s.sets {
		word(s.sets[i].column)
		flag(s.sets[i].adds != 0)
	}
	b.WriteByte(';')
	flag(s.columns == nil)
	for _, c := range s.columns {
		word(c)
	}
	return b.String()
}
