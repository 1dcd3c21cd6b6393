package advance

import (
	"fmt"
	"time"

	"github.com/holdfastdb/holdfast/core/node"
	sagamachine "github.com/holdfastdb/holdfast/doors/saga/machine"
	"github.com/holdfastdb/holdfast/internal/task"
)

// Once runs one pass over a transaction that is open and due within ahead, and waits for its end. It returns its gid, or "" if there is
// none. A transaction has one pass at a time. If all due ones are in a pass, Once waits for one of them and runs its next pass. It is for
// tests that drive the program from outside (Options.ByHand). Any goroutine, on the leader.
func (w *Worker) Once(ahead time.Duration) (gid string, err error) {
	t := w.current()
	if t == nil {
		return "", node.ErrNotLeader
	}
	for !w.state.Held() {
		x, ended, err := w.forceOne(t, ahead)
		if err != nil || ended == nil {
			return "", err
		}
		if x.Number == 0 {
			if w.tasks.Wait(task.Forever, ended, w.node.StoppedC()) == 1 {
				return "", node.ErrStopped
			}
			continue
		}
		tx, err := w.state.FindNumber(x.Number)
		if err != nil {
			return "", fmt.Errorf("read the transaction that is run: %w", err)
		}
		if w.tasks.Wait(task.Forever, ended, w.node.StoppedC()) == 1 {
			return "", node.ErrStopped
		}
		if tx != nil {
			return tx.Gid, nil
		}
	}
	return "", nil
}

// forceOne has the first transaction run that is due within ahead and is not known, and returns its timer and when the pass is over. If all are
// known it returns no timer, and when one of them is known no longer; ended is nil if none is due.
func (w *Worker) forceOne(t *term, ahead time.Duration) (x sagamachine.Timer, ended <-chan struct{}, err error) {
	var busy <-chan struct{}
	for after := (sagamachine.Timer{}); ; {
		page, err := w.state.Due(after, w.now()+ahead.Milliseconds(), 256)
		if err != nil || len(page) == 0 {
			return sagamachine.Timer{}, busy, err
		}
		for _, x := range page {
			after = x
			ended, fresh := t.force(x)
			if fresh {
				return x, ended, nil
			}
			if busy == nil {
				busy = ended
			}
		}
	}
}

// force has a transaction run whether it is due or not, unless it is known already: then it is not fresh. ended is closed when it is known no
// longer; nil if the term is over.
func (t *term) force(x sagamachine.Timer) (ended <-chan struct{}, fresh bool) {
	t.mu.Lock()
	if t.dead.Load() {
		t.mu.Unlock()
		return nil, false
	}
	if k := t.known[x.Number]; k != nil {
		if k.ended == nil {
			k.ended = make(chan struct{})
		}
		ended = k.ended
		t.mu.Unlock()
		return ended, false
	}
	k := &known{forced: true, inherited: x.Tick <= t.began+inheritedSlackMs, ended: make(chan struct{})}
	t.known[x.Number] = k
	t.enqueue(x.Number)
	ended = k.ended
	t.mu.Unlock()
	t.load()
	return ended, true
}
