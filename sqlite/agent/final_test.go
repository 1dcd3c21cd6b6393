package agent

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/sqlite/gate"
	"github.com/holdfastdb/holdfast/sqlite/walfile"
)

// TestAStoreThatNobodyListensAt is taken for final when that has lasted for two seconds, and no longer when it answers.
func TestAStoreThatNobodyListensAt(t *testing.T) {
	away := fmt.Errorf("put: %w", syscall.ECONNREFUSED)
	slow := errors.New("a timeout")
	h := newRig(t).byHand(gate.Archive)
	began := h.now()
	for _, c := range []struct {
		at    time.Duration
		err   error
		final bool
	}{
		{0, away, false},
		{unreachableFor - 1, away, false},
		{unreachableFor, away, true},
		{unreachableFor + time.Second, slow, false}, // another failure, and the store is still away
		{unreachableFor + time.Second, away, true},
		{unreachableFor + time.Second, nil, false},
		{unreachableFor + 2*time.Second, away, false}, // it begins anew
		{2*unreachableFor + 2*time.Second, away, true},
		{2*unreachableFor + 2*time.Second, fmt.Errorf("open: %w", walfile.ErrNoDatabase), true},
		{2*unreachableFor + 2*time.Second, slow, false},
	} {
		h.time.Advance(began.Add(c.at).Sub(h.now()))
		h.failed(c.err)
		if got := h.hopeless != nil; got != c.final {
			t.Errorf("%v after the beginning, with %v: final: %v", c.at, c.err, got)
		}
	}
}

// TestTheFirstFinalFailureEndsTheStart, with the database and its replica, and a database that was found in a directory ends none.
func TestTheFirstFinalFailureEndsTheStart(t *testing.T) {
	h := newRig(t).byHand(gate.Archive)
	h.target.Discovered = true
	h.failed(stopf("first"))
	select {
	case <-h.agent.hopeless:
		t.Fatal("a database that nobody named ends the start")
	default:
	}
	h.target.Discovered = false
	h.failed(errors.New("for a moment"))
	h.failed(stopf("second"))
	h.failed(stopf("third"))
	select {
	case <-h.agent.hopeless:
	default:
		t.Fatal("the start goes on")
	}
	err := h.agent.Settled(t.Context())
	if err == nil || !strings.Contains(err.Error(), h.target.Path+": NOT STORED in memory: second") {
		t.Errorf("the start ends with %v", err)
	}
}

// TestWhatADatabaseWaitsFor is the reason of its phase, or else the last trouble.
func TestWhatADatabaseWaitsFor(t *testing.T) {
	h := newRig(t).byHand(gate.Archive)
	h.enter(gate.Opening, "")
	if got := h.waitsFor(); got != "it is being opened" {
		t.Errorf("it waits for %q", got)
	}
	h.trouble(errors.New("the disk is full"))
	if got := h.waitsFor(); got != "the disk is full" {
		t.Errorf("it waits for %q", got)
	}
	h.enter(gate.Opening, "the replica is read")
	if got := h.waitsFor(); got != "the replica is read" {
		t.Errorf("it waits for %q", got)
	}
}
