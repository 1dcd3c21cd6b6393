// Package scrub derives a member's transparency logs from their entries again, once a day, and compares everything stored. Otherwise the
// first auditor would find damage in a part that is never read. It runs on every member, over that member's own store, and repairs nothing.
// A fault is logged and counted, and keeps this member from signing the log.
package scrub

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/holdfastdb/holdfast/core/node"
	tlogmachine "github.com/holdfastdb/holdfast/doors/tlog/machine"
	"github.com/holdfastdb/holdfast/internal/meter"
)

const (
	// every is the time between two scrubs. The first one comes after a quarter of an hour, not after a day: servers that are
	// restarted every night must be scrubbed too.
	every = 24 * time.Hour
	first = 15 * time.Minute
	// rest is the pause between two bundles: a million entries take some ten seconds, most of it waiting.
	rest = 2 * time.Millisecond
)

// Worker scrubs until its member stops.
type Worker struct {
	logs    *tlogmachine.Machine
	stopped <-chan struct{}
	log     *slog.Logger
	meter   *meter.Tlog
	places  func(log string) []Place
}

// Place is somewhere a log is published.
type Place struct {
	Name string
	// Check compares the published objects with the log. It returns how many are missing or altered, and the fault of the first. pace is
	// called before each look and may wait; an error from it ends the check.
	Check func(ctx context.Context, l *tlogmachine.Log, pace func() error) (bad int, first string, err error)
	Meter *meter.TlogPublish
}

// New makes n's worker, for the logs of trees; Run starts it. It reports its progress and findings in m. places lists where a log is
// published and this member has to look, which only one of them need do; nil: nowhere.
func New(n *node.Node, trees *tlogmachine.Machine, m *meter.Tlog, places func(log string) []Place, log *slog.Logger) *Worker {
	return &Worker{logs: trees, stopped: n.StoppedC(), log: log, meter: m, places: places}
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
		case err != nil && !tlogmachine.IsDamage(err):
			m.ScrubFailed.Inc()
			w.log.Warn("not scrubbed", "log", l.Spec.Name, "err", err)
		case err != nil:
			m.ScrubBad.Inc()
			m.ScrubEnded.Set(time.Now().Unix())
			l.SetDamage(err)
			w.log.Error("the log is damaged here and will not be signed by this member", "log", l.Spec.Name, "err", err)
		default:
			m.ScrubDone.Set(m.ScrubAll.Load()) // pace is not called after the last bundle
			m.ScrubEnded.Set(time.Now().Unix())
			w.log.Info("scrubbed", "log", l.Spec.Name, "entries", l.View().Size, "took", time.Since(began).Round(time.Millisecond))
			if w.published(l) != nil {
				return
			}
		}
	}
}

// published looks at the places of a log that is good here. The error is errStopped or nil.
func (w *Worker) published(l *tlogmachine.Log) error {
	if w.places == nil {
		return nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for _, p := range w.places(l.Spec.Name) {
		bad, first, err := p.Check(ctx, l, func() error { return w.sleep(rest) })
		switch {
		case errors.Is(err, errStopped):
			return errStopped
		case err != nil:
			w.log.Warn("what is published was not scrubbed", "log", l.Spec.Name, "to", p.Name, "err", err)
		case bad > 0:
			w.log.Error("what is published is damaged; `holdfast tlog republish` puts it there again", "log", l.Spec.Name, "to", p.Name,
				"objects", bad, "first", first)
		}
		if err == nil && p.Meter != nil {
			p.Meter.Bad.Set(int64(bad))
		}
	}
	return nil
}
