package row

import (
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/holdfastdb/holdfast/internal/golden"
)

// initial is a value as a row has it.
func initial(t testing.TB, typ sql.Type, v any) []byte {
	t.Helper()
	l, err := NewLayout([]sql.Type{typ}, nil)
	if err != nil {
		t.Fatal(err)
	}
	b, err := l.AppendValue(sql.NewEmptyContext(), nil, 0, v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestPlacedGolden pins rows that say how many places they have: a column has come before another one, one has gone, and one has come behind.
func TestPlacedGolden(t *testing.T) {
	t.Parallel()
	ctx := sql.NewEmptyContext()
	var out strings.Builder
	number, _ := typed(t, "int")
	text, _ := typed(t, "varchar(20)")
	double, _ := typed(t, "double")
	before, err := NewLayout([]sql.Type{number, double}, nil) // id, gone
	if err != nil {
		t.Fatal(err)
	}
	// The columns are added, id, last.
	places := []Place{{Column: 1}, {Column: -1, Kind: KindEight}, {Column: 0, Initial: initial(t, text, "as it was")}, {Column: 2}}
	after, err := NewPlaced([]sql.Type{text, number, number}, nil, 2, places)
	if err != nil {
		t.Fatal(err)
	}
	show := func(what string, b []byte) {
		r, err := after.Decode(b, 1)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		fmt.Fprintf(&out, "%s: %s is %v\n", what, hex.EncodeToString(b), r)
		for n := range b {
			if r, err := after.Decode(b[:n], 0); err == nil {
				t.Errorf("%s: %d bytes of %d are a row: %v", what, n, len(b), r)
			}
		}
		if _, err := after.Decode(append(slices.Clone(b), 0), 0); !errors.Is(err, ErrForm) {
			t.Errorf("%s: a byte more is a row", what)
		}
	}
	for _, r := range []sql.Row{{int32(1), 2.5}, {int32(2), nil}} {
		b, err := before.Append(ctx, nil, r)
		if err != nil {
			t.Fatal(err)
		}
		show("a row from before", b)
	}
	between, err := NewPlaced([]sql.Type{text, number, double}, nil, 2, []Place{{Column: 1}, {Column: 2}, {Column: 0}})
	if err != nil {
		t.Fatal(err)
	}
	b, err := between.Append(ctx, nil, sql.Row{"new", int32(3), 0.5})
	if err != nil {
		t.Fatal(err)
	}
	show("a row of three places", b)
	for _, r := range []sql.Row{{"x", int32(4), int32(5)}, {nil, int32(6), nil}} {
		if b, err = after.Append(ctx, nil, r); err != nil {
			t.Fatal(err)
		}
		show("a row of four places", b)
	}
	golden.Check(t, "testdata/places.txt", out.String())
}

// TestDroppedColumns: the bytes of a column that was dropped are passed over, whatever its type was.
func TestDroppedColumns(t *testing.T) {
	t.Parallel()
	ctx := sql.NewEmptyContext()
	last, _ := typed(t, "int")
	for _, c := range table(t) {
		before, err := NewLayout([]sql.Type{c.typ, last}, nil)
		if err != nil {
			t.Fatal(err)
		}
		after, err := NewPlaced([]sql.Type{last}, nil, 2, []Place{{Column: -1, Kind: before.KindOf(0)}, {Column: 0}})
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range c.values {
			b, err := before.Append(ctx, nil, sql.Row{v, int32(7)})
			if err != nil {
				t.Fatal(err)
			}
			if r, err := after.Decode(b, 0); err != nil || len(r) != 1 || r[0] != int32(7) {
				t.Errorf("%s %v: %v %v", c.text, v, r, err)
			}
		}
	}
}

// TestInitialValues: rows without a column's place have the value that it was given, of every type.
func TestInitialValues(t *testing.T) {
	t.Parallel()
	ctx := sql.NewEmptyContext()
	number, _ := typed(t, "int")
	before, err := NewLayout([]sql.Type{number}, nil)
	if err != nil {
		t.Fatal(err)
	}
	b, err := before.Append(ctx, nil, sql.Row{int32(1)})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range table(t) {
		for _, v := range c.values {
			p := Place{Column: 0}
			if v != nil {
				p.Initial = initial(t, c.typ, v)
			}
			l, err := NewPlaced([]sql.Type{c.typ, number}, nil, 1, []Place{{Column: 1}, p})
			if err != nil {
				t.Fatal(err)
			}
			r, err := l.Decode(b, 0)
			if err != nil || len(r) != 2 || r[1] != int32(1) || !same(ctx, c.typ, r[0], v) {
				t.Errorf("%s: %v is %v (%v)", c.text, v, r, err)
			}
		}
	}
}

// TestPlacesThatMakeNoSense are refused.
func TestPlacesThatMakeNoSense(t *testing.T) {
	t.Parallel()
	number, _ := typed(t, "int")
	for what, c := range map[string]struct {
		first  int
		places []Place
	}{
		"a column without a place":    {0, []Place{}},
		"a column of two places":      {2, []Place{{Column: 0}, {Column: 0}}},
		"no such column":              {1, []Place{{Column: 1}, {Column: 0}}},
		"a dropped one without kind":  {1, []Place{{Column: -1}, {Column: 0}}},
		"a dropped one of what kind":  {1, []Place{{Column: -1, Kind: kinds}, {Column: 0}}},
		"more places than there are":  {2, []Place{{Column: 0}}},
		"a value with a byte more":    {0, []Place{{Column: 0, Initial: []byte{2, 0}}}},
		"a value without its bytes":   {0, []Place{{Column: 0, Initial: []byte{0x80}}}},
		"fewer places than there are": {-1, []Place{{Column: 0}}},
	} {
		if _, err := NewPlaced([]sql.Type{number}, nil, c.first, c.places); !errors.Is(err, ErrForm) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// FuzzDecodePlaced is FuzzDecode of a layout with places.
func FuzzDecodePlaced(f *testing.F) {
	ctx := sql.NewEmptyContext()
	var columns, old []sql.Type
	var r, was sql.Row
	var places []Place
	first := 0
	for i, c := range table(f) {
		v := c.values[len(c.values)-1]
		l, err := NewLayout([]sql.Type{c.typ}, nil)
		if err != nil {
			f.Fatal(err)
		}
		switch {
		case i%3 == 0 && i < 15:
			places = append(places, Place{Column: -1, Kind: l.KindOf(0)})
		default:
			p := Place{Column: len(columns)}
			if i >= 15 && i%2 == 0 {
				p.Initial = initial(f, c.typ, v)
			}
			places = append(places, p)
			columns, r = append(columns, c.typ), append(r, v)
		}
		if i < 15 {
			old, was, first = append(old, c.typ), append(was, v), first+1
		}
	}
	l, err := NewPlaced(columns, nil, first, places)
	if err != nil {
		f.Fatal(err)
	}
	before, err := NewLayout(old, nil)
	if err != nil {
		f.Fatal(err)
	}
	for _, x := range []struct {
		l *Layout
		r sql.Row
	}{{l, r}, {before, was}} {
		b, err := x.l.Append(ctx, nil, x.r)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
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
