package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"github.com/holdfastdb/holdfast/sqlite/capture"
	"github.com/holdfastdb/holdfast/sqlite/gate"
	"github.com/holdfastdb/holdfast/sqlite/replica"
	"github.com/holdfastdb/holdfast/sqlite/restore"
	"github.com/holdfastdb/holdfast/sqlite/walfile"
)

// opening is an agent's findings about a database and its replica at the takeover.
type opening struct {
	files *capture.Database // nil: there is no database and nothing to restore
	chain *replica.Chain
	owner uint64
	// ahead: the database has more than the replica, which begins with it.
	ahead bool
	// resumed: this disk was the last to write, and had stored everything: no fence was needed.
	resumed bool
	// renew: the first group is stored as a snapshot as well, before anything counts as stored. mend: files of the replica are missing.
	renew, mend bool
	// known is the chain's files that are there.
	known []replica.File
	// branch: the database is one that was restored; its record goes when the first group is there.
	branch bool
}

// stopError is what no later attempt can change: writes are refused, and a person has to decide.
type stopError struct{ text string }

func (e *stopError) Error() string { return e.text }

func stopf(format string, args ...any) error { return &stopError{fmt.Sprintf(format, args...)} }

// open opens the database in a goroutine. Until it finishes, the loop does nothing with this database; the result arrives through returned.
func (d *database) open(now time.Time) time.Duration {
	if d.jobs > 0 {
		return later
	}
	look := d.agent.cfg.Files.LookAt(d.target.Path)
	if d.nowhere && look == d.missing && len(d.waiters) == 0 {
		return -1 // there was nothing, and nothing has come
	}
	pause := d.pause
	if d.nowhere && look != d.missing || d.endedSince(d.opened) || d.inUse && d.ends() {
		pause = 20 * time.Millisecond
	}
	if wait := d.opened.Add(pause).Sub(now); wait > 0 {
		return wait
	}
	d.opened, d.jobs = now, d.jobs+1
	identity := d.replicaID
	d.async(func(ctx context.Context) func() {
		var o *opening
		var err error
		if identity != "" { // it was followed before: a place that is empty now is not a new one
			err = d.sameStore(ctx, identity, d.ask)
		}
		if err == nil {
			o, err = d.takeOver(ctx)
		}
		return func() {
			d.jobs--
			d.missing = look
			d.take(o, err, now)
		}
	})
	return later
}

// leaving reports whether the agent gives this unopened database up. There is no database, or an attempt that began after the agent was to
// end has failed. A transaction that is in the way ends soon, so the attempts go on until the caller's patience ends.
func (d *database) leaving() bool {
	d.mu.Lock()
	ending, abandoned, fenced := !d.ending.IsZero(), d.abandoned, d.phase == gate.Fenced
	d.mu.Unlock()
	switch {
	case !ending:
		return false
	case abandoned, fenced:
		return true
	}
	return d.jobs == 0 && (d.nowhere && d.agent.cfg.Files.LookAt(d.target.Path) == d.missing || d.tried && !d.inUse && !d.endedSince(d.opened))
}

// ends reports whether the agent is to end with this database.
func (d *database) ends() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return !d.ending.IsZero()
}

// endedSince reports whether the agent was to end with this database after t.
func (d *database) endedSince(t time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ending.After(t)
}

// take starts with the result of an attempt that began at began.
func (d *database) take(o *opening, err error, began time.Time) {
	d.tried, d.nowhere, d.inUse = true, false, errors.Is(err, errInUse)
	var stop *stopError
	switch {
	case errors.Is(err, capture.ErrMode) && !final(err):
		o = &opening{}
		d.uncaptured(err)
		d.clear(alarmOpen)
		fallthrough
	case err == nil && o.files == nil:
		if err == nil {
			d.clear(alarmOpen, alarmCapture)
			d.failed(nil)
		}
		// Nothing to replicate yet. Writes are let through: the first that is committed makes the replica.
		d.pause, d.nowhere = d.agent.cfg.Interval, true
		d.enter(gate.Open, "")
		d.nothing(began)
		return
	case errors.As(err, &stop):
		d.trouble(err)
		d.clear(alarmOpen, alarmCapture)
		d.raise(alarmRefused, err.Error())
		d.enter(gate.Fenced, err.Error())
		d.failed(err)
		return
	case err != nil:
		d.pause = min(max(2*d.pause, 100*time.Millisecond), 5*time.Second)
		d.trouble(err)
		if isSwapped(err) && d.replicaID != "" { // it names what may be lost
			d.swapped(err)
			return
		}
		kind := alarmOpen
		if isSwapped(err) {
			kind = alarmSwapped
		}
		d.raise(kind, err.Error())
		d.enter(gate.Opening, err.Error())
		d.failed(err)
		return
	}
	d.clear(alarmOpen, alarmCapture, alarmSwapped)
	d.failed(nil)
	d.mu.Lock()
	d.confirmed = d.now() // the takeover has read the identity
	d.mu.Unlock()
	d.sure, d.sureAt = o.chain.Head, d.now()
	d.pause, d.files, d.owner, d.wasWAL = 0, o.files, o.owner, true
	d.epoch, d.alone = o.chain.Epoch, o.resumed
	if o.resumed {
		d.epoch++
	}
	d.head, d.stored = o.chain.Head, o.chain.Head
	d.known, d.renew, d.branch = slices.Clone(o.known), o.renew, o.branch
	d.changed, d.stale = d.now(), !o.resumed
	d.through = d.seq
	c := *o.chain
	c.Files = o.known
	d.makeLevels(&c)
	if o.mend && !o.renew {
		d.snapshotNow() // the files that are missing need not come back then
	}
	if err := d.begin(o); err != nil {
		d.fail(err)
		return
	}
	if d.target.SingleWriter {
		d.log.Warn("fencing is off (--single-writer): another agent with this replica would write over it unnoticed", "replica", d.target.URL)
	}
	d.log.Info("database is followed", "txid", d.head.TXID.String(), "replica", d.target.URL, "ack", d.target.Ack.String())
	d.enter(gate.Open, "")
}

// begin sends the first group: the whole database if the replica is empty, the difference if the database is ahead. Behind a fence it is
// page 1 unchanged, so that no upload of another agent can be taken for the file behind the fence.
func (d *database) begin(o *opening) error {
	var err error
	for tries := range 500 {
		if tries > 0 {
			d.agent.cfg.Files.Pause(2 * time.Millisecond) // other connections are in a transaction, and no commit waits for it yet
		}
		var changed, g *capture.Group
		changed, err = o.files.Capture()
		switch {
		case err != nil:
		case d.head.Empty(), o.ahead:
			changed.Release()
			d.epoch = max(d.epoch, 1)
			g, err = o.files.CaptureView(o.files.All)
		case changed != nil:
			g = changed
		case d.head.Fence:
			g, err = o.files.View(func(yield func(uint32) bool) { yield(1) })
		default:
			return nil
		}
		if err != nil && !errors.Is(err, walfile.ErrBusy) && !errors.Is(err, capture.ErrChanged) {
			return err
		}
		if err == nil {
			g.Before = 0 // it leads from the replica's head to here, after any earlier captures
			d.ship(g)
			return nil
		}
	}
	return err
}

// nothing answers callers of Sync that came before it was found that there is nothing to store. A commit is never answered so: it may have
// been made meanwhile.
func (d *database) nothing(began time.Time) {
	left := d.waiters[:0]
	for _, w := range d.waiters {
		if w.conn == nil && w.came.Before(began) {
			w.answer(gate.Done, nil)
			continue
		}
		left = append(left, w)
	}
	if d.waiters = left; len(left) > 0 {
		d.pause = 0
	}
}

// ask does a small request or a few, with a time limit.
func (d *database) ask(ctx context.Context, f func(ctx context.Context) error) error {
	d.agent.requests.add()
	ctx, cancel := d.agent.cfg.Timeout(ctx, 6*attempt)
	defer cancel()
	return f(ctx)
}

// readState reads this disk's knowledge of the replica: false if there is none, or it is damaged.
func (d *database) readState() (k known, ok bool, err error) {
	b, err := d.agent.cfg.FS.ReadFile(filepath.Join(d.side, "state"))
	if errors.Is(err, fs.ErrNotExist) {
		return k, false, nil
	}
	if err != nil {
		return k, false, err
	}
	if k, ok = decodeState(b); !ok {
		d.log.Warn("the state is damaged, and says nothing", "file", filepath.Join(d.side, "state"))
	}
	return k, ok, nil
}

// writeState makes durable what this disk knows of its replica. An empty Boot is replaced by this machine's.
func (d *database) writeState(k known) error {
	if k.Boot == "" {
		k.Boot = bootID(d.agent.cfg.FS)
	}
	k.Replica, k.Identity = restore.Place(d.target.URL), d.replicaID
	return d.agent.cfg.FS.WriteFileAtomic(filepath.Join(d.side, "state"), k.encode())
}

func (a *Agent) newOwner() uint64 { return a.cfg.Random() | 1 }
