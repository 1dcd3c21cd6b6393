package engine

import (
	"math"
	"strconv"
	"strings"

	"github.com/cockroachdb/apd/v3"

	"github.com/holdfastdb/holdfast/doors/sql/wire"
)

// rounding rounds halves away from zero, as MySQL rounds exact numbers. Its digits are more than MySQL's largest number has.
var rounding = func() *apd.Context {
	c := *wide
	c.Rounding = apd.RoundHalfUp
	c.MaxExponent, c.MinExponent = 2000, -2000
	return &c
}()

// mostExponent bounds the exponent of a number that is read from a text. No type of MySQL has numbers beyond.
const mostExponent = 1000

// reading of a number in a text.
type numberRead struct {
	text string // the number as strconv and apd read it; empty: there is none
	rest bool   // something follows that is no space
}

// readNumber finds the number at the beginning of a text. Spaces around it do not count.
func readNumber(s string) numberRead {
	s = strings.TrimLeft(s, " \t\r\n\v\f")
	i := 0
	digits := func() (n int) {
		for i < len(s) && s[i] >= '0' && s[i] <= '9' {
			i++
			n++
		}
		return n
	}
	if i < len(s) && (s[i] == '+' || s[i] == '-') {
		i++
	}
	n := digits()
	if i < len(s) && s[i] == '.' {
		i++
		n += digits()
	}
	if n == 0 {
		return numberRead{rest: s != ""}
	}
	end := i
	if i < len(s) && (s[i] == 'e' || s[i] == 'E') {
		i++
		if i < len(s) && (s[i] == '+' || s[i] == '-') {
			i++
		}
		if digits() > 0 {
			end = i
		}
	}
	return numberRead{text: s[:end], rest: strings.TrimRight(s[end:], " \t\r\n\v\f") != ""}
}

// decimal returns the number. One that is too large for any type comes back as too large, one that is too small as zero.
func (n numberRead) decimal() *apd.Decimal {
	mantissa, exponent, ok := strings.Cut(strings.ToLower(n.text), "e")
	d, _, err := apd.NewFromString(strings.TrimSuffix(mantissa, "."))
	if err != nil {
		return new(apd.Decimal)
	}
	if ok {
		e, err := strconv.Atoi(exponent)
		if err != nil {
			e = mostExponent
			if strings.HasPrefix(exponent, "-") {
				e = -mostExponent
			}
		}
		d.Exponent += int32(min(max(e, -mostExponent), mostExponent))
	}
	return d
}

// float returns the number as a DOUBLE. false: it is out of range.
func (n numberRead) float() (float64, bool) {
	f, err := strconv.ParseFloat(n.text, 64)
	return f, err == nil || !math.IsInf(f, 0)
}

// floatText is a number of 32 or 64 bits as MySQL writes it into a text.
func floatText(v float64, single bool) string { return string(wire.AppendFloat(nil, v, single)) }

// decimalOf is an approximate number as the exact one with the fewest digits that is read back as the same.
func decimalOf(v float64) *apd.Decimal {
	d, _, err := apd.NewFromString(strconv.FormatFloat(v, 'g', -1, 64))
	if err != nil {
		return new(apd.Decimal)
	}
	return d
}

// whole is an integer of up to 64 bits with a sign of its own.
type whole struct {
	negative bool
	size     uint64
	over     bool // it has more bits
}

func wholeOfInt(n int64) whole {
	if n < 0 {
		return whole{negative: true, size: uint64(-(n + 1)) + 1}
	}
	return whole{size: uint64(n)}
}

// wholeOfFloat rounds halves to the even number, as MySQL rounds approximate numbers.
func wholeOfFloat(f float64) whole {
	r := math.RoundToEven(f)
	w := whole{negative: r < 0}
	if r = math.Abs(r); r < 1<<64 {
		w.size = uint64(r)
	} else {
		w.size, w.over = math.MaxUint64, true
	}
	return w
}

// wholeOfDecimal rounds halves away from zero. A negative number stays negative if it is rounded to zero: an unsigned column does not take it.
func wholeOfDecimal(d *apd.Decimal) whole {
	w := whole{negative: d.Negative && !d.IsZero()}
	if d.NumDigits()+int64(d.Exponent) > 25 {
		w.size, w.over = math.MaxUint64, true
		return w
	}
	var n apd.Decimal
	if _, err := rounding.Quantize(&n, d, 0); err != nil {
		w.size, w.over = math.MaxUint64, true
		return w
	}
	if n.Coeff.IsUint64() {
		w.size = n.Coeff.Uint64()
	} else {
		w.size, w.over = math.MaxUint64, true
	}
	return w
}

// signed returns the nearest integer of so many bits, and whether it is the number itself.
func (w whole) signed(bits int) (int64, bool) {
	most := uint64(1)<<(bits-1) - 1
	switch {
	case w.negative && (w.over || w.size > most+1):
		return -int64(most) - 1, false
	case w.negative:
		return -int64(w.size-1) - 1, true // the lowest has no positive counterpart
	case w.over || w.size > most:
		return int64(most), false
	}
	return int64(w.size), true
}

// unsigned returns the nearest unsigned integer of so many bits, and whether it is the number itself.
func (w whole) unsigned(bits int) (uint64, bool) {
	most := uint64(math.MaxUint64) >> (64 - bits)
	switch {
	case w.negative:
		return 0, false
	case w.over || w.size > most:
		return most, false
	}
	return w.size, true
}
