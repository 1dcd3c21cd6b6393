package engine

import (
	"context"
	_ "embed"
	"strings"
	"sync"

	"github.com/dolthub/vitess/go/vt/sqlparser"
)

//go:embed nonreserved.txt
var nonreservedText string

// nonreserved are the keywords that MySQL takes as names without quotes. The grammar refuses some of them.
var nonreserved = sync.OnceValue(func() map[string]bool {
	all := map[string]bool{}
	for line := range strings.Lines(nonreservedText) {
		if !strings.HasPrefix(line, "#") {
			for _, word := range strings.Fields(line) {
				all[word] = true
			}
		}
	}
	return all
})

// mostQuoted bounds how many words of a statement get quotes: each costs up to two parses.
const mostQuoted = 64

// quoteNames puts quotes around the words that the grammar refuses as names and MySQL does not, and parses the text again. The parser tells where it
// has failed, and the word stands there or right before. A word keeps its quotes if the parser reads further with them. Where an error is left, it
// belongs to the text that is returned, whose rest behind the error has no new quotes.
func quoteNames(text string, err error, options sqlparser.ParserOptions) (ast sqlparser.Statement, next int, quoted string, left error) {
	at := read(text, err)
	for range mostQuoted {
		better := false
		for _, start := range lastTokens(text[:at]) {
			end := start
			for end < len(text) && (letter(text[end]) || text[end] >= '0' && text[end] <= '9') {
				end++
			}
			if end == start || !nonreserved()[strings.ToLower(text[start:end])] {
				continue
			}
			tried := text[:start] + "`" + text[start:end] + "`" + text[end:]
			ast, next, e := sqlparser.ParseOneWithOptions(context.Background(), tried, options)
			if e == nil {
				return ast, next, tried, nil
			}
			if further := read(tried, e); further > at+2 {
				text, at, err, better = tried, further, e, true
				break
			}
		}
		if !better {
			break
		}
	}
	return nil, 0, text, err
}

// lastTokens returns where the last tokens of a text begin, the last one first.
func lastTokens(text string) []int {
	last := lastToken(text)
	all := []int{last}
	if before := strings.TrimRight(text[:last], " \t\r\n"); before != "" {
		all = append(all, lastToken(before))
	}
	return all
}
