package engine

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/cockroachdb/apd/v3"
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/planbuilder"
	"github.com/dolthub/go-mysql-server/sql/transform"
	"github.com/dolthub/go-mysql-server/sql/types"

	"github.com/holdfastdb/holdfast/doors/sql/lock"
	"github.com/holdfastdb/holdfast/doors/sql/wire"
)

// A plan that was analysed once serves every execution of a statement with parameters of the same types. Each parameter is an expression of ours: to
// the analyser it has a value that no client would write, a sentinel, and to an execution the session's. Sentinels that the analyser has made the
// bounds of an index's range are replaced when the range is looked up (LookupPartitions).
//
// The analyser may have computed with a sentinel, or left a condition away because of it. So the statement is analysed with two sets of sentinels, and
// the plan is kept only if the two plans differ in nothing but whole sentinels, and every parameter still stands in it. Without a kept plan a statement takes the
// full path each time.

// plans are the kept plans of an Engine. Any goroutine.
type plans struct {
	mu  sync.RWMutex
	all map[planKey]*cachedPlan // guarded by mu; a plan of nil: the statement takes the full path
}

// planKey is what a plan depends on, beside the definitions of its tables, which each execution compares.
type planKey struct {
	text, kinds, database, settings string
	catalogue                       uint64
	level                           Level
	shares                          bool
}

// mostPlans bounds the kept plans. When they are so many, all are forgotten: that costs less than knowing which one was used last.
const mostPlans = 4096

// cachedPlan never changes.
type cachedPlan struct {
	node   sql.Node
	joins  bool // rows are looked up by rows of other tables
	flags  *sql.QueryFlags
	tables []tableUse
	digits []int // of the result's columns
}

// tableUse is a table that a statement names.
type tableUse struct {
	database, name string
	mode           lock.Mode
	id, version    uint64
}

func (p *plans) get(k planKey) (*cachedPlan, bool) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	c, ok := p.all[k]
	return c, ok
}

func (p *plans) put(k planKey, c *cachedPlan) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.all == nil || len(p.all) >= mostPlans {
		p.all = map[planKey]*cachedPlan{}
	}
	p.all[k] = c
}

// parameter is the expression that stands for a parameter.
type parameter struct {
	i        int
	sentinel any
	typ      sql.Type
}

var _ sql.Expression = (*parameter)(nil)
var _ sql.CollationCoercible = (*parameter)(nil)

func (p *parameter) Resolved() bool               { return true }
func (p *parameter) String() string               { return fmt.Sprintf("?%d", p.i) }
func (p *parameter) Type(*sql.Context) sql.Type   { return p.typ }
func (p *parameter) IsNullable(*sql.Context) bool { return false }
func (p *parameter) Children() []sql.Expression   { return nil }

// CollationCoercibility is a literal's.
func (p *parameter) CollationCoercibility(ctx *sql.Context) (sql.CollationID, byte) {
	if types.IsText(p.typ) {
		return ctx.GetCollation(), 4
	}
	return sql.Collation_binary, 5
}

func (p *parameter) WithChildren(_ *sql.Context, children ...sql.Expression) (sql.Expression, error) {
	if len(children) != 0 {
		return nil, sql.ErrInvalidChildrenNumber.New(p, len(children), 0)
	}
	return p, nil
}

// Eval is the sentinel while a statement is analysed, and the session's value while it runs.
func (p *parameter) Eval(ctx *sql.Context, _ sql.Row) (any, error) {
	if s, ok := ctx.Session.(*Session); ok && s.values != nil {
		return s.values[p.i], nil
	}
	return p.sentinel, nil
}

// Sentinels rise with the number of their parameter: BETWEEN ? AND ? must not look empty. They fit into an INT.
const (
	firstNumber, numberStep  = 0x70000000, 7919
	secondNumber, secondStep = 0x71000000, 104729
	mostCached               = 1024 // parameters
)

// The kinds of parameters that a plan distinguishes. A plan for kindNull has NULL in it.
const (
	kindNumber = 'n'
	kindText   = 's'
	kindFloat  = 'f'
	kindNull   = '0'
)

// ofFloat is what the sentinel of a floating number has behind the point: no conversion makes another parameter's sentinel of it, and a range that was
// converted is noticed.
const ofFloat = 0.25

func sentinelOf(set, i int, kind byte) any {
	n := int64(firstNumber + i*numberStep)
	if set == 1 {
		n = int64(secondNumber + i*secondStep)
	}
	switch kind {
	case kindText: // digits, so that a text that is compared with numbers is no other one's number
		return fmt.Sprint(n)
	case kindFloat:
		return float64(n) + ofFloat
	}
	return n
}

// valueOf is the value of a range's bound in this execution.
func valueOf(ctx *sql.Context, v any) any {
	s, ok := ctx.Session.(*Session)
	if !ok || s.values == nil {
		return v
	}
	if i, ok := indexOf(v, 0); ok && i < len(s.values) {
		return s.values[i]
	}
	return v
}

// indexOf returns the parameter whose sentinel of a set a value is.
func indexOf(v any, set int) (int, bool) {
	first, step := int64(firstNumber), int64(numberStep)
	if set == 1 {
		first, step = secondNumber, secondStep
	}
	if b, ok := v.([]byte); ok {
		v = string(b)
	}
	if d, ok := v.(*apd.Decimal); ok {
		n, err := d.Int64()
		if err != nil {
			return 0, false
		}
		v = n
	}
	if f, ok := v.(float64); ok {
		if f-ofFloat != math.Trunc(f) || math.Abs(f) > 1<<40 {
			return 0, false
		}
		v = int64(f)
	}
	if text, ok := v.(string); ok {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || strconv.FormatInt(n, 10) != text {
			return 0, false
		}
		v = n
	}
	n, ok := integer(v)
	if !ok || n < first || (n-first)%step != 0 || (n-first)/step >= mostCached {
		return 0, false
	}
	return int((n - first) / step), true
}

// kindsOf says of which kind each parameter is. false: one of them is of another, and the statement takes the full path.
func kindsOf(params []wire.Param) (string, bool) {
	if len(params) == 0 || len(params) > mostCached {
		return "", false
	}
	kinds := make([]byte, len(params))
	for i := range params {
		switch p := &params[i]; {
		case p.Kind == wire.IsInt:
			kinds[i] = kindNumber
		case p.Kind == wire.IsBytes && (p.Type == wire.VarString || p.Type == wire.String || p.Type == wire.VarChar):
			kinds[i] = kindText
		case p.Kind == wire.IsFloat, p.Kind == wire.IsDouble:
			kinds[i] = kindFloat
		case p.Kind == wire.IsNull:
			kinds[i] = kindNull
		default:
			return "", false
		}
	}
	return string(kinds), true
}

// settings are the variables that a plan depends on.
func (s *Session) settingsKey() string {
	if s.settings == "" {
		var b strings.Builder
		for _, name := range []string{"sql_mode", "collation_connection", "character_set_results", "time_zone", "div_precision_increment",
			"default_week_format", "group_concat_max_len", "sql_select_limit", "lc_time_names"} {
			v, _ := s.GetSessionVariable(nil, name) // the library knows all of them
			fmt.Fprintf(&b, "%v\x00", v)
		}
		s.settings = b.String()
	}
	return s.settings
}

// cached runs a statement by its kept plan, or makes one. ok false: the statement takes the full path.
func (s *Session) cached(c *sql.Context, st *Statement, params []wire.Param) (schema sql.Schema, rows sql.RowIter, ok bool, err error) {
	kinds, ok := kindsOf(params)
	if !ok || !st.pure || s.e.opt.NoPlans {
		return nil, nil, false, nil
	}
	key := planKey{text: st.Text, kinds: kinds, database: s.GetCurrentDatabase(), settings: s.settingsKey(), catalogue: s.catalogue().Version,
		level: s.level, shares: s.shares}
	p, known := s.e.plans.get(key)
	if !known {
		if p, err = s.keep(c, st, kinds); err != nil {
			return nil, nil, false, err
		}
		s.e.plans.put(key, p)
	} else if p != nil {
		for i := range p.tables { // the same locks as the planner would have taken
			u := &p.tables[i]
			t, err := s.useTable(u.database, u.name, u.mode)
			if err != nil {
				return nil, nil, false, err
			}
			if t == nil || t.ID != u.id || t.Version != u.version {
				return nil, nil, false, nil // changed a moment ago: the full path sees it
			}
		}
	}
	if p == nil {
		return nil, nil, false, nil
	}
	s.ClearWarnings()
	s.digits = p.digits
	s.values = make([]any, len(params))
	for i := range params {
		if s.values[i], _, err = argumentValue(c, &params[i]); err != nil {
			return nil, nil, false, err
		}
	}
	node := p.node
	if p.joins {
		if node, err = ownLookups(c, node); err != nil {
			return nil, nil, false, err
		}
	}
	schema, rows, err = s.ready(c, st, node, p.flags)
	return schema, rows, true, err
}

// ownLookups gives an execution its own lookups of rows by other rows: the library keeps the last key in them.
func ownLookups(c *sql.Context, n sql.Node) (sql.Node, error) {
	n, _, err := transform.Node(c, n, func(c *sql.Context, n sql.Node) (sql.Node, transform.TreeIdentity, error) {
		a, ok := n.(*plan.IndexedTableAccess)
		if !ok || a.IsStatic() {
			return n, transform.SameTree, nil
		}
		own, err := plan.NewIndexedAccessForTableNode(c, a.TableNode, plan.NewLookupBuilder(c, a.Index(), a.Expressions(), a.NullMask()))
		return own, transform.NewTree, err
	})
	return n, err
}

// keep analyses a statement twice, and returns the plan if it may be kept; nil otherwise. A statement that warns of its own text while it is analysed is not
// kept: it would do so the first time alone.
func (s *Session) keep(c *sql.Context, st *Statement, kinds string) (*cachedPlan, error) {
	s.used = s.used[:0]
	before := s.Warnings()
	s.ClearWarnings()
	p, err := s.keepQuiet(c, st, kinds)
	if len(s.Warnings()) > 0 {
		p = nil
	}
	s.ClearWarnings()
	for _, w := range slices.Backward(before) {
		s.BaseSession.Warn(w)
	}
	return p, err
}

func (s *Session) keepQuiet(c *sql.Context, st *Statement, kinds string) (*cachedPlan, error) {
	first, flags, err := s.analyse(c, st, kinds, 0)
	if err != nil {
		return nil, planning(err)
	}
	tables := append([]tableUse(nil), s.used...)
	second, _, err := s.analyse(c, st, kinds, 1)
	if err != nil {
		return nil, planning(err)
	}
	if first, err = parametric(c, first, kinds, 0); err != nil {
		return nil, planning(err)
	}
	if second, err = parametric(c, second, kinds, 1); err != nil {
		return nil, planning(err)
	}
	joins, ok := keepable(c, first, second, kinds)
	if !ok {
		return nil, nil
	}
	if first, err = s.repaired(c, st, first); err != nil {
		return nil, err
	}
	return &cachedPlan{node: first, joins: joins, flags: flags, tables: tables, digits: s.digits}, nil
}

// parametric puts the parameters back where the analyser has made literals of their sentinels, as it does in every filter.
func parametric(c *sql.Context, n sql.Node, kinds string, set int) (sql.Node, error) {
	back := func(c *sql.Context, e sql.Expression) (sql.Expression, transform.TreeIdentity, error) {
		if in, ok := e.(*expression.HashInTuple); ok && hasParameter(c, in) { // it has hashed the sentinels
			if !types.IsText(in.Left().Type(c)) && hasTextParameter(c, in.Right()) { // texts warn while they are hashed
				return nil, transform.SameTree, errConverted
			}
			return expression.NewInTuple(in.Left(), in.Right()), transform.NewTree, nil
		}
		l, ok := e.(*expression.Literal)
		if !ok {
			return e, transform.SameTree, nil
		}
		i, ok := indexOf(l.Value(), set)
		if !ok || i >= len(kinds) {
			return e, transform.SameTree, nil
		}
		if kindOf(l.Value()) != kinds[i] {
			return nil, transform.SameTree, errConverted
		}
		return &parameter{i: i, sentinel: l.Value(), typ: l.Type(c)}, transform.NewTree, nil
	}
	n, _, err := transform.NodeExprs(c, n, back)
	if err != nil {
		return nil, err
	}
	n, _, err = transform.Node(c, n, func(c *sql.Context, n sql.Node) (sql.Node, transform.TreeIdentity, error) {
		into, ok := n.(*plan.InsertInto)
		if !ok {
			return n, transform.SameTree, nil
		}
		source, same, err := transform.NodeExprs(c, into.Source, back)
		if err != nil || same == transform.SameTree {
			return n, transform.SameTree, err
		}
		return into.WithSource(source), transform.NewTree, nil
	})
	return n, err
}

// kindOf is the kind of the parameter whose sentinel a value is.
func kindOf(v any) byte {
	switch v.(type) {
	case string:
		return kindText
	case float64:
		return kindFloat
	}
	return kindNumber
}

// errConverted: the analyser has made a number of a text, or the other way round. The values would need the same conversion each time.
var errConverted = errors.New("a parameter was converted while the statement was planned")

// planning returns errors that say something of locks. Others the full path will say, about the client's values and not about sentinels.
func planning(err error) error {
	var own *wire.Error
	if isTransaction(err) || errors.As(err, &own) && own.Code == 1412 {
		return err
	}
	return nil
}

func (s *Session) analyse(c *sql.Context, st *Statement, kinds string, set int) (sql.Node, *sql.QueryFlags, error) {
	b := planbuilder.New(c, s.e.sql.Analyzer.Catalog, nil)
	bindings := make(map[string]sql.Expression, len(kinds))
	for i := range kinds {
		p := &parameter{i: i, sentinel: sentinelOf(set, i, kinds[i]), typ: types.Int64}
		switch kinds[i] {
		case kindText:
			p.typ = types.LongText
		case kindFloat:
			p.typ = types.Float64
		}
		bindings["v"+strconv.Itoa(i+1)] = p
		if kinds[i] == kindNull {
			bindings["v"+strconv.Itoa(i+1)] = literal(nil, types.Null)
		}
	}
	b.SetBindingsWithExpr(bindings)
	node, flags, err := bound(c, b, st.ast, st.Text)
	if err != nil {
		return nil, nil, err
	}
	if node, err = s.e.sql.Analyzer.Analyze(c, node, nil, flags); err != nil {
		return nil, nil, err
	}
	node, err = everywhere(c, node, joined)
	return node, flags, err
}

// keepable compares the plans of two sets of sentinels. joins reports whether rows are looked up by other rows.
func keepable(c *sql.Context, first, second sql.Node, kinds string) (joins, ok bool) {
	params := len(kinds) - strings.Count(kinds, string(kindNull))
	a, b := shapeOf(c, first), shapeOf(c, second)
	if !a.ok || !b.ok || a.joins != b.joins || len(a.nodes) != len(b.nodes) || len(a.keys) != len(b.keys) || len(a.params) != params || len(b.params) != params {
		return false, false
	}
	for i := range a.nodes {
		if a.nodes[i] != b.nodes[i] {
			return false, false
		}
	}
	if a.choice && a.indexed {
		for i := range a.filtered { // any order: all are looked at
			if !a.bounds[i] {
				return false, false
			}
		}
	}
	for i := range a.bounds { // any order: all are looked at
		if i >= len(kinds) || kinds[i] == kindFloat { // a number with a fraction bounds no range of whole ones as it is
			return false, false
		}
	}
	for i := range a.keys {
		n, whole := indexOf(a.keys[i], 0)
		m, also := indexOf(b.keys[i], 1)
		switch {
		case whole && also && n == m:
		case whole || also:
			return false, false // one of the client's own numbers, or a bound that changed its place
		case fmt.Sprintf("%T %v", a.keys[i], a.keys[i]) != fmt.Sprintf("%T %v", b.keys[i], b.keys[i]):
			return false, false // computed from a sentinel
		}
	}
	return a.joins, true
}

// shape is what is compared of a plan.
type shape struct {
	ok     bool
	nodes  []string
	keys   []any // bounds of ranges, and literals
	params map[int]bool

	// A condition with a choice in it (OR, IN, NOT) loses branches when its ranges are cut by those of the others, and which ones depends on the
	// order of the sentinels. So where there is a choice, each parameter of a filter must be left as a bound.
	choice   bool
	indexed  bool         // an index is looked up
	joins    bool         // rows are looked up by rows of other tables
	filtered map[int]bool // parameters in filters
	bounds   map[int]bool // parameters that bound ranges
}

func shapeOf(c *sql.Context, n sql.Node) *shape {
	s := &shape{ok: true, params: map[int]bool{}, filtered: map[int]bool{}, bounds: map[int]bool{}}
	s.node(c, n)
	return s
}

func (s *shape) node(c *sql.Context, n sql.Node) {
	transform.InspectWithOpaque(c, n, func(c *sql.Context, n sql.Node) bool {
		if n == nil {
			return false
		}
		kind := fmt.Sprintf("%T", n)
		s.nodes = append(s.nodes, kind)
		if !statelessNodes[strings.TrimPrefix(kind, "*plan.")] {
			s.ok = false
			return false
		}
		switch a := n.(type) {
		case *plan.IndexedTableAccess:
			if !a.IsStatic() { // of a join: its key is made from rows, of expressions that are looked at below
				s.joins = true
				s.nodes = append(s.nodes, a.Index().ID(), fmt.Sprint(a.NullMask()))
				break
			}
			l := plan.GetIndexLookup(a)
			if l.IsEmpty() || l.IsEmptyRange { // by the order of the sentinels
				s.ok = false
				return false
			}
			s.indexed = true
			s.nodes = append(s.nodes, a.Index().ID(), fmt.Sprint(l.IsReverse, l.IsEmptyRange, l.IsPointLookup))
			if ranges, ok := l.Ranges.(sql.MySQLRangeCollection); ok {
				for _, r := range ranges {
					for _, column := range r {
						for _, cut := range []sql.MySQLRangeCut{column.LowerBound, column.UpperBound} {
							s.nodes = append(s.nodes, fmt.Sprintf("%T", cut))
							if k := cutKey(cut); k != nil {
								s.keys = append(s.keys, k)
								if i, ok := indexOf(k, 0); ok {
									s.bounds[i] = true
								}
							}
						}
					}
				}
			}
		case *plan.Filter:
			s.filter(c, a.Expression)
		case *plan.Limit:
			s.ok = s.ok && !hasParameter(c, a.Limit)
		case *plan.Offset:
			s.ok = s.ok && !hasParameter(c, a.Offset)
		case *plan.TopN:
			s.ok = s.ok && !hasParameter(c, a.Limit)
		case *plan.InsertInto:
			into, err := plan.GetInsertable(a.Destination)
			if err != nil {
				s.ok = false
				return false
			}
			if t, ok := sql.GetUnderlyingTable(into).(*tableView); !ok || t.auto >= 0 {
				s.ok = false // the planner looks at the values
			}
			s.node(c, a.Source)
			s.ok = s.ok && !s.joins // ownLookups does not look into a source
		}
		if e, ok := n.(sql.Expressioner); ok {
			for _, x := range e.Expressions() {
				s.expression(c, x)
			}
		}
		return true
	})
}

// filter notes the parameters of a condition, and whether there is a choice among them.
func (s *shape) filter(c *sql.Context, e sql.Expression) {
	if and, ok := e.(*expression.And); ok {
		for _, child := range and.Children() {
			s.filter(c, child)
		}
		return
	}
	switch e.(type) {
	case *expression.Equals, *expression.NullSafeEquals, *expression.GreaterThan, *expression.GreaterThanOrEqual, *expression.LessThan,
		*expression.LessThanOrEqual, *expression.Between:
	default:
		s.choice = s.choice || hasParameter(c, e)
	}
	sql.Inspect(c, e, func(_ *sql.Context, e sql.Expression) bool {
		if p, ok := e.(*parameter); ok {
			s.filtered[p.i] = true
		}
		return true
	})
}

func (s *shape) expression(c *sql.Context, e sql.Expression) {
	sql.Inspect(c, e, func(_ *sql.Context, e sql.Expression) bool {
		switch x := e.(type) {
		case nil:
			return false
		case *parameter:
			s.params[x.i] = true
		case *expression.Literal:
			s.keys = append(s.keys, x.Value())
		case *plan.Subquery, *plan.ExistsSubquery, *plan.InSubquery, *expression.UserVar, *expression.SystemVar, *expression.ProcedureParam, *expression.AutoIncrement:
			s.ok = false
		}
		return true
	})
}

func hasParameter(c *sql.Context, e sql.Expression) (found bool) {
	sql.Inspect(c, e, func(_ *sql.Context, e sql.Expression) bool {
		if _, ok := e.(*parameter); ok {
			found = true
		}
		return !found
	})
	return found
}

func hasTextParameter(c *sql.Context, e sql.Expression) (found bool) {
	sql.Inspect(c, e, func(_ *sql.Context, e sql.Expression) bool {
		if p, ok := e.(*parameter); ok && types.IsText(p.typ) {
			found = true
		}
		return !found
	})
	return found
}

func cutKey(cut sql.MySQLRangeCut) any {
	switch k := cut.(type) {
	case sql.Below:
		return k.Key
	case sql.Above:
		return k.Key
	}
	return nil
}

// statelessNodes hold nothing of an execution: two sessions may run them at once.
var statelessNodes = set("Project", "Filter", "IndexedTableAccess", "ResolvedTable", "TableAlias", "Sort", "TopN", "Limit", "Offset", "Distinct",
	"OrderedDistinct", "GroupBy", "JoinNode", "Update", "UpdateSource", "DeleteFrom", "InsertInto", "InsertDestination", "Values", "RowUpdateAccumulator",
	"Having")

// pureFunctions have no state and depend on nothing but their arguments: the analyser may compute them before.
var pureFunctions = set("count", "sum", "avg", "min", "max", "upper", "lower", "concat", "length", "char_length", "coalesce", "ifnull", "nullif", "abs", "mod",
	"floor", "ceil", "ceiling", "round", "substring", "substr", "left", "right", "trim", "ltrim", "rtrim", "replace", "hex", "greatest", "least", "if")

// PlanCount is how many statements have a kept plan, and how many take the full path each time.
type PlanCount struct{ Kept, Refused int }

// Plans counts the kept plans.
func (e *Engine) Plans() (n PlanCount) {
	e.plans.mu.RLock()
	defer e.plans.mu.RUnlock()
	for _, p := range e.plans.all { // any order: a count
		if p == nil {
			n.Refused++
		} else {
			n.Kept++
		}
	}
	return n
}
