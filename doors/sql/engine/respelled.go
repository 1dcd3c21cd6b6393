package engine

import (
	"math"
	"sort"
	"strconv"
	"strings"
)

// The library's parser takes EXISTS as a condition alone, no condition as the expression of a column, no SELECT that stands in parentheses by itself, and
// no size of a BLOB. All are MySQL's language, and object-relational mappers write them: a text that the parser refuses is spelled in another way and read again.

// parenthesized puts each EXISTS (…) in parentheses, where the parser takes it as a value.
func parenthesized(text string, ansi bool) string {
	s := &signs{text: text, ansi: ansi}
	var before, behind []int // places in the text
	var open []bool          // of each parenthesis that is open: it is that of an EXISTS
	exists := -1             // where the word before begins, if that is EXISTS
	for s.next(); s.now.text != "" || s.now.quoted; {
		switch at := s.now.at; {
		case s.now.quoted:
			exists = -1
			s.next()
		case s.now.text == "(":
			open = append(open, exists >= 0)
			if exists >= 0 {
				before = append(before, exists)
			}
			exists = -1
			s.next()
		case s.now.text == ")":
			if n := len(open); n > 0 {
				if open[n-1] {
					behind = append(behind, at+1)
				}
				open = open[:n-1]
			}
			exists = -1
			s.next()
		case s.word("exists"):
			exists = at
		default:
			exists = -1
			s.next()
		}
	}
	if len(before) == 0 || len(before) != len(behind) {
		return text
	}
	sort.Ints(behind)
	var out strings.Builder
	copied := 0
	for len(before)+len(behind) > 0 {
		if len(before) > 0 && before[0] < behind[0] {
			out.WriteString(text[copied:before[0]] + "(")
			copied, before = before[0], before[1:]
			continue
		}
		out.WriteString(text[copied:behind[0]] + ")")
		copied, behind = behind[0], behind[1:]
	}
	return out.String() + text[copied:]
}

// doubled puts the expression of a generated column or of a DEFAULT in parentheses once more, where the parser takes a condition: v > 3, v IS NULL.
func doubled(text string, ansi bool) string {
	s := &signs{text: text, ansi: ansi}
	s.next()
	if !s.word("create", "alter") {
		return text
	}
	var out strings.Builder
	copied, depth := 0, 0
	var open []int // depths at which a parenthesis was added
	for before := ""; s.now.text != "" || s.now.quoted; {
		sign := s.now
		s.next()
		switch {
		case sign.quoted:
		case sign.text == "(":
			if depth++; before == "as" || before == "default" {
				out.WriteString(text[copied:sign.at] + "(")
				copied, open = sign.at, append(open, depth)
			}
		case sign.text == ")":
			if n := len(open); n > 0 && open[n-1] == depth {
				out.WriteString(text[copied:sign.at] + ")")
				copied, open = sign.at, open[:n-1]
			}
			depth--
		}
		if before = ""; !sign.quoted {
			before = strings.ToLower(sign.text)
		}
	}
	return out.String() + text[copied:]
}

// sized writes BLOB(n), TEXT(n) and YEAR(4) as the types that MySQL makes of them: the smallest one that holds n bytes, or characters of four bytes.
func sized(text string, ansi bool) string {
	s := &signs{text: text, ansi: ansi}
	s.next()
	if !s.word("create", "alter") {
		return text
	}
	var out strings.Builder
	copied := 0
	for name := false; s.now.text != "" || s.now.quoted; { // name: the sign before may be that of a column
		sign := s.now
		s.next()
		kind := strings.ToLower(sign.text)
		if !name || sign.quoted || kind != "blob" && kind != "text" && kind != "year" || s.now.quoted || s.now.text != "(" {
			name = sign.quoted || sign.text != "" && letter(sign.text[0])
			continue
		}
		s.next()
		n, err := strconv.ParseUint(s.now.text, 10, 64)
		s.next()
		if name = false; err != nil || s.now.quoted || s.now.text != ")" {
			continue
		}
		if kind == "text" {
			n = min(n, math.MaxUint32) * 4
		}
		switch {
		case kind == "year" && n != 4:
			return text
		case kind == "year":
		case n <= math.MaxUint8:
			kind = "tiny" + kind
		case n > 1<<24-1:
			kind = "long" + kind
		case n > math.MaxUint16:
			kind = "medium" + kind
		}
		out.WriteString(text[copied:sign.at] + kind)
		copied = s.now.at + 1
		s.next()
	}
	return out.String() + text[copied:]
}

// unparenthesized has blanks in place of the parentheses around the first SELECT of a text, where nothing but ORDER BY and LIMIT follows them. A SELECT
// that has either of these inside its parentheses stays as it is.
func unparenthesized(text string, ansi bool) string {
	s := &signs{text: text, ansi: ansi}
	s.next()
	if s.now.text != "(" || s.now.quoted {
		return text
	}
	from, to, depth := s.now.at, -1, 0
	for ; to < 0 && (s.now.text != "" || s.now.quoted); s.next() {
		switch {
		case s.now.quoted:
		case s.now.text == "(":
			depth++
		case s.now.text == ")":
			if depth--; depth == 0 {
				to = s.now.at
			}
		case depth == 1 && (strings.EqualFold(s.now.text, "order") || strings.EqualFold(s.now.text, "limit")):
			return text
		}
	}
	if to < 0 || s.now.text != "" && !s.now.quoted && !strings.EqualFold(s.now.text, "order") && !strings.EqualFold(s.now.text, "limit") {
		return text
	}
	return text[:from] + " " + text[from+1:to] + " " + text[to+1:]
}
