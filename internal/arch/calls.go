package arch

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"strconv"
	"strings"
)

// Calls reports what the package at path (below the module) uses though the table of forbidden calls denies it. files
// maps names to source text. imp resolves imports for types; without one, "range over a map" is not looked for.
func (r *Rules) Calls(path string, files map[string]string, imp types.Importer) ([]string, error) {
	var bans []string
	for _, b := range r.Bans {
		if withinAny(path, b.Paths) && !withinAny(path, b.Except) {
			bans = append(bans, b.What...)
		}
	}
	if len(bans) == 0 {
		return nil, nil
	}
	fset := token.NewFileSet()
	var parsed []*ast.File
	for name, src := range files {
		f, err := parser.ParseFile(fset, name, src, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		parsed = append(parsed, f)
	}
	info := &types.Info{Types: make(map[ast.Expr]types.TypeAndValue)}
	if imp != nil {
		conf := types.Config{Importer: imp}
		if _, err := conf.Check(path, fset, parsed, info); err != nil {
			return nil, fmt.Errorf("check types of %s: %w", path, err)
		}
	}
	var found []string
	for _, f := range parsed {
		look := looker{bans: bans, names: importNames(f), excused: excuses(fset, f), info: info}
		ast.Inspect(f, func(n ast.Node) bool {
			if n == nil {
				return true
			}
			if what := look.at(n, fset); what != "" {
				found = append(found, fmt.Sprintf("%s: %s is not allowed in %s", fset.Position(n.Pos()), what, path))
			}
			return true
		})
	}
	return found, nil
}

type looker struct {
	bans    []string
	names   map[string]string // local name of an import → its path
	excused map[int]bool      // lines whose range over a map says why its order does not matter
	info    *types.Info
}

func (l *looker) banned(what string) string {
	for _, b := range l.bans {
		if b == what {
			return what
		}
	}
	return ""
}

func (l *looker) at(n ast.Node, fset *token.FileSet) string {
	switch n := n.(type) {
	case *ast.GoStmt:
		return l.banned("go statement")
	case *ast.ImportSpec:
		path, _ := strconv.Unquote(n.Path.Value) // the parser has accepted it
		return l.banned("import " + path)
	case *ast.SelectorExpr:
		if id, ok := n.X.(*ast.Ident); ok && l.names[id.Name] != "" {
			return l.banned(l.names[id.Name] + "." + n.Sel.Name)
		}
	case *ast.RangeStmt:
		if t := l.info.TypeOf(n.X); t != nil && !l.excused[fset.Position(n.Pos()).Line] {
			if _, ok := t.Underlying().(*types.Map); ok {
				return l.banned("range over a map")
			}
		}
	}
	return ""
}

// importNames maps the names a file uses for its imports to their paths.
func importNames(f *ast.File) map[string]string {
	names := make(map[string]string)
	for _, spec := range f.Imports {
		path, _ := strconv.Unquote(spec.Path.Value)
		name := path[strings.LastIndex(path, "/")+1:]
		if strings.HasPrefix(name, "v") && strings.Trim(name[1:], "0123456789") == "" && strings.Contains(path, "/") {
			up := strings.TrimSuffix(path, "/"+name) // math/rand/v2 is called rand
			name = up[strings.LastIndex(up, "/")+1:]
		}
		if spec.Name != nil {
			name = spec.Name.Name
		}
		names[name] = path
	}
	return names
}

// orderComment, on the line of a range or the one above it, says why the order of a map cannot matter there.
const orderComment = "any order:"

func excuses(fset *token.FileSet, f *ast.File) map[int]bool {
	lines := make(map[int]bool)
	for _, group := range f.Comments {
		for _, c := range group.List {
			if strings.Contains(c.Text, orderComment) {
				// The comment may run on for a line or two before the range it speaks of.
				lines[fset.Position(c.Pos()).Line] = true
				lines[fset.Position(group.End()).Line+1] = true
			}
		}
	}
	return lines
}
