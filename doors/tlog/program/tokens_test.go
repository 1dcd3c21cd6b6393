package program

import (
	"fmt"
	"strings"
	"testing"

	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/core/machine"
	"github.com/holdfastdb/holdfast/core/store"
	tlogmachine "github.com/holdfastdb/holdfast/doors/tlog/machine"
	tlogpart "github.com/holdfastdb/holdfast/doors/tlog/part"
	"github.com/holdfastdb/holdfast/doors/tlog/tiles"
)

// TestTokenLines: what a file may say.
func TestTokenLines(t *testing.T) {
	for text, want := range map[string]string{
		"default a\n\n# b\n  default b 1MiB/s 2GiB\nother a 0 5": "",
		"default":                  "1: write LOG TOKEN",
		"default a b":              "1: b: not a size",
		"default a 1 2 3":          "1: write LOG TOKEN",
		"default a\ndefault a 100": "2: a line for the same log and token",
		"De_fault a":               "1: write LOG TOKEN",
	} {
		lines, err := parseTokens([]byte(text))
		if want == "" && (err != nil || len(lines) != 3) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %d lines, %v; want %q", text, len(lines), err, want)
		}
	}
}

// TestAQuotaIsOfTheWholeLog: also what came through other members counts, and what is under way.
func TestAQuotaIsOfTheWholeLog(t *testing.T) {
	m := tlogmachine.New()
	a := machine.NewApplier(store.NewMem(), m)
	if err := a.Load(); err != nil {
		t.Fatal(err)
	}
	var index uint64
	apply := func(p *tlogpart.Part) {
		t.Helper()
		index++
		data := entry.AppendPacked(entry.AppendHeader(nil, entry.Header{}), entry.AppendCommand(nil, &entry.Command{Origin: 1, Seq: index, Term: 1,
			Parts: []entry.Part{{Machine: entry.MachineTlog, Body: tlogpart.AppendPart(nil, p)}}}))
		if err := a.Apply(index, 1, data, nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	apply(&tlogpart.Part{Kind: tlogpart.Create, Spec: tlogpart.LogSpec{Name: "default", Key: *testKey(t, "log.example/x", 1).Verifier()}})
	for i := range 300 {
		apply(&tlogpart.Part{Kind: tlogpart.Append, Log: 1, Entries: tiles.AppendEntry(nil, fmt.Appendf(nil, "%010d", i))})
	}
	l, u := m.Find("default"), &usedBytes{}
	if err := u.take(l, 100, 3100); err != nil {
		t.Errorf("3,000 bytes and 100 in 3,100: %v", err)
	}
	if err := u.take(l, 1, 3100); err == nil {
		t.Error("one more beside 100 that are under way")
	}
	u.flying.Add(-100)
	if err := u.take(l, 100, 3100); err != nil {
		t.Errorf("after they were done: %v", err)
	}
}
