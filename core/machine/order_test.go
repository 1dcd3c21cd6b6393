package machine

import (
	"slices"
	"testing"

	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/core/store"
)

// TestAnswersComeAfterTheEntryIsVisible: a client may read as soon as its write is answered, so no answer leaves before every
// machine has shown the entry.
func TestAnswersComeAfterTheEntryIsVisible(t *testing.T) {
	b := newBench(t, store.NewMem())
	var told []string
	err := b.a.Apply(1, 1, data(entry.Header{}, command(1, 1, "k1", "m1")), func(_, _ uint64) bool { return true },
		func(_, _ uint64, _ *entry.Result) { told = append(slices.Clone(b.k.calls), b.m.calls...) })
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"kdo 1", "kfinish", "kpublish", "mdo 1", "mfinish", "mpublish"}; !slices.Equal(told, want) {
		t.Errorf("when it was answered, this had been called: %q, want %q", told, want)
	}
}
