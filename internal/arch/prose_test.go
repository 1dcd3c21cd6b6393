package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// unread are folders whose comments are not held to the list yet.
var unread = []string{"doors/sql"}

// TestCommentsAreNoRiddles: a comment names who acts and what is meant (docs/STYLE.md, "How a comment reads").
func TestCommentsAreNoRiddles(t *testing.T) {
	root := filepath.Join("..", "..")
	files := 0
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel := filepath.ToSlash(strings.TrimPrefix(name, root+string(filepath.Separator)))
		if d.IsDir() {
			if rel == ".git" || rel == "bin" || rel == "build" || slices.Contains(unread, rel) {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(rel, ".go") || strings.HasPrefix(rel, "internal/arch/prose") {
			return nil
		}
		files++
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, found := range CommentRiddles(f, func(n ast.Node) int { return fset.Position(n.Pos()).Line }) {
			t.Errorf("%s:%s", rel, found)
		}
		return nil
	})
	if err != nil || files < 1000 {
		t.Errorf("%d files, %v: this test looks at nothing", files, err)
	}
}

const (
	mostWords = 30  // of a sentence on a page
	mostLines = 250 // of a page, without tables and blocks of code
)

// TestPagesAreReadInOneGo: no long sentence, no long page, and no riddle on a page. Tables and blocks of code are not counted.
func TestPagesAreReadInOneGo(t *testing.T) {
	root := filepath.Join("..", "..")
	for _, page := range pages(t, root) {
		text, err := os.ReadFile(filepath.Join(root, page))
		if err != nil {
			t.Fatal(err)
		}
		all, lines := Paragraphs(string(text))
		if lines > mostLines {
			t.Errorf("%s has %d lines beside its tables: split it, %d are the most", page, lines, mostLines)
		}
		for _, p := range all {
			for _, s := range Sentences(p.Text) {
				if n := Words(s); n > mostWords {
					t.Errorf("%s:%d: a sentence of %d words, %d are the most: %.60s…", page, p.Line, n, mostWords, s)
				}
			}
			if words, rule := riddle(repeated.ReplaceAllString(p.Text, ""), false); words != "" {
				t.Errorf("%s:%d: %q: %s", page, p.Line, words, rule)
			}
		}
	}
}

// pages are the pages that users and engineers read, below root.
func pages(t *testing.T, root string) []string {
	t.Helper()
	all := []string{"README.md", "CONTRIBUTING.md"}
	for _, form := range []string{"docs/*.md", "docs/*/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, form))
		if err != nil || len(found) < 5 {
			t.Fatalf("%d pages of the form %s, %v: this test looks at nothing", len(found), form, err)
		}
		for _, name := range found {
			all = append(all, strings.TrimPrefix(filepath.ToSlash(name), "../../"))
		}
	}
	return all
}

// TestRiddlesAreFound shows that each rule is applied, and that quotations, directives and a declaration's own name pass.
func TestRiddlesAreFound(t *testing.T) {
	for text, want := range map[string]string{
		"// whoever asks\nvar a int":                      "2: \"whoever\"",
		"// it is not\n// for somebody else\nvar a int":   "3: \"somebody\"",
		"var a int // who waits for more":                 "2: \"who waits\"",
		"// those who read it\nvar a int":                 "2: \"those who\"",
		"// whatever is there\nvar a int":                 "2: \"whatever\"",
		"// it is let go at the end\nvar a int":           "2: \"let go\"",
		"// an index that all is at or below\nvar a int":  "2: \"that all is\"",
		"// it lets the one before end\nvar a int":        "2: \"the one before\"",
		"// a call that came to nothing\nvar a int":       "2: \"came to nothing\"",
		"// What the leader before stamped\nvar a int":    "2: \"What the leader before\"",
		"// It ends. What it had stays\nvar a int":        "2: \". What\"",
		"// it keeps what there is of it\nvar a int":      "2: \"what there is\"",
		"/* one\n   is nobody's */\nvar a int":            "3: \"nobody\"",
		"// \"whoever\" and `somebody`\nvar a int":        "",
		"//lint:ignore SA1019 nobody's\nvar a int":        "",
		"// nobody answers\ntype nobody struct{}":         "",
		"// a user who has the role\nvar a = \"whoever\"": "",
	} {
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, "", "package a\n"+text+"\n", parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		found := CommentRiddles(f, func(n ast.Node) int { return fset.Position(n.Pos()).Line })
		if len(found) > 1 || len(found) == 0 != (want == "") || want != "" && !strings.HasPrefix(found[0], want+": ") {
			t.Errorf("%q: %q, want %q", text, found, want)
		}
	}
}

// TestSentencesAreCounted shows what is a sentence of a page, and what is not counted.
func TestSentencesAreCounted(t *testing.T) {
	long := strings.Repeat("word ", mostWords) + "word."
	page := "# Heading\n\nOne sentence (e.g. this). Another one: with a colon; and more.\n\n- **Item.** " + long + "\n  Its second line.\n\n" +
		"| a table | " + long + " |\n\n```\n" + long + "\n```\n    " + long + "\n<!-- " + long + " -->\n"
	all, lines := Paragraphs(page)
	if lines != 10 {
		t.Errorf("%d lines", lines)
	}
	var counts []int
	for _, p := range all {
		for _, s := range Sentences(p.Text) {
			counts = append(counts, Words(s))
		}
	}
	want := []int{4, 7, 1, mostWords + 1, 3}
	if len(counts) != len(want) {
		t.Fatalf("%d, want %d", counts, want)
	}
	for i := range want {
		if counts[i] != want[i] {
			t.Errorf("%d, want %d", counts, want)
		}
	}
}
