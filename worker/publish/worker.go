// Package publish copies transparency logs to places where others read them without asking this server. The leader's Worker
// takes the newest checkpoint whenever the last publication is done, puts every tile and bundle it covers and the place lacks,
// and the checkpoint last: whoever reads it there finds all it promises. Checkpoints in between are skipped.
//
// It continues whatever it finds, so that a crash or a change of leader costs nothing, and refuses a place that holds anything
// but an earlier state of the same log. It signs nothing and decides nothing about the log.
package publish

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/holdfastdb/holdfast/machine/tree"
	"github.com/holdfastdb/holdfast/node"
	"github.com/holdfastdb/holdfast/objstore"
	"github.com/holdfastdb/holdfast/tiles"
)

const (
	// least is the time between two publications to one place.
	least = 100 * time.Millisecond
	// pause is how long the worker waits after an error that may pass.
	pause = time.Second
	// batch is how many objects are put with one call: their directories are synced once.
	batch = 64
	// patience bounds one publication; what was put stays, and the next one goes on from there.
	patience = 5 * time.Minute
)

// Target is a place and the log that is published there.
type Target struct {
	Log string
	// Name is the place in the operator's words.
	Name  string
	Store objstore.Store
}

// ErrRefused: the place holds something else than an earlier state of the log. Nothing is written to it.
var ErrRefused = errors.New("not an earlier state of this log")

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
		wait := least
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
				if err != nil && ctx.Err() == nil {
					if err.Error() != told { // once, not every second
						told = err.Error()
						w.log.Error("not published", "log", w.target.Log, "to", w.target.Name, "err", err)
					}
					if wait, next = pause, nil; errors.Is(err, ErrRefused) {
						wait = time.Minute
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
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if !w.known {
		size, err := Published(ctx, w.target.Store, l)
		if err != nil {
			return err
		}
		w.size, w.known = size, true
		if size >= c.Size && size > 0 {
			return nil
		}
	}
	var objects []objstore.Object
	var full []tiles.Ref // have become full: their partial ones can go
	flush := func() error {
		err := w.target.Store.Put(ctx, objects...)
		objects = objects[:0]
		return err
	}
	put := func(r tiles.Ref) error {
		b, err := read(l, r)
		if err != nil {
			return err
		}
		objects = append(objects, objstore.Object{Name: r.Path(), Data: b})
		if len(objects) < batch {
			return nil
		}
		return flush()
	}
	for level := tiles.EntryLevel; level < 64/tiles.Height; level++ {
		shift := tiles.Height * max(level, 0)
		was, is := w.size>>shift, c.Size>>shift
		if is == 0 {
			break
		}
		for n := was / tiles.Width; n < is/tiles.Width; n++ {
			r := tiles.Ref{Level: level, N: n, Width: tiles.Width}
			if err := put(r); err != nil {
				return err
			}
			if n*tiles.Width < was {
				full = append(full, r)
			}
		}
		if width := is % tiles.Width; width > 0 {
			if err := put(tiles.Ref{Level: level, N: is / tiles.Width, Width: int(width)}); err != nil {
				return err
			}
		}
	}
	if err := flush(); err != nil {
		return err
	}
	// The commit point: from here on readers find the new size, and all of it is there.
	if err := w.target.Store.Put(ctx, objstore.Object{Name: "checkpoint", Data: c.Note}); err != nil {
		w.known = false // it may be there all the same
		return err
	}
	w.size = c.Size
	for _, r := range full {
		// A reader that still holds an older checkpoint takes the full one in its place, as tlog-tiles says.
		if err := w.target.Store.DeleteAll(ctx, r.Path()+".p"); err != nil {
			w.log.Warn("partial tiles stay", "of", r.Path(), "at", w.target.Name, "err", err)
		}
	}
	return nil
}

func read(l *tree.Log, r tiles.Ref) ([]byte, error) {
	if r.Level == tiles.EntryLevel {
		return l.Bundle(r.N, r.Width)
	}
	return l.Tile(r.Level, r.N, r.Width)
}

// Published returns the size of the log that a place holds, 0 if it holds none. ErrRefused: what it holds is no earlier state
// of the log l.
func Published(ctx context.Context, s objstore.Store, l *tree.Log) (uint64, error) {
	note, err := s.Get(ctx, "checkpoint")
	if errors.Is(err, objstore.ErrAbsent) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read the published checkpoint: %w", err)
	}
	c, _, err := tiles.OpenCheckpoint(note, &l.Spec.Key)
	if err != nil {
		return 0, fmt.Errorf("%w: its checkpoint is not signed by %s: %w", ErrRefused, l.Spec.Key.Name, err)
	}
	v := l.View()
	if c.Size > v.Size {
		return 0, fmt.Errorf("%w: it has %d entries, the log %d", ErrRefused, c.Size, v.Size)
	}
	root, err := l.Prover(v, c.Size).Root()
	if err != nil {
		return 0, err
	}
	if root != c.Root {
		return 0, fmt.Errorf("%w: at size %d its root is %s, the log's %s", ErrRefused, c.Size, c.Root, root)
	}
	return c.Size, nil
}
