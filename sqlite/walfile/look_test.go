package walfile

import (
	"os"
	"path/filepath"
	"testing"
)

// TestAGlanceSeesEveryChange: a file that comes, that is written, that another one replaces, and that goes.
func TestAGlanceSeesEveryChange(t *testing.T) {
	path := filepath.Join(t.TempDir(), "app.db")
	seen := map[Look]string{LookAt(path): "nothing"}
	look := func(what string) {
		t.Helper()
		l := LookAt(path)
		if before := seen[l]; before != "" {
			t.Errorf("%s looks like %s", what, before)
		}
		if seen[l] = what; LookAt(path) != l {
			t.Errorf("%s looks different the second time", what)
		}
	}
	write := func(name, content string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(path, "a")
	look("a database")
	write(path, "ab")
	look("a longer one")
	write(path+"-wal", "w")
	look("a WAL beside it")
	write(path+"-wal", "wa")
	look("a longer WAL")
	write(path+".new", "ab")
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
	look("another file of the same length")
	if err := os.Remove(path + "-wal"); err != nil {
		t.Fatal(err)
	}
	look("it without a WAL")
}
