// Package scrub derives the transparency logs a member holds from their entries again, once a day, and compares everything
// stored: damage in a part that nobody reads would otherwise be found by the first auditor. It runs on every member, over that
// member's own store, and repairs nothing: what it finds is told, and keeps this member from signing the log.
package scrub

import (
	"errors"
	"log/slog"
	"time"

	"github.com/holdfastdb/holdfast/internal/meter"
	"github.com/holdfastdb/holdfast/machine/tree"
	"github.com/holdfastdb/holdfast/node"
)

const (
	// every is the time between two scrubs. The first one comes after a quarter of an hour, not after a day: servers that are
	// restarted every night must be scrubbed too.
	every = 24 * time.Hour
	first = 15 * time.Minute
	// rest is what is waited between two bundles: a million entries take some ten seconds, mostly asleep.
	rest = 2 * time.Millisecond
)

// Worker scrubs until its member stops.
type Worker struct {
	logs    *tree.Machine
	stopped <-chan struct{}
	log     *slog.Logger
	meter   *meter.Tlog
}

// New makes n's worker; Run starts it. It says in m how far it is and what it found.
func New(n *node.Node, m *meter.Tlog, log *slog.Logger) *Worker {
	return &Worker{logs: n.Tree(), stopped: n.StoppedC(), log: log, meter: m}
}

var errStopped = errors.New("stopped")

// Run works until the node stops. Call it once.
func (w *Worker) Run() {
	for wait := first; w.sleep(wait) == nil; wait = every {
		w.once()
	}
}

func (w *Worker) sleep(d time.Duration) error {
	select {
	case <-w.stopped:
		return errStopped
	case <-time.After(d):
		return nil
	}
}

// once scrubs every log.
func (w *Worker) once() {
	for _, l := range w.logs.Logs() {
		began, m := time.Now(), w.meter.Log(l.Spec.Name)
		err := l.Scrub(func(done, all uint64) error {
			m.ScrubDone.Set(int64(done))
			m.ScrubAll.Set(int64(all))
			return w.sleep(rest)
		})
		switch {
		case errors.Is(err, errStopped):
			return
		case err != nil && !tree.IsDamage(err):
			m.ScrubFailed.Inc()
			w.log.Warn("not scrubbed", "log", l.Spec.Name, "err", err)
		case err != nil:
			m.ScrubBad.Inc()
			m.ScrubEnded.Set(time.Now().Unix())
			l.SetDamage(err)
			w.log.Error("the log is damaged here and will not be signed by this member", "log", l.Spec.Name, "err", err)
		default:
			m.ScrubDone.Set(m.ScrubAll.Load()) // the last bundle was not told of
			m.ScrubEnded.Set(time.Now().Unix())
			w.log.Info("scrubbed", "log", l.Spec.Name, "entries", l.View().Size, "took", time.Since(began).Round(time.Millisecond))
		}
	}
}
