package row

import (
	"testing"
	"time"

	"github.com/cockroachdb/apd/v3"
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/sqltypes"
)

// TestKeyTexts: what AppendKey has written is shown as people read it, field by field.
func TestKeyTexts(t *testing.T) {
	t.Parallel()
	text := func(c sql.CollationID) sql.Type { return types.MustCreateString(sqltypes.VarChar, 50, c) }
	day := time.Date(2026, 1, 2, 3, 4, 5, 60_000_000, time.UTC)
	var all []byte
	var parts []Part
	var want []string
	ctx := sql.NewEmptyContext()
	for _, c := range []struct {
		typ    sql.Type
		prefix int
		v      any
		want   string
	}{
		{types.Int64, 0, int64(-5), "-5"}, {types.Uint64, 0, uint64(1) << 63, "9223372036854775808"}, {types.Float64, 0, -1.5, "-1.5"},
		{types.MustCreateDecimalType(10, 2), 0, apd.New(-150, -2), "-1.50"}, {types.Int32, 0, nil, "NULL"}, {types.Year, 0, int16(2026), "2026"},
		{types.DatetimeMaxPrecision, 0, day, "'2026-01-02 03:04:05.06'"}, {types.Date, 0, day.Truncate(24 * time.Hour), "'2026-01-02'"},
		{types.Time, 0, types.Timespan(-3_723_000_000), "'-01:02:03'"}, {text(sql.Collation_utf8mb4_general_ci), 0, "it's é  b  ", "'IT''S E  B'"},
		{text(sql.Collation_utf8mb4_bin), 0, "aB日", "'aB·'"}, {text(sql.Collation_utf8mb4_0900_ai_ci), 2, "abc ", "'AB'"}, {text(sql.Collation_utf8mb4_0900_ai_ci), 0, "a ", "'A '"},
		{types.MustCreateBinary(sqltypes.VarBinary, 9), 0, []byte("it's"), "'it''s'"}, {types.MustCreateBinary(sqltypes.VarBinary, 9), 0, []byte{0, 255, 1}, "0x00FF01"},
	} {
		p, err := NewPart(c.typ, c.prefix, 0)
		if err == nil {
			all, err = p.AppendKey(ctx, all, c.v)
		}
		if err != nil {
			t.Fatalf("%s %v: %v", c.typ, c.v, err)
		}
		parts, want = append(parts, p), append(want, c.want)
	}
	rest := all
	for i := range parts {
		got, next, err := parts[i].Text(rest)
		if got != want[i] || err != nil {
			t.Errorf("field %d: %q %v, want %q", i, got, err, want[i])
		}
		rest = next
	}
	if len(rest) > 0 {
		t.Errorf("%x is left", rest)
	}
	for cut := range all { // damage is an error, or another text, and no panic
		rest = all[:cut]
		for i := 0; i < len(parts) && len(rest) > 0; i++ {
			var err error
			if _, rest, err = parts[i].Text(rest); err != nil {
				break
			}
		}
	}
}
