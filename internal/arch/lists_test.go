package arch

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestEveryDoorIsInEveryList: the folders below doors/ that have a program are the doors of the build, and each of them is checked. The
// shipped code walks the list in cmd/holdfast. The simulation and the conformance runs have lists of their own, because nothing that ships
// may import them. So have two tests of packages that the list itself stands on: of a server's settings, and of a restore's changes of
// rows.
func TestEveryDoorIsInEveryList(t *testing.T) {
	root := filepath.Join("..", "..")
	read := func(name string) string {
		b, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	namesIn := func(name, pattern string) (names []string) {
		for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(read(name), -1) {
			names = append(names, m[1])
		}
		return names
	}
	shipped := namesIn("cmd/holdfast/doors.go", `"github\.com/holdfastdb/holdfast/doors/(\w+)/`)
	simulated := namesIn("sim/doors_test.go", `"github\.com/holdfastdb/holdfast/doors/(\w+)/sim"`)
	conforming := namesIn("conformance/doors/doors.go", `\bname:\s+"(\w+)"`)
	configured := namesIn("serve/server/config_test.go", `"github\.com/holdfastdb/holdfast/doors/(\w+)/program"`)
	var restored []string
	tests, err := filepath.Glob(filepath.Join(root, "archive", "restore", "*_test.go"))
	if err != nil || len(tests) == 0 {
		t.Fatalf("%d tests of archive/restore, %v", len(tests), err)
	}
	for _, test := range tests {
		restored = append(restored, namesIn("archive/restore/"+filepath.Base(test), `"github\.com/holdfastdb/holdfast/doors/(\w+)/machine"`)...)
	}
	folders, err := os.ReadDir(filepath.Join(root, "doors"))
	if err != nil {
		t.Fatal(err)
	}
	doors := 0
	for _, f := range folders {
		door := f.Name()
		if _, err := os.Stat(filepath.Join(root, "doors", door, "program")); err != nil {
			continue // a door that is being built has no program yet, and no user reaches it
		}
		doors++
		if !slices.Contains(shipped, door) {
			t.Errorf("doors/%s is not in cmd/holdfast/doors.go", door)
		}
		if door != "kv" && !slices.Contains(simulated, door) { // the simulation's own clients are those of kv
			t.Errorf("doors/%s is not in sim/doors_test.go", door)
		}
		if !slices.Contains(conforming, door) {
			t.Errorf("doors/%s is not in conformance/doors/doors.go", door)
		}
		if !slices.Contains(configured, door) {
			t.Errorf("doors/%s is not in the list of serve/server/config_test.go", door)
		}
		if !slices.Contains(restored, door) {
			t.Errorf("no test of archive/restore restores rows of doors/%s", door)
		}
	}
	if len(shipped) != doors {
		t.Errorf("cmd/holdfast/doors.go has the doors %s, and there are %d programs", strings.Join(shipped, " "), doors)
	}
}
