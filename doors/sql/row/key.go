package row

import (
	"time"

	"github.com/cockroachdb/apd/v3"
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"

	"github.com/holdfastdb/holdfast/internal/tuple"
)

// Part is a column of a key.
type Part struct {
	field
	prefix int // characters of a text, bytes of a binary value; 0: all of it
	order  *weights
}

// NewPart returns the part of a key for a column of this type. prefix counts characters, bytes of a binary column; 0: the whole
// value. digits are those behind the point of a TIME. Error: ErrType.
func NewPart(t sql.Type, prefix, digits int) (Part, error) {
	f, err := newField(t, digits)
	if err != nil {
		return Part{}, err
	}
	p := Part{field: f, prefix: prefix}
	switch f.form {
	case formJSON:
		return p, ErrType
	case formText:
		p.order = weightsOf(t.(sql.TypeWithCollation).Collation())
	}
	return p, nil
}

// AppendKey appends a value as a field of a key. Errors: ErrValue, and those of the engine where a large value cannot be read.
func (p *Part) AppendKey(ctx *sql.Context, dst []byte, v any) ([]byte, error) {
	if v == nil {
		return tuple.AppendNull(dst), nil
	}
	v, err := plain(ctx, v)
	if err != nil {
		return dst, err
	}
	switch p.form {
	case formInt, formYear:
		if n, ok := signed(v); ok {
			return tuple.AppendInt(dst, n), nil
		}
	case formUint:
		if n, ok := unsigned(v); ok {
			return tuple.AppendUint(dst, n), nil
		}
	case formFloat:
		if n, ok := float(v); ok {
			return tuple.AppendFloat(dst, n), nil
		}
	case formDecimal:
		if d, ok := v.(*apd.Decimal); ok {
			b, err := appendDecimal(nil, d, scale(p.typ))
			if err != nil {
				return dst, err
			}
			return tuple.AppendBytes(dst, b), nil
		}
	case formTime:
		if t, ok := v.(time.Time); ok {
			return tuple.AppendInt(dst, t.UnixMicro()), nil
		}
	case formDuration:
		if t, ok := v.(types.Timespan); ok {
			return tuple.AppendInt(dst, p.rounded(t)), nil
		}
	case formText:
		if s, ok := v.(string); ok {
			return p.order.appendKey(dst, s, p.prefix), nil
		}
	case formBinary:
		var s string
		switch b := v.(type) {
		case []byte:
			s = string(b)
		case string:
			s = b
		default:
			return dst, p.wrong(v)
		}
		if p.prefix > 0 && len(s) > p.prefix {
			s = s[:p.prefix]
		}
		return tuple.AppendBytes(dst, s), nil
	}
	return dst, p.wrong(v)
}
