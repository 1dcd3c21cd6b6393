package engine

import (
	"strconv"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/planbuilder"
	"github.com/dolthub/go-mysql-server/sql/transform"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"github.com/holdfastdb/holdfast/doors/sql/wire"
)

// explain answers EXPLAIN with a row for each table that the plan reads, as MySQL's table format has it. What the planner does not know it leaves
// NULL. The statement is planned and not run.
func (s *Session) explain(c *sql.Context, st *Statement, params []wire.Param, to *wire.Answer, out *Outcome) error {
	inner := st.ast.(*sqlparser.Explain).Statement
	b := planbuilder.New(c, s.e.sql.Analyzer.Catalog, nil)
	if err := s.bind(c, b, params); err != nil {
		return err
	}
	node, flags, err := bound(c, b, inner, st.Text)
	if err != nil {
		return err
	}
	if node, err = s.e.sql.Analyzer.Analyze(c, node, nil, flags); err != nil {
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
	names := []string{"id", "select_type", "table", "partitions", "type", "possible_keys", "key", "key_len", "ref", "rows", "filtered", "Extra"}
	columns := make([]wire.Column, len(names))
	for i, n := range names {
		columns[i] = wire.Column{Name: n, Type: wire.VarString, Collation: uint16(textCollation), Length: 1024}
	}
	to.Columns(columns)
	for _, r := range readsOf(c, node) {
		for i, v := range []string{"1", verb, r.table, "", r.how, r.possible, r.key, "", "", strconv.FormatUint(r.rows, 10), "", r.extra} {
			if v == "" && i != len(names)-1 {
				to.Null()
			} else {
				to.Text(v)
			}
		}
	}
	out.Rows = true
	return nil
}

// tableRead is how a plan reads a table.
type tableRead struct {
	table, how, possible, key, extra string
	rows                             uint64
}

func readsOf(c *sql.Context, n sql.Node) (all []tableRead) {
	transform.InspectWithOpaque(c, n, func(c *sql.Context, n sql.Node) bool {
		switch a := n.(type) {
		case *plan.IndexedTableAccess:
			r := tableRead{table: a.Name(), how: "range"}
			if x := a.Index(); x != nil {
				r.key = x.ID()
			}
			if v, ok := sql.GetUnderlyingTable(a.Table).(*tableView); ok {
				r.possible, r.rows = v.keyNames(), v.t.Rows()
			}
			all = append(all, r)
			return false
		case *plan.ResolvedTable:
			r := tableRead{table: a.Name(), how: "ALL"}
			if v, ok := sql.GetUnderlyingTable(a.Table).(*tableView); ok {
				if r.rows = v.t.Rows(); v.forced() != nil {
					r.how, r.key = "index", v.forced().name
				}
			}
			all = append(all, r)
			return false
		}
		return true
	})
	return all
}

func (t *table) keyNames() string {
	names := make([]string, len(t.indexes))
	for i, x := range t.indexes {
		names[i] = x.name
	}
	return strings.Join(names, ",")
}
