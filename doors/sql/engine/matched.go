package engine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/hash"
	"github.com/dolthub/go-mysql-server/sql/plan"

	"github.com/dolthub/go-mysql-server/sql/expression"
)

// matched is an INTERSECT or EXCEPT. The library's own compares padded texts byte by byte, and nothing bounds what it keeps.
//
// The rows of the right side are held as keys, those of the left side stream.
type matched struct {
	of       *plan.SetOp
	keys     []sql.Expression // of a row, folded
	distinct bool
	except   bool
}

var _ sql.ExecBuilderNode = (*matched)(nil)

// newMatched returns the node for an INTERSECT or EXCEPT.
func newMatched(c *sql.Context, x *plan.SetOp) *matched {
	keys, _ := foldedColumns(c, x.Schema(c))
	of := *x
	of.SortConditions, of.Limit, of.Offset = nil, nil, nil
	return &matched{of: &of, keys: keys, distinct: x.Distinct, except: x.SetOpType == plan.ExceptType}
}

// foldedColumns are the columns of a row, padded texts among them by their weights. It says whether there are any.
func foldedColumns(c *sql.Context, schema sql.Schema) (keys []sql.Expression, some bool) {
	keys = make([]sql.Expression, len(schema))
	for i, column := range schema {
		field := expression.NewGetFieldWithTable(i, 0, column.Type, column.DatabaseSource, column.Source, column.Name, column.Nullable)
		keys[i] = fold(c, field)
		some = some || keys[i] != sql.Expression(field)
	}
	return keys, some
}

func (m *matched) Resolved() bool                   { return m.of.Resolved() }
func (m *matched) IsReadOnly() bool                 { return m.of.IsReadOnly() }
func (m *matched) String() string                   { return m.of.String() }
func (m *matched) Schema(c *sql.Context) sql.Schema { return m.of.Schema(c) }
func (m *matched) Children() []sql.Node             { return m.of.Children() }

// WithChildren implements sql.Node.
func (m *matched) WithChildren(c *sql.Context, children ...sql.Node) (sql.Node, error) {
	of, err := m.of.WithChildren(c, children...)
	if err != nil {
		return nil, err
	}
	n := *m
	n.of = of.(*plan.SetOp)
	return &n, nil
}

// BuildRowIter implements sql.ExecBuilderNode.
func (m *matched) BuildRowIter(ctx *sql.Context, b sql.NodeExecBuilder, r sql.Row) (sql.RowIter, error) {
	left, err := b.Build(ctx, m.of.Left(), r)
	if err != nil {
		return nil, err
	}
	right, err := b.Build(ctx, m.of.Right(), r)
	if err != nil {
		return nil, errors.Join(err, left.Close(ctx))
	}
	return &matchedRows{node: m, left: left, right: right}, nil
}

// matchedRows streams the left side's rows. counts has, for each key of the right side, how many of its rows are not used up yet.
type matchedRows struct {
	node        *matched
	left, right sql.RowIter
	counts      map[string]int
	given       map[string]bool // with DISTINCT
	bytes       int             // of both
}

// Next implements sql.RowIter.
func (m *matchedRows) Next(ctx *sql.Context) (sql.Row, error) {
	if m.counts == nil {
		if err := m.count(ctx); err != nil {
			return nil, err
		}
	}
	for {
		r, err := m.left.Next(ctx)
		if err != nil {
			return nil, err
		}
		key, err := m.key(ctx, r)
		if err != nil {
			return nil, err
		}
		left := m.counts[key]
		if m.node.distinct {
			if m.given[key] || left > 0 == m.node.except {
				continue
			}
			m.given[key] = true
			return r, m.keep(ctx, key)
		}
		if left > 0 {
			m.counts[key] = left - 1
		}
		if left > 0 != m.node.except {
			return r, nil
		}
	}
}

// Close implements sql.RowIter.
func (m *matchedRows) Close(ctx *sql.Context) error {
	sessionOf(ctx).kept.give(m.bytes)
	m.bytes, m.counts, m.given = 0, nil, nil
	return errors.Join(m.left.Close(ctx), m.right.Close(ctx))
}

func (m *matchedRows) count(ctx *sql.Context) error {
	m.counts, m.given = map[string]int{}, map[string]bool{}
	for {
		r, err := m.right.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		key, err := m.key(ctx, r)
		if err != nil {
			return err
		}
		if m.counts[key]++; m.counts[key] == 1 {
			if err := m.keep(ctx, key); err != nil {
				return err
			}
		}
	}
}

// keep counts the memory of a key.
func (m *matchedRows) keep(ctx *sql.Context, key string) error {
	m.bytes += entryBytes + len(key)
	return sessionOf(ctx).kept.add(entryBytes + len(key))
}

// key is what two rows have in common that are equal: weights of padded texts, and the library's hash of each other value.
func (m *matchedRows) key(ctx *sql.Context, r sql.Row) (string, error) {
	var b []byte
	for i, e := range m.node.keys {
		if r[i] == nil {
			b = append(b, 0)
			continue
		}
		b = append(b, 1)
		if f, ok := e.(*folded); ok {
			v, err := f.Eval(ctx, r)
			if err != nil {
				return "", err
			}
			weights, ok := v.([]byte)
			if !ok {
				return "", fmt.Errorf("the weights of %s are a %T", f, v)
			}
			b = append(binary.AppendUvarint(b, uint64(len(weights))), weights...)
			continue
		}
		h, err := hash.HashOf(ctx, nil, r[i:i+1])
		if err != nil {
			return "", err
		}
		b = binary.BigEndian.AppendUint64(b, h)
	}
	return string(b), nil
}
