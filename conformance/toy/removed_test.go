package toy

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// door is the door that is taken out, and where it has folders of its own outside of doors/.
const door = "saga"

var (
	ownFolders = []string{"doors/" + door, "bench/" + door, "conformance/" + door}
	// itsImport is a line that imports something of the door. Where a name stands before the path, that is what the file calls it.
	itsImport = regexp.MustCompile(`(?m)^\s*(?:(\w+) )?"github\.com/holdfastdb/holdfast/doors/` + door + `(?:/[\w/]+)?"\n`)
)

// TestADoorCanBeTakenOut removes the saga door from a copy of the tree. It removes its folders, its lines in the shipped code, and in tests
// its uses in a list or the whole file. The rest has to build and to pass go vet, and the lines are no more than a new door's.
func TestADoorCanBeTakenOut(t *testing.T) {
	if !long {
		t.Skip("it compiles the whole tree; CRASH=long has it run, and `make conformance DOOR=saga` does")
	}
	t.Parallel()
	dir := copyOf(t)
	for _, folder := range ownFolders {
		if err := os.RemoveAll(filepath.Join(dir, folder)); err != nil {
			t.Fatal(err)
		}
	}
	var lines, edited, removed []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		src, err := os.ReadFile(path)
		if err != nil || !itsImport.Match(src) {
			return err
		}
		left, gone := without(string(src))
		switch {
		case !strings.HasSuffix(name, "_test.go"), name == "sim/doors_test.go":
			for _, line := range gone {
				lines = append(lines, name+": "+strings.TrimSpace(line))
			}
		case strings.HasPrefix(name, "cmd/holdfast/"), strings.HasPrefix(filepath.Base(name), door): // it tests nothing but the door
			removed = append(removed, name)
			return os.Remove(path)
		default:
			edited = append(edited, name)
		}
		return os.WriteFile(path, []byte(left), 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("lines outside of the door's folders:\n%s", strings.Join(lines, "\n"))
	t.Logf("tests that lose it from a list: %s", strings.Join(edited, " "))
	t.Logf("tests that are removed: %s", strings.Join(removed, " "))
	if len(lines) == 0 || len(lines) > linesElsewhere {
		t.Errorf("%d lines outside of the door's folders, want 1 to %d", len(lines), linesElsewhere)
	}
	run(t, dir, "go", "build", "-trimpath", "-tags=gms_pure_go", "./...")
	run(t, dir, "go", "vet", "-trimpath", "-tags=gms_pure_go", "./...")
}

// without is a file without its lines for the door, and those lines.
func without(src string) (left string, gone []string) {
	var names []string
	left = itsImport.ReplaceAllStringFunc(src, func(line string) string {
		gone = append(gone, line)
		name := itsImport.FindStringSubmatch(line)[1]
		if name == "" {
			path := strings.Trim(strings.TrimSpace(line), `"`)
			name = path[strings.LastIndex(path, "/")+1:]
		}
		names = append(names, name)
		return ""
	})
	for _, name := range names {
		if name == "_" {
			continue
		}
		whole := regexp.MustCompile(`(?m)^\s*` + name + `\.\w+,\n`) // a line of a list
		left = whole.ReplaceAllStringFunc(left, func(line string) string { gone = append(gone, line); return "" })
		within := regexp.MustCompile(`, ` + name + `\.\w+(?:\(` + name + `\.\w+\{[^}]*\}\))?`) // a place in one
		left = within.ReplaceAllString(left, "")
	}
	return left, gone
}
