package server

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/core/node"
	"github.com/holdfastdb/holdfast/internal/wait"
)

// newcomer is a member that has just started.
type newcomer struct {
	status   atomic.Pointer[node.Status]
	caughtUp chan struct{} // closed when it has
	rounds   atomic.Int64
}

func (n *newcomer) Status() node.Status            { return *n.status.Load() }
func (n *newcomer) WaitsFor() string               { return "waiting for a leader; 1 of 3 voters answer" }
func (n *newcomer) LeaderChanged() <-chan struct{} { return nil }
func (n *newcomer) Linearize(ctx context.Context) error {
	n.rounds.Add(1)
	select {
	case <-n.caughtUp:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A client promotes a learner as soon as it is ready, so it is not ready before it has caught up. A voter is: those that ask it
// wait for their own round.
func TestALearnerIsReadyOnceItHasCaughtUp(t *testing.T) {
	start := func(s node.Status) (*newcomer, chan error) {
		n := &newcomer{caughtUp: make(chan struct{})}
		n.status.Store(&s)
		done := make(chan error, 1)
		ctx, cancel := context.WithTimeout(t.Context(), wait.Limit(t))
		t.Cleanup(cancel)
		go func() { done <- waitReady(ctx, n, nil, slog.New(slog.DiscardHandler)) }()
		return n, done
	}
	_, voter := start(node.Status{Ready: true})
	if err := <-voter; err != nil {
		t.Fatal(err)
	}
	n, learner := start(node.Status{Learner: true})
	time.Sleep(100 * time.Millisecond)
	if n.rounds.Load() != 0 {
		t.Error("it asked for a round before an entry of the term was applied")
	}
	n.status.Store(&node.Status{Learner: true, Ready: true})
	for deadline := time.Now().Add(wait.Limit(t)); n.rounds.Load() == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) || len(learner) > 0 {
			t.Fatal("a learner is ready without a round")
		}
	}
	if len(learner) != 0 {
		t.Fatal("ready before it has caught up")
	}
	close(n.caughtUp)
	if err := <-learner; err != nil {
		t.Fatal(err)
	}
	// One that the leader makes a voter by itself waits for that.
	n, joining := start(node.Status{Learner: true, Joining: true, Ready: true})
	close(n.caughtUp)
	wait.Until(t, "rounds", func() bool { return n.rounds.Load() > 3 })
	if len(joining) != 0 {
		t.Fatal("ready before it is a voter")
	}
	n.status.Store(&node.Status{Ready: true})
	if err := <-joining; err != nil {
		t.Fatal(err)
	}
	n, gone := start(node.Status{Learner: true, Ready: true})
	n.status.Store(&node.Status{Ready: true}) // promoted meanwhile, and cut off
	close(n.caughtUp)
	if err := <-gone; err != nil {
		t.Fatal(err)
	}
	for want, st := range map[string]node.Status{"waiting for a leader": {}, "receiving from the leader": {Leader: 2}, "catching up": {Leader: 2, Ready: true}} {
		if got := waitsFor(&st, n); !strings.HasPrefix(got, want) {
			t.Errorf("%+v: %q", st, got)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := waitReady(ended, n, nil, slog.New(slog.DiscardHandler)); err != nil && !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}
