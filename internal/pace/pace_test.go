package pace

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const sample = `# Times

| package | seconds |
|---|--:|
| ` + "`other`" + ` | 1 |

## Packages

Words.

| package | seconds | why |
|---|--:|---|
| ` + "`node`" + ` | 20 | elections |
| everything else | 2 | |

## More

| ` + "`node`" + ` | 1 |
`

func sampleFile(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "TESTS.md")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestJudge: a package may take half as long again as its row says, one without a row as what everything else may.
func TestJudge(t *testing.T) {
	t.Setenv(Variable, "1.5")
	a, err := Read(sampleFile(t, sample), "Packages")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		took time.Duration
		good bool
	}{{"node", 30 * time.Second, true}, {"node", 31 * time.Second, false}, {"other", 3 * time.Second, true}, {"other", 4 * time.Second, false}} {
		if err := a.Judge(c.name, c.took); (err == nil) != c.good {
			t.Errorf("%s in %v: %v", c.name, c.took, err)
		}
	}
	if got := a.Names(); !slices.Equal(got, []string{"node"}) {
		t.Errorf("rows for %v", got)
	}
	for factor, good := range map[string]bool{"0": true, "20": true, "19": false} {
		t.Setenv(Variable, factor)
		if a, err = Read(sampleFile(t, sample), "Packages"); err != nil {
			t.Fatal(err)
		}
		if err := a.Judge("node", 400*time.Second); (err == nil) != good {
			t.Errorf("factor %s: %v", factor, err)
		}
	}
}

// TestReadRefuses: a table that says nothing, or two things, allows nothing.
func TestReadRefuses(t *testing.T) {
	for _, text := range []string{"", strings.Replace(sample, "| everything else", "| all the rest", 1), strings.Replace(sample, "| 20 |", "| long |", 1),
		strings.Replace(sample, "| everything else", "| `node` | 3 | |\n| everything else", 1)} {
		if _, err := Read(sampleFile(t, text), "Packages"); err == nil {
			t.Errorf("no error for %q", text)
		}
	}
	t.Setenv(Variable, "fast")
	if _, err := Read(sampleFile(t, sample), "Packages"); err == nil {
		t.Error("no error for a factor that is none")
	}
}
