package engine

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/dolthub/vitess/go/vt/sqlparser"

	"github.com/holdfastdb/holdfast/doors/sql/wire"
)

// use is a USE whose name has no quotes.
var use = regexp.MustCompile(`(?i)^use\s+([a-z_$][a-z0-9_$]*)`)

// parse parses the first statement of a text and returns the text, in which the name behind USE may have got quotes: the parser takes no keyword
// there, and MySQL takes those that are not reserved. So may hints and parentheses be written in another way, and other names get quotes.
// next is where the statement ends.
func parse(text string, options sqlparser.ParserOptions) (ast sqlparser.Statement, next int, parsed string, err error) {
	ast, next, err = sqlparser.ParseOneWithOptions(context.Background(), text, options)
	if m := use.FindStringSubmatchIndex(text); err != nil && m != nil {
		quoted := text[:m[2]] + "`" + text[m[2]:m[3]] + "`" + text[m[3]:]
		if ast, next, err := sqlparser.ParseOneWithOptions(context.Background(), quoted, options); err == nil {
			return ast, next, quoted, nil
		}
	}
	if err != nil && hintAnywhere.MatchString(text) {
		if quoted := plainHints(text); quoted != text {
			if ast, next, err := sqlparser.ParseOneWithOptions(context.Background(), quoted, options); err == nil {
				return ast, next, quoted, nil
			}
		}
	}
	for _, written := range []func(string, bool) string{parenthesized, unparenthesized, doubled, sized} {
		if err == nil {
			break
		}
		if other := written(text, options.AnsiQuotes); other != text {
			if ast, next, err := sqlparser.ParseOneWithOptions(context.Background(), other, options); err == nil {
				return ast, next, other, nil
			}
		}
	}
	if err != nil {
		return quoteNames(text, err, options)
	}
	return ast, next, text, err
}

// place finds how much of the text the parser has read.
var place = regexp.MustCompile(`at position (\d+)`)

// read returns how much of a text the parser has read when it failed, the token it failed at included.
func read(text string, err error) int {
	n := len(text) + 1
	if m := place.FindStringSubmatch(err.Error()); m != nil {
		fmt.Sscan(m[1], &n)
	}
	return min(max(n-1, 0), len(text))
}

// unknownSyntax is what the parser does not know of MySQL's language, by where it stops.
var unknownSyntax = map[string]*regexp.Regexp{
	"ANY, SOME and ALL": regexp.MustCompile(`(?is)[=<>]\s*(any|some|all)(\s*\(\s*(select)?)?$`),
	"ROW":               regexp.MustCompile(`(?is)\brow\s*\(?$`),
}

// syntaxError is MySQL's 1064, with the text from the token on that the parser has failed at.
func syntaxError(text string, err error) error {
	at := read(text, err)
	if at == len(text) && endIsMissing(text) {
		at++
	}
	for what, re := range unknownSyntax { // at most one of them matches
		if re.MatchString(text[:min(at, len(text))]) {
			return refused(what)
		}
	}
	near, before := "", text
	if at <= len(text) {
		start := lastToken(text[:at])
		near, before = text[start:], text[:start]
	}
	if runes := []rune(near); len(runes) > 80 {
		near = string(runes[:80])
	}
	return wire.Errorf(errParse, "You have an error in your SQL syntax; check the manual that corresponds to your MySQL server version "+
		"for the right syntax to use near '%s' at line %d", near, 1+strings.Count(before, "\n"))
}

// endIsMissing reports whether the parser has understood the whole text and wanted more. It tells the same place where it has failed at the last
// token. With one more token behind, it fails at that one or later.
func endIsMissing(text string) bool {
	longer := text + " )"
	_, _, err := sqlparser.ParseOneWithOptions(context.Background(), longer, sqlparser.ParserOptions{})
	return err == nil || read(longer, err) > len(text)
}

// lastToken returns where the last token of a text begins.
func lastToken(text string) int {
	last := 0
	for i := 0; i < len(text); {
		from, c := i, text[i]
		switch {
		case c == ' ' || c == '\t' || c == '\r' || c == '\n':
			i++
			continue
		case c == '#', strings.HasPrefix(text[i:], "-- "):
			for i < len(text) && text[i] != '\n' {
				i++
			}
			continue
		case strings.HasPrefix(text[i:], "/*"):
			end := strings.Index(text[i:], "*/")
			if end < 0 {
				return last
			}
			i += end + 2
			continue
		case c == '\'' || c == '"' || c == '`':
			i = closing(text, i)
		case letter(c) || c == '@' || c >= '0' && c <= '9':
			for i++; i < len(text) && (letter(text[i]) || text[i] >= '0' && text[i] <= '9'); i++ {
			}
		default:
			i++
		}
		last = from
	}
	return last
}
