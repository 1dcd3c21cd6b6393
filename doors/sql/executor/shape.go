package executor

import (
	"bytes"
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
	order    string // the column of ORDER BY; "": there is none
	down     bool
	limit    *operand // nil: none
	offset   *operand

	where string // the column that is compared
	equal *operand
	low   *bound
	high  *bound

	sets []assignment

	columns []string // of INSERT; nil: all
	rows    [][]operand
}

// selected is an expression of a SELECT.
type selected struct {
	column string // "": COUNT(*), or all columns
	name   string // that the client gives it, or as it is written
	sum    bool
	count  bool
	star   bool
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
}

// of returns the value in an execution. false: it is of a kind that is left to the engine.
func (o *operand) of(params []wire.Param) (v row.Value, ok bool) {
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
	if a.Into != nil || a.With != nil || a.Having != nil || len(a.GroupBy) > 0 || len(a.Window) > 0 || a.Lock != nil && a.Lock.Type != "" || hinted(a.Comments) ||
		len(o.DistinctOn) > 0 || o.StraightJoinHint || o.SQLCalcFoundRows || len(a.From) != 1 || !s.table(a.From[0]) || a.Where == nil || !s.condition(a.Where.Expr) {
		return false
	}
	s.distinct = o.Distinct
	named := false // an expression has a name of its own
	aggregates := 0
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
			if x.sum || x.count {
				aggregates++
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
	switch len(a.OrderBy) {
	case 0:
	case 1:
		c, ok := s.name(a.OrderBy[0].Expr)
		if !ok || named || aggregates > 0 {
			return false
		}
		s.order, s.down = c, a.OrderBy[0].Direction == sqlparser.DescScr
	default:
		return false
	}
	if l := a.Limit; l != nil {
		if s.limit = operandOf(l.Rowcount); s.limit == nil || aggregates > 0 {
			return false
		}
		if l.Offset != nil {
			if s.offset = operandOf(l.Offset); s.offset == nil {
				return false
			}
		}
	}
	if s.distinct && (len(s.selects) != 1 || s.selects[0].column == "" || aggregates > 0 || !strings.EqualFold(s.selects[0].column, s.order)) {
		return false
	}
	return aggregates == 0 || aggregates == len(s.selects)
}

// expression is a column, COUNT(*) or SUM of a column.
func (s *Shape) expression(e sqlparser.Expr) (x selected, ok bool) {
	if x.column, ok = s.name(e); ok {
		return x, true
	}
	f, ok := e.(*sqlparser.FuncExpr)
	if !ok || f.Over != nil || f.Distinct || !f.Qualifier.IsEmpty() || len(f.Exprs) != 1 {
		return x, false
	}
	switch f.Name.Lowered() {
	case "count":
		star, ok := f.Exprs[0].(*sqlparser.StarExpr)
		x.count = true
		return x, ok && star.TableName.IsEmpty()
	case "sum":
		arg, ok := f.Exprs[0].(*sqlparser.AliasedExpr)
		if !ok {
			return x, false
		}
		x.sum = true
		x.column, ok = s.name(arg.Expr)
		return x, ok
	}
	return x, false
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
		!s.table(a.TableExprs[0]) || a.Where == nil || !s.condition(a.Where.Expr) || s.equal == nil {
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
			own, ok := s.name(sum.Left)
			if !ok || !strings.EqualFold(own, x.column) {
				return false
			}
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
		o := operandOf(value)
		if o == nil {
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
		!hinted(a.Comments) && s.table(a.TableExprs[0]) && a.Where != nil && s.condition(a.Where.Expr) && s.equal != nil
}

// hinted reports whether a comment is a hint.
func hinted(all sqlparser.Comments) bool {
	for _, c := range all {
		if bytes.Contains(c, []byte("+")) {
			return true
		}
	}
	return false
}

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
	if q := c.Qualifier.Name.String(); q != "" && !strings.EqualFold(q, s.Table) {
		return "", false
	}
	name := c.Name.String()
	return name, name != "" && name[0] != '@'
}

// condition takes comparisons of one column: that it is equal to something, or in a range.
func (s *Shape) condition(e sqlparser.Expr) bool {
	switch a := e.(type) {
	case *sqlparser.ParenExpr:
		return s.condition(a.Expr)
	case *sqlparser.AndExpr:
		return s.condition(a.Left) && s.condition(a.Right) && s.equal == nil
	case *sqlparser.RangeCond:
		return a.Operator == sqlparser.BetweenStr && s.compared(a.Left) && s.lower(a.From, false) && s.upper(a.To, false)
	case *sqlparser.ComparisonExpr:
		if a.Escape != nil || !s.compared(a.Left) {
			return false
		}
		switch a.Operator {
		case sqlparser.EqualStr:
			if s.equal != nil || s.low != nil || s.high != nil {
				return false
			}
			s.equal = operandOf(a.Right)
			return s.equal != nil
		case sqlparser.GreaterEqualStr:
			return s.lower(a.Right, false)
		case sqlparser.GreaterThanStr:
			return s.lower(a.Right, true)
		case sqlparser.LessEqualStr:
			return s.upper(a.Right, false)
		case sqlparser.LessThanStr:
			return s.upper(a.Right, true)
		}
	}
	return false
}

// compared takes the column that is compared, which is the same in all comparisons.
func (s *Shape) compared(e sqlparser.Expr) bool {
	c, ok := s.name(e)
	if !ok || s.where != "" && !strings.EqualFold(s.where, c) {
		return false
	}
	s.where = c
	return true
}

func (s *Shape) lower(e sqlparser.Expr, open bool) bool {
	o := operandOf(e)
	if o == nil || s.low != nil || s.equal != nil {
		return false
	}
	s.low = &bound{*o, open}
	return true
}

func (s *Shape) upper(e sqlparser.Expr, open bool) bool {
	o := operandOf(e)
	if o == nil || s.high != nil || s.equal != nil {
		return false
	}
	s.high = &bound{*o, open}
	return true
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
		word(x.column)
		word(x.name)
		flag(x.sum, x.count, x.star)
	}
	b.WriteByte(';')
	word(s.order)
	word(s.where)
	flag(s.distinct, s.down, s.limit != nil, s.equal != nil)
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
