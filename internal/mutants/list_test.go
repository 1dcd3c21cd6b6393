package main

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var root = filepath.Join("..", "..")

func list(t *testing.T) []*mutant {
	t.Helper()
	all, err := readList("list")
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestTheListIsOfThisTree: every mutant applies to the tree as it is, to something that parses, and the test it names is there.
// Whether that test notices is what make mutants says.
func TestTheListIsOfThisTree(t *testing.T) {
	all := list(t)
	if len(all) < 60 {
		t.Errorf("%d mutants: the list was longer", len(all))
	}
	for _, m := range all {
		files, err := m.apply(root)
		if err != nil {
			t.Error(err)
			continue
		}
		for name, text := range files {
			if _, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution); err != nil {
				t.Errorf("%s: %v", m.name, err)
			}
		}
		name, _, _ := strings.Cut(m.test.name, "/")
		if !hasTest(t, m.test.pkg, name) {
			t.Errorf("%s: there is no %s", m.name, m.test)
		}
	}
}

func hasTest(t *testing.T, pkg, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, pkg, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(files, func(file string) bool {
		src, err := os.ReadFile(file)
		return err == nil && strings.Contains(string(src), "\nfunc "+name+"(t *testing.T)")
	})
}

// TestEveryAbsenceHasAMutant: each row of docs/INVARIANTS.md is worth a mutant, and each mutant names a row that is there.
// The packages that the rows are about have some of their own.
func TestEveryAbsenceHasAMutant(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs", "INVARIANTS.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows := absences(string(page))
	if len(rows) < 30 {
		t.Fatalf("the page has %d absences: this test looks at nothing", len(rows))
	}
	has, in := map[string]bool{}, map[string]bool{}
	for _, m := range list(t) {
		if m.never != "-" && !slices.Contains(rows, m.never) {
			t.Errorf("%s: docs/INVARIANTS.md has no row %q", m.name, m.never)
		}
		has[m.never] = true
		for _, e := range m.edits {
			in[filepath.Dir(e.file)] = true
		}
	}
	for _, row := range rows {
		if !has[row] {
			t.Errorf("no mutant breaks what guards against: %s", row)
		}
	}
	for _, pkg := range []string{"core/wal", "core/store", "core/raft", "core/node", "core/machine", "doors/kv/machine", "doors/kv/v2/machine", "core/machine/ident", "doors/tlog/machine",
		"core/machine/member", "doors/kv/lease", "doors/kv/v2/expire", "doors/kv/compact", "doors/tlog/checkpoint", "doors/tlog/publish", "serve/port", "doors/tlog", "doors/saga/outcall", "objstore", "archive/format"} {
		if !in[pkg] {
			t.Errorf("no mutant of %s", pkg)
		}
	}
}

var absence = regexp.MustCompile(`(?m)^\| ([^|]+?) \|`)

// absences are the first cells of the table's rows.
func absences(page string) (rows []string) {
	_, table, _ := strings.Cut(page, "\n| never | because | guarded by |\n|---|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	for _, m := range absence.FindAllStringSubmatch(table, -1) {
		rows = append(rows, m[1])
	}
	return rows
}

func TestParseListRefusals(t *testing.T) {
	const whole = "== a\nnever: -\nwhy: x\nin: f.go\n- old\n+ new\ncaught by: p.TestX -long -n 3\n"
	all, err := parseList("g", whole)
	if err != nil || len(all) != 1 || all[0].name != "g/a" || all[0].test != (testRef{pkg: "p", name: "TestX", long: true, args: "-n 3"}) {
		t.Fatalf("%+v, %v", all, err)
	}
	for _, gone := range []string{"never: -\n", "why: x\n", "in: f.go\n", "- old\n", "caught by: p.TestX -long -n 3\n", "== a\n"} {
		if _, err := parseList("g", strings.Replace(whole, gone, "", 1)); err == nil {
			t.Errorf("no error without %q", gone)
		}
	}
	for _, odd := range []string{whole + "what is this\n", whole + "note: this\n", strings.Replace(whole, "p.TestX", "TestX", 1)} {
		if _, err := parseList("g", odd); err == nil {
			t.Errorf("no error for %q", odd)
		}
	}
}

// TestApply: what a line is indented by does not matter, everything else does, and a text that is there twice is no place.
func TestApply(t *testing.T) {
	dir := t.TempDir()
	const text = "package p\n\nfunc f() {\n\tif a {\n\t\tb()\n\t}\n\tb()\n}\n"
	if err := os.WriteFile(filepath.Join(dir, "f.go"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	apply := func(edits ...edit) (string, error) {
		files, err := (&mutant{name: "m", edits: edits}).apply(dir)
		return files["f.go"], err
	}
	got, err := apply(edit{"f.go", []string{"if a {", "b()", "}"}, []string{"c()"}}, edit{"f.go", []string{"c()"}, nil})
	if want := "package p\n\nfunc f() {\n\t\n\tb()\n}\n"; err != nil || got != want {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
	for _, old := range []string{"b()", "a.", "d()"} {
		if got, err := apply(edit{"f.go", []string{old}, nil}); err == nil {
			t.Errorf("%q was applied: %q", old, got)
		}
	}
	if _, err := apply(edit{"g.go", []string{"b()"}, nil}); err == nil {
		t.Error("a file that is not there was changed")
	}
}
