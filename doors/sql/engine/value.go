package engine

import (
	"time"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/sqltypes"
	"github.com/dolthub/vitess/go/vt/proto/query"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"github.com/holdfastdb/holdfast/doors/sql/wire"
)

// wireTypes are the types of columns over the wire.
var wireTypes = map[query.Type]wire.Type{
	sqltypes.Null: wire.Null, sqltypes.Int8: wire.Tiny, sqltypes.Uint8: wire.Tiny, sqltypes.Int16: wire.Short, sqltypes.Uint16: wire.Short,
	sqltypes.Int24: wire.Int24, sqltypes.Uint24: wire.Int24, sqltypes.Int32: wire.Long, sqltypes.Uint32: wire.Long, sqltypes.Int64: wire.LongLong,
	sqltypes.Uint64: wire.LongLong, sqltypes.Float32: wire.Float, sqltypes.Float64: wire.Double, sqltypes.Timestamp: wire.Timestamp,
	sqltypes.Date: wire.Date, sqltypes.Time: wire.Time, sqltypes.Datetime: wire.DateTime, sqltypes.Year: wire.Year, sqltypes.Decimal: wire.NewDecimal,
	sqltypes.Text: wire.Blob, sqltypes.Blob: wire.Blob, sqltypes.VarChar: wire.VarString, sqltypes.VarBinary: wire.VarString, sqltypes.Char: wire.String,
	sqltypes.Binary: wire.String, sqltypes.Bit: wire.Bit, sqltypes.Enum: wire.String, sqltypes.Set: wire.String, sqltypes.TypeJSON: wire.JSON,
	sqltypes.Geometry: wire.Geometry,
}

// columnsOf describes a result's columns.
func columnsOf(ctx *sql.Context, schema sql.Schema) []wire.Column {
	all := make([]wire.Column, len(schema))
	for i, c := range schema {
		all[i] = columnOf(ctx, c)
		if s, ok := ctx.Session.(*Session); ok && i < len(s.digits) && s.digits[i] >= 0 {
			all[i].Decimals = byte(s.digits[i])
		}
	}
	return all
}

const binaryCollation = 63

func columnOf(ctx *sql.Context, c *sql.Column) wire.Column {
	n := wire.Column{Schema: c.DatabaseSource, Table: c.Source, OrgTable: c.Source, Name: c.Name, OrgName: c.Name, Collation: binaryCollation,
		Length: c.Type.MaxTextResponseByteLength(ctx)}
	t, ok := wireTypes[c.Type.Type()]
	if !ok {
		t = wire.VarString
	}
	n.Type = t
	if !c.Nullable {
		n.Flags |= wire.NotNull
	}
	if c.PrimaryKey {
		n.Flags |= wire.PrimaryKey
	}
	if c.AutoIncrement {
		n.Flags |= wire.AutoIncrement
	}
	switch {
	case types.IsDecimal(c.Type):
		n.Decimals = c.Type.(sql.DecimalType).Scale()
		n.Flags |= wire.Number
	case types.IsFloat(c.Type):
		n.Decimals = 31
		n.Flags |= wire.Number
	case types.IsInteger(c.Type), types.IsYear(c.Type):
		n.Flags |= wire.Number | wire.Binary
	case types.IsTime(c.Type):
		if d, ok := c.Type.(sql.DatetimeType); ok {
			n.Decimals = byte(d.Precision())
		}
		n.Flags |= wire.Binary
	case types.IsTimespan(c.Type):
		n.Decimals = 6
		if s, ok := ctx.Session.(*Session); ok && c.Source != "" {
			n.Decimals = byte(s.timeDigits(c.Source, c.Name))
		}
		n.Flags |= wire.Binary
	case types.IsEnum(c.Type):
		n.Flags |= wire.EnumColumn
		n.Collation = uint16(textCollation)
	case types.IsSet(c.Type):
		n.Flags |= wire.SetColumn
		n.Collation = uint16(textCollation)
	case types.IsJSON(c.Type):
		n.Flags |= wire.BlobColumn | wire.Binary
	case types.IsTextOnly(c.Type):
		n.Collation = uint16(textCollation)
		if t == wire.Blob {
			n.Flags |= wire.BlobColumn
		}
	case types.IsBinaryType(c.Type):
		n.Flags |= wire.Binary
		if t == wire.Blob {
			n.Flags |= wire.BlobColumn
		}
	case n.Type == wire.VarString: // of a type that the server knows alone
		n.Collation = uint16(textCollation)
	}
	if types.IsUnsigned(c.Type) {
		n.Flags |= wire.Unsigned
	}
	return n
}

// textCollation is that of texts in results: they go over the wire as utf8mb4 with any collation of the column.
const textCollation = sql.Collation_utf8mb4_general_ci

// value sends one value.
func value(ctx *sql.Context, to *wire.Answer, c *wire.Column, t sql.Type, v any) error {
	if v == nil {
		to.Null()
		return nil
	}
	switch c.Type {
	case wire.Tiny, wire.Short, wire.Long, wire.Int24, wire.LongLong, wire.Year:
		if n, ok := integer(v); ok {
			if c.Flags&wire.Unsigned != 0 {
				to.Uint(uint64(n))
			} else {
				to.Int(n)
			}
			return nil
		}
		if n, ok := v.(uint64); ok {
			to.Uint(n)
			return nil
		}
		if b, ok := v.(bool); ok {
			n := int64(0)
			if b {
				n = 1
			}
			to.Int(n)
			return nil
		}
	case wire.Float, wire.Double:
		switch n := v.(type) {
		case float32:
			to.Float(float64(n))
			return nil
		case float64:
			to.Float(n)
			return nil
		}
	case wire.Date, wire.DateTime, wire.Timestamp:
		if m, ok := v.(time.Time); ok {
			to.Moment(momentOf(m))
			return nil
		}
	case wire.Time:
		if d, ok := v.(types.Timespan); ok {
			to.Moment(durationOf(d))
			return nil
		}
	}
	switch c.Type {
	case wire.Tiny, wire.Short, wire.Long, wire.Int24, wire.LongLong, wire.Year, wire.Float, wire.Double, wire.Date, wire.DateTime, wire.Timestamp, wire.Time:
		if v == "NULL" { // EXPLAIN writes it so
			to.Null()
			return nil
		}
		converted, _, err := t.Convert(ctx, v) // an expression whose value is of another Go type than its column says
		if err != nil {
			return err
		}
		if sameKind(converted, v) {
			return errValue(t, v)
		}
		return value(ctx, to, c, t, converted)
	}
	b, err := t.SQL(ctx, nil, v)
	if err != nil {
		return err
	}
	if b.IsNull() {
		to.Null()
		return nil
	}
	to.Bytes(b.ToBytes())
	return nil
}

func momentOf(t time.Time) wire.Moment {
	if t.Equal(types.ZeroTime) {
		return wire.Moment{}
	}
	return wire.Moment{Year: uint16(t.Year()), Month: byte(t.Month()), Day: uint32(t.Day()), Hour: byte(t.Hour()), Minute: byte(t.Minute()),
		Second: byte(t.Second()), Micro: uint32(t.Nanosecond() / 1000)}
}

func durationOf(d types.Timespan) wire.Moment {
	n := int64(d)
	m := wire.Moment{Negative: n < 0}
	if n < 0 {
		n = -n
	}
	m.Micro = uint32(n % 1e6)
	n /= 1e6
	m.Second, m.Minute = byte(n%60), byte(n/60%60)
	m.Day, m.Hour = uint32(n/3600/24), byte(n/3600%24)
	return m
}

// textOf is a value as SQL prints it.
func textOf(ctx *sql.Context, t sql.Type, v any) string {
	if v == nil {
		return "NULL"
	}
	b, err := t.SQL(ctx, nil, v)
	if err != nil {
		return "?"
	}
	return b.ToString()
}

func literal(v any, t sql.Type) sql.Expression { return expression.NewLiteral(v, t) }

// argument turns a parameter into a literal. Its bytes are copied: they lie in the connection's buffer.
func argument(ctx *sql.Context, p *wire.Param) (sql.Expression, error) {
	v, t, err := argumentValue(ctx, p)
	if err != nil {
		return nil, err
	}
	return literal(v, t), nil
}

func argumentValue(ctx *sql.Context, p *wire.Param) (any, sql.Type, error) {
	switch p.Kind {
	case wire.IsNull:
		return nil, types.Null, nil
	case wire.IsInt:
		return p.Int, types.Int64, nil
	case wire.IsUint:
		return p.Uint, types.Uint64, nil
	case wire.IsFloat, wire.IsDouble:
		return p.Float, types.Float64, nil
	case wire.IsDate, wire.IsDateTime:
		m := &p.Time
		if m.Year == 0 && m.Month == 0 && m.Day == 0 {
			return types.ZeroTime, types.DatetimeMaxPrecision, nil
		}
		t, ok := momentRead{year: int(m.Year), month: int(m.Month), day: int(m.Day), hour: int(m.Hour), minute: int(m.Minute), second: int(m.Second),
			micro: int(m.Micro)}.valid()
		if !ok { // as a text it is wrong wherever it is used
			return string(m.AppendText(nil, wire.DateTime, 0)), types.LongText, nil
		}
		if p.Kind == wire.IsDate {
			return t, types.Date, nil
		}
		return t, types.DatetimeMaxPrecision, nil
	case wire.IsTime:
		m := &p.Time
		n := ((int64(m.Day)*24+int64(m.Hour))*60+int64(m.Minute))*60 + int64(m.Second)
		n = min(n*1e6+int64(m.Micro), mostTime) // MySQL takes a longer one for the longest
		if m.Negative {
			n = -n
		}
		return types.Timespan(n), types.Time, nil
	case wire.IsBytes:
		switch p.Type {
		case wire.Decimal, wire.NewDecimal:
			v, _, err := types.InternalDecimalType.Convert(ctx, string(p.Bytes))
			return v, types.InternalDecimalType, err
		case wire.TinyBlob, wire.MediumBlob, wire.LongBlob, wire.Blob:
			return append([]byte{}, p.Bytes...), types.MediumBlob, nil // LongBlob is the type of a literal such as 0x10
		}
		return string(p.Bytes), types.LongText, nil
	}
	return nil, nil, errParameter
}

// keepsWarnings reports whether a statement leaves the warnings of its predecessor.
func keepsWarnings(st *Statement) bool {
	show, ok := st.ast.(*sqlparser.Show)
	return ok && (show.Type == "warnings" || show.Type == "errors")
}
