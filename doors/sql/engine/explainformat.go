package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"github.com/holdfastdb/holdfast/doors/sql/wire"
)

// Formats of EXPLAIN beside the table.
const (
	formatJSON = "json"
	formatTree = "tree"
)

// explainFormat is the format that a statement names. Error: 1791.
func explainFormat(x *sqlparser.Explain) (string, error) {
	switch f := strings.ToLower(x.ExplainFormat); f {
	case "", "traditional":
		return "", nil
	case formatJSON, formatTree:
		return f, nil
	}
	return "", wire.Errorf(1791, "Unknown EXPLAIN format name: '%s'", x.ExplainFormat)
}

// document answers with one text.
func document(text string, to *wire.Answer, out *Outcome) {
	to.Columns([]wire.Column{{Name: "EXPLAIN", Type: wire.VarString, Collation: uint16(textCollation), Length: 1 << 20}})
	to.Text(text)
	out.Rows = true
}

// actual is what a statement came to that EXPLAIN ANALYZE ran.
type actual struct {
	first, all time.Duration
	rows       uint64
}

// String is as MySQL writes it, in milliseconds.
func (a *actual) String() string {
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	return fmt.Sprintf(" (actual time=%.3f..%.3f rows=%d loops=1)", ms(a.first), ms(a.all), a.rows)
}

// analyze runs the statement that EXPLAIN ANALYZE is about. Its rows are counted and not sent.
func (s *Session) analyze(c *sql.Context, st *Statement, inner sqlparser.Statement, params []wire.Param) (a *actual, err error) {
	began := time.Now()
	run := &Statement{Kind: KindRead, Text: st.Text, ast: inner, limit: -1, params: st.params, tables: st.tables, in: st.in}
	_, rows, err := s.plan(c, run, params)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close(c)) }()
	a = &actual{}
	for {
		_, err := rows.Next(c)
		if a.all = time.Since(began); a.rows == 0 {
			a.first = a.all
		}
		if errors.Is(err, io.EOF) {
			return a, nil
		}
		if err != nil {
			return nil, err
		}
		a.rows++
	}
}

// tree is a plan as MySQL's tree format has it: a line for each step, and what it reads from below it.
func (x *explanation) tree(n sql.Node, a *actual) string {
	t := &planTree{explanation: x}
	t.node(n, 0)
	if len(t.lines) == 0 {
		t.line(0, "Rows fetched before execution")
	}
	if a != nil {
		t.lines[0] += a.String()
	}
	return strings.Join(t.lines, "\n")
}

// planTree collects the lines of a tree.
type planTree struct {
	*explanation
	lines []string
	reads int // of the explanation that have a line
}

func (t *planTree) line(depth int, text string) {
	t.lines = append(t.lines, strings.Repeat("    ", depth)+"-> "+text)
}

// node adds the lines of a step and of those below it.
func (t *planTree) node(n sql.Node, depth int) {
	switch x := n.(type) {
	case nil:
		return
	case *plan.IndexedTableAccess:
		t.read(depth)
		return
	case *plan.ResolvedTable:
		if !plan.IsDualTable(x.Table) {
			t.read(depth)
		}
		return
	case *plan.SubqueryAlias:
		t.line(depth, "Materialize "+x.Name())
		if t.reads < len(t.explanation.reads) && strings.HasPrefix(t.explanation.reads[t.reads].table, "<derived") {
			t.reads++
		}
		t.nested(x.Child, depth+1)
		return
	case *plan.InsertInto:
		t.line(depth, "Insert")
		t.reads++
		t.node(x.Source, depth+1)
		return
	case *plan.Values:
		return
	case *plan.Filter:
		t.line(depth, "Filter: "+x.Expression.String())
		depth++
	case *plan.Having:
		t.line(depth, "Filter: "+x.Cond.String())
		depth++
	case *plan.Sort:
		t.line(depth, "Sort")
		depth++
	case *plan.TopN:
		t.line(depth, "Sort, limit input to "+x.Limit.String()+" row(s)")
		depth++
	case *plan.Limit:
		t.line(depth, "Limit: "+x.Limit.String()+" row(s)")
		depth++
	case *plan.GroupBy:
		t.line(depth, "Aggregate using temporary table")
		depth++
	case *plan.Window:
		t.line(depth, "Window aggregate")
		depth++
	case *plan.Distinct:
		t.line(depth, "Remove duplicates")
		depth++
	case *plan.SetOp:
		kind := "Union"
		switch x.SetOpType {
		case plan.IntersectType:
			kind = "Intersect"
		case plan.ExceptType:
			kind = "Except"
		}
		t.line(depth, kind+" materialize")
		t.node(x.Left(), depth+1)
		t.nested(x.Right(), depth+1)
		return
	case *plan.JoinNode:
		how := "Nested loop "
		switch {
		case x.Op.IsHash():
			how = "Hash "
		case x.Op.IsMerge():
			how = "Merge "
		}
		kind := "inner join"
		switch {
		case x.Op.IsLeftOuter():
			kind = "left join"
		case x.Op.IsSemi():
			kind = "semijoin"
		case x.Op.IsAnti():
			kind = "antijoin"
		}
		t.line(depth, how+kind)
		depth++
	case *plan.Update:
		t.line(depth, "Update")
		depth++
	case *plan.DeleteFrom:
		t.line(depth, "Delete")
		depth++
	}
	for _, child := range n.Children() {
		t.node(child, depth)
	}
	if e, ok := n.(sql.Expressioner); ok {
		for _, e := range e.Expressions() {
			sql.Inspect(t.c, e, func(_ *sql.Context, e sql.Expression) bool {
				if q, ok := e.(*plan.Subquery); ok {
					t.line(depth, "Select (subquery)")
					t.nested(q.Query, depth+1)
				}
				return true
			})
		}
	}
}

// nested adds the lines of a subquery, whose reads stand elsewhere among those of the statement.
func (t *planTree) nested(n sql.Node, depth int) {
	x := &explanation{c: t.c, s: t.s}
	x.block(x.number(n, "SUBQUERY"))
	inner := &planTree{explanation: x}
	inner.node(n, depth)
	t.lines = append(t.lines, inner.lines...)
}

// read adds the line of the table that is read next.
func (t *planTree) read(depth int) {
	if t.reads >= len(t.explanation.reads) {
		return
	}
	r := t.explanation.reads[t.reads]
	t.reads++
	text := "Table scan on " + r.table
	by := " using " + r.key
	if len(r.ref) > 0 {
		by += " (" + strings.Join(r.ref, ", ") + ")"
	}
	switch r.how {
	case "const", "eq_ref":
		text = "Single-row index lookup on " + r.table + by
	case "ref":
		text = "Index lookup on " + r.table + by
	case "range":
		text = "Index range scan on " + r.table + by
	case "index":
		text = "Index scan on " + r.table + by
	}
	if r.rows > 0 {
		text += fmt.Sprintf("  (rows=%d)", r.rows)
	}
	t.line(depth, text)
}

// Documents of EXPLAIN FORMAT=JSON, in MySQL's order of members. There are no costs: the planner's are of another unit.
type (
	jsonPlan struct {
		Block jsonBlock `json:"query_block"`
	}
	jsonBlock struct {
		ID         int         `json:"select_id"`
		Message    string      `json:"message,omitempty"`
		Filesort   bool        `json:"using_filesort,omitempty"`
		Temporary  bool        `json:"using_temporary_table,omitempty"`
		Table      *jsonTable  `json:"table,omitempty"`
		Loop       []jsonLoop  `json:"nested_loop,omitempty"`
		Subqueries []jsonQuery `json:"attached_subqueries,omitempty"`
		Union      []jsonQuery `json:"query_specifications,omitempty"`
	}
	jsonLoop struct {
		Table *jsonTable `json:"table"`
	}
	jsonQuery struct {
		Dependent bool      `json:"dependent"`
		Block     jsonBlock `json:"query_block"`
	}
	jsonTable struct {
		Insert    bool      `json:"insert,omitempty"`
		Name      string    `json:"table_name"`
		Access    string    `json:"access_type"`
		Possible  []string  `json:"possible_keys,omitempty"`
		Key       string    `json:"key,omitempty"`
		Length    string    `json:"key_length,omitempty"`
		Ref       []string  `json:"ref,omitempty"`
		Rows      uint64    `json:"rows_examined_per_scan,omitempty"`
		Condition bool      `json:"using_where,omitempty"`
		From      *jsonPlan `json:"materialized_from_subquery,omitempty"`
	}
)

// json is the plan as a document.
func (x *explanation) json() string {
	b, err := json.MarshalIndent(jsonPlan{x.jsonBlock(1)}, "", "  ")
	if err != nil {
		return "{}"
	}
	return string(b)
}

// jsonBlock is a SELECT of a statement. The first has all that are no derived tables.
func (x *explanation) jsonBlock(id int) jsonBlock {
	b := jsonBlock{ID: id}
	var tables []*jsonTable
	var others []int
	for _, r := range x.reads {
		if r.block != id {
			if id == 1 && r.verb != "DERIVED" && !slices.Contains(others, r.block) {
				others = append(others, r.block)
				q := jsonQuery{Dependent: strings.HasPrefix(r.verb, "DEPENDENT"), Block: x.jsonBlock(r.block)}
				if strings.HasSuffix(r.verb, "SUBQUERY") {
					b.Subqueries = append(b.Subqueries, q)
				} else {
					b.Union = append(b.Union, q)
				}
			}
			continue
		}
		for _, e := range r.extra {
			switch e {
			case "Using filesort":
				b.Filesort = true
			case "Using temporary":
				b.Temporary = true
			case "No tables used":
				b.Message = e
			}
		}
		if r.table == "" {
			continue
		}
		t := &jsonTable{Insert: r.verb == "INSERT", Name: r.table, Access: r.how, Possible: r.possible, Key: r.key, Length: r.length, Ref: r.ref, Rows: r.rows,
			Condition: slices.Contains(r.extra, usingWhere)}
		var derived int
		if n, _ := fmt.Sscanf(r.table, "<derived%d>", &derived); n == 1 {
			t.From = &jsonPlan{x.jsonBlock(derived)}
		}
		tables = append(tables, t)
	}
	if len(tables) == 1 {
		b.Table = tables[0]
		return b
	}
	for _, t := range tables {
		b.Loop = append(b.Loop, jsonLoop{t})
	}
	return b
}
