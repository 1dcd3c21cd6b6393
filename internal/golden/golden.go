// Package golden pins a test's output to a file in testdata. The output may be the bytes of a format, the help of a command, or the answers
// of a story. With -rewrite the file is written instead, and git diff shows what changed (make golden does it for every package).
//
// It is for tests only: importing it registers the flag -rewrite. It makes nothing comparable by itself: its input must have no paths,
// times or other values that differ from run to run.
package golden

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files in testdata from what the code does now")

// Check fails t unless the file name (relative to the package, as in "testdata/entry.hex") holds got.
func Check(t testing.TB, name, got string) {
	t.Helper()
	if *rewrite {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatalf("%v (-rewrite makes it)", err)
	}
	if line, now, then := difference(got, string(want)); line > 0 {
		t.Fatalf("%s differs from line %d on:\n now: %s\nthen: %s\n-rewrite and git diff show all; a changed format needs its page "+
			"in docs/formats. Now:\n%s", name, line, now, then, got)
	}
}

// difference finds the first line, from 1, in which two texts differ; 0 if none does.
func difference(now, then string) (line int, nowLine, thenLine string) {
	if now == then {
		return 0, "", ""
	}
	a, b := strings.SplitAfter(now, "\n"), strings.SplitAfter(then, "\n")
	for line = 1; ; line++ {
		nowLine, thenLine = "(the end)", "(the end)"
		if line <= len(a) {
			nowLine = strings.TrimSuffix(a[line-1], "\n")
		}
		if line <= len(b) {
			thenLine = strings.TrimSuffix(b[line-1], "\n")
		}
		if line > len(a) || line > len(b) || a[line-1] != b[line-1] {
			return line, nowLine, thenLine
		}
	}
}
