package arch

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestImportNames: a package has the same name in every file, so that ekv.Put and mkv.Machine need no look at the imports.
func TestImportNames(t *testing.T) {
	root := filepath.Join("..", "..")
	tree, err := ReadTree(root)
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for name := range tree.paths { // any order: a set of findings
		if !strings.HasSuffix(name, ".go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, name), nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range f.Imports {
			path, _ := strconv.Unquote(s.Path.Value) // the parser has accepted it
			has := ""
			if s.Name != nil {
				has = s.Name.Name
			}
			want := ImportName(module, path, has)
			if want != "" {
				seen++
			}
			if has != want {
				t.Errorf("%s imports %s as %q, not as %s", name, path, has, want)
			}
		}
	}
	if seen < 100 {
		t.Errorf("%d imports of entry and machine: this test looks at nothing", seen)
	}
}

func TestImportNamesByFamily(t *testing.T) {
	for _, c := range []struct{ path, name, want string }{
		{module + "/entry/kv", "", "ekv"},
		{module + "/entry/kv", "kv", "ekv"},
		{module + "/machine/etcd2", "e2", "metcd2"},
		{module + "/machine", "", ""},
		{module + "/machine/machinetest", "", ""},
		{module + "/door/kv", "", ""},
		{module + "/door/kv", "door", "doorkv"},
		{module + "/door/kv/v2", "two", "doorv2"},
		{module + "/worker/lease", "l", "workerlease"},
		{module + "/entry/kv", "_", "_"},
		{module + "/node", "n", "n"},
		{"example.com/entry/kv", "", ""},
	} {
		if got := ImportName(module, c.path, c.name); got != c.want {
			t.Errorf("%s as %q: %q, want %q", c.path, c.name, got, c.want)
		}
	}
}
