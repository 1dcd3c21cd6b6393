package suite

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/internal/results"
)

func TestASkipThatLooksGreenIsNoPass(t *testing.T) {
	for log, want := range map[string]string{
		"=== RUN   TestA\n--- PASS: TestA (0.1s)\nPASS\n":                           Passed,
		"--- SKIP: TestA (0.0s)\nPASS\n":                                            Skipped,
		"testing: warning: no tests to run\nPASS\n":                                 Failed,
		"--- PASS: TestAB (0.1s)\nPASS\n":                                           Failed,
		"    --- SKIP: TestA/sub (0.0s)\n--- PASS: TestA (0.3s)\n    --- PASS: x\n": Passed,
	} {
		if got := verdict(log, "TestA"); got != want {
			t.Errorf("%q is %s, want %s", log, got, want)
		}
	}
}

func TestTheListsAreHeldTo(t *testing.T) {
	known := Known{Failing: results.ParseList("# why\nTestK: because\n"), Skipped: results.ParseList("TestS: a stub\n")}
	for r, want := range map[Result]string{
		{Name: "TestK", Verdict: Failed}: "", {Name: "TestK", Verdict: Passed}: "take it off", {Name: "TestK", Verdict: Skipped}: "skipped itself",
		{Name: "TestA", Verdict: Failed}: "not among", {Name: "TestA", Verdict: Passed}: "", {Name: "TestA", Verdict: Skipped}: "skipped itself",
		{Name: "TestS", Verdict: Skipped}: "", {Name: "TestS", Verdict: Failed}: "not among", {Name: "TestS", Verdict: Passed}: "take it off",
	} {
		if got := known.News(r); (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%v: %q, want %q", r, got, want)
		}
	}
	if got := known.Strangers([]string{"TestA", "TestS"}); !slices.Equal(got, []string{"TestK"}) {
		t.Errorf("strangers: %v", got)
	}
}

func TestARunOfSomeTestsReplacesTheirCellsOnly(t *testing.T) {
	file := filepath.Join(t.TempDir(), "RESULTS.md")
	names := []string{"TestB", "TestA", "TestC"}
	for _, run := range []struct {
		against string
		results []Result
	}{
		{"original", []Result{{Name: "TestA", Verdict: Passed, Took: 2 * time.Second}, {Name: "TestB", Verdict: Passed, Took: time.Second}, {Name: "TestC", Verdict: Skipped}}},
		{"ours", []Result{{Name: "TestA", Verdict: Failed}, {Name: "TestB", Verdict: Failed}}},
		{"ours", []Result{{Name: "TestA", Verdict: Passed, Took: time.Second, Again: true}}},
	} {
		if err := Write(file, "# head\n\n", "etcd 3.7.3", names, run.against, run.results, Known{Failing: map[string]string{"TestB": "not built"}}); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want := `# head

Passed of 3: 2 by etcd 3.7.3, 1 by Holdfast.

| test | etcd 3.7.3 | Holdfast |
|---|---|---|
| TestA | passed (2 s) | passed (1 s, alone, after a failure beside others) |
| TestB | passed (1 s) | fails: not built |
| TestC | skipped (0 s) | – |
`
	if got := string(b); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
