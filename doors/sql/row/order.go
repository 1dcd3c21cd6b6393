package row

import (
	"bytes"
	"cmp"
	"unicode/utf8"

	"github.com/dolthub/go-mysql-server/sql"
)

// Order compares texts of a collation as their keys sort. It never changes. Any goroutine.
type Order struct {
	w     *weights
	ascii [utf8.RuneSelf]int32
}

// NewOrder returns the order of a collation. Nil: it does not pad its texts, or has no weights.
func NewOrder(c sql.CollationID) *Order {
	if c == sql.Collation_binary || c.PadAttribute() != "PAD SPACE" {
		return nil
	}
	o := &Order{w: weightsOf(c)}
	for r := range o.ascii {
		o.ascii[r] = o.w.weight(rune(r))
	}
	return o
}

// Compare compares two texts. One that is shorter is as if spaces followed it.
func (o *Order) Compare(a, b []byte) int {
	if bytes.Equal(a, b) {
		return 0
	}
	for len(a) > 0 || len(b) > 0 {
		var x, y int32
		x, a = o.next(a)
		y, b = o.next(b)
		if x != y {
			return cmp.Compare(x, y)
		}
	}
	return 0
}

// next is the weight of a text's first character, and what follows that.
func (o *Order) next(s []byte) (int32, []byte) {
	switch {
	case len(s) == 0:
		return o.clipped(o.w.space), s
	case s[0] < utf8.RuneSelf:
		return o.clipped(o.ascii[s[0]]), s[1:]
	}
	r, n := utf8.DecodeRune(s)
	if r == utf8.RuneError && n == 1 {
		r = rune(s[0])
	}
	return o.clipped(o.w.weight(r)), s[n:]
}

// clipped is a weight as a key has it.
func (o *Order) clipped(w int32) int32 { return min(max(w, 0), 1<<24-1) }

// Prefix is a number by which texts sort that differ in their first four characters. false: one of those is not of ASCII, or its weight is too large.
func (o *Order) Prefix(s []byte) (u uint64, ok bool) {
	for i := range 4 {
		w := o.w.space
		if i < len(s) {
			if s[i] >= utf8.RuneSelf {
				return 0, false
			}
			w = o.ascii[s[i]]
		}
		if w < 0 || w > 0xffff {
			return 0, false
		}
		u = u<<16 | uint64(w)
	}
	return u, true
}
