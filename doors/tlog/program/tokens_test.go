package program

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

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

// logOf300 is a log with 300 entries of ten bytes each.
func logOf300(t *testing.T) *tlogmachine.Log {
	t.Helper()
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
	return m.Find("default")
}

// TestAQuotaIsOfTheWholeLog: also what came through other members counts, and what is under way.
func TestAQuotaIsOfTheWholeLog(t *testing.T) {
	l, u := logOf300(t), &usedBytes{}
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

// TestAQuotaIsGivenBack: an add's part of a quota is free again when the add has ended, and when it was refused, twice in a row.
func TestAQuotaIsGivenBack(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(file, []byte("default 0123456789abcdef 100 3100\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	l := logOf300(t)
	tokens, err := openTokens(file, func(string) *tlogmachine.Log { return l }, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer tokens.Close()
	now := time.Unix(1000, 0)
	tokens.now = func() time.Time { return now }
	admit := func(n int) (int, func()) {
		code, _, done := tokens.admit("default", "Bearer 0123456789abcdef", n)
		return code, done
	}
	for round := range 2 {
		now = now.Add(time.Hour) // the rate allows a second's worth, which is an entry of any length
		code, done := admit(100)
		if code != 0 || done == nil {
			t.Fatalf("round %d: 3,000 bytes and 100 in 3,100: %d", round, code)
		}
		if code, _ := admit(1); code != 507 {
			t.Errorf("round %d: one more beside 100 that are under way: %d", round, code)
		}
		done()
		if n := tokens.usedOf("default").flying.Load(); n != 0 {
			t.Fatalf("round %d: %d bytes are under way in the end", round, n)
		}
	}
	// An add that is over the rate takes nothing of the quota.
	now = now.Add(time.Hour)
	for range 2000 {
		if code, done := admit(50); code == 429 {
			break
		} else if done != nil {
			done()
		}
	}
	if code, _ := admit(50); code != 429 {
		t.Fatalf("the rate lets everything through: %d", code)
	}
	if n := tokens.usedOf("default").flying.Load(); n != 0 {
		t.Errorf("%d bytes of adds that were refused are under way", n)
	}
}
