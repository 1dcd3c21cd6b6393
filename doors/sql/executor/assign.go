package executor

import (
	"math"
	"unicode/utf8"

	"github.com/holdfastdb/holdfast/doors/sql/row"
)

// assign is a value as a column stores it. ok false: MySQL would convert it, warn or refuse, which is the engine's to do.
func (c *Column) assign(v row.Value) (stored row.Value, ok bool) {
	if v.Kind == row.Null {
		return v, c.Nullable
	}
	if c.Kind == row.Decimal || c.Kind == row.Moment {
		return c.Assign(plain(v))
	}
	switch v.Kind {
	case row.Int:
		if c.Kind == row.Uint {
			return c.whole(v.Int < 0, uint64(v.Int))
		}
		return v, c.Kind == row.Int && v.Int >= math.MinInt64>>(64-c.Bits) && v.Int <= math.MaxInt64>>(64-c.Bits)
	case row.Uint:
		if c.Kind == row.Int {
			return row.Value{Kind: row.Int, Int: int64(v.Uint)}, v.Uint <= math.MaxInt64>>(64-c.Bits)
		}
		return c.whole(false, v.Uint)
	case row.Text:
		if c.Kind != row.Text || !utf8.Valid(v.Bytes) {
			return v, false
		}
		if c.Chars > 0 && len(v.Bytes) > c.Chars && utf8.RuneCount(v.Bytes) > c.Chars || c.Chars == 0 && len(v.Bytes) > c.Bytes {
			return v, false
		}
		if c.Trims {
			n := len(v.Bytes)
			for n > 0 && v.Bytes[n-1] == ' ' {
				n--
			}
			v.Bytes = v.Bytes[:n]
		}
		return v, true
	}
	return v, false
}

// whole is the value of a Uint column.
func (c *Column) whole(negative bool, n uint64) (row.Value, bool) {
	return row.Value{Kind: row.Uint, Uint: n}, c.Kind == row.Uint && !negative && n <= math.MaxUint64>>(64-c.Bits)
}

// plain is a value of the client's as Column.Assign takes it.
func plain(v row.Value) any {
	switch v.Kind {
	case row.Int:
		return v.Int
	case row.Uint:
		return v.Uint
	case row.Float:
		return math.Float64frombits(v.Uint)
	}
	return string(v.Bytes)
}

// added is the column's own value with a value of the client's added, or taken away. ok false: MySQL would convert it or refuse, or the engine has another type
// for it.
func (c *Column) added(own, v row.Value, taken bool) (sum row.Value, ok bool) {
	if c.Kind == row.Decimal {
		if own.Kind == row.Null || v.Kind == row.Text {
			return own, v.Kind != row.Text
		}
		return c.Sum(own, plain(v), taken)
	}
	switch {
	case v.Kind != row.Int:
		return own, false
	case taken && v.Int == math.MinInt64:
		return own, false
	case taken:
		v.Int = -v.Int
	}
	return c.sum(own, v.Int)
}

// sum is the column's own value with n added. ok false: the column has no such value, or the engine has another type for it.
func (c *Column) sum(own row.Value, n int64) (v row.Value, ok bool) {
	switch own.Kind {
	case row.Null:
		return own, true
	case row.Int:
		sum := own.Int + n
		if (sum > own.Int) != (n > 0) && n != 0 {
			return own, false
		}
		return c.assign(row.Value{Kind: row.Int, Int: sum})
	case row.Uint:
		if own.Uint > math.MaxInt64 {
			return own, false
		}
		sum := int64(own.Uint) + n
		if sum < 0 || n < 0 && n == math.MinInt64 {
			return own, false
		}
		return c.assign(row.Value{Kind: row.Int, Int: sum})
	}
	return own, false
}
