package engine

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/planbuilder"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"github.com/holdfastdb/holdfast/doors/sql/wire"
)

// explain answers EXPLAIN with a row for each table that the plan reads, in the order in which it reads them, as MySQL's table format has it. The
// statement is planned and not run, but for ANALYZE. Other formats are one text (document). Entries of an index that a range has are counted, as MySQL does, up to mostDived.
func (s *Session) explain(c *sql.Context, st *Statement, params []wire.Param, to *wire.Answer, out *Outcome) error {
	asked := st.ast.(*sqlparser.Explain)
	inner := asked.Statement
	format, err := explainFormat(asked)
	if err != nil {
		return err
	}
	b := planbuilder.New(c, s.e.sql.Analyzer.Catalog, nil)
	if err := s.bind(c, b, params); err != nil {
		return err
	}
	node, flags, err := bound(c, b, inner, st.Text)
	if err != nil {
		return err
	}
	x := &explanation{c: c, s: s}
	x.conditions.node(c, node) // before the planner leaves out what an index answers
	if node, err = s.e.sql.Analyzer.Analyze(c, node, nil, flags); err != nil {
		return err
	}
	if node, err = everywhere(c, node, ordered); err != nil {
		return err
	}
	verb := "SIMPLE"
	switch inner.(type) {
	case *sqlparser.Insert:
		verb = "INSERT"
	case *sqlparser.Update:
		verb = "UPDATE"
	case *sqlparser.Delete:
		verb = "DELETE"
	}
	x.block(x.number(node, verb))
	if x.err != nil {
		return x.err
	}
	x.extras()
	switch {
	case asked.Analyze:
		a, err := s.analyze(c, st, inner, params)
		if err != nil {
			return err
		}
		document(x.tree(node, a), to, out)
		return nil
	case format == formatTree:
		document(x.tree(node, nil), to, out)
		return nil
	case format == formatJSON:
		document(x.json(), to, out)
		return nil
	}
	names := []string{"id", "select_type", "table", "partitions", "type", "possible_keys", "key", "key_len", "ref", "rows", "filtered", "Extra"}
	columns := make([]wire.Column, len(names))
	for i, n := range names {
		columns[i] = wire.Column{Name: n, Type: wire.VarString, Collation: uint16(textCollation), Length: 1024}
	}
	to.Columns(columns)
	for _, r := range x.reads {
		rows := ""
		if r.rows > 0 {
			rows = strconv.FormatUint(r.rows, 10)
		}
		for _, v := range []string{strconv.Itoa(r.block), r.verb, r.table, "", r.how, strings.Join(r.possible, ","), r.key, r.length, strings.Join(r.ref, ","),
			rows, "", strings.Join(r.extra, "; ")} {
			if v == "" {
				to.Null()
			} else {
				to.Text(v)
			}
		}
	}
	out.Rows = true
	return nil
}

// explanation collects the rows of EXPLAIN.
type explanation struct {
	c          *sql.Context
	s          *Session
	conditions conditions
	reads      []*tableRead
	blocks     int
	err        error
}

// tableRead is how a plan reads a table.
type tableRead struct {
	block                         int // id of the SELECT
	verb, table, how, key, length string
	possible, ref, extra          []string
	rows                          uint64          // 0: NULL
	equal                         map[string]bool // columns whose conditions the index answers whole
}

// number gives a SELECT its id.
func (x *explanation) number(n sql.Node, verb string) *block {
	x.blocks++
	return &block{explanation: x, root: n, id: x.blocks, verb: verb}
}

// block adds the reads of a SELECT, and of those inside it behind them.
func (x *explanation) block(b *block) {
	from := len(x.reads)
	b.node(b.root, "")
	if len(x.reads) == from {
		x.reads = append(x.reads, &tableRead{block: b.id, verb: b.verb, extra: []string{"No tables used"}})
	}
	first := x.reads[from]
	first.extra = append(first.extra, b.extra...)
	if len(b.inner) > 0 {
		for _, r := range x.reads[from:] {
			if r.verb == "SIMPLE" {
				r.verb = "PRIMARY"
			}
		}
	}
	for _, inner := range b.inner {
		x.block(inner)
	}
}

// block is one SELECT.
type block struct {
	*explanation
	root  sql.Node
	id    int
	verb  string
	extra []string
	inner []*block
}

// node visits a node. alias is the name that the table below it has in the statement.
func (b *block) node(n sql.Node, alias string) {
	switch a := n.(type) {
	case nil:
		return
	case *plan.TableAlias:
		b.node(a.Child, a.Name())
		return
	case *plan.IndexedTableAccess:
		b.indexed(a, alias)
		return
	case *plan.ResolvedTable:
		if !plan.IsDualTable(a.Table) {
			b.whole(a, alias)
		}
		return
	case *plan.InsertInto:
		if t, err := plan.GetInsertable(a.Destination); err == nil {
			b.reads = append(b.reads, &tableRead{block: b.id, verb: "INSERT", table: t.Name(), how: "ALL"})
		}
		b.verb = "SIMPLE"
		b.node(a.Source, "")
		return
	case *plan.Values:
		return
	case *plan.SubqueryAlias:
		derived := b.number(a.Child, "DERIVED")
		b.reads = append(b.reads, &tableRead{block: b.id, verb: b.verb, table: fmt.Sprintf("<derived%d>", derived.id), how: "ALL", rows: 2})
		b.inner = append(b.inner, derived)
		return
	case *matched:
		b.node(a.of, "")
		return
	case *plan.SetOp:
		verb := "UNION"
		switch a.SetOpType {
		case plan.IntersectType:
			verb = "INTERSECT"
		case plan.ExceptType:
			verb = "EXCEPT"
		}
		b.node(a.Left(), "")
		b.inner = append(b.inner, b.number(a.Right(), verb))
		return
	case *plan.Sort, *plan.TopN:
		b.note("Using filesort")
	case *plan.GroupBy:
		if len(a.GroupByExprs) > 0 {
			b.note("Using temporary")
		}
	case *plan.Distinct:
		b.note("Using temporary")
	}
	if e, ok := n.(sql.Expressioner); ok {
		for _, e := range e.Expressions() {
			sql.Inspect(b.c, e, func(_ *sql.Context, e sql.Expression) bool {
				if q, ok := e.(*plan.Subquery); ok {
					verb := "SUBQUERY"
					if !q.Correlated().Empty() {
						verb = "DEPENDENT SUBQUERY"
					}
					b.inner = append(b.inner, b.number(q.Query, verb))
				}
				return true
			})
		}
	}
	for _, child := range n.Children() {
		b.node(child, "")
	}
}

func (b *block) note(what string) {
	if !slices.Contains(b.extra, what) {
		b.extra = append(b.extra, what)
	}
}

// extras says for each table whether conditions are left that its index does not answer. One of several tables counts where the last of them is read.
func (x *explanation) extras() {
	for _, k := range x.conditions.all {
		for i := len(x.reads) - 1; i >= 0; i-- {
			r := x.reads[i]
			if !k.tables[strings.ToLower(r.table)] || r.verb == "INSERT" {
				continue
			}
			answered := r.how == "const" || r.equal[k.equals[strings.ToLower(r.table)]]
			if !answered && !slices.Contains(r.extra, usingWhere) {
				r.extra = append([]string{usingWhere}, r.extra...)
			}
			if len(k.tables) > 1 {
				break
			}
		}
	}
}

const usingWhere = "Using where"
