package results

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// tables returns an empty table like each that is committed.
func tables() map[string]*Table {
	text := func(names ...string) (all []Heading) {
		for _, n := range names {
			n, right := strings.CutSuffix(n, ":")
			all = append(all, Heading{n, right})
		}
		return all
	}
	runs := text("members:", "scripts:", "same:", "requests:", "took:", "seed:", "day")
	return map[string]*Table{
		"RESULTS.md":         NewTable(2, text("nodes:", "case", "etcdctl-3.4", "etcdctl-3.7.3")...),
		"RESULTS-clients.md": NewTable(1, text("test", "original", "Holdfast")...),
		"RESULTS-e2e.md":     NewTable(1, text("test", "etcd 3.7.3", "Holdfast")...),
		"RESULTS-suites.md":  NewTable(1, text("test", "etcd 3.7.3", "Holdfast")...),
		"RESULTS-kube.md":    NewTable(1, text("step", "result", "what it came to", "time:")...),
		"RESULTS-tlog.md":    NewTable(1, text("step", "result", "what it came to", "time:")...),
		"RESULTS-v2diff.md":  NewTable(1, runs...),
		"RESULTS-v3diff.md":  NewTable(1, runs...),
	}
}

// TestCommittedTablesAreKept: what a run says nothing about stays as it is, to the byte.
func TestCommittedTablesAreKept(t *testing.T) {
	for name, table := range tables() {
		text, err := table.Load(filepath.Join("..", "..", "conformance", name))
		if err != nil {
			t.Fatal(err)
		}
		if len(table.Rows()) == 0 || !strings.Contains(text, table.String()) {
			t.Errorf("%s has %d rows, which are not written as they were:\n%s", name, len(table.Rows()), table)
		}
	}
}

// TestATableKeepsItsRows: by their keys, with what would end a cell or a row written as something else.
func TestATableKeepsItsRows(t *testing.T) {
	file := filepath.Join(t.TempDir(), "RESULTS.md")
	fresh := func() *Table {
		return NewTable(2, Heading{"n", true}, Heading{"case", false}, Heading{"a", false}, Heading{"b", false})
	}
	first := fresh()
	if text, err := first.Load(file); err != nil || text != "" {
		t.Fatalf("no file: %q, %v", text, err)
	}
	first.Set(3, "one | two\nthree", "1", "x")
	first.Put("3", "x", "passed", "passed")
	if err := os.WriteFile(file, []byte("# Head\n\n| n | case |\n|---|---|\n| 9 | y |\n\n"+first.String()+"\n| 8 | after | the | table |\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	second := fresh()
	if _, err := second.Load(file); err != nil {
		t.Fatal(err)
	}
	second.Set(2, "FAILED", "1", "x")
	second.Put("2", "z", "passed", "")
	second.Sort(func(a, b []string) int { return strings.Compare(a[0], b[0]) })
	if want := [][]string{{"1", "x", "FAILED", "one / two three"}, {"2", "z", "passed", ""}, {"3", "x", "passed", "passed"}}; !reflect.DeepEqual(second.Rows(), want) {
		t.Errorf("%q", second.Rows())
	}
	second.Keep(func(row []string) bool { return row[1] == "x" })
	if n := second.Count(2, func(cell string) bool { return cell == "passed" }); n != 1 {
		t.Errorf("%d passed", n)
	}
	if want := "| n | case | a | b |\n|--:|---|---|---|\n| 1 | x | FAILED | one / two three |\n| 3 | x | passed | passed |\n"; second.String() != want {
		t.Errorf("%s", second)
	}
}

func TestStepsAreWritten(t *testing.T) {
	file := filepath.Join(t.TempDir(), "RESULTS.md")
	var s Steps
	s.Do("one", func() (string, error) { return "three | four", nil })
	s.Do("two", func() (string, error) { return "unused", errors.New("it broke") })
	if err := s.Write(file, "# Head\n\n"); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(file)
	want := "# Head\n\n1 passed, 1 failed.\n\n| step | result | what it came to | time |\n|---|---|---|--:|\n" +
		"| one | passed | three / four | 0 s |\n| two | FAILED | it broke | 0 s |\n"
	if err != nil || string(b) != want {
		t.Errorf("%s, %v", b, err)
	}
}

// TestStepsGoOn: what passed is not done again, and what failed or is new is.
func TestStepsGoOn(t *testing.T) {
	file := filepath.Join(t.TempDir(), "RESULTS.md")
	var s Steps
	s.Do("one", func() (string, error) { return "first", nil })
	s.Do("two", func() (string, error) { return "", errors.New("it broke") })
	if err := s.Write(file, ""); err != nil {
		t.Fatal(err)
	}
	var next Steps
	if err := next.Resume(file); err != nil {
		t.Fatal(err)
	}
	next.Do("one", func() (string, error) { return "", errors.New("it was done again") })
	next.Do("two", func() (string, error) { return "mended", nil })
	next.Do("three", func() (string, error) { return "new", nil })
	if err := next.Write(file, ""); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(file)
	want := "3 passed, 0 failed.\n\n| step | result | what it came to | time |\n|---|---|---|--:|\n" +
		"| one | passed | first | 0 s |\n| two | passed | mended | 0 s |\n| three | passed | new | 0 s |\n"
	if err != nil || string(b) != want {
		t.Errorf("%s, %v", b, err)
	}
}

func TestListsAndVerdicts(t *testing.T) {
	if got := ParseList("# why\n\na/b: because: it is\nc\n"); !reflect.DeepEqual(got, map[string]string{"a/b": "because: it is", "c": ""}) {
		t.Errorf("%q", got)
	}
	for want, got := range map[string]string{"passed": Verdict(true, "known"), "fails: known": Verdict(false, "known"), "FAILED": Verdict(false, "")} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
