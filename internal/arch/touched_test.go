package arch

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// mostTouched is how many files outside of its folders a door may touch.
const mostTouched = 8

// TestWhatADoorTouches: docs/ADDING.md lists the files that a door touches outside of its own, and no other code names the newest door.
func TestWhatADoorTouches(t *testing.T) {
	const door = "saga"
	root := filepath.Join("..", "..")
	page, err := os.ReadFile(filepath.Join(root, "docs", "ADDING.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## 7. ")
	section, _, _ = strings.Cut(section, "\n## ")
	var listed []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\|").FindAllStringSubmatch(section, -1) {
		listed = append(listed, m[1])
	}
	if len(listed) == 0 || len(listed) > mostTouched {
		t.Fatalf("%d files are listed, want 1 to %d", len(listed), mostTouched)
	}
	tree, err := ReadTree(root)
	if err != nil {
		t.Fatal(err)
	}
	lists, err := os.ReadFile(filepath.Join(root, "conformance", "doors", "doors.go"))
	if err != nil {
		t.Fatal(err)
	}
	bench, err := os.ReadFile(filepath.Join(root, "bench", door, "run.sh"))
	if err != nil {
		t.Fatal(err)
	}
	own := func(name string) bool {
		for _, folder := range []string{"doors", "bench", "conformance"} {
			if strings.HasPrefix(name, folder+"/"+door+"/") {
				return true
			}
		}
		// The door's lists and benchmark are its own. conformance/archive loses a disk of all doors at once, as tests do.
		// conformance/sql has tables beside all doors, conformance/strangers attacks all of them, and conformance/week has writers at each.
		return strings.HasPrefix(name, "scripts/") && (strings.Contains(string(lists), name) || strings.Contains(string(bench), name)) ||
			strings.HasPrefix(name, "conformance/archive/") || strings.HasPrefix(name, "conformance/sql/") || strings.HasPrefix(name, "conformance/strangers/") ||
			strings.HasPrefix(name, "conformance/week/")
	}
	word := regexp.MustCompile(`(?i)\b` + door + `s?\b|` + door + `(part|machine|program)\b`)
	touched := map[string]bool{}
	for name := range tree.paths { // any order: a set of findings
		switch {
		case own(name), strings.HasSuffix(name, "_test.go") && name != "sim/doors_test.go", strings.Contains(name, "testdata/"), strings.HasPrefix(name, "internal/mutants/"):
			continue
		case !slices.Contains([]string{".go", ".sh"}, filepath.Ext(name)) && name != "Makefile":
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		if !word.Match(text) {
			continue
		}
		touched[name] = true
		if !slices.Contains(listed, name) {
			t.Errorf("%s names the %s door, and docs/ADDING.md does not list it", name, door)
		}
	}
	for _, name := range listed {
		if !tree.paths[name] {
			t.Errorf("docs/ADDING.md lists %s, which is not there", name)
		} else if filepath.Ext(name) == ".go" && !touched[name] {
			t.Errorf("docs/ADDING.md lists %s, which does not name the %s door", name, door)
		}
	}
}
