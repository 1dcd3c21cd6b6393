package engine

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"github.com/holdfastdb/holdfast/doors/sql/wire"
)

// The library has one TIME, of six digits, and refuses TIME(1) to TIME(5). A definition keeps the digits beside the type, rows are rounded to them
// when they are written (row.Layout), and results show as many.

// plainTimes is a CREATE TABLE whose TIMEs have no digits.
func plainTimes(a *sqlparser.DDL) *sqlparser.DDL {
	n, spec := *a, *a.TableSpec
	n.TableSpec = &spec
	spec.Columns = slices.Clone(spec.Columns)
	for i, c := range spec.Columns {
		if isTimeType(&c.Type) {
			plain := *c
			plain.Type.Length = nil
			spec.Columns[i] = &plain
		}
	}
	return &n
}

func isTimeType(t *sqlparser.ColumnType) bool { return strings.EqualFold(t.Type, "time") }

// timeDigits returns how many digits a TIME has behind its point, and 0 of every other type. Error: 1426.
func timeDigits(t *sqlparser.ColumnType) (int, error) {
	if !isTimeType(t) || t.Length == nil {
		return 0, nil
	}
	n, err := strconv.Atoi(string(t.Length.Val))
	if err != nil || n > mostDigits {
		return 0, wire.Errorf(1426, "Too-big precision %s specified for 'TIME'. Maximum is %d.", t.Length.Val, mostDigits)
	}
	return n, nil
}

// timeDigits returns the digits of a TIME that a statement names by a table, or its alias, and a column. An alias may stand for any table of the
// statement: the largest number of digits that a column of this name has, or any TIME if none has the name, shows every value whole.
func (s *Session) timeDigits(tableName, columnName string) int {
	most, named, isNamed := 0, 0, false
	for i := range s.used {
		u := &s.used[i]
		d := s.catalogue().Database(u.database)
		if d == nil {
			continue
		}
		t := d.Table(u.name)
		if t == nil {
			continue
		}
		x, err := s.e.table(t, u.database)
		if err != nil || !x.times {
			continue // what reads the table tells of the error
		}
		for j := range x.def.columns {
			c := &x.def.columns[j]
			most = max(most, c.digits)
			if !strings.EqualFold(c.name, columnName) {
				continue
			}
			if strings.EqualFold(u.name, tableName) {
				return c.digits
			}
			named, isNamed = max(named, c.digits), true
		}
	}
	if isNamed {
		return named
	}
	return most
}

// shownTime is the type of a TIME where a statement shows definitions. No value has it.
type shownTime struct {
	types.TimespanType_
	digits int
}

var _ sql.DatetimeType = shownTime{}

func (t shownTime) String() string {
	if t.digits == 0 {
		return "time"
	}
	return fmt.Sprintf("time(%d)", t.digits)
}

// Precision implements sql.DatetimeType.
func (t shownTime) Precision() int { return t.digits }

// ConvertWithoutRangeCheck implements sql.DatetimeType.
func (t shownTime) ConvertWithoutRangeCheck(context.Context, any) (time.Time, error) {
	return time.Time{}, errValue(t, nil)
}

// MaximumTime implements sql.DatetimeType, which counts on dates.
func (t shownTime) MaximumTime() time.Time { return time.Time{} }

// MinimumTime implements sql.DatetimeType.
func (t shownTime) MinimumTime() time.Time { return time.Time{} }

// shown is the table's columns as definitions are shown.
func (t *table) shown() sql.Schema {
	all := slices.Clone(t.schema.Schema)
	for i, c := range all {
		if types.IsTimespan(c.Type) {
			n := *c
			n.Type = shownTime{digits: t.def.columns[i].digits}
			all[i], c = &n, &n
		}
		if i < len(t.def.columns) && t.def.columns[i].gen != "" {
			n := *c
			n.Nullable = t.def.columns[i].nullable
			all[i] = &n
		}
	}
	return all
}
