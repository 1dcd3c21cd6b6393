package arch

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/holdfastdb/holdfast"

// TestRepository is the rule itself: the repository as it stands against the tables in docs/CODEMAP.md.
func TestRepository(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(root, "docs", "CODEMAP.md"))
	if err != nil {
		t.Fatal(err)
	}
	rules, err := Parse(string(page))
	if err != nil {
		t.Fatal(err)
	}
	packages := list(t, root)
	for _, f := range rules.Imports(module, packages) {
		t.Error(f)
	}
	imp := exported(t, root)
	for _, p := range packages {
		path := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
		files := make(map[string]string)
		for _, name := range p.GoFiles {
			src, err := os.ReadFile(filepath.Join(p.Dir, name))
			if err != nil {
				t.Fatal(err)
			}
			files[filepath.Join(path, name)] = string(src)
		}
		found, err := rules.Calls(path, files, imp)
		if err != nil {
			t.Error(err)
		}
		for _, f := range found {
			t.Error(f)
		}
	}
}

var namedTest = regexp.MustCompile("`([a-z0-9/]+)\\.(Test[A-Za-z0-9_]+)`")

// TestNamedTestsExist: a page names the test that guards each promise; a promise whose test was renamed or dropped must
// not go on looking kept.
func TestNamedTestsExist(t *testing.T) {
	root := filepath.Join("..", "..")
	for _, name := range []string{"INVARIANTS.md", "SQLITE.md"} {
		page, err := os.ReadFile(filepath.Join(root, "docs", name))
		if err != nil {
			t.Fatal(err)
		}
		named := namedTest.FindAllStringSubmatch(string(page), -1)
		if len(named) < 10 {
			t.Fatalf("docs/%s names %d tests: this test looks at nothing", name, len(named))
		}
		for _, m := range named {
			names, err := filepath.Glob(filepath.Join(root, m[1], "*_test.go"))
			if err != nil {
				t.Fatal(err)
			}
			if !slices.ContainsFunc(names, func(name string) bool {
				src, err := os.ReadFile(name)
				return err == nil && bytes.Contains(src, []byte("\nfunc "+m[2]+"("))
			}) {
				t.Errorf("docs/%s names %s.%s, which is not there", name, m[1], m[2])
			}
		}
	}
}

// TestEachAnswerIsATest: the questions that docs/SQLITE.md opens with are ten, and each answer is followed by the tests that hold it.
func TestEachAnswerIsATest(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "SQLITE.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, questions, _ := strings.Cut(string(page), "\n## What happens to my file if …\n")
	questions, _, _ = strings.Cut(questions, "\n## ")
	answers := regexp.MustCompile(`(?m)^\*\*\d+\. … .*\?\*\*`).Split(questions, -1)[1:]
	if len(answers) != 10 {
		t.Fatalf("%d answers", len(answers))
	}
	for i, a := range answers {
		if _, held, _ := strings.Cut(a, "<!--"); !namedTest.MatchString(held) {
			t.Errorf("no test is named behind answer %d", i+1)
		}
	}
}

var (
	citation = regexp.MustCompile(`DECISIONS ([A-D][0-9]*)`)
	decision = regexp.MustCompile(`(?m)^## ([A-D][0-9]*)\.`)
)

// TestCitedDecisions finds citations in the code that lead nowhere.
func TestCitedDecisions(t *testing.T) {
	root := filepath.Join("..", "..")
	known := make(map[string]bool)
	for _, name := range []string{"DECISIONS.md", "DECISIONS-C.md"} {
		page, err := os.ReadFile(filepath.Join(root, "docs", name))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range decision.FindAllStringSubmatch(string(page), -1) {
			known[m[1]] = true
		}
	}
	cited := 0
	for _, p := range list(t, root) {
		names, err := filepath.Glob(filepath.Join(p.Dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			src, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range citation.FindAllStringSubmatch(string(src), -1) {
				if cited++; !known[m[1]] && p.ImportPath != module+"/internal/arch" {
					t.Errorf("%s cites DECISIONS %s, which docs/DECISIONS.md and its part C do not have", name, m[1])
				}
			}
		}
	}
	if cited == 0 || len(known) == 0 {
		t.Errorf("%d citations of %d decisions: this test looks at nothing", cited, len(known))
	}
}

func list(t *testing.T, root string) []Package {
	t.Helper()
	var packages []Package
	for d := decode(goList(t, root, "-json=ImportPath,Dir,Doc,GoFiles,Imports", "./...")); ; {
		var p Package
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return packages
		} else if err != nil {
			t.Fatal(err)
		}
		packages = append(packages, p)
	}
}

// exported imports types from the compiler's export data, which `go list -export` builds or finds in the build cache.
func exported(t *testing.T, root string) types.Importer {
	t.Helper()
	files := make(map[string]string)
	for d := decode(goList(t, root, "-export", "-deps", "-json=ImportPath,Export", "./...")); ; {
		var p struct{ ImportPath, Export string }
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		files[p.ImportPath] = p.Export
	}
	return importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) {
		name := files[path]
		if name == "" {
			return nil, fmt.Errorf("no export data for %s", path)
		}
		return os.Open(name)
	})
}

func goList(t *testing.T, root string, args ...string) []byte {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list"}, args...)...)
	cmd.Dir = root
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.String())
	}
	return out
}

func decode(b []byte) *json.Decoder { return json.NewDecoder(bytes.NewReader(b)) }

const fakePage = "" +
	"| layer | path | what | may import | third parties |\n" +
	"|--:|---|---|---|---|\n" +
	"| 0 | `low` `low/{a,b}` | | `low` | |\n" +
	"| 1 | `mid` | | `low/a` | `example.com/raft` |\n" +
	"| 1 | `mid2/...` | | | |\n" +
	"| 2 | `top` | | all | |\n" +
	"| 3 | `top/late` | | all | |\n" +
	"| 0 | `part/*` | | `low` | |\n" +
	"| 1 | `mach/*` | | `part/*` `low` | |\n" +
	"| 1 | `mach/own` | | `part/...` | `example.com/raft` |\n" +
	"| 2 | `work/*` | | `part/...` `mach/*` | |\n" +
	"| 2 | `top2/*` | | all `top` | |\n" +
	"| – | `tests` | | all | |\n" +
	"\n" +
	"| not allowed | where | why |\n" +
	"|---|---|---|\n" +
	"| `time.Now` `go statement` `import os` `range over a map` | `low` | |\n" +
	"| `time.Sleep` | everywhere except `top` | |\n"

func TestParseRefusesAPageWithoutTables(t *testing.T) {
	layers, bans, _ := strings.Cut(fakePage, "\n\n")
	for _, page := range []string{"", "# no tables\n", layers, bans, "| layer | path |\n| one | `a` | | | |\n", "| layer |\n| 1 | `a` |\n",
		"| layer |\n| 1 | `a/*/*` | | | |\n" + bans} {
		if _, err := Parse(page); err == nil {
			t.Errorf("no error for %q", page)
		}
	}
}

// TestImportsCanFail shows that each kind of violation is found, and only that.
func TestImportsCanFail(t *testing.T) {
	rules, err := Parse(fakePage)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{ // path → allowed import, the repository in order
		"low": "fmt", "low/a": module + "/low", "low/b": "fmt", "mid": "example.com/raft/v3", "mid2/x": "fmt",
		"top": module + "/mid2/x", "tests": module + "/top",
		"part/a": module + "/low", "part/b": "fmt", "mach/a": module + "/part/a", "mach/b": module + "/part/b", "mach/own": module + "/part/b",
		"work/a": module + "/mach/a", "top2/a": module + "/mid", "top/late": "fmt",
	}
	for _, c := range []struct {
		name, path, imp, want string
	}{
		{name: "in order"},
		{"sibling", "low/b", module + "/low/a", "low/b imports " + module + "/low/a: not in the column"},
		{"upward", "low", module + "/mid", "layer 0 may not see layer 1"},
		{"not listed", "mid", module + "/low/b", "not in the column"},
		{"same layer", "mid", module + "/mid2/x", "not in the column"},
		{"test helper", "top", module + "/tests", "only tests may use it"},
		{"third party", "mid2/x", "example.com/raft/v3", "third party"},
		{"third party with a longer name", "mid", "example.com/raftlike", "third party"},
		{"cgo", "mid", "C", "no cgo"},
		{"no row", "elsewhere", "fmt", "elsewhere: no row"},
		{"import of a package without a row", "top", module + "/elsewhere", "has no row"},
		{"default row: the same name", "mach/b", module + "/low", ""},
		{"default row: another name", "mach/a", module + "/part/b", "mach/a imports " + module + "/part/b: not in the column"},
		{"default row: a sibling in the same row", "mach/a", module + "/mach/b", "not in the column"},
		{"default row: not listed", "mach/a", module + "/mid", "not in the column"},
		{"default row: upward", "part/a", module + "/mach/a", "layer 0 may not see layer 1"},
		{"default row: third party", "mach/a", "example.com/raft", "third party"},
		{"default row: any name below a listed path", "work/a", module + "/part/b", ""},
		{"default row: another name of the layer below", "work/a", module + "/mach/own", "not in the column"},
		{"all, and one of the same layer", "top2/a", module + "/top", ""},
		{"all, and none that is not listed", "top2/a", module + "/work/a", "not in the column"},
		{"own row before the default: may do more", "mach/own", "example.com/raft", ""},
		{"own row before the default: may do less", "mach/own", module + "/low", "not in the column"},
		{"a parent does not see a child of a higher layer", "top", module + "/top/late", "layer 2 may not see layer 3"},
		{"default row: one name and no deeper", "mach/a/deep", "fmt", "mach/a/deep: no row"},
	} {
		imports := make(map[string][]string)
		for p, imp := range all {
			imports[p] = []string{imp}
		}
		if c.path != "" {
			imports[c.path] = append(imports[c.path], c.imp)
		}
		var packages []Package
		for p, imps := range imports {
			packages = append(packages, Package{ImportPath: module + "/" + p, Doc: "x", GoFiles: []string{"x.go"}, Imports: imps})
		}
		expect(t, c.name, rules.Imports(module, packages), c.want)
	}
	expect(t, "row without package", rules.Imports(module, []Package{{ImportPath: module + "/low", Doc: "x"}}), "low/a, which has no package",
		"low/b", "mid", "mid2/...", "top", "top/late", "tests", "mach/own")
}

// TestDoorsAreStrangers: beside the table, a door knows of another one its part alone, and the core and the server know none.
func TestDoorsAreStrangers(t *testing.T) {
	for _, c := range []struct {
		path, imp string
		want      bool
	}{
		{"doors/saga", "doors/kv/part", false},
		{"doors/saga", "doors/kv/machine", true},
		{"doors/saga/program", "doors/kv", true},
		{"doors/kv/program", "doors/kv/v2/machine", false},
		{"core/node", "doors/kv/part", true},
		{"serve/snapshot", "doors/kv/etcdfile", true},
		{"archive/ship", "doors/tlog/part", true},
		{"cmd/holdfast", "doors/tlog/program", false},
		{"sim", "doors/tlog/machine", false},
		{"doors/kv", "core/node", false},
	} {
		if got := strange(c.path, c.imp); got != c.want {
			t.Errorf("%s imports %s: %v", c.path, c.imp, got)
		}
	}
}

func TestBansOfAFamily(t *testing.T) {
	for path, want := range map[string]bool{"doors/kv/machine": true, "doors/kv/machine/deep": true, "doors/kv": false, "doors/kv/v2/machine": false, "doors/machine": false} {
		if got := withinAny(path, []string{"doors/*/machine/..."}); got != want {
			t.Errorf("%s: %v", path, got)
		}
	}
}

func TestMissingPackageComment(t *testing.T) {
	rules, err := Parse("| layer | path | w | m | t |\n| 0 | `a` | | | |\n\n| not allowed | where | why |\n| `x.Y` | `a` | |\n")
	if err != nil {
		t.Fatal(err)
	}
	expect(t, "no comment", rules.Imports(module, []Package{{ImportPath: module + "/a", GoFiles: []string{"a.go"}}}), "a: no package comment")
	expect(t, "only tests", rules.Imports(module, []Package{{ImportPath: module + "/a"}}), "")
}

func TestCallsCanFail(t *testing.T) {
	rules, err := Parse(fakePage)
	if err != nil {
		t.Fatal(err)
	}
	imp := exported(t, ".")
	for _, c := range []struct{ name, path, src, want string }{
		{"nothing", "low", `package low`, ""},
		{"clock", "low/a", `package a; import "time"; var T = time.Now()`, "time.Now is not allowed in low/a"},
		{"clock under another name", "low", `package low; import t "time"; var T = t.Now()`, "time.Now"},
		{"clock as a value", "low", `package low; import "time"; var F = time.Now`, "time.Now"},
		{"another call of time", "low", `package low; import "time"; var T = time.Unix(0, 0)`, ""},
		{"clock elsewhere", "mid", `package mid; import "time"; var T = time.Now()`, ""},
		{"goroutine", "low", `package low; func f() { go f() }`, "go statement"},
		{"import", "low", `package low; import _ "os"`, "import os"},
		{"everywhere", "mid", `package mid; import "time"; func f() { time.Sleep(1) }`, "time.Sleep"},
		{"everywhere except", "top", `package top; import "time"; func f() { time.Sleep(1) }`, ""},
		{"map", "low", "package low\ntype m map[int]int\nfunc f(x m) { for range x {} }", "range over a map"},
		{"slice", "low", "package low\nfunc f(x []int) { for range x {} }", ""},
		{"map with a reason", "low", "package low\nfunc f(x map[int]int) (n int) {\n// any order: a sum\nfor _, v := range x { n += v }; return }", ""},
	} {
		found, err := rules.Calls(c.path, map[string]string{"f.go": c.src}, imp)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		expect(t, c.name, found, c.want)
	}
}

// expect wants one finding for each non-empty text, in any order, and no other.
func expect(t *testing.T, name string, found []string, want ...string) {
	t.Helper()
	want = slices.DeleteFunc(want, func(w string) bool { return w == "" })
	for _, w := range want {
		if !slices.ContainsFunc(found, func(f string) bool { return strings.Contains(f, w) }) {
			t.Errorf("%s: no finding %q in %q", name, w, found)
		}
	}
	if len(found) != len(want) {
		t.Errorf("%s: %d findings, want %d: %q", name, len(found), len(want), found)
	}
}
