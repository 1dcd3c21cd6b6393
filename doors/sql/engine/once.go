package engine

import (
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/plan"
)

// once is DISTINCT. Its memory is given back when its rows are closed: a subquery that is run for each row would else use up the memory of its statement.
type once struct{ *plan.Distinct }

var _ sql.ExecBuilderNode = (*once)(nil)

// WithChildren implements sql.Node.
func (o *once) WithChildren(c *sql.Context, children ...sql.Node) (sql.Node, error) {
	n, err := o.Distinct.WithChildren(c, children...)
	if err != nil {
		return nil, err
	}
	return &once{n.(*plan.Distinct)}, nil
}

// WithExpressions implements sql.Expressioner.
func (o *once) WithExpressions(c *sql.Context, all ...sql.Expression) (sql.Node, error) {
	n, err := o.Distinct.WithExpressions(c, all...)
	if err != nil {
		return nil, err
	}
	return &once{n.(*plan.Distinct)}, nil
}

// BuildRowIter implements sql.ExecBuilderNode.
func (o *once) BuildRowIter(c *sql.Context, b sql.NodeExecBuilder, r sql.Row) (sql.RowIter, error) {
	rows, err := b.Build(c, o.Child, r)
	if err != nil {
		return nil, err
	}
	return &onceRows{RowIter: rows, hasher: o.Hasher(), seen: map[uint64]struct{}{}}, nil
}

// onceRows are the rows of one execution.
type onceRows struct {
	sql.RowIter
	hasher plan.DistinctHasher
	seen   map[uint64]struct{} // hashes of the rows that were given
}

// Next implements sql.RowIter.
func (i *onceRows) Next(c *sql.Context) (sql.Row, error) {
	for {
		r, err := i.RowIter.Next(c)
		if err != nil {
			return nil, err
		}
		key, err := i.hasher.HashOf(c, r)
		if err != nil {
			return nil, err
		}
		if _, known := i.seen[key]; known {
			continue
		}
		i.seen[key] = struct{}{}
		return r, sessionOf(c).kept.add(entryBytes)
	}
}

// Close implements sql.RowIter.
func (i *onceRows) Close(c *sql.Context) error {
	sessionOf(c).kept.give(len(i.seen) * entryBytes)
	i.seen = nil
	return i.RowIter.Close(c)
}
