package agent

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/core/clock"
	"github.com/holdfastdb/holdfast/internal/task"
	"github.com/holdfastdb/holdfast/sqlite/capture"
	"github.com/holdfastdb/holdfast/sqlite/gate"
	"github.com/holdfastdb/holdfast/sqlite/walfile"
)

// hand is an agent with one database whose loop the test turns by hand. Time passes when the test says so, and work beside the loop is done
// when the test asks for it. The files and the bucket are a rig's.
type hand struct {
	*database
	t      *testing.T
	r      *rig
	time   clock.Manual
	tasks  []func()        // work beside the loop that has not begun
	sent   uint32          // commits that were announced
	limits []time.Duration // that calls were given, in order
	// slept is called when something has waited for so long; nil: nothing is.
	slept func(d time.Duration)
	// wanted and checkpointing are what the test says of other programs: one wants the database for itself, or waits to start the WAL anew.
	wanted, checkpointing bool
	cannotOpen            error           // why files cannot be opened; nil: they can
	busy                  int             // how often a transaction is in the way of locking writers out
	pauses                []time.Duration // that captures made
}

// Go implements task.Runner.
func (h *hand) Go(f func()) { h.tasks = append(h.tasks, f) }

// Wait implements task.Runner. Time passes at once.
func (h *hand) Wait(d time.Duration, on ...<-chan struct{}) int {
	for i, c := range on {
		select {
		case <-c:
			return i
		default:
		}
	}
	if d < 0 {
		h.t.Fatal("something waits for ever")
	}
	h.time.Advance(d)
	if h.slept != nil {
		h.slept(d)
	}
	return -1
}

// Timeout implements task.Runner.
func (h *hand) Timeout(time.Duration) (context.Context, context.CancelFunc) {
	return context.WithCancel(context.Background())
}

// Yield implements task.Runner.
func (h *hand) Yield() {}

var _ task.Runner = (*hand)(nil)

// handFiles are the database's files, with what the test says of other programs.
type handFiles struct {
	capture.Files
	h *hand
}

func (f handFiles) Wanted() bool        { return f.h.wanted || f.Files.Wanted() }
func (f handFiles) Checkpointing() bool { return f.h.checkpointing || f.Files.Checkpointing() }

// LockWriters implements capture.Files.
func (f handFiles) LockWriters() error {
	if f.h.busy > 0 {
		f.h.busy--
		return walfile.ErrBusy
	}
	return f.Files.LockWriters()
}

// Open implements capture.Opener.
func (h *hand) Open(path string) (capture.Files, error) { return h.wrap(walfile.Open(path)) }

// OpenExclusive implements capture.Opener.
func (h *hand) OpenExclusive(path string) (capture.Files, error) {
	return h.wrap(walfile.OpenExclusive(path))
}

func (h *hand) wrap(f *walfile.DB, err error) (capture.Files, error) {
	if err == nil && h.cannotOpen != nil {
		f.Close()
		err = h.cannotOpen
	}
	if err != nil {
		return nil, err
	}
	return handFiles{f, h}, nil
}

// Pause implements capture.Opener.
func (h *hand) Pause(d time.Duration) { h.pauses = append(h.pauses, d) }

// LookAt implements Files.
func (h *hand) LookAt(path string) walfile.Look { return walfile.LookAt(path) }

// byHand takes the rig's database into a new agent, whose loop has not made a step yet.
func (r *rig) byHand(ack gate.Ack) *hand {
	r.t.Helper()
	h := &hand{t: r.t, r: r}
	h.time.Jump(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC).Sub(time.Unix(0, 0)))
	if r.log == nil {
		r.log = &journal{}
	}
	cfg := r.config(ack)
	cfg.Socket, cfg.Log = "", slog.New(slog.NewTextHandler(r.log, nil))
	cfg.Clock, cfg.Runner, cfg.Files = &h.time, h, h
	cfg.Timeout = func(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
		h.limits = append(h.limits, d)
		return context.WithCancel(ctx)
	}
	a, err := Start(cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	h.database, h.tasks = a.all()[0], nil // neither the loop nor the poller runs by itself
	r.t.Cleanup(func() {
		a.cancel()
		if h.files != nil {
			h.files.Close()
		}
		h.unlock()
	})
	return h
}

// followed is byHand, turned until the database is followed, everything is stored and the manifest says so.
func (r *rig) followed(ack gate.Ack) *hand {
	r.t.Helper()
	h := r.byHand(ack)
	h.turns(func() bool { return h.in(gate.Open) && h.files != nil && len(h.ships) == 0 && !h.stale && !h.mending })
	return h
}

// turn lets the loop do what is due, and does the work that this brings. It returns when the loop wants its next turn; -1: not before something
// happens.
func (h *hand) turn() time.Duration {
	h.t.Helper()
	next := h.step(h.time.Wall())
	h.work()
	return next
}

// work does what is to be done beside the loop, and gives the loop the results.
func (h *hand) work() {
	for len(h.tasks) > 0 {
		f := h.tasks[0]
		h.tasks = h.tasks[1:]
		f()
	}
	h.takeReturned()
}

// turns turns the loop, at the times that it asks for, until ok.
func (h *hand) turns(ok func() bool) {
	h.t.Helper()
	for range 1000 {
		next := h.turn()
		if ok() {
			return
		}
		h.time.Advance(max(next, time.Millisecond))
	}
	h.t.Fatalf("a thousand turns did not bring it: %s", h.Status())
}

// rests turns the loop until there is nothing to do and it ends.
func (h *hand) rests() {
	h.t.Helper()
	h.running = true
	h.turns(func() bool { return h.turn() < 0 && h.rest() })
}

// heardBy is what a connection of the extension was told.
type heardBy struct {
	*gate.Conn
	states []string // of STATE messages: refuse and hold, as bytes, and the text
	done   []gate.Code
}

// joins is a new connection of a program with the extension.
func (h *hand) joins(hello gate.Hello) *heardBy {
	c := &heardBy{}
	c.Conn = gate.NewConn(hello, func(m []byte) {
		switch m[0] {
		case 129:
			c.states = append(c.states, string(m[3:5])+string(m[9:]))
		case 130:
			c.done = append(c.done, gate.Code(m[5]))
		}
	})
	h.Join(c.Conn)
	return c
}

// commits says that a connection has committed, and waits until that is stored.
func (h *hand) commits(c *heardBy, at walfile.Position) {
	h.sent++
	h.Commit(c.Conn, gate.Commit{Seq: h.sent, Stored: true, Salt: at.Salt, Frame: at.Frame})
}

// warned are the warnings and errors of the log.
func (h *hand) warned() (lines []string) {
	h.r.log.mu.Lock()
	defer h.r.log.mu.Unlock()
	for line := range strings.Lines(h.r.log.text.String()) {
		if strings.Contains(line, "level=WARN") || strings.Contains(line, "level=ERROR") {
			lines = append(lines, line)
		}
	}
	return lines
}

// TestTheLoopByHand follows a database, stores a commit, answers it, and rests.
func TestTheLoopByHand(t *testing.T) {
	r := newRig(t)
	db := r.connect()
	r.exec(db, "create table t (x)")
	h := r.followed(gate.Archive)
	c := h.joins(gate.Hello{})
	r.exec(db, "insert into t values (1)")
	h.commits(c, r.position())
	h.turns(func() bool { return len(c.done) > 0 })
	if !slices.Equal(c.done, []gate.Code{gate.Done}) {
		t.Errorf("the commit is answered with %v", c.done)
	}
	if n := count(t, r.restored()); n != 1 {
		t.Errorf("%d of 1 rows are in the bucket", n)
	}
	h.rests()
	if lines := h.warned(); len(lines) > 0 {
		t.Errorf("the log warns: %v", lines)
	}
}
