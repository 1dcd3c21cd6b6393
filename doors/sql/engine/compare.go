package engine

import (
	"strings"
	"unicode/utf8"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/holdfastdb/holdfast/doors/sql/row"
)

// padded reports whether texts of a collation compare as if spaces without end followed them.
func padded(c sql.CollationID) bool {
	return c.PadAttribute() == "PAD SPACE" && c != sql.Collation_binary
}

// sameText reports whether two texts are equal in a collation.
func sameText(c sql.CollationID, a, b string) bool { return compareText(c, a, b) == 0 }

// compareText compares two texts by the weights of a collation, and by PAD SPACE where the collation has it.
func compareText(c sql.CollationID, a, b string) int {
	weight := row.Sorter(c)
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] && a[0] < utf8.RuneSelf { // the same characters, of one byte each
		a, b = a[1:], b[1:]
	}
	pad := padded(c)
	next := func(s string) (int32, string) {
		if s == "" {
			return weight(' '), ""
		}
		r, n := utf8.DecodeRuneInString(s)
		if r == utf8.RuneError && n == 1 {
			r = rune(s[0])
		}
		return weight(r), s[n:]
	}
	for a != "" && b != "" || pad && (a != "" || b != "") {
		var x, y int32
		x, a = next(a)
		y, b = next(b)
		if x != y {
			if x < y {
				return -1
			}
			return 1
		}
	}
	return strings.Compare(a[:min(1, len(a))], b[:min(1, len(b))]) // one of them is at its end
}
