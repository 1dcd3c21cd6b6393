package agent

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfastdb/holdfast/sqlite/gate"
	"github.com/holdfastdb/holdfast/sqlite/walfile"
)

// sleep is what wakes a database that rests. The loop writes it before it ends, the poller reads it while there is none.
type sleep struct {
	seen  walfile.Look // the files as they were before the last capture
	due   time.Time    // when a level is due; zero: none
	pause time.Duration
}

// rest ends the loop if no event came meanwhile: true if it has ended. The files are closed if no connection has them. Otherwise they stay
// open without a mark, so that other programs may checkpoint as they like; the index counts later commits.
func (d *database) rest() bool {
	d.mu.Lock()
	if d.ended && !d.running {
		d.mu.Unlock()
		return true
	}
	d.mu.Unlock()
	look := d.agent.cfg.Files.LookAt(d.target.Path)
	if d.files != nil && d.files.Open() {
		if look != d.seen {
			return false // something was committed since the last capture
		}
		if d.files.Alone() || d.files.Rest() != nil {
			d.files.Close()
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.arrived) > 0 || d.noted || !d.ending.IsZero() && !d.ended || len(d.returned) > 0 {
		return false
	}
	if d.files == nil {
		d.seen = look
	}
	d.due = d.nextDue()
	d.running = false
	return true
}

// look wakes a database that rests, if its files have changed or something is due. It is the poller's.
func (d *database) look() {
	d.mu.Lock()
	if d.running || d.ended || d.phase == gate.Fenced {
		d.mu.Unlock()
		return
	}
	wake := !d.due.IsZero() && d.now().After(d.due)
	if !wake && d.agent.cfg.Files.LookAt(d.target.Path) != d.seen {
		wake, d.noted = true, true
	}
	if !wake && d.files != nil && d.files.Open() && d.files.Alone() {
		d.files.Close() // its last connection has gone
		d.seen = d.agent.cfg.Files.LookAt(d.target.Path)
	}
	d.mu.Unlock()
	if wake {
		d.wake()
	}
}

// concluded reports whether the agent ends with this database, and everything is done; then it is.
func (d *database) concluded() bool {
	d.mu.Lock()
	ending, abandon := !d.ending.IsZero(), d.abandoned
	d.mu.Unlock()
	if !ending {
		return false
	}
	if abandon {
		d.conclude()
		return true
	}
	idle := len(d.waiters) == 0 && d.first.IsZero()
	if idle && !d.finalCapture {
		// Once more, so that what was committed up to now is stored; then it is over. Commits come before the file of a level, which may take longer
		// than there is time, and once again behind it.
		d.finalCapture, d.again = true, d.jobs > 0
		d.captureNow()
		return false
	}
	if !idle || !d.finalCapture || len(d.ships) > 0 || d.jobs > 0 || d.stale {
		return false
	}
	if d.again {
		d.again = false
		d.captureNow()
		return false
	}
	if d.unsure() { // of the last commits too
		return false
	}
	d.conclude()
	return true
}

// captureNow has the loop capture what was committed, for a caller that waits for it.
func (d *database) captureNow() {
	d.waiters = append(d.waiters, &waiter{result: make(chan struct{}), came: d.now()})
	d.first = d.now()
}

// conclude ends the loop for good. If everything is stored, the disk's state is made durable and the next agent on it needs no fence.
func (d *database) conclude() {
	d.outcome = d.conclusion()
	d.enter(gate.Stopping, "the agent has stopped")
	d.answerAll(gate.Refused, fmt.Errorf("the agent has stopped"))
	if d.files != nil {
		if len(d.ships) == 0 && d.jobs == 0 && !d.stored.Empty() && (d.files.Open() || d.files.Reopen() == nil) {
			if err := d.files.Sync(); err == nil {
				// A failure leaves the state as it is: not clean, so that the next agent begins with a fence.
				if err := d.writeState(known{Owner: d.stored.Owner, Next: d.owner, TXID: d.stored.TXID, Checksum: d.stored.Post, Clean: true}); err != nil {
					d.log.Warn("write the state", "err", err)
				}
			}
		}
		d.files.Close()
	}
	d.report()
	d.end()
}

// finish stores the rest and ends the loop; unstored commits when ctx ends are an error.
func (d *database) finish(ctx context.Context) error {
	d.mu.Lock()
	d.ending = d.now()
	d.mu.Unlock()
	d.wake()
	if !d.agent.wait(ctx, d.gone) {
		d.mu.Lock()
		d.abandoned = true
		d.mu.Unlock()
		d.wake()
		d.agent.wait(context.Background(), d.gone)
	}
	d.unlock()
	if !d.outcome.Stored() {
		return fmt.Errorf("%s: %s", d.target.Path, d.outcome)
	}
	return nil
}
