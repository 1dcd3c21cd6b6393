package checkpoint

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/core/node"
	tlogmachine "github.com/holdfastdb/holdfast/doors/tlog/machine"
	tlogpart "github.com/holdfastdb/holdfast/doors/tlog/part"
	"github.com/holdfastdb/holdfast/doors/tlog/tiles"
	"github.com/holdfastdb/holdfast/internal/wait"
)

// signing is a worker with the key of a log that has begun and grown, driven by hand.
func signing(t *testing.T) (*alone, *Worker) {
	t.Helper()
	m, key := newAlone(t), signer(t, "log.example/one")
	w := newWorker(m, m.logs, Options{First: &tlogpart.LogSpec{Name: "default"}, Key: func(string) *tiles.Signer { return key }})
	t.Cleanup(w.newTerm(3))
	if _, err := w.round(3); err != nil {
		t.Fatal(err)
	}
	l := m.logs.Find("default")
	for deadline := time.Now().Add(wait.Limit(t)); !w.mayGoOn(l); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the log is held")
		}
	}
	m.add(l, true, 10)
	return m, w
}

// TestWhatWasFoundDamagedIsNotSigned: what the daily derivation finds is not at the edge, where a signature looks.
func TestWhatWasFoundDamagedIsNotSigned(t *testing.T) {
	m, w := signing(t)
	l := m.logs.Find("default")
	if _, ok := w.when(l, time.Now()); !ok {
		t.Fatal("it would not be signed anyway: the test shows nothing")
	}
	l.SetDamage(errors.New("a tile is not what its entries give"))
	if _, ok := w.when(l, time.Now()); ok {
		t.Error("it would be signed")
	}
}

// TestASignatureIsOfTheTermItWasMadeIn: leadership may change while a checkpoint is made. Under the next leader it would stand
// beside one of that leader's.
func TestASignatureIsOfTheTermItWasMadeIn(t *testing.T) {
	m, w := signing(t) // a member that leads in term 3
	m.Proposed()
	clear(w.last) // as if the last checkpoint were long ago
	if _, err := w.round(2); !errors.Is(err, node.ErrSuperseded) {
		t.Errorf("a checkpoint of a term that is over: %v", err)
	}
	if terms := m.Proposed(); !slices.Equal(terms, []uint64{2}) {
		t.Errorf("signed in term 2, proposed in %v", terms)
	}
}

// TestAHeldLogIsNotSigned, however much it has grown: a place's content beyond it was signed before.
func TestAHeldLogIsNotSigned(t *testing.T) {
	m, l, key := begun(t, 3)
	ahead := Place{Name: "there", Ask: func(context.Context, *tlogmachine.Log) (string, error) { return "it has 600 entries", nil }}
	w := newWorker(m, m.logs, Options{Key: func(string) *tiles.Signer { return key }, Places: func(string) []Place { return []Place{ahead} }})
	t.Cleanup(w.newTerm(3))
	wantWhy(t, w, l, "there: it has 600 entries")
	m.add(l, true, 10)
	if _, ok := w.when(l, time.Now()); ok {
		t.Error("it would be signed")
	}
}
