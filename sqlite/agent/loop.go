package agent

import (
	"context"
	"errors"
	"time"

	"github.com/holdfastdb/holdfast/sqlite/capture"
	"github.com/holdfastdb/holdfast/sqlite/gate"
	"github.com/holdfastdb/holdfast/sqlite/place"
	"github.com/holdfastdb/holdfast/sqlite/replica"
	"github.com/holdfastdb/holdfast/sqlite/walfile"
)

const (
	// quiet closes a group when no commit has come for so long, gatherMost when the first has waited for so long. Both were tried with twenty
	// writers and a PUT of 50 ms: less makes more requests, more makes the slowest slower.
	quiet      = 2 * time.Millisecond
	gatherMost = 8 * time.Millisecond
	// again is when something that failed for a moment is tried again.
	again = 5 * time.Millisecond
	later = time.Second
)

// chain is the loop's knowledge of database and replica. It is the loop's alone.
type chain struct {
	files     *capture.Database // nil: not open
	times     int               // how often it was left: results of an earlier time are dropped
	owner     uint64
	epoch     uint64
	head      replica.Head // behind every group that was made, stored or not
	stored    replica.Head // up to which all are stored
	ships     []*ship      // on their way, in order
	seq       uint64       // groups made
	through   uint64       // groups stored without a gap
	bytes     int64        // in memory for ships
	waiters   []*waiter
	first     time.Time // when the first commit came that no group holds; zero: none
	last      time.Time // when the last came
	taken     time.Time // when a capture was tried last
	changed   time.Time // when something was captured last
	opened    time.Time // when opening was tried last
	known     []replica.File
	levels    []*level
	streams   int       // ships that read the database while they are sent
	view      bool      // a level's file does
	jobs      int       // other work on its way
	stale     bool      // the manifest in the store says less than is known
	mending   bool      // the manifest is on its way
	tidy      time.Time // when files were removed last
	holding   holding
	blocking  time.Time    // since when another program's checkpoint waits for the mark; zero: none does
	reopened  time.Time    // when the files were opened again last
	waiting   []parked     // levels' files whose groups are not all stored
	alone     bool         // no group of this owner is stored yet, and it made no fence
	renew     bool         // the next group is stored as a snapshot as well, before it counts
	branch    bool         // the record of a restore goes when the next group is stored
	replicaID string       // identity of the replica
	losing    bool         // the database is another owner's, and its files are to be renamed
	tried     bool         // opening was tried
	inUse     bool         // a program's transaction was in the way of the last attempt
	again     bool         // at the end: commits made while other work is in flight are captured behind it
	nowhere   bool         // there was no database then, nor a replica of it
	missing   walfile.Look // the files found instead
	// wasWAL: the database was followed, or switched to WAL mode; one that leaves it later is not switched again.
	wasWAL    bool
	lastGroup replica.Head // the last stored group, in front of any fence
	witness   witness
	sure      replica.Head // up to which all is in a store that was seen to be the right one
	sureAt    time.Time    // when that was; zero: not since the agent began
	asked     bool         // the store was asked who it is, at the end
}

// run is the loop: everything about the database happens here, in sequence. Slow work is done outside and comes back through returned.
func (d *database) run() {
	defer d.agent.work.Done()
	for {
		next := d.step(d.now())
		if next < 0 {
			if d.rest() {
				return
			}
			next = later
		}
		d.agent.cfg.Runner.Wait(next, d.kick, d.agent.ctx.Done())
		if d.agent.ctx.Err() != nil {
			d.giveUp()
			return
		}
		d.takeReturned()
	}
}

// takeReturned calls the results of async work that has ended.
func (d *database) takeReturned() {
	d.mu.Lock()
	returned := d.returned
	d.returned = nil
	d.mu.Unlock()
	for _, f := range returned {
		f()
	}
}

// step does what is due, and returns how long nothing will be: -1 if nothing at all.
func (d *database) step(now time.Time) time.Duration {
	d.collect()
	if d.files == nil && d.leaving() {
		d.retire() // the program below `run` has just ended: no other program would rename the files before the next start
		d.conclude()
		return -1
	}
	switch {
	case d.in(gate.Fenced):
		d.answerAll(gate.WasFenced, replica.ErrFenced)
		return d.retire()
	case d.files == nil:
		d.settle(now)
		return d.open(now)
	case !d.files.Open() || d.files.Lone() && d.streams == 0 && !d.view && now.Sub(d.reopened) > d.agent.cfg.Interval:
		look := d.agent.cfg.Files.LookAt(d.target.Path)
		if look == d.seen && len(d.waiters) == 0 {
			break
		}
		d.reopened = now
		d.noteFile(look)
		err := d.inPlace()
		if err == nil {
			err = d.files.Reopen()
		}
		if err != nil {
			d.trouble(err)
			if id := idOf(look); id != (place.ID{}) {
				d.refuseAstray(len(d.waiters), id)
			}
			switch {
			case errors.Is(err, walfile.ErrAbsent):
				// It was removed: there is nothing more to store of it.
				d.answerAll(gate.NotStored, err)
				d.finalCapture, d.seen = true, look
			case !errors.Is(err, walfile.ErrBusy):
				d.uncaptured(err)
				d.finalCapture, d.seen = true, look
			}
			d.settle(now)
			if d.concluded() {
				return -1
			}
			return later
		}
	}
	next := d.group(now)
	d.watchCommits(now)
	if len(d.witness.silent) > 0 {
		next = min(next, witnessGrace)
	}
	d.levelsDue(now)
	next = min(next, d.restart(now))
	d.settle(now)
	d.manifest(now)
	if d.concluded() {
		return -1
	}
	if len(d.ships) == 0 && len(d.waiters) == 0 && d.jobs == 0 && len(d.witness.silent) == 0 && !d.stale && d.first.IsZero() && now.Sub(d.changed) > d.agent.restful() && !d.dueSoon(now) {
		return -1
	}
	return next
}

// collect takes over what came since.
func (d *database) collect() {
	d.mu.Lock()
	arrived, noted := d.arrived, d.noted
	d.arrived, d.noted = nil, false
	d.mu.Unlock()
	for _, w := range arrived {
		d.heard(w)
		d.waiters = append(d.waiters, w)
		d.last = w.came
		if d.first.IsZero() {
			d.first = w.came
		}
	}
	if noted {
		d.changed = d.now()
	}
}

// group captures what was committed, if it is time, and sends it. It returns when it is to be called again.
func (d *database) group(now time.Time) time.Duration {
	if !d.room() {
		return later // work in flight wakes the loop when it arrives
	}
	if !d.files.Open() {
		return d.agent.cfg.Interval // nothing has changed since it was closed
	}
	due := d.taken.Add(d.agent.requests.gather(d.agent.every()))
	if !d.first.IsZero() {
		most := d.agent.requests.gather(gatherMost)
		at := d.first.Add(most)
		if q := d.last.Add(quiet); q.Before(at) && most == gatherMost {
			at = q
		}
		if d.everybodyWaits() && most == gatherMost {
			at = now
		}
		if at.Before(due) {
			due = at
		}
	}
	if wait := due.Sub(now); wait > 0 {
		return wait
	}
	d.taken = now
	d.mu.Lock()
	d.said.syncs++
	d.mu.Unlock()
	covered := len(d.waiters)
	look := d.agent.cfg.Files.LookAt(d.target.Path)
	d.noteFile(look)
	if err := d.inPlace(); err != nil {
		d.uncaptured(err)
		return later
	}
	g, err := d.files.Capture()
	switch {
	case errors.Is(err, walfile.ErrBusy), errors.Is(err, capture.ErrChanged):
		d.taken = now.Add(again - d.agent.cfg.Interval)
		return again
	case errors.Is(err, walfile.ErrAbsent), errors.Is(err, walfile.ErrMoved):
		d.trouble(err)
		d.answerAll(gate.NotStored, err)
		return later
	case err != nil:
		d.uncaptured(err)
		return later
	}
	d.clear(alarmCapture)
	if g != nil {
		d.ship(g)
		d.changed = now
	}
	d.first, d.seen = time.Time{}, look
	covered -= d.refuseAstray(covered, d.files.ID())
	for _, w := range d.waiters[:covered] {
		if !w.known {
			w.need, w.known = d.covering(w), true
		}
	}
	if d.streams == 0 && !d.view && !d.files.Lone() && d.files.Alone() {
		// No connection has it. A later one may want exclusive access, or remove the WAL when it closes.
		d.files.Close()
	}
	return d.agent.requests.gather(d.agent.every())
}

// uncaptured is called when the database cannot be captured: in another journal mode, no database any more, or not to be read.
func (d *database) uncaptured(err error) {
	d.trouble(err)
	d.mu.Lock()
	d.said.failures++
	d.mu.Unlock()
	d.raise(alarmCapture, err.Error())
	d.answerAll(gate.NotStored, err)
}

// room reports whether another group may be made. The first file of a replica, and the first of an owner without a fence, has to be stored
// before the second is begun. It decides the replica's owner.
func (d *database) room() bool {
	return len(d.ships) < perDatabase && d.bytes <= mostKept && !((d.stored.Empty() || d.alone) && len(d.ships) > 0)
}

// covering finds the group that holds a commit: one in flight may have been captured before the commit's message came. A commit that names
// no frame is in the last captured group. A group that was not read from a WAL has no place in one either.
func (d *database) covering(w *waiter) uint64 {
	if !w.commit.Lone && w.conn != nil && w.commit.Frame > 0 {
		for _, s := range d.ships {
			if s.end.Salt == w.commit.Salt && s.end.Frame >= w.commit.Frame {
				return s.seq
			}
		}
	}
	return d.seq
}

// everybodyWaits reports whether there is no connection left that could commit.
func (d *database) everybodyWaits() bool {
	waiting := 0
	for _, w := range d.waiters {
		if w.conn != nil {
			waiting++
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return waiting > 0 && waiting >= len(d.clients)
}

// settle answers those whose commits are there, or took too long.
func (d *database) settle(now time.Time) {
	d.report()
	d.mu.Lock()
	hopeless := d.hopeless
	d.mu.Unlock()
	back := d.holdBack(now)
	left := d.waiters[:0]
	for _, w := range d.waiters {
		switch {
		case w == back:
			left = append(left, w)
		case d.ready(w):
			w.answer(gate.Done, nil)
		case w.conn == nil && hopeless != nil:
			w.answer(gate.NotStored, hopeless)
		case now.Sub(w.came) > d.agent.cfg.AckTimeout && w.conn != nil:
			w.answer(gate.NotStored, errNotStored)
			d.log.Error("a commit was not stored in time; writes are refused until everything is", "after", d.agent.cfg.AckTimeout)
			if d.in(gate.Open) {
				d.enter(gate.InDoubt, "a commit was not stored within "+d.agent.cfg.AckTimeout.String()+"; this ends when everything is stored")
			}
		default:
			left = append(left, w)
		}
	}
	clear(d.waiters[len(left):])
	d.waiters = left
	if d.through == d.seq && len(left) == 0 && d.files != nil && d.in(gate.InDoubt) {
		d.enter(gate.Open, "")
	}
}

// ready reports whether what w waits for is there.
func (d *database) ready(w *waiter) bool {
	return w.known && (w.need <= d.through || !w.commit.Stored && !d.lonely(w))
}

var errNotStored = errors.New("the commit was not stored in time; it is there and may come to be stored")

// lonely reports whether a capture that reads the database while it is sent may still change for w. With locking_mode=EXCLUSIVE only w's
// waiting keeps the database unchanged.
func (d *database) lonely(w *waiter) bool { return w.commit.Lone && d.streams > 0 }

// answerAll answers every waiting commit.
func (d *database) answerAll(code gate.Code, err error) {
	for _, w := range d.waiters {
		w.answer(code, err)
	}
	d.waiters, d.first = nil, time.Time{}
}

// async does f outside the loop, and calls its result in the loop.
func (d *database) async(f func(ctx context.Context) func()) {
	d.agent.work.Add()
	d.agent.cfg.Runner.Go(func() {
		defer d.agent.work.Done()
		then := f(d.agent.ctx)
		d.mu.Lock()
		d.returned = append(d.returned, then)
		d.mu.Unlock()
		d.ring()
	})
}

func (d *database) trouble(err error) {
	d.mu.Lock()
	d.said.trouble = err.Error()
	d.mu.Unlock()
}

// giveUp ends everything where it is, because the agent does.
func (d *database) giveUp() {
	d.collect()
	d.answerAll(gate.Refused, errors.New("the agent has stopped"))
	if d.files != nil {
		d.files.Close()
	}
	d.end()
}

// end marks the loop as ended for good.
func (d *database) end() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.ended {
		d.ended = true
		close(d.gone)
	}
	d.running = false
}
