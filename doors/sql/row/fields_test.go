package row

import (
	"bytes"
	"cmp"
	"errors"
	"math"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/cockroachdb/apd/v3"
	"github.com/dolthub/go-mysql-server/sql"
)

// TestFieldsAreWhatDecodeSays: Split finds the values that Decode decodes, and AppendValues writes the row that Append has written. Damaged rows are found by both.
func TestFieldsAreWhatDecodeSays(t *testing.T) {
	t.Parallel()
	ctx := sql.NewEmptyContext()
	var columns []sql.Type
	all := table(t)
	for _, c := range all {
		columns = append(columns, c.typ)
	}
	l, err := NewLayout(columns, nil)
	if err != nil {
		t.Fatal(err)
	}
	var f Fields
	for n := range 12 {
		r := make(sql.Row, len(all))
		for i, c := range all {
			r[i] = c.values[n%len(c.values)]
		}
		stored, err := l.Append(ctx, nil, r)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Split(stored, &f); err != nil {
			t.Fatal(err)
		}
		decoded, err := l.Decode(stored, 0)
		if err != nil {
			t.Fatal(err)
		}
		values := make([]Value, len(all))
		for i, c := range all {
			values[i] = f.Value(i)
			if f.Null(i) != (decoded[i] == nil) {
				t.Errorf("%s %v: NULL is %v", c.text, decoded[i], f.Null(i))
			}
			if decoded[i] == nil {
				continue
			}
			same := true
			switch l.ValueKind(i) {
			case Int:
				want, ok := signed(decoded[i])
				same = ok && f.Int(i) == want
			case Uint:
				want, ok := unsigned(decoded[i])
				same = ok && f.Uint(i) == want
			case Float:
				want, ok := float(decoded[i])
				same = ok && f.Float(i) == want
			case Decimal:
				d := decoded[i].(*apd.Decimal)
				text, err := c.typ.SQL(ctx, nil, d)
				n, few := f.Scaled(i)
				large := f.LargeScaled(i)
				same = err == nil && text.ToString() == string(f.AppendDecimal(nil, i)) && text.ToString() == string(l.AppendScaled(nil, i, large)) && (!few || large.IsInt64() && large.Int64() == n)
			case Moment:
				same = decoded[i].(time.Time).UnixMicro() == f.Micros(i)
			case Text:
				at, size, in := f.Spot(i)
				same = string(f.Text(i)) == decoded[i] && in && string(stored[at:at+size]) == decoded[i]
			}
			if !same {
				t.Errorf("%s: %v is another value without Decode", c.text, decoded[i])
			}
			p, err := NewPart(c.typ, 0, 0)
			if err != nil || !p.Takes(l.ValueKind(i)) {
				continue
			}
			key, err := p.AppendKey(ctx, nil, decoded[i])
			if err != nil || !bytes.Equal(key, p.AppendValue(nil, values[i])) {
				t.Errorf("%s: %v has another key (%v)", c.text, decoded[i], err)
			}
		}
		raw := make([]Value, len(all))
		for i := range raw {
			raw[i] = f.Raw(i)
		}
		if again, err := l.AppendValues(nil, raw); err != nil || !bytes.Equal(again, stored) {
			t.Errorf("row %d is written as %x from what is stored, and was %x (%v)", n, again, stored, err)
		}
		again, err := l.AppendValues(nil, values)
		if err != nil || !bytes.Equal(again, stored) {
			t.Errorf("row %d is written as %x, and was %x (%v)", n, again, stored, err)
		}
		for range 200 {
			bad := bytes.Clone(stored)
			switch at := rand.IntN(len(bad)); rand.IntN(3) {
			case 0:
				bad = bad[:at]
			case 1:
				bad[at] ^= byte(1 + rand.IntN(255))
			default:
				bad = append(bad, byte(at))
			}
			_, err := l.Decode(bad, 0)
			if split := l.Split(bad, &f); split == nil && errors.Is(err, ErrForm) && !odd(l, bad) {
				t.Fatalf("Split takes %x, which Decode refuses: %v", bad, err)
			} else if split != nil && err == nil {
				t.Fatalf("Split refuses %x, which Decode takes: %v", bad, split)
			}
		}
	}
}

// TestFieldsOfRowsWithPlaces: a row of a table whose columns have come and gone has the values that Decode says, whichever columns it was written with.
func TestFieldsOfRowsWithPlaces(t *testing.T) {
	t.Parallel()
	ctx := sql.NewEmptyContext()
	var columns []sql.Type
	for _, text := range []string{"varchar(20)", "int", "bigint unsigned", "double", "varchar(20)"} {
		typ, _ := typed(t, text)
		columns = append(columns, typ)
	}
	place := func(column int, initial string) Place {
		p := Place{Column: column, Kind: KindText}
		if initial != "" {
			p.Initial = []byte(initial)
		}
		return p
	}
	before, err := NewLayout(columns[:2], nil)
	if err != nil {
		t.Fatal(err)
	}
	after, err := NewPlaced(columns, nil, 2, []Place{place(0, ""), place(1, ""), place(-1, ""), place(2, "\x07"), place(3, ""), place(4, "\x03abc")})
	if err != nil {
		t.Fatal(err)
	}
	var rows [][]byte
	for _, r := range []sql.Row{{"x", int32(-5)}, {nil, nil}} {
		b, err := before.Append(ctx, nil, r)
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, b)
	}
	for _, r := range []sql.Row{{"x", int32(-5), uint64(9), 1.5, "later"}, {nil, nil, nil, nil, nil}} {
		b, err := after.Append(ctx, nil, r)
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, b)
	}
	var f Fields
	for _, stored := range rows {
		decoded, err := after.Decode(stored, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := after.Split(stored, &f); err != nil {
			t.Fatal(err)
		}
		values := make([]Value, len(columns))
		for i := range columns {
			values[i] = f.Value(i)
			var is any
			switch {
			case f.Null(i):
			case i == 1:
				is = int32(f.Int(i))
			case i == 2:
				is = f.Uint(i)
			case i == 3:
				is = f.Float(i)
			default:
				is = string(f.Text(i))
			}
			if is != decoded[i] {
				t.Errorf("column %d of %x is %v, and Decode says %v", i, stored, is, decoded[i])
			}
		}
		want, err := after.Append(ctx, nil, decoded)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := after.AppendValues(nil, values); err != nil || !bytes.Equal(again, want) {
			t.Errorf("%x is written again as %x, and not as %x (%v)", stored, again, want, err)
		}
	}
	if _, _, in := f.Spot(4); !in && !f.Null(4) {
		t.Error("a value of the last row is not in it")
	}
}

// odd reports whether a row is damaged within a decimal or a JSON value, into which Split does not look.
func odd(l *Layout, b []byte) bool {
	var f Fields
	if l.Split(b, &f) != nil {
		return false
	}
	for i := range l.fields {
		if form := l.fields[i].form; (form == formDecimal || form == formJSON) && !f.Null(i) {
			if _, rest, err := l.fields[i].decode(f.Value(i).Bytes); err != nil || len(rest) > 0 {
				return true
			}
		}
	}
	return false
}

// TestOrderIsThatOfKeys: texts compare as their keys do, and prefixes as the texts where they differ.
func TestOrderIsThatOfKeys(t *testing.T) {
	t.Parallel()
	ctx := sql.NewEmptyContext()
	for _, name := range []string{"varchar(20) collate utf8mb4_bin", "varchar(20) collate utf8mb4_general_ci", "varchar(20) collate utf8mb4_unicode_ci"} {
		typ, _ := typed(t, name)
		p, err := NewPart(typ, 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		o := NewOrder(typ.(sql.TypeWithCollation).Collation())
		if o == nil {
			t.Fatal(name, "has no order")
		}
		rnd := rand.New(rand.NewPCG(1, 2))
		text := func() string {
			s := ""
			for range rnd.IntN(6) {
				s += []string{"a", "A", "b", " ", " ", "\t", "é", "日", "~", "\x01", "-", "1", "😀"}[rnd.IntN(13)]
			}
			return s
		}
		for range 20_000 {
			a, b := text(), text()
			x, err := p.AppendKey(ctx, nil, a)
			if err != nil {
				t.Fatal(err)
			}
			y, err := p.AppendKey(ctx, nil, b)
			if err != nil {
				t.Fatal(err)
			}
			if want, got := bytes.Compare(x, y), o.Compare([]byte(a), []byte(b)); want != got {
				t.Fatalf("%s: %q and %q compare as %d, and their keys as %d", name, a, b, got, want)
			}
			u, ok := o.Prefix([]byte(a))
			v, also := o.Prefix([]byte(b))
			if ok && also && u != v && cmp.Compare(u, v) != bytes.Compare(x, y) {
				t.Fatalf("%s: prefixes of %q and %q compare as %d", name, a, b, cmp.Compare(u, v))
			}
		}
	}
	if NewOrder(sql.Collation_utf8mb4_0900_ai_ci) != nil || NewOrder(sql.Collation_binary) != nil {
		t.Error("a collation that does not pad has an order")
	}
}

// TestDecimalsOfFewDigits: a decimal that is made without the library is stored as the one that the library makes.
func TestDecimalsOfFewDigits(t *testing.T) {
	t.Parallel()
	rounding := *apd.BaseContext.WithPrecision(200)
	rounding.Rounding = apd.RoundHalfUp
	rounding.MinExponent, rounding.MaxExponent = -2000, 2000
	made := 0
	for n := range 50_000 {
		scale, precision := rand.IntN(12), 18
		var v float64
		switch n % 5 {
		case 0:
			v = math.Float64frombits(rand.Uint64())
		case 1:
			v = float64(rand.Int64N(1e9)-5e8) / 1000
		case 2:
			v = float64(rand.IntN(2000)-1000) / 8
		case 3:
			v = (rand.Float64() - 0.5) * math.Pow10(rand.IntN(18))
		default:
			v = math.Copysign(math.Pow10(rand.IntN(30)-15)*float64(rand.IntN(10)), rand.Float64()-0.5)
		}
		scaled, ok := ScaledOf(v, scale)
		if !ok {
			continue
		}
		d, _, err := apd.NewFromString(strconv.FormatFloat(v, 'g', -1, 64))
		if err != nil {
			t.Fatal(err)
		}
		var rounded apd.Decimal
		if _, err := rounding.Quantize(&rounded, d, int32(-scale)); err != nil {
			t.Fatal(err)
		}
		want, err := appendDecimal(nil, &rounded, int32(scale))
		if err != nil {
			t.Fatal(err)
		}
		got, ok := StoredScaled(scaled, precision)
		back, also := ScaledIn(want)
		if !ok || !also || back != scaled || !bytes.Equal(got, want) {
			t.Fatalf("%v with %d digits is %x (%d), and not %x (%d)", v, scale, got, scaled, want, back)
		}
		if f, ok := FloatOf(scaled, scale); ok {
			if want, err := rounded.Float64(); err != nil || want != f {
				t.Fatalf("%s is %v, and not %v", &rounded, f, want)
			}
		}
		made++
	}
	if made < 20_000 {
		t.Errorf("%d numbers of 50,000 had few digits", made)
	}
	for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), 1e18, -1e300} {
		if n, ok := ScaledOf(v, 2); ok {
			t.Errorf("%v is %d", v, n)
		}
	}
	if _, ok := StoredScaled(1000, 3); ok {
		t.Error("four digits are stored in three")
	}
	if n, ok := UnitsOf(-999, 2); !ok || n != -99900 {
		t.Errorf("-999 are %d hundredths", n)
	}
	if n, ok := UnitsOf(1e17, 2); ok {
		t.Errorf("1e17 are %d hundredths", n)
	}
}
