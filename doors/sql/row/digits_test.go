package row

import (
	"testing"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
)

// TestDigitsOfATime: a TIME is rounded to its column's digits, halves away from zero, and so in a row and in a key.
func TestDigitsOfATime(t *testing.T) {
	t.Parallel()
	ctx := sql.NewEmptyContext()
	for _, c := range []struct {
		digits     int
		value, now types.Timespan
	}{
		{0, 1_499_999, 1_000_000}, {0, 1_500_000, 2_000_000}, {0, -1_500_000, -2_000_000}, {3, 1_234_499, 1_234_000}, {3, 1_234_500, 1_235_000},
		{1, -49_999, 0}, {1, -50_000, -100_000}, {6, 1_234_567, 1_234_567},
	} {
		l, err := NewLayout([]sql.Type{types.Time}, func(int) int { return c.digits })
		if err != nil {
			t.Fatal(err)
		}
		b, err := l.Append(ctx, nil, sql.Row{c.value})
		if err != nil {
			t.Fatal(err)
		}
		r, err := l.Decode(b, 0)
		if err != nil || r[0] != c.now {
			t.Errorf("TIME(%d): %d became %v, want %d (%v)", c.digits, c.value, r, c.now, err)
		}
		p, err := NewPart(types.Time, 0, c.digits)
		if err != nil {
			t.Fatal(err)
		}
		key, err := p.AppendKey(ctx, nil, c.value)
		same, err2 := p.AppendKey(ctx, nil, c.now)
		if err != nil || err2 != nil || string(key) != string(same) {
			t.Errorf("TIME(%d): the key of %d is %x, that of %d is %x (%v, %v)", c.digits, c.value, key, c.now, same, err, err2)
		}
	}
}

// TestParseJSON: integers of 64 bits are exact, a number with a point keeps it, and a text that is no document is refused.
func TestParseJSON(t *testing.T) {
	t.Parallel()
	ctx := sql.NewEmptyContext()
	for text, want := range map[string]string{
		`1`: `1`, `-9223372036854775808`: `-9223372036854775808`, `18446744073709551615`: `18446744073709551615`, `1.0`: `1.0`, `1.50`: `1.5`,
		`[1e2, {"b": 1, "a": [2.0]}]`: `[100.0, {"a": [2.0], "b": 1}]`, ` "x" `: `"x"`, `null`: `null`,
	} {
		j, err := ParseJSON(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got, err := types.JsonToMySqlString(ctx, j); err != nil || got != want {
			t.Errorf("%s became %s, want %s (%v)", text, got, want, err)
		}
		again, err := ParseJSON(want)
		if err != nil {
			t.Errorf("%s: %v", want, err)
		} else if got, _ := types.JsonToMySqlString(ctx, again); got != want {
			t.Errorf("%s is read back as %s", want, got)
		}
	}
	for _, text := range []string{``, `x`, `1 2`, `[1,]`, `{a: 1}`, `1e999`, `"`} {
		if j, err := ParseJSON(text); err == nil {
			t.Errorf("%q was taken for %v", text, j)
		}
	}
}
