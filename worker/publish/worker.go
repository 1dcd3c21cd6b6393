// Package publish copies transparency logs to places where others read them without asking this server. The leader's Worker
// takes the newest checkpoint whenever the last publication is done, puts every tile and bundle it covers and the place lacks,
// and the checkpoint last: whoever reads it there finds all it promises. Checkpoints in between are skipped. A Place is a
// directory, a bucket or a database.
//
// It continues whatever it finds, so that a crash or a change of leader costs nothing, and refuses a place that holds anything
// but an earlier state of the same log. It signs nothing and decides nothing about the log.
package publish

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/holdfastdb/holdfast/internal/meter"
	"github.com/holdfastdb/holdfast/machine/tree"
	"github.com/holdfastdb/holdfast/node"
)

// pause is how long the worker waits after an error that may pass, refusal after one that will not without an operator.
const (
	pause   = time.Second
	refusal = time.Minute
)

// Target is a place and the log that is published there.
type Target struct {
	Log string
	// Name is the place in the operator's words.
	Name  string
	Place Place
	// Meter counts what becomes of publications; nil: nobody looks.
	Meter *meter.TlogPublish
}

// member is what the worker needs of its node. *node.Node is the one.
type member interface {
	Leadership() (term uint64, changed <-chan struct{})
	StoppedC() <-chan struct{}
}

// Worker publishes to one target for as long as its member leads. size and known belong to the goroutine of Run.
type Worker struct {
	node   member
	logs   *tree.Machine
	target Target
	log    *slog.Logger

	known bool   // size is what the place holds
	size  uint64 // of the checkpoint that is published
}

// New makes a worker; Run starts it. log may not be nil.
func New(n *node.Node, t Target, log *slog.Logger) *Worker {
	if t.Meter == nil {
		t.Meter = new(meter.TlogPublish)
	}
	return &Worker{node: n, logs: n.Tree(), target: t, log: log}
}

// Run works until the node stops. Call it once.
func (w *Worker) Run() {
	for {
		term, changed := w.node.Leadership()
		if term != 0 {
			w.known = false // another leader may have published meanwhile
			w.lead(changed)
		}
		select {
		case <-changed:
		case <-w.node.StoppedC():
			return
		}
	}
}

// lead publishes until changed is closed.
func (w *Worker) lead(changed <-chan struct{}) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() { // a publication that runs must end with the leadership
		select {
		case <-changed:
		case <-w.node.StoppedC():
		case <-ctx.Done():
		}
		cancel()
	}()
	told := ""
	for {
		wait := w.target.Place.Least()
		var next <-chan struct{}
		if l := w.logs.Find(w.target.Log); l == nil {
			next, wait = w.logs.Demand(), pause
			if w.logs.Find(w.target.Log) != nil {
				continue
			}
		} else {
			var c *tree.Checkpoint
			c, next = l.Newest()
			if c != nil && !l.Held() && (!w.known || c.Size > w.size) {
				err := w.publish(ctx, l, c)
				if w.known {
					w.target.Meter.Size.Set(int64(w.size))
				}
				if err != nil && ctx.Err() == nil {
					w.target.Meter.Failed.Inc()
					if err.Error() != told { // once, not every second
						told = err.Error()
						w.log.Error("publication failed", "log", w.target.Log, "to", w.target.Name, "err", err)
					}
					if wait, next = pause, nil; errors.Is(err, ErrRefused) {
						wait = refusal
					}
				} else if err == nil {
					told = ""
				}
			} else if c == nil {
				wait = pause
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		if next == nil {
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-next:
		}
	}
}

// publish brings the place to a checkpoint.
func (w *Worker) publish(ctx context.Context, l *tree.Log, c *tree.Checkpoint) error {
	if !w.known {
		size, err := w.target.Place.Held(ctx, l)
		if err != nil {
			return err
		}
		w.size, w.known = size, true
		if size >= c.Size && size > 0 {
			return nil
		}
	}
	if err := w.target.Place.Publish(ctx, l, w.size, c); err != nil {
		w.known = false // how far it came is seen there
		return err
	}
	w.size = c.Size
	return nil
}
