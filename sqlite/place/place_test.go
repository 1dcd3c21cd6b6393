package place

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// tree is a directory with links; the test's working directory is in it.
func tree(t *testing.T) string {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(root)
	for _, dir := range []string{"v1", "v1/data", "v2", "odd \xff dir"} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for name, to := range map[string]string{"current": "v1", "v1/up": "../v2", "link.db": "v1/app.db", "second.db": "link.db", "absolute.db": root + "/v1/app.db",
		"current2": "current/data", "dangling.db": "v2/new.db", "loop": "loop", "a": "b", "b": "a", "v2/back": "../current"} {
		if err := os.Symlink(to, name); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 210 {
		to := fmt.Sprintf("chain%d", i+1)
		if i == 209 {
			to = "v1/app.db"
		}
		if err := os.Symlink(to, fmt.Sprintf("chain%d", i)); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// names are ways to write v1/app.db and others; the value is the path that is meant, "" for a refusal.
func names(root string) map[string]string {
	return map[string]string{
		"v1/app.db": "v1/app.db", "./v1//./app.db": "v1/app.db", root + "/v1/app.db": "v1/app.db", "v1/app.db/": "v1/app.db",
		"current/app.db": "v1/app.db", "link.db": "v1/app.db", "second.db": "v1/app.db", "absolute.db": "v1/app.db", "current2/../app.db": "v1/app.db",
		"v1/up/../current/app.db": "v1/app.db", "v2/back/up/back/app.db": "v1/app.db", "v2/../v1/app.db": "v1/app.db",
		"current/up/x.db": "v2/x.db", "dangling.db": "v2/new.db", "missing/deep/x.db": "missing/deep/x.db", "missing/../v1/app.db": "v1/app.db",
		"odd \xff dir/\xfe.db": "odd \xff dir/\xfe.db", "chain15": "v1/app.db", "chain9": "v1/app.db", "chain8": "", "loop": "", "a": "", "a/x.db": "",
		strings.Repeat("x", 300): "", "": "", "/": "", "..//..//../../../../../../../../../..": "", strings.Repeat("v1/", 1500) + "x": "",
	}
}

func TestNamesAreResolved(t *testing.T) {
	root := tree(t)
	for name, want := range names(root) { // any order: each by itself
		p, err := Resolve(name)
		switch {
		case want == "" && err == nil:
			t.Errorf("%.100q is taken for %s", name, p.Path)
		case want != "" && err != nil:
			t.Errorf("%q: %v", name, err)
		case want != "":
			if p.Path != root+"/"+want {
				t.Errorf("%q: %s, want %s", name, p.Path, want)
			}
			if again, err := Resolve(p.Path); err != nil || again.Path != p.Path || again.Spot != p.Spot || again.Linked {
				t.Errorf("%q: what it is resolved to is another place: %+v, %v", name, again, err)
			}
		}
	}
	if p, _ := Resolve("v1/app.db"); p.Linked {
		t.Error("a name without a link is said to have one")
	}
	if p, _ := Resolve("current/app.db"); !p.Linked {
		t.Error("a name with a link is said to have none")
	}
}

// TestNamesAreResolvedAsSQLiteDoes asks SQLite which file each name means.
func TestNamesAreResolvedAsSQLiteDoes(t *testing.T) {
	root := tree(t)
	for name, want := range names(root) { // any order: each by itself
		if name == "" || strings.HasPrefix(want, "missing") || len(name) > 400 {
			continue // SQLite makes a temporary database, or no directory, or has no room for the name
		}
		cmd := exec.Command("sqlite3", name, "select file from pragma_database_list")
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if errors.Is(err, exec.ErrNotFound) {
			t.Fatalf("%v (apt-get install sqlite3)", err)
		}
		if got := strings.TrimSuffix(string(out), "\n"); want == "" && err == nil && name != "/" && !strings.HasPrefix(name, "..") || want != "" && got != root+"/"+want {
			t.Errorf("%q: SQLite says %q (%v %s), want %q", name, got, err, stderr.String(), want)
		}
	}
}

func TestADatabaseHasOneName(t *testing.T) {
	tree(t)
	at := func(name string) Place {
		t.Helper()
		p, err := Resolve(name)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	if id, err := at("v1/app.db").Check(); err != nil || id != (ID{}) {
		t.Errorf("a file that is missing: %v, %v", id, err)
	}
	if err := os.WriteFile("v1/app.db", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	id, err := at("second.db").Check()
	if other, _ := at("v1/app.db").Check(); err != nil || id != other || id == (ID{}) {
		t.Errorf("%v, %v, %v", id, other, err)
	}
	if _, err := at("v1").Check(); err != nil {
		t.Errorf("a directory, which has a name for each directory in it: %v", err)
	}
	if err := os.Link("v1/app.db", "v2/hard.db"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"v1/app.db", "v2/hard.db", "link.db"} {
		if _, err := at(name).Check(); err == nil || !strings.Contains(err.Error(), "has 2 names (hard links)") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestALinkThatIsPointedElsewhereIsSeen(t *testing.T) {
	root := tree(t)
	p, err := Resolve("current/app.db")
	if err != nil {
		t.Fatal(err)
	}
	if path, elsewhere := p.Leads(); elsewhere || path != root+"/v1/app.db" || !p.Stands() {
		t.Errorf("%s, %v", path, elsewhere)
	}
	os.Remove("current")
	if _, elsewhere := p.Leads(); !elsewhere {
		t.Error("a link that is gone is not seen")
	}
	os.Symlink("v2", "current")
	if path, elsewhere := p.Leads(); !elsewhere || path != root+"/v2/app.db" {
		t.Errorf("%s, %v", path, elsewhere)
	}
	if !p.Stands() {
		t.Error("the directory is the one that it was")
	}
	os.Rename("v1", "v0")
	os.Mkdir("v1", 0o700)
	if p.Stands() {
		t.Error("another directory is taken for the one that it was")
	}
}

func TestOnePlaceOfReplicasHasManySpellings(t *testing.T) {
	root := tree(t)
	t.Setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9000")
	for _, c := range []struct {
		a, b        Store
		same, holds bool
	}{
		{OfURL("s3://b/x"), OfURL("s3://b/x/"), true, false},
		{OfURL("s3://b/x?endpoint=http://localhost:9000&region=a"), OfURL("s3://b//x/?region=a&endpoint=http://[::1]:9000"), true, false},
		{OfURL("s3://b/x"), Bucket("https://LOCALHOST:9000", "b", "/x"), true, false},
		{Bucket("", "b", "x"), Bucket("https://s3.eu-central-1.amazonaws.com", "b", "x/."), true, false},
		{Bucket("https://minio.example:443", "b", "x"), Bucket("minio.example.", "b", "x"), true, false},
		{Bucket("https://minio.example", "b", "x"), Bucket("https://minio2.example", "b", "x"), false, false},
		{OfURL("s3://b/x"), OfURL("s3://b/xy"), false, false},
		{OfURL("s3://b/x"), OfURL("s3://c/x"), false, false},
		{OfURL("s3://b/x"), OfURL("s3://b/x/y"), false, true},
		{OfURL("s3://b"), OfURL("s3://b/x/y"), false, true},
		{OfURL("file://" + root + "/v1"), OfURL("file://" + root + "/current/"), true, false},
		{OfURL("file://" + root + "/current/rep"), OfURL("file://" + root + "/v2/../v1/./rep?mode=0644"), true, false},
		{OfURL("file://" + root + "/v1/a%20b"), Directory(root + "/v1/a b"), true, false},
		{Directory(root + "/v1"), Directory(root + "/current2/not/there"), false, true},
		{Directory("/"), Directory(root), false, true},
		{Directory(root + "/v1/data"), Directory(root + "/v1/data2"), false, false},
		{OfURL("memory"), OfURL("memory"), true, false},
		{Store{}, Store{}, false, false},
		{OfURL(""), OfURL("s3://b"), false, false},
	} {
		if c.a.Same(c.b) != c.same || c.b.Same(c.a) != c.same || c.a.Holds(c.b) != c.holds || c.b.Holds(c.a) {
			t.Errorf("%v and %v: same %v, holds %v, and back %v", c.a, c.b, c.a.Same(c.b), c.a.Holds(c.b), c.b.Holds(c.a))
		}
	}
}
