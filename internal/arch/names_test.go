package arch

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestPagesNameWhatIsThere: readers of a page look for what it names, so that has to be in the tree.
func TestPagesNameWhatIsThere(t *testing.T) {
	root := filepath.Join("..", "..")
	tree, err := ReadTree(root)
	if err != nil {
		t.Fatal(err)
	}
	pages := []string{"README.md", "CONTRIBUTING.md"}
	for _, form := range []string{"docs/*.md", "docs/*/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, form))
		if err != nil || len(found) < 5 {
			t.Fatalf("%d pages of the form %s, %v: this test looks at nothing", len(found), form, err)
		}
		for _, name := range found {
			pages = append(pages, strings.TrimPrefix(filepath.ToSlash(name), "../../"))
		}
	}
	for _, page := range pages {
		text, err := os.ReadFile(filepath.Join(root, page))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range tree.Missing(string(text)) {
			t.Errorf("%s names %s", page, m)
		}
		for _, m := range tree.DeadLinks(page, string(text)) {
			t.Errorf("%s links to %s, which is not there", page, m)
		}
	}
}

// TestSourceCitesPagesThatAreThere: comments and scripts send their readers to pages.
func TestSourceCitesPagesThatAreThere(t *testing.T) {
	tree, err := ReadTree(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	cited := 0
	for name := range tree.paths { // any order: a set of findings
		switch filepath.Ext(name) {
		case ".go", ".sh", ".md", ".yaml", ".txt":
		default:
			continue
		}
		if strings.HasPrefix(name, "internal/arch/") {
			continue // its tests name pages that are nowhere
		}
		text, err := os.ReadFile(filepath.Join("..", "..", name))
		if err != nil {
			t.Fatal(err)
		}
		for _, page := range regexp.MustCompile(`\bdocs/[\w/-]+\.md\b`).FindAllString(string(text), -1) {
			if cited++; !tree.paths[page] {
				t.Errorf("%s cites %s, which is not there", name, page)
			}
		}
	}
	if cited < 10 {
		t.Errorf("%d citations: this test looks at nothing", cited)
	}
}

// TestMissingNamesAreFound shows that each kind of name is looked for, and what is not ours is let alone.
func TestMissingNamesAreFound(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"Makefile":         "check: ## all\n\tgo vet\n",
		"low/a.go":         "package low\n\ntype Log struct{ Size int }\n\nfunc (l *Log) Sync() {}\n\nfunc Open() {}\n",
		"low/a_test.go":    "package low\n\nimport \"testing\"\n\nfunc TestSync(t *testing.T) {}\n",
		"low/sub/b.go":     "package sub\n\nconst Limit = 1\n",
		"cmd/x/main.go":    "package main\n\nvar flags = []string{\"data\", \"peer-ca\", \"serve\", \"to-\", \"member add\", \"holdfast magic 1 \", \"HOLDFAST_DEBUG\"}\n",
		"cmd/x/x_test.go":  "package main\n\nvar only = \"in-a-test\"\n",
		"scripts/run.sh":   "true\n",
		"build/made.go":    "not go",
		"docs/formats/x.y": "x\n",
	} {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tree, err := ReadTree(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ page, want string }{
		{"`low/a.go` `low/sub` `low/sub/` `low/...` `low/*` `low/*.go` `{low,docs}/x` is no path: `low`", "no such path|no such path"},
		{"`low/api.go`", "`low/api.go`: no such path"},
		{"`low/{sub,gone}`", "`low/gone`: no such path"},
		{"`low/*.md`", "no path of that form"},
		{"`a.go` `run.sh`", ""},
		{"`b_test.go`", "no file of that name"},
		{"`low.Open` `low.Log.Sync` `low.Log.Size` `sub.Limit` `low/sub.Limit`", ""},
		{"`low.Close`", "no such name"},
		{"`low.Log.Close`", "no such name"},
		{"`low/gone.Close`", "no such name"},
		{"`pebble.Sync` `/add` `server/storage` `build/x` `ca.pem` `name.of.x`", ""},
		{"`TestSync` `low.TestSync` `TestSync/case`", ""},
		{"`TestGone`", "no such test"},
		{"`low/sub.TestSync`", "no such test"},
		{"`make check X=1` `makes nothing`", ""},
		{"`make gone`", "no such target"},
		{"`--data` `--data DIR` `--peer-*` `etcdctl --gone` `HOLDFAST_DATA` `HOLDFAST_DEBUG=1`", ""},
		{"`--gone`", "no flag --gone"},
		{"`--gone-*`", "no flag --gone-*"},
		{"`--in-a-test`", "no flag"},
		{"`HOLDFAST_GONE`", "no flag or variable"},
		{"`holdfast serve --data x` `holdfast member add` `--to-data` `holdfast magic 1`", ""},
		{"`--to-gone`", "no flag --to-gone"},
		{"`holdfast gone`", "no such subcommand"},
		{"`holdfast serve [--gone=1]`", "no flag --gone"},
		{"```\nbin/holdfast serve --gone # --data\n  make gone\nother --gone\nlow/api.go\n```\n`low/a.go`", "no flag --gone|no such target"},
	} {
		expect(t, c.page, tree.Missing(c.page), strings.Split(c.want, "|")...)
	}
}

func TestDeadLinksAreFound(t *testing.T) {
	tree := &Tree{paths: map[string]bool{"docs/a.md": true, "docs/adr": true, "docs/adr/1.md": true}}
	page := "[a](a.md) [a](adr/1.md#part) [a](adr/) [a](#part) [a](https://x.example/y.md) [a](../a.md)\n[b](b.md)"
	expect(t, "links", tree.DeadLinks("docs/x.md", page), "a.md", "b.md")
}

var odd = regexp.MustCompile(`(?m)^\s*// (\w+ says|.*\btells) whether\b`)

// TestConditionsAreReported: a doc comment of a condition has the words that every Go programmer knows, "reports whether".
func TestConditionsAreReported(t *testing.T) {
	tree, err := ReadTree(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	for name := range tree.paths { // any order: a set of findings
		if !strings.HasSuffix(name, ".go") {
			continue
		}
		text, err := os.ReadFile(filepath.Join("..", "..", name))
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range odd.FindAllString(string(text), -1) {
			t.Errorf("%s:%s: say reports whether", name, line)
		}
	}
	if !odd.MatchString("\t// a tells whether b") || odd.MatchString("// a reports whether b") {
		t.Error("this test looks at nothing")
	}
}
