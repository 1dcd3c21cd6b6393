package sql

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/holdfastdb/holdfast/doors/sql/engine"
	"github.com/holdfastdb/holdfast/doors/sql/txn"
	"github.com/holdfastdb/holdfast/doors/sql/wire"
)

// A statement with no transaction around it that is known to have had no effect runs again, unseen: its client has nothing to decide that the server
// could not.

// retryCause is why a statement runs again.
type retryCause int

const (
	becauseDeadlock retryCause = iota // it was chosen to give up
	becauseLeader                     // its term was over before its commit was in the log
	retryCauses
)

func (c retryCause) String() string { return [retryCauses]string{"deadlock", "leader changed"}[c] }

const (
	// mostTries bounds how often a statement runs.
	mostTries = 10
	// leaderWait bounds how long a statement waits until this member leads again, and leaderEvery is between two looks. A client whose member leads no more
	// ought to hear so soon.
	leaderWait  = 500 * time.Millisecond
	leaderEvery = 10 * time.Millisecond
)

// again reports whether a statement that has failed runs again, and has made the session ready for that. It does not if a part of its answer was begun, or if it
// assigns variables, which it would do twice.
func (s *session) again(ctx context.Context, st *engine.Statement, err error, to *wire.Answer) bool {
	cause := becauseDeadlock
	switch {
	case errors.Is(err, txn.ErrDeadlock):
	case errors.Is(err, txn.ErrTermOver):
		cause = becauseLeader
	default:
		return false
	}
	if to.Begun() || strings.Contains(st.Text, ":=") || ctx.Err() != nil {
		return false
	}
	if s.tx != nil {
		s.rollback()
	}
	if cause == becauseLeader && !s.leads(ctx) {
		return false
	}
	s.d.counts.retries[cause].Add(1)
	return true
}

// leads waits a moment until this member leads in a later term than that of the last transaction.
func (s *session) leads(ctx context.Context) bool {
	s.turn.Leave()
	for end := time.Now().Add(leaderWait); s.d.worker.Term() <= s.term; {
		if time.Now().After(end) {
			return false
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(leaderEvery):
		}
	}
	return true
}
