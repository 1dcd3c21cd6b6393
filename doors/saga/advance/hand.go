package advance

import (
	"fmt"
	"time"

	"github.com/holdfastdb/holdfast/core/node"
	sagamachine "github.com/holdfastdb/holdfast/doors/saga/machine"
	"github.com/holdfastdb/holdfast/internal/task"
)

// Once runs one pass over a transaction that is open, not running, and due within ahead, waits for its end and returns its gid; "" if
// there is none. It is for tests that drive the program from outside (Options.ByHand). Any goroutine, on the leader.
func (w *Worker) Once(ahead time.Duration) (gid string, err error) {
	t := w.current()
	if t == nil {
		return "", node.ErrNotLeader
	}
	for after := (sagamachine.Timer{}); !w.state.Held(); {
		page, err := w.state.Due(after, w.now()+ahead.Milliseconds(), 256)
		if err != nil || len(page) == 0 {
			return "", err
		}
		for _, x := range page {
			after = x
			ended := t.force(x)
			if ended == nil {
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
	}
	return "", nil
}

// force has a transaction run whether it is due or not; nil if it is known already.
func (t *term) force(x sagamachine.Timer) (ended <-chan struct{}) {
	t.mu.Lock()
	if t.known[x.Number] != nil || t.dead.Load() {
		t.mu.Unlock()
		return nil
	}
	k := &known{forced: true, inherited: x.Tick <= t.began+inheritedSlackMs, ended: make(chan struct{})}
	t.known[x.Number] = k
	t.enqueue(x.Number)
	ended = k.ended
	t.mu.Unlock()
	t.load()
	return ended
}
