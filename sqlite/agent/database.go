package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/holdfastdb/holdfast/core/disk"
	"github.com/holdfastdb/holdfast/sqlite/gate"
	"github.com/holdfastdb/holdfast/sqlite/place"
	"github.com/holdfastdb/holdfast/sqlite/replica"
)

// database is one of the agent's. It has a goroutine while there is something to do, and none while it rests.
type database struct {
	agent  *Agent
	target Target // its path is that of place
	side   string // the directory beside it
	lock   disk.Unlocker
	log    *slog.Logger
	kick   chan struct{}

	mu           sync.Mutex
	returned     []func()      // guarded by mu: results of async work; the loop calls each
	running      bool          // guarded by mu: it has its goroutine
	clients      []*gate.Conn  // guarded by mu: in the order in which they came
	arrived      []*waiter     // guarded by mu: not seen by the loop yet
	excused      time.Time     // guarded by mu: when a message came that explains commits without naming them; zero: never
	noted        bool          // guarded by mu: something was committed, most likely
	phase        gate.Refuse   // guarded by mu: why writes are refused
	reason       string        // guarded by mu: of the phase, for people
	hold         bool          // guarded by mu: transactions wait before they begin
	said         said          // guarded by mu: for View
	alarms       []Alarm       // guarded by mu: those that are on; nil: none
	hopeless     error         // guarded by mu: why the last attempt of something failed for good; nil: it did not
	away         time.Time     // guarded by mu: since when the store has been unreachable; zero: it is reachable
	confirmed    time.Time     // guarded by mu: when the store was last seen to be the replica's; zero: it has to be asked
	failing      int           // guarded by mu: requests to the store that are repeated because they failed
	calm         bool          // guarded by mu: settled is closed
	ending       time.Time     // guarded by mu: when finish was called; zero: not
	ended        bool          // guarded by mu: the loop is not to be started again
	abandoned    bool          // guarded by mu: finish waits no longer
	gone         chan struct{} // closed when the loop has ended for good
	settled      chan struct{} // closed when opening has ended one way or the other
	outcome      Outcome       // read after gone
	finalCapture bool          // the loop's: the commits before the end are captured

	identity
	chain
	sleep
}

// waiter is a commit that waits, or a caller of Sync.
type waiter struct {
	conn   *gate.Conn // nil: a caller of Sync, told by result
	commit gate.Commit
	result chan struct{} // closed when err says how it ended
	err    error
	came   time.Time
	need   uint64 // it is answered when so many groups are stored, or captured; set with known
	known  bool
}

// newDatabase takes a database that was located: the directory beside it and the lock are the agent's from then on.
func newDatabase(a *Agent, d *database) (*database, error) {
	t := d.target
	dir, name := filepath.Split(t.Path)
	d.agent, d.side, d.log = a, filepath.Join(dir, "."+name+"-holdfast"), a.cfg.Log.With("db", d.place.Named)
	d.kick, d.gone, d.settled = make(chan struct{}, 1), make(chan struct{}), make(chan struct{})
	d.phase, d.reason = gate.Opening, "the replica is being taken over"
	if err := a.cfg.FS.MkdirAll(d.side); err != nil {
		return nil, fmt.Errorf("make %s: %w", d.side, err)
	}
	lock, err := a.cfg.FS.Lock(filepath.Join(d.side, "lock"))
	if err != nil {
		return nil, fmt.Errorf("database %s: another agent has it (%w); stop that one first", t.Path, err)
	}
	d.lock = lock
	// The directory may not have been there. The text of the path stays: it has no link in it.
	if p, err := a.cfg.Places.Resolve(t.Path); err == nil {
		d.place.Spot = p.Spot
	}
	if a.cfg.Socket != "" {
		text := fmt.Sprintf("socket %s\nack %s\n", a.cfg.Socket, t.Ack)
		if err := a.cfg.FS.WriteFileAtomic(filepath.Join(d.side, "agent"), []byte(text)); err != nil {
			d.unlock()
			return nil, err
		}
	}
	return d, nil
}

// unlock gives the database to the next agent. A failure would be one of closing a file that was not written to.
func (d *database) unlock() { d.lock.Unlock() }

// wake starts the loop, or makes it look again.
func (d *database) wake() {
	d.mu.Lock()
	start := !d.running && !d.ended
	if start {
		d.running = true
		d.agent.work.Add()
	}
	d.mu.Unlock()
	if start {
		d.agent.cfg.Runner.Go(d.run)
	}
	d.ring()
}

// ring makes the loop look again, if it runs.
func (d *database) ring() {
	select {
	case d.kick <- struct{}{}:
	default:
	}
}

// Join implements gate.Database.
func (d *database) Join(c *gate.Conn) gate.State {
	d.mu.Lock()
	if c.Hello.File == (place.ID{}) { // a HELLO of version 1 does not say it
		c.Hello.File, _ = d.agent.cfg.Places.Identify(d.target.Path) // without a file nothing is compared
	}
	d.clients = append(d.clients, c)
	s := d.forOne(c, d.state())
	d.mu.Unlock()
	d.wake()
	return s
}

// state is what extensions are told; the caller holds mu.
func (d *database) state() gate.State {
	return gate.State{Managed: true, Ack: d.target.Ack, Refuse: d.phase, Hold: d.hold, Text: d.reason,
		TimeoutMS: uint32(d.agent.cfg.AckTimeout.Milliseconds())}
}

// Leave implements gate.Database.
func (d *database) Leave(c *gate.Conn) {
	d.mu.Lock()
	d.clients = slices.DeleteFunc(d.clients, func(other *gate.Conn) bool { return other == c })
	d.excused = d.now() // it may have ended between a commit and its message
	d.mu.Unlock()
}

// Commit implements gate.Database.
func (d *database) Commit(c *gate.Conn, commit gate.Commit) {
	d.arrive(&waiter{conn: c, commit: commit, came: d.now()})
}

func (d *database) arrive(w *waiter) {
	d.mu.Lock()
	ended := d.ended
	if !ended {
		d.arrived = append(d.arrived, w)
	}
	d.mu.Unlock()
	if ended {
		w.answer(gate.Refused, errors.New("the agent has stopped"))
		return
	}
	d.wake()
}

// Note implements gate.Database.
func (d *database) Note() {
	d.mu.Lock()
	d.noted, d.excused = true, d.now()
	d.mu.Unlock()
	d.wake()
}

// enter changes the phase and tells every extension.
func (d *database) enter(p gate.Refuse, reason string) {
	d.mu.Lock()
	changed := d.phase != p || d.reason != reason
	d.phase, d.reason = p, reason
	if p != gate.Opening && !d.calm {
		d.calm = true
		close(d.settled)
	}
	d.mu.Unlock()
	if changed {
		d.tell()
	}
}

func (d *database) setHold(on bool) {
	d.mu.Lock()
	changed := d.hold != on
	d.hold = on
	d.mu.Unlock()
	if changed {
		d.tell()
	}
}

// tell sends the state to every extension.
func (d *database) tell() {
	d.mu.Lock()
	s := d.state()
	conns := slices.Clone(d.clients)
	d.mu.Unlock()
	for _, c := range conns {
		d.inform(c, s)
	}
}

// inform sends a state to one extension, with the reply to its own request.
func (d *database) inform(c *gate.Conn, s gate.State) {
	d.mu.Lock()
	s = d.forOne(c, s)
	d.mu.Unlock()
	c.State(s)
}

func (d *database) in(p gate.Refuse) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.phase == p
}

// answer tells a waiter how it ended; err is nil with gate.Done only.
func (w *waiter) answer(code gate.Code, err error) {
	if w.conn == nil {
		w.err = err
		close(w.result)
		return
	}
	text := ""
	if err != nil {
		text = err.Error()
	}
	w.conn.Done(w.commit.Seq, code, text)
}

// sync captures and waits.
func (d *database) sync(ctx context.Context) (replica.TXID, error) {
	w := &waiter{commit: gate.Commit{Stored: true}, result: make(chan struct{}), came: d.now()}
	d.arrive(w)
	if !d.agent.wait(ctx, w.result) {
		return 0, ctx.Err()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.said.stored, w.err
}
