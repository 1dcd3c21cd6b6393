package engine

import (
	"slices"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/sqltypes"

	"github.com/holdfastdb/holdfast/doors/sql/wire"
)

// keeps reports whether every value of one type is the same value of another one, with the same bytes in rows and in keys. digits are those behind the
// point of a TIME.
func keeps(a sql.Type, aDigits int, b sql.Type, bDigits int) bool {
	if a.Equals(b) {
		return aDigits <= bDigits
	}
	switch {
	case types.IsYear(a) || types.IsYear(b):
		return false
	case types.IsInteger(a) && types.IsInteger(b):
		return types.IsUnsigned(a) == types.IsUnsigned(b) && bitsOf(a) <= bitsOf(b)
	case types.IsFloat(a) && types.IsFloat(b):
		return b == types.Float64
	case types.IsDecimal(a) && types.IsDecimal(b):
		x, y := a.(sql.DecimalType), b.(sql.DecimalType)
		return x.Scale() == y.Scale() && x.Precision() <= y.Precision()
	case types.IsBit(a) && types.IsBit(b):
		return a.(types.BitType).NumberOfBits() <= b.(types.BitType).NumberOfBits()
	case types.IsEnum(a) && types.IsEnum(b):
		return begin(a.(sql.EnumType).Values(), b.(sql.EnumType).Values()) && sameCollation(a, b)
	case types.IsSet(a) && types.IsSet(b):
		return begin(a.(sql.SetType).Values(), b.(sql.SetType).Values()) && sameCollation(a, b)
	case types.IsTime(a) && types.IsTime(b):
		x, y := a.(sql.DatetimeType), b.(sql.DatetimeType)
		return (a.Type() == b.Type() || types.IsDateType(a) && types.IsDatetimeType(b)) && x.Precision() <= y.Precision()
	}
	x, text := a.(sql.StringType)
	y, also := b.(sql.StringType)
	if !text || !also || types.IsBinaryType(a) != types.IsBinaryType(b) || x.Collation() != y.Collation() || isFixed(b) && !isFixed(a) {
		return false
	}
	if isFixedBinary(a) || isFixedBinary(b) { // zeros follow a value to its length
		return false
	}
	return x.MaxCharacterLength() <= y.MaxCharacterLength() && x.MaxByteLength() <= y.MaxByteLength()
}

func sameCollation(a, b sql.Type) bool {
	x, ok := a.(sql.TypeWithCollation)
	y, also := b.(sql.TypeWithCollation)
	return ok && also && x.Collation() == y.Collation()
}

func begin(a, b []string) bool { return len(a) <= len(b) && slices.Equal(a, b[:len(a)]) }

func isFixed(t sql.Type) bool { return t.Type() == sqltypes.Char || t.Type() == sqltypes.Binary }

func isFixedBinary(t sql.Type) bool { return t.Type() == sqltypes.Binary }

// judgeTypeOf refuses another type for a column of a foreign key. Errors: 1832, 1833.
func (a *alteration) judgeTypeOf(c *altered, was, is sql.Type) error {
	if comparable(was, is) {
		return nil
	}
	name := a.t.def.columns[c.from].name
	for i := range a.t.def.foreign {
		if f := &a.t.def.foreign[i]; slices.Contains(f.columns, c.from) && a.def.foreignNamed(f.name) {
			return wire.Errorf(1832, "Cannot change column '%s': used in a foreign key constraint '%s'", name, f.name)
		}
	}
	all, err := a.s.referencesTo(a.t.database, a.t.t.Name)
	if err != nil {
		return err
	}
	for _, r := range all {
		if slices.ContainsFunc(r.foreign.parentColumns, func(n string) bool { return strings.EqualFold(n, name) }) {
			return wire.Errorf(1833, "Cannot change column '%s': used in a foreign key constraint '%s' of table '%s'", name, r.foreign.name, r.database+"."+r.table)
		}
	}
	return nil
}
