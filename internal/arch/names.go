package arch

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Tree is everything that a page can name: the repository's files, and the declarations in its Go source and Makefile.
type Tree struct {
	paths   map[string]bool            // files and folders, below the root with slashes
	bases   map[string]bool            // last parts of paths
	tests   map[string]map[string]bool // "TestX" or "FuzzX" → folders that have it
	names   map[string]map[string]bool // folder → exported "Name", "Type.Method" and "Type.Field"
	targets map[string]bool            // of make
	words   map[string]bool            // string literals of the program: flags, subcommands, environment variables
}

// ReadTree reads the repository at root. It does not look into folders that git does not keep (bin, build).
func ReadTree(root string) (*Tree, error) {
	t := &Tree{paths: map[string]bool{}, bases: map[string]bool{}, tests: map[string]map[string]bool{}, names: map[string]map[string]bool{},
		targets: map[string]bool{}, words: map[string]bool{}}
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil || rel == "." {
			return err
		}
		if rel == ".git" || rel == "bin" || rel == "build" {
			if d.IsDir() {
				return filepath.SkipDir
			}
			return nil // a worktree's .git is a file
		}
		t.paths[filepath.ToSlash(rel)], t.bases[d.Name()] = true, true
		if d.IsDir() || !strings.HasSuffix(rel, ".go") {
			return nil
		}
		return t.addSource(filepath.ToSlash(rel), name)
	})
	if err != nil {
		return nil, err
	}
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		return nil, err
	}
	for _, m := range target.FindAllStringSubmatch(string(makefile), -1) {
		t.targets[m[1]] = true
	}
	return t, nil
}

var target = regexp.MustCompile(`(?m)^([a-z][a-z0-9-]*):`)

func (t *Tree) addSource(rel, file string) error {
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	dir := path.Dir(rel)
	if t.names[dir] == nil {
		t.names[dir] = map[string]bool{}
	}
	for _, d := range f.Decls {
		t.addDecl(dir, d)
	}
	if ofTheProgram(rel) && !strings.HasSuffix(rel, "_test.go") {
		ast.Inspect(f, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				if s, err := strconv.Unquote(lit.Value); err == nil {
					t.words[s] = true
				}
			}
			return true
		})
	}
	return nil
}

func (t *Tree) addDecl(dir string, d ast.Decl) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		name := d.Name.Name
		if d.Recv != nil {
			recv := d.Recv.List[0].Type
			if star, ok := recv.(*ast.StarExpr); ok {
				recv = star.X
			}
			if id, ok := recv.(*ast.Ident); ok {
				name = id.Name + "." + name
			}
		}
		t.names[dir][name] = true
		if testName.MatchString(name) {
			if t.tests[name] == nil {
				t.tests[name] = map[string]bool{}
			}
			t.tests[name][dir] = true
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.ValueSpec:
				for _, id := range s.Names {
					t.names[dir][id.Name] = true
				}
			case *ast.TypeSpec:
				t.names[dir][s.Name.Name] = true
				for _, f := range members(s.Type) {
					t.names[dir][s.Name.Name+"."+f] = true
				}
			}
		}
	}
}

// members names the fields of a struct or the methods of an interface.
func members(typ ast.Expr) (names []string) {
	var list *ast.FieldList
	switch typ := typ.(type) {
	case *ast.StructType:
		list = typ.Fields
	case *ast.InterfaceType:
		list = typ.Methods
	default:
		return nil
	}
	for _, f := range list.List {
		for _, id := range f.Names {
			names = append(names, id.Name)
		}
	}
	return names
}

var (
	testName   = regexp.MustCompile(`^(Test|Fuzz|Benchmark)[A-Z0-9]\w*$`)
	pathForm   = regexp.MustCompile(`^[\w./{},*-]+$`)
	identForm  = regexp.MustCompile(`^([a-z][\w/]*)\.([A-Z]\w*(?:\.\w+)?)$`)
	fileForm   = regexp.MustCompile(`^[\w-]+\.(go|md|sh)$`)
	flagForm   = regexp.MustCompile(`^--([a-z][a-z0-9-]*\*?)(?:=.*)?$`)
	envForm    = regexp.MustCompile(`^HOLDFAST_([A-Z0-9_]+)(?:=.*)?$`)
	wordForm   = regexp.MustCompile(`^[a-z][a-z0-9-]*$`)
	fence      = regexp.MustCompile("(?ms)^```.*?^```")
	backquoted = regexp.MustCompile("`([^`\n]+)`")
)

// Missing returns the names on a page that the tree does not have. They are paths below a folder of the repository, Go names as
// `package.Name`, tests, and targets of make. At the beginning of a text they are also flags and subcommands of holdfast. In a block of
// code it looks at the lines that begin with make or holdfast. Flags of other programs are named with the program before them.
func (t *Tree) Missing(page string) (missing []string) {
	for _, block := range fence.FindAllString(page, -1) {
		for line := range strings.Lines(block) {
			line, _, _ = strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "$ "), " #")
			if words := strings.Fields(line); len(words) > 1 && (words[0] == "make" || path.Base(words[0]) == "holdfast") {
				missing = append(missing, t.commandMissing(words)...)
			}
		}
	}
	for _, m := range backquoted.FindAllStringSubmatch(fence.ReplaceAllString(page, ""), -1) {
		words := strings.Fields(m[1])
		switch {
		case len(words) == 0:
		case words[0] == "make", path.Base(words[0]) == "holdfast", strings.HasPrefix(words[0], "--"):
			missing = append(missing, t.commandMissing(words)...)
		case len(words) == 1:
			for _, name := range expand(words[0]) {
				if why := t.nameMissing(name); why != "" {
					missing = append(missing, fmt.Sprintf("`%s`: %s", name, why))
				}
			}
		}
	}
	return missing
}

func (t *Tree) commandMissing(words []string) (missing []string) {
	said := strings.Join(words, " ")
	if words[0] == "make" {
		if len(words) > 1 && wordForm.MatchString(words[1]) && !t.targets[words[1]] {
			missing = append(missing, fmt.Sprintf("`%s`: no such target", said))
		}
		return missing
	}
	if len(words) > 1 && wordForm.MatchString(words[1]) && !strings.HasPrefix(words[0], "--") && !t.hasCommand(words[1]) && !t.words[said+" "] {
		missing = append(missing, fmt.Sprintf("`%s`: no such subcommand", said))
	}
	for _, w := range words {
		if m := flagForm.FindStringSubmatch(strings.Trim(w, "[],;")); m != nil && !t.hasFlag(m[1]) {
			missing = append(missing, fmt.Sprintf("`%s`: no flag --%s", said, m[1]))
		}
	}
	return missing
}

// hasCommand reports whether a subcommand begins with word: its name may have two.
func (t *Tree) hasCommand(word string) bool {
	for w := range t.words {
		if w == word || strings.HasPrefix(w, word+" ") {
			return true
		}
	}
	return false
}

// ofTheProgram reports whether the file at rel can declare flags, subcommands or variables.
func ofTheProgram(rel string) bool {
	switch first, _, _ := strings.Cut(rel, "/"); first {
	case "cmd", "serve", "doors", "sqlite":
		return true
	}
	return false
}

// hasFlag reports whether the program has a flag of that name, or one that is put together of a prefix (as "to-") and a name.
func (t *Tree) hasFlag(name string) bool {
	prefix, family := strings.CutSuffix(name, "*")
	if !family {
		i := strings.Index(name, "-")
		return t.words[name] || i > 0 && t.words[name[:i+1]] && t.words[name[i+1:]]
	}
	for w := range t.words {
		if strings.HasPrefix(w, prefix) && w != prefix {
			return true
		}
	}
	return false
}

// nameMissing says why the tree does not have what one word names, or nothing where it has it or the word names nothing in it.
func (t *Tree) nameMissing(name string) string {
	if m := envForm.FindStringSubmatch(name); m != nil && !t.words["HOLDFAST_"+m[1]] && !t.words[strings.ReplaceAll(strings.ToLower(m[1]), "_", "-")] {
		return "no flag or variable of that name"
	}
	test, _, _ := strings.Cut(name[strings.LastIndex(name, ".")+1:], "/")
	if testName.MatchString(test) {
		dir, _, qualified := strings.Cut(name, ".")
		if in := t.tests[test]; len(in) == 0 || qualified && !in[dir] {
			return "no such test"
		}
		return ""
	}
	if m := identForm.FindStringSubmatch(name); m != nil {
		return t.identMissing(m[1], m[2])
	}
	if fileForm.MatchString(name) && !t.bases[name] {
		return "no file of that name"
	}
	first, rest, below := strings.Cut(strings.TrimSuffix(name, "/"), "/")
	if !below || !t.paths[first] || !pathForm.MatchString(name) {
		return ""
	}
	full := first + "/" + rest
	for _, wild := range []string{"/...", "/*"} {
		full = strings.TrimSuffix(full, wild)
	}
	if strings.Contains(full, "*") {
		if !slices.ContainsFunc(slices.Collect(t.allPaths()), func(p string) bool { ok, _ := path.Match(full, p); return ok }) {
			return "no path of that form"
		}
	} else if !t.paths[full] {
		return "no such path"
	}
	return ""
}

func (t *Tree) allPaths() func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for p := range t.paths {
			if !yield(p) {
				return
			}
		}
	}
}

// identMissing looks for a Go name in the packages that pkg, a folder or the last part of one, can mean.
func (t *Tree) identMissing(pkg, name string) string {
	ours := false
	for dir, names := range t.names {
		if dir != pkg && path.Base(dir) != pkg {
			continue
		}
		if ours = true; names[name] {
			return ""
		}
	}
	if ours || t.paths[strings.Split(pkg, "/")[0]] && strings.Contains(pkg, "/") {
		return "no such name in that package"
	}
	return "" // another module's
}

var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

// DeadLinks returns the links of the page at from (below the root) to files that the tree does not have.
func (t *Tree) DeadLinks(from, page string) (dead []string) {
	for _, m := range link.FindAllStringSubmatch(page, -1) {
		to, _, _ := strings.Cut(m[1], "#")
		if to != "" && !strings.Contains(to, "://") && !t.paths[path.Join(path.Dir(from), to)] {
			dead = append(dead, to)
		}
	}
	return dead
}
