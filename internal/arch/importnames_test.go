package arch

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestImportNames: a package has the same name in every file, so that kvpart.Put and kvmachine.Machine need no look at the imports.
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
		t.Errorf("%d imports under another name: this test looks at nothing", seen)
	}
}

func TestImportNamesByFamily(t *testing.T) {
	for _, c := range []struct{ path, name, want string }{
		{module + "/core/entry/ident", "", "eident"},
		{module + "/core/machine/ident", "i", "mident"},
		{module + "/core/machine", "", ""},
		{module + "/core/machine/machinetest", "", ""},
		{module + "/doors/kv/part", "", "kvpart"},
		{module + "/doors/kv/v2/machine", "etcd2", "v2machine"},
		{module + "/doors/kv", "", ""},
		{module + "/doors/kv", "door", "doorkv"},
		{module + "/doors/kv/v2", "two", "kvv2"},
		{module + "/doors/kv/lease", "l", "kvlease"},
		{module + "/archive/ship", "", ""},
		{module + "/archive/ship", "s", "archiveship"},
		{module + "/doors/kv/part", "_", "_"},
		{module + "/core/node", "n", "n"},
		{"example.com/doors/kv/part", "", ""},
	} {
		if got := ImportName(module, c.path, c.name); got != c.want {
			t.Errorf("%s as %q: %q, want %q", c.path, c.name, got, c.want)
		}
	}
}
