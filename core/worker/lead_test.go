package worker_test

import (
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/core/node"
	"github.com/holdfastdb/holdfast/core/worker"
	"github.com/holdfastdb/holdfast/core/worker/workertest"
	"github.com/holdfastdb/holdfast/internal/wait"
)

// roles notes what a worker was told to do: the terms it led in, 0 for following.
type roles struct {
	mu  sync.Mutex
	was []uint64 // guarded by mu
}

func (r *roles) add(term uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.was = append(r.was, term)
}

func (r *roles) are(want ...uint64) func() bool {
	return func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return slices.Equal(r.was, want)
	}
}

// TestLeadFollowsLeadership: a worker leads in its member's terms, is told of each once, and follows in between. One that returns early
// waits for news, and all ends with the member.
func TestLeadFollowsLeadership(t *testing.T) {
	for _, patient := range []bool{true, false} {
		m, r, ended := workertest.New(), &roles{}, make(chan struct{})
		stay := func(over <-chan struct{}) {
			if patient {
				m.Tasks().Wait(-1, over, m.StoppedC())
			}
		}
		lead := func(term uint64, over <-chan struct{}) { r.add(term); stay(over) }
		follow := func(over <-chan struct{}) { r.add(0); stay(over) }
		m.Run(t, func() {
			defer close(ended)
			worker.Lead(m, lead, follow)
		})
		var want []uint64
		for i, term := range []uint64{0, 3, 3, 0, 7} {
			if i > 0 {
				m.Lead(term)
			}
			want = append(want, term)
			wait.Until(t, "the worker has heard", r.are(want...))
		}
		m.Stop()
		<-ended
	}
}

// TestLeadWithoutFollow: a member that does not lead does nothing.
func TestLeadWithoutFollow(t *testing.T) {
	m, r := workertest.New(), &roles{}
	m.Run(t, func() { worker.Lead(m, func(term uint64, _ <-chan struct{}) { r.add(term) }, nil) })
	m.Lead(0)
	m.Lead(2)
	wait.Until(t, "it leads", r.are(2))
}

// TestWhatWasDecidedInATermDiesWithIt, whether it is proposed or confirmed.
func TestWhatWasDecidedInATermDiesWithIt(t *testing.T) {
	m, done := workertest.New(), 0
	m.OnPropose(func([]entry.Part) (*entry.Result, error) {
		done++
		return &entry.Result{}, nil
	})
	if err := worker.Confirm(m, 0); !errors.Is(err, node.ErrNotLeader) || m.Rounds() != 0 {
		t.Errorf("a follower confirms: %v, %d rounds", err, m.Rounds())
	}
	m.Lead(4)
	if _, err := worker.Propose(m, 4, entry.Part{}); err != nil || done != 1 {
		t.Errorf("in its term: %v, done %d times", err, done)
	}
	if err := worker.Confirm(m, 4); err != nil {
		t.Error(err)
	}
	m.Lead(5)
	if _, err := worker.Propose(m, 4, entry.Part{}); !errors.Is(err, node.ErrSuperseded) || done != 1 {
		t.Errorf("in the next term: %v, done %d times", err, done)
	}
	if err := worker.Confirm(m, 4); !errors.Is(err, node.ErrSuperseded) {
		t.Errorf("confirmed in the next term: %v", err)
	}
}
