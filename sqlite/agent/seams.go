package agent

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"log/slog"
	"sync"
	"time"

	"github.com/holdfastdb/holdfast/core/clock"
	"github.com/holdfastdb/holdfast/internal/task"
	"github.com/holdfastdb/holdfast/sqlite/capture"
	"github.com/holdfastdb/holdfast/sqlite/gate"
	"github.com/holdfastdb/holdfast/sqlite/replica"
	"github.com/holdfastdb/holdfast/sqlite/restore"
	"github.com/holdfastdb/holdfast/sqlite/walfile"
)

// Seams are the parts of the machine that an agent works with. Each zero value is the real part. A simulation gives its own, and then runs
// whole agents in one goroutine, the same way for the same seed.
type Seams struct {
	Clock clock.Clock
	// Runner runs the agent's goroutines. They wait in it and nowhere else, but for the slots of uploads and takeovers.
	Runner task.Runner
	// Timeout is context.WithTimeout.
	Timeout func(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc)
	Files   Files
	// Prepare is restore.Prepare.
	Prepare func(ctx context.Context, r *replica.Replica, how restore.Options) (Prepared, error)
	Places  Places
	// Random returns a number that no other call returns, on any machine.
	Random func() uint64
	// Listen is gate.Listen.
	Listen func(socket string, lookup func(h gate.Hello) gate.Database, log *slog.Logger) (interface{ Close() }, error)
}

func (s *Seams) fill() {
	if s.Clock == nil {
		s.Clock = clock.Real()
	}
	if s.Runner == nil {
		s.Runner = task.Goroutines{}
	}
	if s.Timeout == nil {
		s.Timeout = context.WithTimeout
	}
	if s.Files == nil {
		s.Files = files{capture.Disk}
	}
	if s.Prepare == nil {
		s.Prepare = func(ctx context.Context, r *replica.Replica, how restore.Options) (Prepared, error) {
			return restore.Prepare(ctx, r, how)
		}
	}
	if s.Random == nil {
		s.Random = random
	}
	if s.Listen == nil {
		s.Listen = func(socket string, lookup func(h gate.Hello) gate.Database, log *slog.Logger) (interface{ Close() }, error) {
			return gate.Listen(socket, lookup, log)
		}
	}
}

// Prepared is a database that was restored under a working name: a *restore.Prepared, which has the contract of each method, or a model of one.
type Prepared interface {
	Restored() restore.Restored
	Advance(ctx context.Context) error
	Finish(ctx context.Context) (*restore.Restored, error)
	Close() error
}

// Files opens the files of databases and glances at them.
type Files interface {
	capture.Opener
	LookAt(path string) walfile.Look
}

// files are the databases on this machine's disks.
type files struct{ capture.Opener }

func (files) LookAt(path string) walfile.Look { return walfile.LookAt(path) }

func random() uint64 {
	var b [8]byte
	rand.Read(b[:]) // it never fails
	return binary.BigEndian.Uint64(b[:])
}

// now is the machine's time of day.
func (d *database) now() time.Time { return d.agent.cfg.Clock.Wall() }

// sleep returns after d, or when ctx ends.
func (a *Agent) sleep(ctx context.Context, d time.Duration) { a.cfg.Runner.Wait(d, ctx.Done()) }

// wait returns when ch is closed or gives a value: true, or when ctx ends.
func (a *Agent) wait(ctx context.Context, ch <-chan struct{}) bool {
	return a.cfg.Runner.Wait(task.Forever, ch, ctx.Done()) == 0
}

// goroutines counts those that run. The zero value is ready; any goroutine may use it.
type goroutines struct {
	mu   sync.Mutex
	n    int           // guarded by mu
	none chan struct{} // guarded by mu: closed when n becomes 0
}

// Add counts one that is about to begin.
func (g *goroutines) Add() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.n++; g.n == 1 {
		g.none = make(chan struct{})
	}
}

// Done counts the end of one.
func (g *goroutines) Done() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.n--; g.n == 0 {
		close(g.none)
	}
}

// Wait returns when none runs.
func (g *goroutines) Wait(r task.Runner) {
	for {
		g.mu.Lock()
		n, none := g.n, g.none
		g.mu.Unlock()
		if n == 0 {
			return
		}
		r.Wait(task.Forever, none)
	}
}
