package arch

import (
	"fmt"
	"go/ast"
	"regexp"
	"strings"
	"unicode"
)

// Riddle is a form of words that hides the acting or the meant thing, with the rule of docs/STYLE.md that it breaks.
type Riddle struct {
	form *regexp.Regexp
	Rule string
	// Comments limits the form to comments: pages may have it.
	Comments bool
}

// Riddles are forms that no comment may have, and no page but for Comments. Each stands for a place where a named thing belongs.
var Riddles = []Riddle{
	{form: regexp.MustCompile(`(?i)\b(whoever|whomever|somebody|someone|anybody|anyone|nobody)\b`),
		Rule: "name who acts: the client, the caller, the leader, the operator"},
	{form: regexp.MustCompile(`(?i)(^|[.:;,] |\b(is|of|from|sees|says|than|once|that|names) )who (comes|waits|asks|had|has|reads|writes)\b`),
		Rule: "name who acts: the client, the caller, the leader, the operator"},
	{form: regexp.MustCompile(`(?i)\b(those who|he who)\b`), Rule: "name who acts: the clients, the readers, the members"},
	{form: regexp.MustCompile(`(?i)\b(whatever|whichever)\b`), Rule: "say which things are meant, or that any will do"},
	{form: regexp.MustCompile(`(?i)\bthe ones? before\b`), Rule: "name the earlier thing: the predecessor, the previous owner"},
	{form: regexp.MustCompile(`(?i)\blet(s|ting)? go\b`), Rule: "say releases, drops, truncates or resumes"},
	{form: regexp.MustCompile(`(?i)\b(that all is|that which|than what)\b`), Rule: "name the thing"},
	{form: regexp.MustCompile(`(?i)\b(come|comes|coming|came) to nothing\b`), Rule: "say fails or failed"},
	{form: regexp.MustCompile(`(?i)\bwhat the (leader|owner|one|call|build|server)s? before\b`), Rule: "name the thing: the previous leader's stamp"},
	{form: regexp.MustCompile(`(^|[.!?:] )What `), Rule: "begin with a named thing: the entry, the file, the answer", Comments: true},
	{form: regexp.MustCompile(`\b[Ww]hat (there (is|are|was|were)|(is|are|was|were) there)\b`), Rule: "name the things: the rows, the files, the room", Comments: true},
}

// riddle returns the rule that a text breaks and the words with which it does, "" if it breaks none.
func riddle(text string, comment bool) (words, rule string) {
	for _, r := range Riddles {
		if r.Comments && !comment {
			continue
		}
		if m := r.form.FindString(text); m != "" {
			return strings.TrimSpace(m), r.Rule
		}
	}
	return "", ""
}

// directive is a comment for a tool, and repeated is text that a comment or a page only repeats.
var (
	directive = regexp.MustCompile(`^//(go:|lint:|nolint|export |line )`)
	repeated  = regexp.MustCompile("`[^`]*`|\"[^\"]*\"|\\*\\w+\\*|\\]\\([^)]*\\)")
)

// CommentRiddles returns the places in a file's comments that break a rule, as "line: words: rule". A comment on a declaration whose own name
// is such a word may name it.
func CommentRiddles(f *ast.File, lineOf func(ast.Node) int) (found []string) {
	for _, group := range f.Comments {
		for _, c := range group.List {
			if directive.MatchString(c.Text) {
				continue
			}
			for i, text := range strings.Split(c.Text, "\n") {
				if words, rule := riddle(strings.TrimLeft(repeated.ReplaceAllString(text, ""), "/* \t"), true); words != "" && !declares(f, words) {
					found = append(found, fmt.Sprintf("%d: %q: %s", lineOf(c)+i, words, rule))
				}
			}
		}
	}
	return found
}

// declares reports whether the file declares something of that name.
func declares(f *ast.File, name string) bool {
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Name.Name == name {
				return true
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				if t, ok := s.(*ast.TypeSpec); ok && t.Name.Name == name {
					return true
				}
			}
		}
	}
	return false
}

// Paragraph is running text of a page: a paragraph or an item of a list, with its first line.
type Paragraph struct {
	Line int
	Text string
}

var item = regexp.MustCompile(`^\s*([-*]|\d+\.)\s+`)

// Paragraphs returns the running text of a page, without its tables, blocks of code, headings and comments. lines counts the lines outside of
// tables and blocks of code.
func Paragraphs(page string) (all []Paragraph, lines int) {
	fenced, open := false, false
	number := 0
	for line := range strings.Lines(page) {
		number++
		text := strings.TrimSpace(line)
		if strings.HasPrefix(text, "```") {
			fenced, open = !fenced, false
			continue
		}
		if fenced || strings.HasPrefix(text, "|") {
			open = false
			continue
		}
		lines++
		switch {
		case text == "", strings.HasPrefix(text, "#"), strings.HasPrefix(text, "<!--"), !open && strings.HasPrefix(line, "    "):
			open = false
		case open && !item.MatchString(line):
			all[len(all)-1].Text += " " + text
		default:
			all = append(all, Paragraph{number, item.ReplaceAllString(text, "")})
			open = true
		}
	}
	return all, lines
}

var (
	sentenceEnd  = regexp.MustCompile("[.!?][\"')\\]*_`]*\\s+")
	abbreviation = regexp.MustCompile(`\b(e\.g|i\.e|etc|vs|cf|No|approx)\.\s*$`)
)

// Sentences splits a text where a sentence ends. A colon or a semicolon ends none.
func Sentences(text string) (all []string) {
	begin := 0
	for _, at := range sentenceEnd.FindAllStringIndex(text, -1) {
		if s := text[begin:at[1]]; !abbreviation.MatchString(s) {
			all, begin = append(all, strings.TrimSpace(s)), at[1]
		}
	}
	if s := strings.TrimSpace(text[begin:]); s != "" {
		all = append(all, s)
	}
	return all
}

// Words counts the words of a sentence: the parts between blanks that have a letter or a digit.
func Words(sentence string) (n int) {
	for _, w := range strings.Fields(sentence) {
		if strings.ContainsFunc(w, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }) {
			n++
		}
	}
	return n
}
