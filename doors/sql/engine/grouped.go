package engine

import (
	"errors"
	"io"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression/function/aggregation"
	"github.com/dolthub/go-mysql-server/sql/hash"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/transform"
)

// grouping is GROUP BY. The library reads rows and groups them in two goroutines, and the first waits for ever for the second once that has failed. This one
// does both in the session's goroutine.
type grouping struct{ *plan.GroupBy }

var _ sql.ExecBuilderNode = (*grouping)(nil)

// grouped has a plan group by grouping. A group without keys is the library's.
func grouped(c *sql.Context, n sql.Node) (sql.Node, error) {
	n, _, err := transform.NodeWithOpaque(c, n, func(_ *sql.Context, n sql.Node) (sql.Node, transform.TreeIdentity, error) {
		if g, ok := n.(*plan.GroupBy); ok && len(g.GroupByExprs) > 0 {
			return &grouping{g}, transform.NewTree, nil
		}
		return n, transform.SameTree, nil
	})
	return n, err
}

// WithChildren implements sql.Node.
func (g *grouping) WithChildren(c *sql.Context, children ...sql.Node) (sql.Node, error) {
	n, err := g.GroupBy.WithChildren(c, children...)
	if err != nil {
		return nil, err
	}
	return &grouping{n.(*plan.GroupBy)}, nil
}

// WithExpressions implements sql.Expressioner.
func (g *grouping) WithExpressions(c *sql.Context, all ...sql.Expression) (sql.Node, error) {
	n, err := g.GroupBy.WithExpressions(c, all...)
	if err != nil {
		return nil, err
	}
	return &grouping{n.(*plan.GroupBy)}, nil
}

// BuildRowIter implements sql.ExecBuilderNode.
func (g *grouping) BuildRowIter(c *sql.Context, b sql.NodeExecBuilder, r sql.Row) (sql.RowIter, error) {
	rows, err := b.Build(c, g.Child, r)
	if err != nil {
		return nil, err
	}
	i := &groups{g: g, rows: rows, key: make(sql.Row, len(g.GroupByExprs)), schema: make(sql.Schema, len(g.GroupByExprs)), of: map[uint64][]sql.AggregationBuffer{}}
	for k, e := range g.GroupByExprs {
		i.schema[k] = &sql.Column{Type: e.Type(c)}
	}
	return i, nil
}

// groups are the groups of one execution, in the order of their first rows.
type groups struct {
	g      *grouping
	rows   sql.RowIter // nil: it is closed
	schema sql.Schema  // of key
	key    sql.Row
	of     map[uint64][]sql.AggregationBuffer // by the hash of the key
	all    [][]sql.AggregationBuffer
	read   bool
	sent   int
	bytes  int // of all groups
}

// bufferBytes is about what an aggregate takes in memory for each group.
const bufferBytes = 128

// Next implements sql.RowIter.
func (i *groups) Next(c *sql.Context) (sql.Row, error) {
	if !i.read {
		i.read = true
		for {
			r, err := i.rows.Next(c)
			if errors.Is(err, io.EOF) {
				break
			}
			if err == nil {
				err = i.add(c, r)
			}
			if err != nil {
				return nil, err
			}
		}
	}
	if i.sent >= len(i.all) {
		return nil, io.EOF
	}
	buffers := i.all[i.sent]
	i.sent++
	out := make(sql.Row, len(buffers))
	for k, b := range buffers {
		v, err := b.Eval(c)
		if err != nil {
			return nil, err
		}
		out[k] = v
	}
	return out, nil
}

// add adds a row to its group.
func (i *groups) add(c *sql.Context, r sql.Row) error {
	for k, e := range i.g.GroupByExprs {
		v, err := e.Eval(c, r)
		if err != nil {
			return err
		}
		if t, ok := i.schema[k].Type.(sql.ExtendedType); ok {
			b, err := t.SerializeValue(c, v)
			if err != nil {
				return err
			}
			v = string(b)
		}
		i.key[k] = v
	}
	key, err := hash.HashOf(c, i.schema, i.key)
	if err != nil {
		return err
	}
	buffers := i.of[key]
	if buffers == nil {
		if buffers, err = i.begin(c, key, r); err != nil {
			return err
		}
	}
	for _, b := range buffers {
		if err := b.Update(c, r); err != nil {
			return err
		}
	}
	return nil
}

// begin begins a group. A column without an aggregation has the value of the group's first row.
func (i *groups) begin(c *sql.Context, key uint64, r sql.Row) ([]sql.AggregationBuffer, error) {
	buffers := make([]sql.AggregationBuffer, len(i.g.SelectDeps))
	bytes := rowBytes + entryBytes
	for k, e := range i.g.SelectDeps {
		bytes += bufferBytes
		a, ok := e.(sql.Aggregation)
		if !ok {
			a = aggregation.NewFirst(e)
			v, err := e.Eval(c, r)
			if err != nil {
				return nil, err
			}
			bytes += valueSize(v)
		}
		var err error
		if buffers[k], err = a.NewBuffer(c); err != nil {
			return nil, err
		}
	}
	i.all, i.bytes = append(i.all, buffers), i.bytes+bytes
	if err := sessionOf(c).kept.add(bytes); err != nil {
		return nil, err
	}
	i.of[key] = buffers
	return buffers, nil
}

// Close implements sql.RowIter.
func (i *groups) Close(c *sql.Context) error {
	if i.rows == nil {
		return nil
	}
	for _, buffers := range i.all {
		for _, b := range buffers {
			if b != nil {
				b.Dispose(c)
			}
		}
	}
	i.all, i.of = nil, nil
	sessionOf(c).kept.give(i.bytes)
	rows := i.rows
	i.rows = nil
	return rows.Close(c)
}
