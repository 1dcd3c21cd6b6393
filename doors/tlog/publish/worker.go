// Package publish copies transparency logs to places where others read them without asking this server. The leader's Worker takes the
// newest checkpoint whenever the last publication is done. It puts every missing tile and bundle that the checkpoint covers, and the
// checkpoint last. A reader of the checkpoint finds all it promises. Checkpoints in between are skipped. A Place is a directory, a bucket
// or a database.
//
// It continues from the place's content, so that a crash or a change of leader costs nothing. It refuses a place that holds anything but an
// earlier state of the same log. It signs nothing and decides nothing about the log.
package publish

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/holdfastdb/holdfast/core/node"
	"github.com/holdfastdb/holdfast/core/worker"
	tlogmachine "github.com/holdfastdb/holdfast/doors/tlog/machine"
	"github.com/holdfastdb/holdfast/internal/meter"
	"github.com/holdfastdb/holdfast/objstore"
)

// pause is how long the worker waits after a transient error, refusal after one that needs an operator.
const (
	pause   = time.Second
	refusal = time.Minute
	// look is how often the place is read at rest: another copy of the log may have published there.
	look = time.Minute
)

// Target is a place and the log that is published there.
type Target struct {
	Log string
	// Name is the place in the operator's words.
	Name  string
	Place Place
	// Least replaces the time that the place wants between two publications; 0: it does not.
	Least time.Duration
	// Shown, if not nil, is told what the place holds, which is the place's Number of those of its log.
	Shown  *Shown
	Number int
	// Ahead is called when the place turns out to hold what the log does not have; nil: nothing is called.
	Ahead func(log string)
	// Meter counts publications and their failures; nil: nothing is counted.
	Meter *meter.TlogPublish
}

// Worker publishes to one target for as long as its member leads. known, there and told belong to the goroutine of Run.
type Worker struct {
	node   worker.Member
	logs   *tlogmachine.Machine
	target Target
	log    *slog.Logger
	look   time.Duration // between two looks at rest

	known bool      // reports that there is up to date
	there Published // the checkpoint that is published
	told  string    // the error that was logged last in this term, "" after a success
}

// New makes a worker that publishes a log of m; Run starts it. log may not be nil.
func New(n *node.Node, m *tlogmachine.Machine, t Target, log *slog.Logger) *Worker {
	if t.Meter == nil {
		t.Meter = new(meter.TlogPublish)
	}
	return &Worker{node: n, logs: m, target: t, log: log, look: look}
}

// Run works until the node stops. Call it once.
func (w *Worker) Run() { worker.Lead(w.node, w.lead, nil) }

// lead publishes until over is closed.
func (w *Worker) lead(term uint64, over <-chan struct{}) {
	w.known = false // another leader may have published meanwhile
	if w.target.Shown != nil {
		w.target.Shown.begin(w.target.Log, term)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() { // a publication that runs must end with the leadership
		select {
		case <-over:
		case <-w.node.StoppedC():
		case <-ctx.Done():
		}
		cancel()
	}()
	w.told = ""
	for ctx.Err() == nil {
		wait, next := w.turn(ctx)
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		if next == nil {
			continue
		}
		rest := time.NewTimer(w.look)
		select {
		case <-ctx.Done():
		case <-next:
		case <-rest.C:
			w.known = false
		}
		rest.Stop()
	}
}

// turn publishes all due checkpoints. wait is the least time to the next turn, and next is closed when there may be more; nil: the next
// turn comes after wait.
func (w *Worker) turn(ctx context.Context) (wait time.Duration, next <-chan struct{}) {
	l := w.logs.Find(w.target.Log)
	if l == nil {
		next = w.logs.Demand()
		if l = w.logs.Find(w.target.Log); l == nil { // looked for again: later changes close the next channel
			return pause, next
		}
	}
	if wait = w.target.Least; wait == 0 {
		wait = w.target.Place.Least()
	}
	var c *tlogmachine.Checkpoint
	if s := w.target.Shown; s != nil {
		c, next = s.target(l)
	} else {
		c, next = l.Newest()
	}
	switch {
	case c == nil:
		return pause, next
	case l.Held() || w.known && w.there.Any && c.Size <= w.there.Size: // the place may have this checkpoint already
		if w.known {
			w.took(c)
		}
		return wait, next
	}
	err := w.publish(ctx, l, c)
	if w.known {
		w.target.Meter.Size.Set(int64(w.there.Size))
	}
	switch {
	case err == nil:
		if w.told != "" {
			w.log.Info("publication goes on", "log", w.target.Log, "to", w.target.Name, "size", w.there.Size)
		}
		w.told = ""
		w.took(c)
	case ctx.Err() == nil:
		return w.failed(err), nil
	}
	return wait, next
}

// took tells Shown that the place has a checkpoint.
func (w *Worker) took(c *tlogmachine.Checkpoint) {
	if w.target.Shown != nil {
		w.target.Shown.took(w.target.Log, w.target.Number, c, w.there.Size)
	}
}

// failed tells of a publication that failed and returns how long to wait before the next.
func (w *Worker) failed(err error) time.Duration {
	w.target.Meter.Failed.Inc()
	if errors.Is(err, ErrAhead) && w.target.Ahead != nil {
		w.target.Ahead(w.target.Log)
	}
	if err.Error() != w.told { // logged once, not every second
		w.told = err.Error()
		w.log.Error("publication failed", "log", w.target.Log, "to", w.target.Name, "err", err)
	}
	if errors.Is(err, ErrRefused) || errors.Is(err, objstore.ErrUnconditional) {
		return refusal
	}
	return pause
}

// publish brings the place to a checkpoint. If another member has published meanwhile, it returns what the place holds now.
func (w *Worker) publish(ctx context.Context, l *tlogmachine.Log, c *tlogmachine.Checkpoint) error {
	for changed := false; ; changed = true {
		if !w.known {
			there, err := w.target.Place.Held(ctx, l)
			if err != nil {
				return err
			}
			w.there, w.known = there, true
			if w.target.Shown != nil {
				w.target.Shown.found(w.target.Log, w.target.Number, there.checkpoint)
			}
			if there.Any && there.Size >= c.Size {
				return nil
			}
		}
		there, err := w.target.Place.Publish(ctx, l, w.there, c)
		w.there = there
		if err == nil {
			return nil
		}
		w.known = false // the place is read again to see how far it came
		if changed || !errors.Is(err, ErrChanged) {
			return err
		}
	}
}
