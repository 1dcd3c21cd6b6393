package row

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/apd/v3"
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/planbuilder"
	"github.com/dolthub/go-mysql-server/sql/types"

	"github.com/holdfastdb/holdfast/internal/golden"
)

// typed makes a type and converts values to it, as a statement does.
func typed(t testing.TB, text string, values ...any) (sql.Type, []any) {
	t.Helper()
	ctx := sql.NewEmptyContext()
	typ, err := planbuilder.ParseColumnTypeString(ctx, text)
	if err != nil {
		t.Fatal(text, err)
	}
	for i, v := range values {
		if v == nil {
			continue
		}
		if values[i], _, err = typ.Convert(ctx, v); err != nil {
			t.Fatalf("%s: %v: %v", text, v, err)
		}
	}
	return typ, values
}

// table has values of each type in their order, those of a text as their collation has it.
func table(t testing.TB) []struct {
	text   string
	typ    sql.Type
	values []any
} {
	var all []struct {
		text   string
		typ    sql.Type
		values []any
	}
	for _, c := range []struct {
		text   string
		values []any
	}{
		{"tinyint", []any{nil, -128, -1, 0, 1, 127}},
		{"smallint unsigned", []any{nil, 0, 1, 255, 256, 65535}},
		{"mediumint", []any{nil, -8388608, 0, 8388607}},
		{"int", []any{nil, -2147483648, -256, -255, -1, 0, 255, 256, 2147483647}},
		{"bigint", []any{nil, int64(-1 << 63), -1, 0, int64(1<<63 - 1)}},
		{"bigint unsigned", []any{nil, 0, uint64(1<<64 - 1)}},
		{"float", []any{nil, -1.5, 0, 0.25, 1e30}},
		{"double", []any{nil, -1e300, -1e-300, 0, 1e-300, 1e300}},
		{"decimal(10,3)", []any{nil, "-1234567.891", "-1.001", "-1", "0", "0.001", "1", "255.999", "256", "1234567.891"}},
		{"decimal(65,30)", []any{nil, "-12345678901234567890.123", "0", "99999999999999999999999999999999999.9"}},
		{"date", []any{nil, "0001-01-01", "1969-12-31", "1970-01-01", "9999-12-31"}},
		{"datetime(6)", []any{nil, "1000-01-01 00:00:00", "1999-12-31 23:59:59.999999", "2000-01-01 00:00:00"}},
		{"timestamp", []any{nil, "1970-01-02 00:00:01", "2038-01-18 00:00:00"}},
		{"time", []any{nil, "-838:59:59", "-00:00:01", "00:00:00", "838:59:59"}},
		{"year", []any{nil, 1901, 2155}},
		{"enum('z','a')", []any{nil, "z", "a"}},
		{"set('a','b','c')", []any{nil, "", "a", "b", "a,b", "c"}},
		{"bit(10)", []any{nil, uint64(0), uint64(1), uint64(1023)}},
		{"varbinary(20)", []any{nil, []byte{}, []byte{0}, []byte{0, 0}, []byte{0, 1}, []byte{1}, []byte{255}}},
		{"varchar(20) collate utf8mb4_bin", []any{nil, "", "A", "B", "a\t", "a", "a b", "b", "ä", "日"}},
		{"varchar(20) collate utf8mb4_general_ci", []any{nil, "", "a", "Ab", "b", "Z"}},
		{"varchar(20) collate utf8mb4_0900_ai_ci", []any{nil, "", "a", "a ", "ab", "B", "z"}},
		{"varchar(20) character set latin1 collate latin1_swedish_ci", []any{nil, "", "a", "B", "z"}},
		{"longtext collate utf8mb4_bin", []any{nil, "", strings.Repeat("a", 300)}},
	} {
		typ, values := typed(t, c.text, c.values...)
		all = append(all, struct {
			text   string
			typ    sql.Type
			values []any
		}{c.text, typ, values})
	}
	return all
}

// TestGolden pins the bytes that docs/formats/sql.md describes.
func TestGolden(t *testing.T) {
	t.Parallel()
	ctx := sql.NewEmptyContext()
	var out strings.Builder
	for _, c := range table(t) {
		fmt.Fprintf(&out, "%s\n", c.text)
		l, err := NewLayout([]sql.Type{c.typ}, nil)
		if err != nil {
			t.Fatal(err)
		}
		p, err := NewPart(c.typ, 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range c.values {
			row, err := l.Append(ctx, nil, sql.Row{v})
			if err != nil {
				t.Fatal(err)
			}
			key, err := p.AppendKey(ctx, nil, v)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&out, "  row %s key %s\n", hex.EncodeToString(row), hex.EncodeToString(key))
		}
	}
	golden.Check(t, "testdata/rows.txt", out.String())
}

// TestRowsComeBack: a row is decoded to the Go values that the engine gave.
func TestRowsComeBack(t *testing.T) {
	t.Parallel()
	ctx := sql.NewEmptyContext()
	var columns []sql.Type
	var rows []sql.Row
	for i, c := range table(t) {
		columns = append(columns, c.typ)
		for n := range 12 {
			if i == 0 {
				rows = append(rows, nil)
			}
			rows[n] = append(rows[n], c.values[n%len(c.values)])
		}
	}
	columns = append(columns, types.JSON)
	l, err := NewLayout(columns, nil)
	if err != nil {
		t.Fatal(err)
	}
	for n, r := range rows {
		j, _, err := types.JSON.Convert(ctx, fmt.Sprintf(`{"n": [%d, null, "x"]}`, n))
		if err != nil {
			t.Fatal(err)
		}
		r = append(r, j)
		b, err := l.Append(ctx, nil, r)
		if err != nil {
			t.Fatal(err)
		}
		got, err := l.Decode(b, 0)
		if err != nil {
			t.Fatal(err)
		}
		for i := range r {
			if !same(ctx, columns[i], r[i], got[i]) {
				t.Errorf("column %d, %s: %v (%T) came back as %v (%T)", i, columns[i], r[i], r[i], got[i], got[i])
			}
		}
		for cut := range b {
			if _, err := l.Decode(b[:cut], 0); err == nil {
				t.Fatalf("a row cut at %d of %d is decoded", cut, len(b))
			}
		}
		if _, err := l.Decode(append(b, 0), 0); err == nil {
			t.Error("a row with a byte more is decoded")
		}
	}
}

func same(ctx *sql.Context, t sql.Type, a, b any) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	if reflect.TypeOf(a) != reflect.TypeOf(b) && !types.IsJSON(t) {
		return false
	}
	if d, ok := a.(time.Time); ok {
		return d.Equal(b.(time.Time))
	}
	if d, ok := a.(*apd.Decimal); ok {
		return d.Cmp(b.(*apd.Decimal)) == 0
	}
	c, err := t.Compare(ctx, a, b)
	return err == nil && c == 0
}

// TestKeysSortAsValues: the order of the keys is that of the values, and equal values have equal keys.
func TestKeysSortAsValues(t *testing.T) {
	t.Parallel()
	ctx := sql.NewEmptyContext()
	for _, c := range table(t) {
		p, err := NewPart(c.typ, 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		var last []byte
		for i, v := range c.values {
			key, err := p.AppendKey(ctx, nil, v)
			if err != nil {
				t.Fatal(err)
			}
			if i > 0 && bytes.Compare(last, key) >= 0 {
				t.Errorf("%s: %v does not sort behind %v", c.text, v, c.values[i-1])
			}
			last = key
		}
	}
	equal := func(text string, a, b any, want bool) {
		t.Helper()
		typ, values := typed(t, text, a, b)
		p, err := NewPart(typ, 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		first, _ := p.AppendKey(ctx, nil, values[0])
		second, _ := p.AppendKey(ctx, nil, values[1])
		if bytes.Equal(first, second) != want {
			t.Errorf("%s: %q and %q have equal keys: %v", text, a, b, !want)
		}
	}
	equal("varchar(20) collate utf8mb4_general_ci", "Apfel", "äPFEL", true)
	equal("varchar(20) collate utf8mb4_general_ci", "a", "a  ", true)
	equal("varchar(20) collate utf8mb4_bin", "a", "a ", true)
	equal("varchar(20) collate utf8mb4_bin", "a", "A", false)
	equal("varchar(20) collate utf8mb4_0900_ai_ci", "a", "Ä", true)
	equal("varchar(20) collate utf8mb4_0900_ai_ci", "a", "a ", false)
	equal("decimal(10,3)", "1", "1.000", true)
}

// TestPaddedTexts: random texts of spaces, a tab and letters sort as if spaces without end followed each.
func TestPaddedTexts(t *testing.T) {
	t.Parallel()
	ctx := sql.NewEmptyContext()
	typ, _ := typed(t, "varchar(20) collate utf8mb4_bin")
	p, err := NewPart(typ, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	text := func() string {
		b := make([]byte, rnd.IntN(6))
		for i := range b {
			b[i] = " \ta"[rnd.IntN(3)]
		}
		return string(b)
	}
	for range 20_000 {
		a, b := text(), text()
		long := max(len(a), len(b))
		want := strings.Compare(a+strings.Repeat(" ", long-len(a)), b+strings.Repeat(" ", long-len(b)))
		first, _ := p.AppendKey(ctx, nil, a)
		second, _ := p.AppendKey(ctx, nil, b)
		if got := bytes.Compare(first, second); got != want {
			t.Fatalf("%q and %q: %d, want %d", a, b, got, want)
		}
	}
}

// TestPrefixes: the key of a prefix has so many characters, or bytes of a binary.
func TestPrefixes(t *testing.T) {
	t.Parallel()
	ctx := sql.NewEmptyContext()
	for _, c := range []struct{ text, long, short string }{{"text collate utf8mb4_bin", "äöüß", "äö"}, {"blob", "abcd", "ab"}} {
		typ, values := typed(t, c.text, c.long, c.short)
		p, err := NewPart(typ, 2, 0)
		if err != nil {
			t.Fatal(err)
		}
		first, _ := p.AppendKey(ctx, nil, values[0])
		second, _ := p.AppendKey(ctx, nil, values[1])
		if !bytes.Equal(first, second) {
			t.Errorf("%s: %x and %x", c.text, first, second)
		}
	}
}

// FuzzDecode: no bytes make the decoder fall over, and what it takes it writes again as it was.
func FuzzDecode(f *testing.F) {
	ctx := sql.NewEmptyContext()
	var columns []sql.Type
	var r sql.Row
	for _, c := range table(f) {
		columns, r = append(columns, c.typ), append(r, c.values[len(c.values)-1])
	}
	l, err := NewLayout(columns, nil)
	if err != nil {
		f.Fatal(err)
	}
	b, err := l.Append(ctx, nil, r)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := l.Decode(b, 0)
		if err != nil {
			return
		}
		again, err := l.Append(ctx, nil, r)
		if err != nil {
			return // a number of another width than the column's
		}
		if back, err := l.Decode(again, 0); err != nil || len(back) != len(r) {
			t.Fatalf("%x was decoded, written as %x and not decoded again: %v", b, again, err)
		}
	})
}
