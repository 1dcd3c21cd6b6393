package txn

import (
	"errors"

	"github.com/holdfastdb/holdfast/doors/sql/lock"
	"github.com/holdfastdb/holdfast/doors/sql/turn"
)

// await waits for the request that package lock has answered with, and returns how it has ended in the words of this package. It gives the turn's place back
// before it waits. since tells others of the wait.
func (t *term) await(owner *lock.Owner, r *lock.Request, err error, turn *turn.Turn, wait Wait, since *since) error {
	if r != nil {
		turn.Leave()
		since.begin()
		defer since.end()
		m := t.w.m
		switch m.Tasks().Wait(wait.Time, r.Done(), wait.Interrupt, m.StoppedC()) {
		case 0:
			err = r.Err()
		case 1:
			err = giveUp(owner, r, ErrInterrupted)
		case 2:
			err = giveUp(owner, r, lock.ErrEnded)
		default:
			err = giveUp(owner, r, ErrLockTimeout)
		}
	}
	switch {
	case errors.Is(err, lock.ErrDeadlock):
		return ErrDeadlock
	case errors.Is(err, lock.ErrEnded):
		return ErrTermOver
	case errors.Is(err, lock.ErrBusy):
		return ErrBusy
	case errors.Is(err, lock.ErrFull):
		return ErrTooManyLocks
	}
	return err
}

// giveUp ends a request, unless it has ended by itself meanwhile.
func giveUp(owner *lock.Owner, r *lock.Request, why error) error {
	if owner.GiveUp(r) {
		return why
	}
	return r.Err()
}
