package engine

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"

	"github.com/holdfastdb/holdfast/doors/sql/row"
)

// padded reports whether texts of a collation compare as if spaces without end followed them.
func padded(c sql.CollationID) bool {
	return c.PadAttribute() == "PAD SPACE" && c != sql.Collation_binary
}

// weighable returns an error where a text has a character that one weight does not stand for: 1235. Another collation than utf8mb4_0900_ai_ci has none.
func weighable(c sql.CollationID, s string) error {
	if r, is := row.Unweighed(c, s); is {
		return refused(fmt.Sprintf("the character U+%04X where utf8mb4_0900_ai_ci compares", r))
	}
	return nil
}

// weighableIn is weighable of a value of a type.
func weighableIn(t sql.Type, v any) error {
	x, ok := t.(sql.TypeWithCollation)
	if !ok || x.Collation() != sql.Collation_utf8mb4_0900_ai_ci || !types.IsTextOnly(t) {
		return nil
	}
	return weighable(x.Collation(), textOfValue(v, t))
}

// weighedColumns are the columns of keys whose texts utf8mb4_0900_ai_ci compares.
func (t *table) weighedColumns() (all []int) {
	for i := range t.def.columns {
		typ := t.schema.Schema[i].Type
		x, ok := typ.(sql.TypeWithCollation)
		if !ok || x.Collation() != sql.Collation_utf8mb4_0900_ai_ci || !types.IsTextOnly(typ) {
			continue
		}
		is := func(p keyPart) bool { return p.column == i }
		in := slices.ContainsFunc(t.def.primary, is)
		for _, d := range t.def.indexes {
			in = in || slices.ContainsFunc(d.parts, is)
		}
		if in {
			all = append(all, i)
		}
	}
	return all
}

// weighable returns an error where a row that is written has no key that stands for it. A row that was written before stays readable, and goes.
func (t *table) weighable(r sql.Row) error {
	for _, i := range t.weighed {
		if r[i] == nil {
			continue
		}
		if err := weighableIn(t.schema.Schema[i].Type, r[i]); err != nil {
			return err
		}
	}
	return nil
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
