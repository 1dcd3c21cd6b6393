// Package agent keeps SQLite databases in buckets. It captures commits in groups, and puts each group under the next name of its replica's
// chain. A waiting commit is answered when everything up to it is stored. It takes a replica over when it starts and finds out when another
// agent has taken it. It makes the files of higher levels and removes the files they replace.
//
// It never writes to a database or its WAL (Config.ToWAL has SQLite do so, once). It knows no SQL, and never touches the commit log of a
// node. sqlite/replica owns a replica's files, sqlite/capture finds the commits, sqlite/gate has the socket.
package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfastdb/holdfast/core/disk"
	"github.com/holdfastdb/holdfast/internal/task"
	"github.com/holdfastdb/holdfast/sqlite/gate"
	"github.com/holdfastdb/holdfast/sqlite/place"
	"github.com/holdfastdb/holdfast/sqlite/replica"
	"github.com/holdfastdb/holdfast/sqlite/restore"
)

// Target is a database and where it is kept.
type Target struct {
	Path    string // of the database file, which may not be there yet; links in it are followed as SQLite follows them
	Replica *replica.Replica
	URL     string // of the replica, for people
	// At is where the replica lies. Zero: where URL says.
	At  place.Store
	Ack gate.Ack
	// SingleWriter: the operator says that no other agent has the replica, whose store need not keep to conditions (objstore.SingleWriter).
	SingleWriter bool
	// Discovered: it was found in a directory and not named. Settled does not wait for it, and what cannot be kept of it is an alarm and no more.
	Discovered bool
}

// Config is how an agent works. Zero values are replaced by the defaults that are named.
type Config struct {
	Databases []Target
	// Socket is where extensions connect; "" for none.
	Socket string
	// Interval is the time between uploads of commits without a waiting client, and between looks at databases without the extension: 1 s.
	Interval time.Duration
	// AckTimeout is how long a commit waits to be stored before its database is in doubt: 30 s.
	AckTimeout time.Duration
	// MaxUnstored is how many bytes of a WAL may wait to be stored before the agent stops holding it: 64 MiB.
	MaxUnstored int64
	// Requests is how many requests a calendar month may take, for all databases: 20 million. Groups grow when they run out.
	Requests int64
	// Levels is how often files of the levels from 1 on are made: 30 s, 5 min, 1 h.
	Levels []time.Duration
	// Snapshot is the interval between snapshots, Retention how long they and the files between them are kept: 24 h both.
	Snapshot, Retention time.Duration
	// L0Retention is for how long groups are kept that a file of level 1 replaces: 5 min.
	L0Retention time.Duration
	// RequireExtension: a commit of a program without the extension, under ack archive, closes Broken within Interval.
	RequireExtension bool
	// Restored hears of databases that the agent has restored; nil: no calls.
	Restored func(path string, made *restore.Restored)
	// ToWAL switches the database at path to WAL mode, as walmode.Switch does. nil: a database that is in another mode stays so and is not kept.
	ToWAL func(ctx context.Context, path string) error
	Log   *slog.Logger
	FS    disk.FS
	Seams
}

func (c *Config) fill() {
	def := func(d *time.Duration, to time.Duration) {
		if *d == 0 {
			*d = to
		}
	}
	def(&c.Interval, time.Second)
	def(&c.AckTimeout, 30*time.Second)
	def(&c.Snapshot, 24*time.Hour)
	def(&c.Retention, 24*time.Hour)
	def(&c.L0Retention, 5*time.Minute)
	if c.Levels == nil {
		c.Levels = []time.Duration{30 * time.Second, 5 * time.Minute, time.Hour}
	}
	if c.MaxUnstored == 0 {
		c.MaxUnstored = 64 << 20
	}
	if c.Requests == 0 {
		c.Requests = 20_000_000
	}
	if c.Places == nil {
		c.Places = placesOn(c.FS)
	}
	if c.FS == nil {
		c.FS = disk.OS()
	}
	c.Seams.fill()
}

const (
	// mostUploads is how many are on their way at once, of all databases; perDatabase of one.
	mostUploads = 32
	perDatabase = 8
	// mostOpening bounds the databases that are read whole and compared with their replicas at a time.
	mostOpening = 8
)

// Agent has databases. Its methods may be called from any goroutine.
type Agent struct {
	cfg      Config
	gate     interface{ Close() } // nil: no socket
	ctx      context.Context      // ends with the agent
	cancel   context.CancelFunc
	uploads  chan struct{}
	opening  chan struct{}
	requests requests
	work     goroutines    // the databases' goroutines and the poller
	hopeless chan struct{} // closed when verdict is set
	broken   chan struct{} // closed when fault is set

	started chan struct{} // closed when Start has added its databases
	adding  sync.Mutex    // held while a database is added

	mu        sync.Mutex
	known     registry        // guarded by mu
	strangers map[string]bool // guarded by mu: databases of others that programs asked for
	parting   []*gate.Conn    // guarded by mu: connections that the poller ends
	closing   bool            // guarded by mu
	verdict   error           // guarded by mu: the first final failure of a database
	outcomes  []Outcome       // guarded by mu: of databases that Close has ended
	fault     error           // guarded by mu: why the agent is to be ended
}

// Start begins. It returns at once: databases are opened, taken over and restored in the background. Status and the log tell why one waits.
func Start(cfg Config) (*Agent, error) {
	if cfg.Socket != "" && !filepath.IsAbs(cfg.Socket) { // programs have other working directories
		socket, err := filepath.Abs(cfg.Socket)
		if err != nil {
			return nil, err
		}
		cfg.Socket = socket
	}
	cfg.fill()
	a := &Agent{cfg: cfg, known: newRegistry(), strangers: map[string]bool{}, started: make(chan struct{}), hopeless: make(chan struct{}), broken: make(chan struct{}),
		uploads: make(chan struct{}, mostUploads), opening: make(chan struct{}, mostOpening)}
	a.requests.budget, a.requests.clock = cfg.Requests, cfg.Clock
	a.ctx, a.cancel = context.WithCancel(context.Background())
	if err := a.begin(); err != nil {
		a.cancel()
		a.unlock()
		if a.gate != nil {
			a.gate.Close()
		}
		return nil, err
	}
	a.work.Add()
	a.cfg.Runner.Go(a.poll)
	return a, nil
}

// every is the interval for captures without a waiting client: short enough that a commit without the extension is found within Interval.
func (a *Agent) every() time.Duration {
	if a.cfg.RequireExtension {
		return a.cfg.Interval / 2
	}
	return a.cfg.Interval
}

// begin adds the databases, once all of them can be kept and the socket is there. lookup waits for it.
func (a *Agent) begin() error {
	defer close(a.started)
	all := newRegistry()
	for _, t := range a.cfg.Databases {
		d, err := located(a.cfg.Places, t)
		if err == nil {
			err = all.refuse(d)
		}
		if err != nil {
			return err
		}
		all.put(d)
	}
	if a.cfg.Socket != "" {
		g, err := a.cfg.Listen(a.cfg.Socket, a.lookup, a.cfg.Log)
		if err != nil {
			return err
		}
		a.gate = g
	}
	for _, t := range a.cfg.Databases {
		if err := a.Add(t); err != nil {
			return err
		}
	}
	return nil
}

// restful is how long a database is left alone before its manifest is written, and it rests.
func (a *Agent) restful() time.Duration { return 5 * a.cfg.Interval }

// Add gives the agent one more database. One that the agent has already, under any name, is an error, and so is one whose replica is another's.
func (a *Agent) Add(t Target) error {
	a.adding.Lock()
	defer a.adding.Unlock()
	d, err := located(a.cfg.Places, t)
	if err != nil {
		return err
	}
	a.mu.Lock()
	err = a.known.refuse(d)
	if a.closing {
		err = errors.New("the agent stops")
	}
	a.mu.Unlock()
	if err != nil {
		return err
	}
	if d, err = newDatabase(a, d); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closing {
		d.unlock()
		return errors.New("the agent stops")
	}
	a.known.put(d)
	d.wake()
	return nil
}

// Remove stores what a database has, as Close does, and gives it back.
func (a *Agent) Remove(ctx context.Context, path string) error {
	d := a.byPath(path)
	if d == nil {
		return fmt.Errorf("%s is none of the agent's databases", path)
	}
	a.mu.Lock()
	a.known.remove(d)
	a.mu.Unlock()
	return d.finish(ctx)
}

func (a *Agent) unlock() {
	for _, d := range a.all() {
		d.unlock()
	}
}

func (a *Agent) all() []*database {
	a.mu.Lock()
	defer a.mu.Unlock()
	l := make([]*database, 0, len(a.known.paths))
	for _, d := range a.known.paths {
		l = append(l, d)
	}
	return l
}

// Close stores what was committed, as long as ctx lasts, and ends. The error names the databases of which something is not stored.
func (a *Agent) Close(ctx context.Context) error {
	a.mu.Lock()
	a.closing = true
	a.mu.Unlock()
	all := a.all()
	failed := make([]error, len(all))
	done := make(chan struct{}, len(all))
	for i, d := range all {
		a.cfg.Runner.Go(func() {
			failed[i] = d.finish(ctx)
			done <- struct{}{}
		})
	}
	for range all {
		a.cfg.Runner.Wait(task.Forever, done)
	}
	a.mu.Lock()
	for _, d := range all {
		a.outcomes = append(a.outcomes, d.outcome)
	}
	a.mu.Unlock()
	a.cancel()
	if a.gate != nil {
		a.gate.Close()
	}
	a.work.Wait(a.cfg.Runner)
	return errors.Join(failed...)
}

// poll looks at idle databases, and logs lasting alarms again.
func (a *Agent) poll() {
	defer a.work.Done()
	looked := a.cfg.Clock.Wall()
	for {
		a.sleep(a.ctx, min(a.every(), lookMost))
		if a.ctx.Err() != nil {
			return
		}
		now := a.cfg.Clock.Wall()
		look := lookDue(a.every(), now.Sub(looked))
		if look {
			looked = now
		}
		for _, d := range a.all() {
			d.noteLead()
			if look {
				d.look()
			}
			d.remind(now)
		}
		a.part()
	}
}

// lookDue reports whether the poller looks at databases in this round, since after the last look. It does in every round of an interval
// that it can sleep through, and when a clock was set back.
func lookDue(every, since time.Duration) bool {
	return every <= lookMost || since >= every || since < 0
}

// part ends the connections of programs that have something else open than the agent reads: they ask again when they write.
func (a *Agent) part() {
	a.mu.Lock()
	conns := a.parting
	a.parting = nil
	a.mu.Unlock()
	for _, c := range conns {
		c.Close()
	}
}

// Sync captures what a database has and waits until it is stored. It returns the TXID that is.
func (a *Agent) Sync(ctx context.Context, path string) (replica.TXID, error) {
	d := a.byPath(path)
	if d == nil {
		return 0, fmt.Errorf("%s is none of the agent's databases", path)
	}
	return d.sync(ctx)
}

// Status is a line for each database, by the path that Target has for it.
func (a *Agent) Status() map[string]string {
	m := make(map[string]string)
	for _, d := range a.all() {
		m[d.place.Named] = d.Status()
	}
	return m
}

// Views is how every database stands, by path.
func (a *Agent) Views() []View {
	var l []View
	for _, d := range a.all() {
		l = append(l, d.stands())
	}
	slices.SortFunc(l, func(x, y View) int { return strings.Compare(x.Path, y.Path) })
	return l
}

// Outcomes is how every database ended that the agent still had when Close was called, by path.
func (a *Agent) Outcomes() []Outcome {
	a.mu.Lock()
	defer a.mu.Unlock()
	l := slices.Clone(a.outcomes)
	slices.SortFunc(l, func(x, y Outcome) int { return strings.Compare(x.Path, y.Path) })
	return l
}

// Settled waits until every database is followed or waits to be created. It returns an error once one of them cannot be kept until a person
// changes something. It is refused, it is no database, its bucket is missing, or its store has been unreachable for some seconds. The agent
// goes on trying all the same, until Close.
func (a *Agent) Settled(ctx context.Context) error {
	for _, d := range a.all() {
		if d.target.Discovered {
			continue
		}
		switch a.cfg.Runner.Wait(task.Forever, d.settled, a.hopeless, ctx.Done()) {
		case 1:
			a.mu.Lock()
			defer a.mu.Unlock()
			return a.verdict
		case 2:
			return named(d, fmt.Errorf("it ended before the database was followed: %s", d.waitsFor()))
		}
		d.mu.Lock()
		phase, reason := d.phase, d.reason
		d.mu.Unlock()
		if phase == gate.Fenced {
			return named(d, errors.New(reason))
		}
	}
	return nil
}
