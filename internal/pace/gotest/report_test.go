package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfastdb/holdfast/internal/pace"
)

// run is what go test -json prints of a package that fails, one that takes long and one that does not compile.
const run = `{"Action":"start","Package":"m/a"}
{"Action":"run","Package":"m/a","Test":"TestGood"}
{"Action":"output","Package":"m/a","Test":"TestGood","Output":"=== RUN   TestGood\n"}
{"Action":"output","Package":"m/a","Test":"TestGood","Output":"good words\n"}
{"Action":"pass","Package":"m/a","Test":"TestGood","Elapsed":0.5}
{"Action":"output","Package":"m/a","Test":"TestBad","Output":"bad words\n"}
{"Action":"output","Package":"m/a","Test":"TestBad/part","Output":"worse words\n"}
{"Action":"fail","Package":"m/a","Test":"TestBad/part","Elapsed":9}
{"Action":"fail","Package":"m/a","Test":"TestBad","Elapsed":1.5}
{"Action":"output","Package":"m/a","Test":"TestHangs","Output":"last words\n"}
{"Action":"output","Package":"m/a","Output":"FAIL\tm/a\t2.000s\n"}
{"Action":"fail","Package":"m/a","Elapsed":2}
{"Action":"output","Package":"m/b","Test":"TestSlow","Output":"slow words\n"}
{"Action":"pass","Package":"m/b","Test":"TestSlow","Elapsed":3}
{"Action":"output","Package":"m/b","Output":"PASS\n"}
{"Action":"output","Package":"m/b","Output":"ok  \tm/b\t4.600s\n"}
{"Action":"pass","Package":"m/b","Elapsed":4.6}
{"ImportPath":"m/c","Action":"build-output","Output":"c.go:1: no\n"}
no json
`

// TestReport: failures are told with their output, passes in a line, and a package that takes longer than it may is late.
func TestReport(t *testing.T) {
	t.Setenv(pace.Variable, "1.5")
	file := filepath.Join(t.TempDir(), "TESTS.md")
	if err := os.WriteFile(file, []byte("## Packages\n| `b` | 3 |\n| everything else | 2 |\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	allowed, err := pace.Read(file, "Packages")
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	r := newReport("m", &b)
	if err := r.read(strings.NewReader(run)); err != nil {
		t.Fatal(err)
	}
	r.slowest(2)
	if !r.judge(allowed) {
		t.Error("nothing is late")
	}
	want := "FAIL\tm/a\t2.000s\nbad words\nworse words\nlast words\nok  \tm/b\t4.600s\nc.go:1: no\nno json\n" +
		"the slowest tests:\n     3.0 s  b.TestSlow\n     1.5 s  a.TestBad\nslow: b took 4.6 s"
	if got := b.String(); !strings.HasPrefix(got, want) {
		t.Errorf("got\n%s\nwant it to begin with\n%s", got, want)
	}
}

// TestAllowances: the table can be read and names packages that there are.
func TestAllowances(t *testing.T) {
	root := filepath.Join("..", "..", "..")
	allowed, err := pace.Read(filepath.Join(root, allowances), "Packages")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range allowed.Names() {
		if tests, _ := filepath.Glob(filepath.Join(root, name, "*_test.go")); len(tests) == 0 {
			t.Errorf("%s allows %s its seconds, which has no tests", allowances, name)
		}
	}
}
