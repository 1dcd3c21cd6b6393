package checkpoint

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/core/node"
	tlogmachine "github.com/holdfastdb/holdfast/doors/tlog/machine"
	tlogpart "github.com/holdfastdb/holdfast/doors/tlog/part"
	"github.com/holdfastdb/holdfast/doors/tlog/tiles"
	"github.com/holdfastdb/holdfast/internal/wait"
)

// notes is a Highest in memory.
type notes struct {
	mu    sync.Mutex
	noted []uint64         // guarded by mu: sizes, in order
	fail  error            // guarded by mu
	first func(uint64)     // looks before a size is noted
	last  tiles.Checkpoint // guarded by mu; an empty origin is none
	here  bool             // guarded by mu
}

func (n *notes) Last(string, *tiles.Verifier) (*tiles.Checkpoint, bool, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.last.Origin == "" {
		return nil, false, nil
	}
	c := n.last
	return &c, n.here, nil
}

func (n *notes) Note(all []Noted) (errs []error) {
	for _, c := range all {
		errs = append(errs, n.one(c.Key, c.Size, c.Note))
	}
	return errs
}

func (n *notes) one(key *tiles.Verifier, size uint64, note []byte) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.fail != nil {
		return n.fail
	}
	if n.first != nil {
		n.first(size)
	}
	c, _, err := tiles.OpenCheckpoint(note, key)
	if err != nil || c.Size != size {
		return errors.New("another note than its size")
	}
	n.noted, n.last, n.here = append(n.noted, size), *c, true
	return nil
}

// begun is a member with one log of some entries and a key for it.
func begun(t *testing.T, entries int) (*alone, *tlogmachine.Log, *tiles.Signer) {
	t.Helper()
	m, key := newAlone(t), signer(t, "log.example/one")
	spec := tlogpart.LogSpec{Name: "default", Key: *key.Verifier()}
	m.do(&tlogpart.Part{Kind: tlogpart.Create, Spec: spec})
	l := m.logs.Find("default")
	if entries > 0 {
		m.add(l, false, entries)
	}
	return m, l, key
}

// wantWhy waits until a log is held for a reason with these words, "" for none.
func wantWhy(t *testing.T, w *Worker, l *tlogmachine.Log, words string) {
	t.Helper()
	var why string
	for end := time.Now().Add(wait.Limit(t)); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if why = w.ReadOnly(l); why == "" && words == "" || words != "" && strings.Contains(why, words) {
			return
		}
	}
	t.Fatalf("it says %q, want %q", why, words)
}

// TestACheckpointIsNotedBeforeItIsShown, and one that cannot be noted is not shown.
func TestACheckpointIsNotedBeforeItIsShown(t *testing.T) {
	m, l, key := begun(t, 3)
	n := &notes{}
	n.first = func(size uint64) {
		if c := l.Checkpoint(); c != nil && c.Size >= size {
			t.Errorf("%d is shown before it is noted", size)
		}
	}
	m.Run(t, newWorker(m, m.logs, Options{Key: func(string) *tiles.Signer { return key }, Highest: n}).Run)
	covered(t, l, 3)
	n.mu.Lock()
	n.fail = errors.New("the disk is full")
	n.mu.Unlock()
	m.add(l, true, 2)
	time.Sleep(2 * pause)
	if c := l.Checkpoint(); c.Size != 3 {
		t.Errorf("%d is shown and was not noted", c.Size)
	}
	n.mu.Lock()
	n.fail = nil
	n.mu.Unlock()
	covered(t, l, 5)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.last.Size != 5 {
		t.Errorf("noted: %d", n.noted)
	}
}

// TestOnlyTheLeaderIsToldThatItIsBehind: a place's content beyond this member's log is evidence only once the member has everything
// acknowledged. A deposed one learns nothing from it.
func TestOnlyTheLeaderIsToldThatItIsBehind(t *testing.T) {
	m, l, key := begun(t, 3)
	place := Place{Name: "there", Ask: func(_ context.Context, l *tlogmachine.Log) (string, error) {
		if l.View().Size < 5 {
			return "it has 5 entries", nil
		}
		return "", nil
	}}
	m.OnRound(func() error { // the round brings what was acknowledged meanwhile
		if l.View().Size < 5 {
			m.add(l, false, 2)
		}
		return nil
	})
	w := newWorker(m, m.logs, Options{Key: func(string) *tiles.Signer { return key }, Places: func(string) []Place { return []Place{place} }})
	end := w.newTerm(3)
	wantWhy(t, w, l, "")
	end()

	m, l, key = begun(t, 3)
	m.OnRound(func() error { return node.ErrNoLeader })
	w = newWorker(m, m.logs, Options{Key: func(string) *tiles.Signer { return key }, Places: func(string) []Place { return []Place{place} }})
	end = w.newTerm(3)
	wantWhy(t, w, l, "there does not answer") // nothing is concluded, and nothing signed either
	m.OnRound(nil)
	end()
	end = w.newTerm(3)
	wantWhy(t, w, l, "there: it has 5 entries")
	end()
}

// TestAPlaceIsAskedAgain when it was seen to go ahead after it had answered.
func TestAPlaceIsAskedAgain(t *testing.T) {
	m, l, key := begun(t, 3)
	var mu sync.Mutex
	ahead := ""
	place := Place{Name: "there", Ask: func(context.Context, *tlogmachine.Log) (string, error) {
		mu.Lock()
		defer mu.Unlock()
		return ahead, nil
	}}
	w := newWorker(m, m.logs, Options{Key: func(string) *tiles.Signer { return key }, Places: func(string) []Place { return []Place{place} }})
	end := w.newTerm(3)
	defer end()
	wantWhy(t, w, l, "")
	mu.Lock()
	ahead = "at size 2 its root is another"
	mu.Unlock()
	w.AskAgain("default")
	wantWhy(t, w, l, "there: at size 2 its root is another")
}

// TestANoteThatCameFromElsewhereVouchesForNothing, and one that lies where it was written does.
func TestANoteThatCameFromElsewhereVouchesForNothing(t *testing.T) {
	silent := Place{Name: "there", Ask: func(context.Context, *tlogmachine.Log) (string, error) { return "", errors.New("no route") }}
	for _, here := range []bool{false, true} {
		m, l, key := begun(t, 3)
		v := l.View()
		n := &notes{last: tiles.Checkpoint{Origin: "log.example/one", Size: v.Size, Root: v.Root}, here: here}
		w := newWorker(m, m.logs, Options{Key: func(string) *tiles.Signer { return key }, Highest: n, Places: func(string) []Place { return []Place{silent} }})
		end := w.newTerm(3)
		if want := "there does not answer what it holds: no route"; here {
			wantWhy(t, w, l, "")
		} else {
			wantWhy(t, w, l, want)
		}
		end()
	}
}

// TestAFollowerNotesWhatIsSignedWhileItFollows, and not its log's checkpoint of the start, which may be older than the last signature.
func TestAFollowerNotesWhatIsSignedWhileItFollows(t *testing.T) {
	m, l, key := begun(t, 3)
	m.Lead(0)
	n := &notes{}
	sign := func() {
		t.Helper()
		s, err := Sign(m.logs, l, key)
		if err != nil {
			t.Fatal(err)
		}
		m.do(&tlogpart.Part{Kind: tlogpart.Checkpoint, Checkpoints: []tlogpart.Signed{s}})
	}
	w := newWorker(m, m.logs, Options{Key: func(string) *tiles.Signer { return key }, Highest: n})
	sign()
	w.follows()
	w.follows()
	if len(n.noted) != 0 {
		t.Errorf("noted %d of before", n.noted)
	}
	m.add(l, false, 2)
	sign()
	w.follows()
	if len(n.noted) != 1 || n.noted[0] != 5 {
		t.Errorf("noted %d, want 5", n.noted)
	}
}
