package row

import (
	"bytes"
	"cmp"
	"errors"
	"math/rand/v2"
	"testing"

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
