package arch

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// wanted are the places that docs/ARCHITECTURE.md must name: the beginning of the row, and the folder that its file lies in.
var wanted = map[string]string{
	"where a put becomes durable":                    "core/",
	"where a saga's branch is called":                "doors/saga/",
	"where a database's commit waits for the bucket": "sqlite/",
	"where a door's flags are":                       "doors/",
	"where a learner is promoted":                    "core/",
}

// place is a row of the table: the thing, its file, and the function or method in it.
var place = regexp.MustCompile("(?m)^\\| (.+?) \\| `([^`]+)` \\| `([^`]+)` \\|$")

// TestTheFivePlaces: the table "Where is it?" leads a newcomer to the code, so each row's file holds the function that the row names.
func TestTheFivePlaces(t *testing.T) {
	root := filepath.Join("..", "..")
	page, err := os.ReadFile(filepath.Join(root, "docs", "ARCHITECTURE.md"))
	if err != nil {
		t.Fatal(err)
	}
	table, rows := section(string(page), "Where is it?"), 0
	missing := map[string]bool{}
	for start := range wanted { // any order: a set
		missing[start] = true
	}
	for line := range strings.Lines(table) {
		if !strings.HasPrefix(line, "| where") {
			continue
		}
		rows++
		m := place.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
		if m == nil {
			t.Errorf("a row that is not | what | `file` | `function` |: %s", line)
			continue
		}
		for start, folder := range wanted { // any order: a set
			if strings.HasPrefix(m[1], start) && strings.HasPrefix(m[2], folder) {
				delete(missing, start)
			}
		}
		src, err := os.ReadFile(filepath.Join(root, m[2]))
		if err != nil {
			t.Errorf("%s: %v", m[1], err)
		} else if !holds(string(src), m[3]) {
			t.Errorf("%s: %s has no function %s", m[1], m[2], m[3])
		}
	}
	if rows < len(wanted) {
		t.Errorf("the table has %d rows", rows)
	}
	for start := range missing { // any order: a set of findings
		t.Errorf("no row says %s", start)
	}
}

// section is what follows a heading of the second level, up to the next one.
func section(page, heading string) string {
	_, rest, _ := strings.Cut(page, "\n## "+heading+"\n")
	text, _, _ := strings.Cut(rest, "\n## ")
	return text
}

// holds reports whether source in Go or C defines the function called name: Type.Method or Function.
func holds(src, name string) bool {
	form := `(?m)^(func |\w[\w *]*[ *])` + regexp.QuoteMeta(name) + `\(`
	if typ, method, ok := strings.Cut(name, "."); ok {
		form = `(?m)^func \(\w+ \*?` + regexp.QuoteMeta(typ) + `\) ` + regexp.QuoteMeta(method) + `\(`
	}
	return regexp.MustCompile(form).MatchString(src)
}

func TestAFunctionIsFoundWhereItIsDefined(t *testing.T) {
	const goSource = "package a\n\nfunc (n *Node) writeJobs(x int) error {\n\treturn n.sync()\n}\n\nfunc open() {}\n"
	const cSource = "int commit_phase_two(File *f)\n{\n\tint ms = agent_commit(f);\n\tsettle(f);\n}\nstatic char *why(void)\n{\n}\n"
	for _, c := range []struct {
		src, name string
		want      bool
	}{
		{goSource, "Node.writeJobs", true},
		{goSource, "Other.writeJobs", false},
		{goSource, "writeJobs", false},
		{goSource, "Node.sync", false},
		{goSource, "open", true},
		{cSource, "commit_phase_two", true},
		{cSource, "why", true},
		{cSource, "agent_commit", false},
		{cSource, "settle", false},
	} {
		if got := holds(c.src, c.name); got != c.want {
			t.Errorf("%s in %.20q…: %v", c.name, c.src, got)
		}
	}
}
