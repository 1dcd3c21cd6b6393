package main

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/holdfastdb/holdfast/internal/results"
)

func TestOutcomesAreReadFromBothKindsOfLog(t *testing.T) {
	got := read(pytestLine, "src/x/test_simple.py::TestSimple::test_a PASSED [ 5%]\ntest_ssl.py::T::b FAILED\nnoise PASSED\n")
	if want := []outcome{{"test_simple.py::TestSimple::test_a", true}, {"test_ssl.py::T::b", false}}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v", got)
	}
	got = read(rustLine, "running 2 tests\ntest a ... ok\ntest b ... ignored, why\ntest c ... FAILED\ntest a ... FAILED\n")
	if want := []outcome{{"a", false}, {"c", false}}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v", got)
	}
}

func TestASuiteThatDidNotRunIsNews(t *testing.T) {
	s := &suite{name: "s", want: 2}
	known := results.ParseList("# why\ns/k: because\n")
	for _, c := range []struct {
		outcomes []outcome
		news     int
	}{
		{[]outcome{{"a", true}, {"b", true}, {"k", false}}, 0},
		{[]outcome{{"a", true}, {"b", false}}, 1},
		{[]outcome{{"a", true}, {"k", false}}, 1},
		{nil, 1},
	} {
		if _, news := s.judge(c.outcomes, known); len(news) != c.news {
			t.Errorf("%v: %q", c.outcomes, news)
		}
	}
}

func TestARunReplacesItsOwnCells(t *testing.T) {
	file := filepath.Join(t.TempDir(), "RESULTS.md")
	for _, c := range []struct {
		suite, against string
		outcomes       []outcome
	}{
		{"s", "original", []outcome{{"a", true}, {"b", false}}},
		{"t", "ours", []outcome{{"a", false}}},
		{"s", "ours", []outcome{{"a", true}, {"b", false}}},
		{"t", "ours", []outcome{{"a", true}}},
	} {
		if err := writeResults(file, c.suite, c.against, c.outcomes, map[string]string{"s/b": "why"}); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want := "Passed of 3: 1 by the original, 2 by Holdfast.\n\n| test | original | Holdfast |\n|---|---|---|\n" +
		"| s/a | passed | passed |\n| s/b | FAILED | fails: why |\n| t/a | – | passed |\n"
	if !strings.HasSuffix(string(b), want) {
		t.Errorf("got\n%s\nwant\n%s", b, want)
	}
}
