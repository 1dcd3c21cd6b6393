package engine

import (
	"regexp"
	"slices"
	"strings"

	"github.com/dolthub/vitess/go/vt/sqlparser"

	"github.com/holdfastdb/holdfast/doors/sql/wire"
)

// hint says which indexes a statement may read a table by: FORCE INDEX, USE INDEX or IGNORE INDEX. The library parses hints and drops them.
type hint struct {
	kind  hintKind
	names []string // in small letters
}

type hintKind byte

const (
	noHint      hintKind = iota
	useHint              // these and no others; the whole table where none of them serves
	forceHint            // these and no others, for the whole table too
	ignoreHint           // all but these
	hintLetters = " ufi"
)

// text is the hint as a mark has it, behind markHint.
func (h hint) text() string { return hintLetters[h.kind:h.kind+1] + strings.Join(h.names, ",") }

// hintOf reads text.
func hintOf(text string) (hint, bool) {
	if text == "" {
		return hint{}, false
	}
	kind := strings.IndexByte(hintLetters, text[0])
	if kind <= 0 {
		return hint{}, false
	}
	h := hint{kind: hintKind(kind)}
	if text[1:] != "" {
		h.names = strings.Split(text[1:], ",")
	}
	return h, true
}

// hinted returns the hint of a table expression, and whether it has one.
func hinted(a *sqlparser.AliasedTableExpr) (hint, bool) {
	if a.Hints == nil {
		return hint{}, false
	}
	h := hint{kind: map[string]hintKind{sqlparser.UseStr: useHint, sqlparser.ForceStr: forceHint, sqlparser.IgnoreStr: ignoreHint}[a.Hints.Type]}
	for _, n := range a.Hints.Indexes {
		h.names = append(h.names, n.Lowered())
	}
	return h, true
}

// lets reports whether an index may be read.
func (h hint) lets(name string) bool {
	named := slices.Contains(h.names, strings.ToLower(name))
	return h.kind == noHint || named == (h.kind != ignoreHint)
}

// known returns 1176 if a hint names an index that the table does not have.
func (h hint) known(t *table) error {
	for _, n := range h.names {
		if !slices.ContainsFunc(t.indexes, func(x *index) bool { return strings.EqualFold(x.name, n) }) {
			return wire.Errorf(1176, "Key '%s' doesn't exist in table '%s'", n, t.t.Name)
		}
	}
	return nil
}

// forced is the index by which the whole table is read: the first that FORCE INDEX names. Nil: by its rows.
func (t *tableView) forced() *index {
	if t.how.hint.kind != forceHint {
		return nil
	}
	for _, x := range t.indexes {
		if x.id != 0 && t.how.hint.lets(x.name) {
			return x
		}
	}
	return nil
}

// hintStart is the beginning of a hint. The parser takes primaryName for a word of the language, and knows no KEY in a hint.
var (
	hintStart    = regexp.MustCompile(`(?i)^(force|use|ignore)\s+(index|key)\s*\(`)
	hintAnywhere = regexp.MustCompile(`(?i)\b(force|use|ignore)\s+(index|key)\s*\(`)
	hintKey      = regexp.MustCompile(`(?i)^(\w+\s+)key\b`)
	primaryName  = regexp.MustCompile(`(?i)\bprimary\b`)
)

// plainHints writes hints as the parser knows them: INDEX for KEY, and quotes around the name PRIMARY. Texts, quoted names and
// comments stay.
func plainHints(text string) string {
	var out strings.Builder
	for i := 0; i < len(text); {
		from := i
		switch c := text[i]; {
		case c == '\'' || c == '"' || c == '`':
			i = closing(text, i)
		case strings.HasPrefix(text[i:], "/*"):
			end := strings.Index(text[i:], "*/")
			if end < 0 {
				end = len(text) - i - 2
			}
			i += end + 2
		case letter(c):
			start := hintStart.FindString(text[i:])
			end := strings.IndexByte(text[i:], ')')
			if start != "" && end > 0 {
				i += end
				out.WriteString(hintKey.ReplaceAllString(primaryName.ReplaceAllString(text[from:i], "`PRIMARY`"), "${1}index"))
				continue
			}
			for i < len(text) && (letter(text[i]) || text[i] >= '0' && text[i] <= '9') {
				i++
			}
		default:
			i++
		}
		out.WriteString(text[from:i])
	}
	return out.String()
}
