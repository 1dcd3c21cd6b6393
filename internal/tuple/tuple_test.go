package tuple

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// TestBytes pins the encodings: they are in every store.
func TestBytes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		b    []byte
		want string
	}{
		{AppendNull(nil), "02"},
		{AppendInt(nil, 0), "10"},
		{AppendInt(nil, 1), "1101"},
		{AppendInt(nil, 256), "120100"},
		{AppendUint(nil, math.MaxUint64), "18ffffffffffffffff"},
		{AppendInt(nil, -1), "0fff"},
		{AppendInt(nil, -256), "0f00"},
		{AppendInt(nil, -257), "0efeff"},
		{AppendInt(nil, math.MinInt64), "088000000000000000"},
		{AppendFloat(nil, 0), "208000000000000000"},
		{AppendFloat(nil, math.Copysign(0, -1)), "208000000000000000"},
		{AppendFloat(nil, 1), "20bff0000000000000"},
		{AppendFloat(nil, -1), "20400fffffffffffff"},
		{AppendBytes(nil, "a\x00b"), "306100ff620001"},
		{AppendBytes(nil, ""), "300001"},
	} {
		if got := fmt.Sprintf("%x", c.b); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
}

// TestOrder: bytes are in the order of values, upwards and inverted, and come back.
func TestOrder(t *testing.T) {
	t.Parallel()
	var ints []int64
	var floats []float64
	texts := []string{"", "\x00", "\x00\x00", "\x00\x01", "\x00\xff", "\x01", "a", "a\x00", "a\x00b", "ab", "b", "\xff", "\xff\xff", strings.Repeat("x", 300)}
	for shift := range 64 {
		for d := int64(-2); d <= 2; d++ {
			ints = append(ints, int64(uint64(1)<<shift)+d, -int64(uint64(1)<<shift)+d)
		}
	}
	r := rand.New(rand.NewPCG(1, 9))
	for range 500 {
		ints = append(ints, int64(r.Uint64()>>r.IntN(64)), -int64(r.Uint64()>>(1+r.IntN(63))))
		floats = append(floats, r.NormFloat64()*math.Pow(10, float64(r.IntN(600)-300)))
	}
	floats = append(floats, 0, math.Inf(1), math.Inf(-1), math.MaxFloat64, math.SmallestNonzeroFloat64, -math.SmallestNonzeroFloat64, 1, -1)
	slices.Sort(ints)
	slices.Sort(floats)
	slices.Sort(texts)
	ints, floats = slices.Compact(ints), slices.Compact(floats)
	check := func(what string, n int, encode func(dst []byte, i int) []byte, back func(b []byte, i int) (rest []byte, ok bool)) {
		t.Helper()
		last := AppendNull(nil)
		var lastInverted []byte
		for i := range n {
			b := encode([]byte("before"), i)[len("before"):]
			if bytes.Compare(last, b) >= 0 {
				t.Fatalf("%s %d: %x comes behind %x", what, i, b, last)
			}
			inverted := encode([]byte("before"), i)
			Invert(inverted, len("before"))
			inverted = inverted[len("before"):]
			if lastInverted != nil && bytes.Compare(inverted, lastInverted) >= 0 {
				t.Fatalf("%s %d: inverted %x comes before %x", what, i, inverted, lastInverted)
			}
			if rest, ok := back(append(bytes.Clone(b), 7), i); !ok || len(rest) != 1 {
				t.Fatalf("%s %d does not come back from %x", what, i, b)
			}
			for cut := range b {
				if rest, ok := back(b[:cut:cut], i); ok && cut > 0 {
					t.Fatalf("%s %d comes back from %x, %x left", what, i, b[:cut], rest)
				}
			}
			last, lastInverted = b, inverted
		}
	}
	check("int", len(ints), func(dst []byte, i int) []byte { return AppendInt(dst, ints[i]) }, func(b []byte, i int) ([]byte, bool) {
		v, rest, err := Int(b)
		return rest, err == nil && v == ints[i]
	})
	check("float", len(floats), func(dst []byte, i int) []byte { return AppendFloat(dst, floats[i]) }, func(b []byte, i int) ([]byte, bool) {
		v, rest, err := Float(b)
		return rest, err == nil && v == floats[i]
	})
	check("bytes", len(texts), func(dst []byte, i int) []byte { return AppendBytes(dst, texts[i]) }, func(b []byte, i int) ([]byte, bool) {
		v, rest, err := Bytes(nil, b)
		return rest, err == nil && string(v) == texts[i]
	})
	for _, v := range []uint64{0, 1, 1 << 63, math.MaxUint64} {
		if got, rest, err := Uint(AppendUint(nil, v)); err != nil || got != v || len(rest) != 0 {
			t.Errorf("%d comes back as %d %v", v, got, err)
		}
	}
	if _, _, err := Int(AppendUint(nil, 1<<63)); !errors.Is(err, ErrRange) {
		t.Error(err)
	}
	if _, _, err := Uint(AppendInt(nil, -1)); !errors.Is(err, ErrRange) {
		t.Error(err)
	}
}

// TestLists: lists are sorted field by field, and a prefix of fields is a prefix of bytes.
func TestLists(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(2, 9))
	type list struct {
		null bool
		text string
		n    int64
	}
	encode := func(l list) []byte {
		var b []byte
		if l.null {
			b = AppendNull(nil)
		} else {
			b = AppendBytes(nil, l.text)
		}
		return AppendInt(b, l.n)
	}
	order := func(a, b list) int {
		switch {
		case a.null != b.null && a.null:
			return -1
		case a.null != b.null:
			return 1
		case !a.null && a.text != b.text:
			return cmp.Compare(a.text, b.text)
		}
		return cmp.Compare(a.n, b.n)
	}
	some := func() list {
		text := make([]byte, r.IntN(3))
		for i := range text {
			text[i] = []byte{0, 1, 'a', 0xff}[r.IntN(4)]
		}
		l := list{r.IntN(4) == 0, string(text), int64(r.IntN(5)) - 2}
		if l.null {
			l.text = ""
		}
		return l
	}
	for range 20_000 {
		a, b := some(), some()
		if got, want := bytes.Compare(encode(a), encode(b)), order(a, b); got != want {
			t.Fatalf("%+v and %+v: %d, want %d", a, b, got, want)
		}
	}
}

// FuzzDecode: what decodes encodes to the same bytes.
func FuzzDecode(f *testing.F) {
	for _, b := range [][]byte{AppendNull(nil), AppendInt(nil, -300), AppendUint(nil, 1<<63), AppendFloat(nil, -1.5), AppendBytes(nil, "a\x00")} {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		same := func(what string, got, rest []byte) {
			if !bytes.Equal(append(got, rest...), b) {
				t.Errorf("%s: %x came back as %x", what, b, got)
			}
		}
		if v, rest, err := Int(b); err == nil {
			same("int", AppendInt(nil, v), rest)
		}
		if v, rest, err := Uint(b); err == nil {
			same("uint", AppendUint(nil, v), rest)
		}
		if v, rest, err := Float(b); err == nil {
			same("float", AppendFloat(nil, v), rest)
		}
		if v, rest, err := Bytes(nil, b); err == nil {
			same("bytes", AppendBytes(nil, v), rest)
		}
	})
}
