package golden

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// recorder is a test that notes how it was failed.
type recorder struct {
	testing.TB
	failed string
}

func (r *recorder) Helper() {}

func (r *recorder) Fatalf(format string, args ...any) {
	r.failed = fmt.Sprintf(format, args...)
	panic(r)
}

// check runs Check and returns how it failed.
func check(t *testing.T, name, got string) string {
	t.Helper()
	r := &recorder{TB: t}
	func() {
		defer func() {
			if p := recover(); p != nil && p != any(r) {
				panic(p)
			}
		}()
		Check(r, name, got)
	}()
	return r.failed
}

func TestCheck(t *testing.T) {
	name := filepath.Join(t.TempDir(), "testdata", "a.txt")
	if failed := check(t, name, "x"); !strings.Contains(failed, "-rewrite makes it") {
		t.Errorf("no file: %q", failed)
	}
	*rewrite = true
	failed := check(t, name, "one\ntwo\n")
	*rewrite = false
	if failed != "" {
		t.Fatal(failed)
	}
	if b, err := os.ReadFile(name); err != nil || string(b) != "one\ntwo\n" {
		t.Fatalf("%q, %v", b, err)
	}
	for _, c := range []struct{ got, want string }{
		{"one\ntwo\n", ""},
		{"one\n2\n", "from line 2 on:\n now: 2\nthen: two\n"},
		{"one\n", "from line 2 on:\n now: \nthen: two\n"},
		{"one\ntwo\nthree", "from line 3 on:\n now: three\nthen: \n"},
		{"", "from line 1 on:\n now: \nthen: one\n"},
		{"one\ntwo\n\n", "from line 3 on:"},
	} {
		if failed := check(t, name, c.got); (failed == "") != (c.want == "") || !strings.Contains(failed, c.want) {
			t.Errorf("%q: %q", c.got, failed)
		}
	}
}
