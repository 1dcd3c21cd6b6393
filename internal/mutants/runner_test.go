package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestVerdicts breaks a package of four lines in every way there is: only a test that fails because of the defect catches it.
func TestVerdicts(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":   "module example.com/small\n\ngo 1.26\n",
		"p/p.go":   "package p\n\nfunc Max(a, b int) int {\n\tif a > b {\n\t\treturn a\n\t}\n\treturn b\n}\n",
		"q/doc.go": "package q\n",
		"q/q_test.go": "package q\n\nimport (\n\t\"testing\"\n\n\t\"example.com/small/p\"\n)\n\n" +
			"func TestMax(t *testing.T) {\n\tif p.Max(2, 1) != 2 {\n\t\tt.Fatal(\"not the greater one\")\n\t}\n}\n\n" +
			"func TestNothing(t *testing.T) {\n\tp.Max(1, 2)\n}\n\n" +
			"func TestSkipped(t *testing.T) {\n\tif testing.Short() {\n\t\tt.Skip()\n\t}\n\tTestMax(t)\n}\n\n" +
			"func TestRed(t *testing.T) {\n\tt.Fatal(\"as ever\")\n}\n",
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const defect, head = "- if a > b {\n+ if a < b {\n", "never: -\nwhy: it is wrong\nin: p/p.go\n"
	all, err := parseList("small", ""+
		"== noticed\n"+head+defect+"caught by: q.TestMax\n"+
		"== panics\n"+head+"- return b\n+ panic(b)\n- if a > b {\n+ if a < b {\ncaught by: q.TestMax\n"+
		"== unnoticed\n"+head+defect+"caught by: q.TestNothing\n"+
		"== noticed-at-length\n"+head+defect+"caught by: q.TestSkipped -long\n"+
		"== skipped\n"+head+defect+"caught by: q.TestSkipped\n"+
		"== red-anyway\n"+head+defect+"caught by: q.TestRed\n"+
		"== no-test\n"+head+defect+"caught by: q.TestGone\n"+
		"== no-program\n"+head+"- return a\n+ return \"a\"\ncaught by: q.TestMax\n"+
		"== moved\n"+head+"- if a >= b {\ncaught by: q.TestMax\n")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("GOFLAGS", "-buildvcs=false -trimpath -tags=gms_pure_go") // as the tests are compiled: the library is then in the cache
	verdicts, err := (&runner{root: dir, jobs: 2}).run(t.Context(), all)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"small/noticed": caught, "small/panics": caught, "small/unnoticed": survived, "small/noticed-at-length": caught,
		"small/skipped": baselineFail, "small/red-anyway": baselineFail, "small/no-test": baselineFail, "small/no-program": notCompiled,
		"small/moved": notApplied}
	for i, v := range verdicts {
		if v.m != all[i] || v.kind != want[v.m.name] {
			t.Errorf("%s is %q (%s), want %q", v.m.name, v.kind, v.text, want[v.m.name])
		}
	}
	if text := verdicts[0].text; text != "not the greater one" {
		t.Errorf("what the test said is told as %q", text)
	}
	text, bad := summary(verdicts, 0)
	if bad != 6 || !strings.Contains(text, "9 mutants in 0s: 3 caught, 1 SURVIVED") || !strings.Contains(text, "small/unnoticed") {
		t.Errorf("%d red, told as %s", bad, text)
	}
	page := table(all, verdicts, "")
	if !strings.Contains(page, "| small/unnoticed | p/p.go | `q.TestNothing` | SURVIVED |") || !strings.Contains(page, "9 mutants: 3 caught, 1 SURVIVED") {
		t.Errorf("no row of the survivor in %s", page)
	}
	if again := table(all, nil, page); again != page {
		t.Errorf("a run of nothing made\n%s of\n%s", again, page)
	}
	verdicts[2].kind = caught
	if next := table(all, verdicts[2:3], page); !strings.Contains(next, "9 mutants: 4 caught, 1 DOES NOT BUILD") {
		t.Errorf("a run of the survivor made %s", next)
	}
	all[0].test.name = "TestOther" // what was tried is another thing now
	if next := table(all, nil, page); !strings.Contains(next, "| small/noticed | p/p.go | `q.TestOther` | not run | – |") {
		t.Errorf("a changed mutant keeps its verdict: %s", next)
	}
}

// TestATestThatHangsIsNoCatch unless the list says so.
func TestATestThatHangsIsNoCatch(t *testing.T) {
	const hanging = "=== RUN   TestX\npanic: test timed out after 30s\n"
	if got := judge(hanging, os.ErrClosed, false, "TestX"); got.end != late {
		t.Errorf("ran into its limit and %s", got.end)
	}
	if got := judge("", os.ErrClosed, true, "TestX"); got.end != late {
		t.Errorf("was cut and %s", got.end)
	}
	if got := judge("", os.ErrClosed, false, "TestX"); got.end != absent {
		t.Errorf("could not be run and %s", got.end)
	}
	if got := judge("--- PASS: TestXY (0.00s)\n", nil, false, "TestX"); got.end != absent {
		t.Errorf("another one passed and it %s", got.end)
	}
}
