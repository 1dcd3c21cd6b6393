// Package checkpoint signs the checkpoints of transparency logs. The leader's Worker waits until a log has grown, and checks that the
// store's frontier and right edge agree. It signs, and proposes the signed note as a command of its own term. Every member then serves the
// applied note, byte for byte (DECISIONS A14). A deposed leader's note is dropped by Apply and never served.
//
// It holds the private keys, which are never in the log, the store or a snapshot. It does not read their files: cmd/holdfast does. It
// decides when a checkpoint is made, and nothing about what is in a log.
package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/core/node"
	"github.com/holdfastdb/holdfast/core/worker"
	tlogmachine "github.com/holdfastdb/holdfast/doors/tlog/machine"
	tlogpart "github.com/holdfastdb/holdfast/doors/tlog/part"
	"github.com/holdfastdb/holdfast/doors/tlog/tiles"
	"github.com/holdfastdb/holdfast/internal/meter"
)

const (
	// least is the time between two checkpoints of one log while clients wait for them. A signature costs 23 µs and a command a sync, so
	// this bounds what impatient clients cost the others.
	least = 5 * time.Millisecond
	// calm is the delay of a checkpoint after a log has begun to grow, if no client waits for it. With the signature and the command it is
	// published within 100 ms of the last add.
	calm = 80 * time.Millisecond
	// together is how much earlier a log gets a checkpoint if another log gets one: their records are synced once.
	together = calm / 2
	// crowd is how many logs there are when rounds are crowdPause apart. A round looks at each; with fewer logs no client has to wait for
	// that.
	crowd      = 64
	crowdPause = 5 * time.Millisecond
	// keyPause is the time between two looks for keys that are missing.
	keyPause = time.Second
	// pause is how long the worker waits after a failure.
	pause = 200 * time.Millisecond
)

// member is the worker's view of its node. *node.Node is the one; tests drive a worker without a log.
type member interface {
	worker.Member
	IDs() (cluster, member uint64)
	Call(ctx context.Context, service string, req []byte) ([]byte, error)
	Handle(service string, fn func(ctx context.Context, req []byte) ([]byte, error))
	TransferLeader(ctx context.Context, to uint64) error
	Linearize(ctx context.Context) error
	Status() node.Status
}

// Options of a Worker.
type Options struct {
	// Key returns the private key for a log, nil if this member has none.
	Key func(log string) *tiles.Signer
	// KeyFile names the place where Key looks for a log's key, for people; nil: the log's name and ".key".
	KeyFile func(log string) string
	// Alone reports whether this server has no other members; nil: it may have some. Any goroutine.
	Alone func() bool
	// First is a log to begin as soon as this member leads, if its name is unused and Key has its key; nil: none.
	First *tlogpart.LogSpec
	// Highest keeps what was signed; nil: nothing is kept.
	Highest Highest
	// Places lists where a log is published; nil: nowhere.
	Places func(log string) []Place
	// Calm is the delay of a checkpoint after a log has begun to grow, if no client waits for it; 0 = 80 ms.
	Calm time.Duration
	// Meter times signing; nil: nothing is counted.
	Meter *meter.Tlog
	// Logger gets what an operator must know; nil: silent.
	Logger *slog.Logger
	// Damaged is called, once per log and start, when a log contradicts itself; nil: it is only logged. The log gets no
	// further checkpoint from this member.
	Damaged func(err error)
}

// Worker signs for as long as its member leads. Its maps belong to the goroutine of Run unless they say otherwise.
type Worker struct {
	node member
	logs *tlogmachine.Machine
	opt  Options

	due     map[*tlogmachine.Log]time.Time // when a grown log gets a checkpoint even without a waiting client
	last    map[*tlogmachine.Log]time.Time // when the newest one was signed
	keyless map[*tlogmachine.Log]bool      // logged that the key is missing
	// wrongKey is since when a log's key is known to be another's.
	wrongKey map[*tlogmachine.Log]time.Time

	handoverMu sync.Mutex
	handedOver time.Time // guarded by handoverMu

	verdictMu sync.Mutex
	verdicts  map[string]*verdict // guarded by verdictMu, as are the verdicts: by log

	base   map[*tlogmachine.Log]uint64 // size of the checkpoint when this member had caught up
	asking sync.WaitGroup              // questions to places
	wake   chan struct{}               // capacity 1: a verdict has changed

	guardMu      sync.Mutex
	guardTerm    uint64                      // guarded by guardMu: the term that guards are of, 0 = none yet
	guardCtx     context.Context             // guarded by guardMu: ends with that term
	guards       map[*tlogmachine.Log]*guard // guarded by guardMu
	guardChanged chan struct{}               // guarded by guardMu: closed at the next verdict
	live         map[*tlogmachine.Log]bool   // guarded by guardMu: see seen

	heldMu sync.Mutex
	held   map[string]string // guarded by heldMu: the leader's last answer
	heldAt time.Time         // guarded by heldMu
}

// pending is a signed checkpoint that has not been shown.
type pending struct {
	tlogpart.Signed
	log *tlogmachine.Log
}

// New makes n's worker, which signs the logs of m, before the node's first Call; Run starts it.
func New(n *node.Node, m *tlogmachine.Machine, opt Options) *Worker { return newWorker(n, m, opt) }

func newWorker(n member, logs *tlogmachine.Machine, opt Options) *Worker {
	if opt.Logger == nil {
		opt.Logger = slog.New(slog.DiscardHandler)
	}
	if opt.Meter == nil {
		opt.Meter = new(meter.Tlog)
	}
	if opt.KeyFile == nil {
		opt.KeyFile = func(log string) string { return log + ".key" }
	}
	w := &Worker{node: n, logs: logs, opt: opt, due: map[*tlogmachine.Log]time.Time{}, last: map[*tlogmachine.Log]time.Time{},
		keyless: map[*tlogmachine.Log]bool{}, wrongKey: map[*tlogmachine.Log]time.Time{}, verdicts: map[string]*verdict{}, base: map[*tlogmachine.Log]uint64{}, wake: make(chan struct{}, 1),
		guards: map[*tlogmachine.Log]*guard{}, guardChanged: make(chan struct{}), live: map[*tlogmachine.Log]bool{}}
	if opt.Calm == 0 {
		w.opt.Calm = calm
	}
	n.Handle(leadService, w.handOver)
	n.Handle(signsService, w.signs)
	n.Handle(heldService, w.heldLogs)
	n.Handle(releaseService, w.release)
	return w
}

// Run works until the node stops. Call it once.
func (w *Worker) Run() {
	defer w.asking.Wait()
	worker.Lead(w.node, w.lead, w.follow)
}

// lead works in one term until over is closed.
func (w *Worker) lead(term uint64, over <-chan struct{}) {
	w.forgetVerdicts()
	clear(w.due)
	end := w.newTerm(term)
	defer end()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		demand := w.logs.Demand() // before the logs are looked at
		wait, err := w.round(term)
		if errors.Is(err, node.ErrSuperseded) {
			wait = time.Hour
		} else if err != nil {
			wait = pause
		}
		timer.Reset(wait)
		select {
		case <-over:
			return
		case <-w.node.StoppedC():
			return
		case <-demand:
			rest := time.Duration(0)
			switch {
			case err != nil: // after a failure it pauses
				rest = pause
			case len(w.logs.Logs()) > crowd:
				rest = crowdPause
			}
			if rest > 0 {
				select {
				case <-over:
					return
				case <-w.node.StoppedC():
					return
				case <-time.After(rest):
				}
			}
		case <-timer.C:
		case <-w.wake:
		}
	}
}

// round signs what is due and returns when it should be called again, if nothing happens before.
func (w *Worker) round(term uint64) (wait time.Duration, err error) {
	if err := w.begin(term); err != nil {
		return pause, err
	}
	now := time.Now()
	due, next := w.dueLogs(now)
	var signed []pending
	for _, l := range due {
		if c, ok := w.sign(l); ok {
			signed = append(signed, pending{c, l})
			w.last[l] = now
		}
		delete(w.due, l)
	}
	if at := now.Add(keyPause); len(w.keyless)+len(w.wrongKey) > 0 && at.Before(next) { // an operator may put the file there
		next = at
	}
	if len(signed) == 0 {
		return time.Until(next), nil
	}
	signed, failed := w.note(signed)
	if len(signed) == 0 {
		return pause, failed
	}
	part := tlogpart.Part{Kind: tlogpart.Checkpoint}
	for _, s := range signed {
		part.Checkpoints = append(part.Checkpoints, s.Signed)
	}
	if err := w.propose(term, &part); err != nil {
		return pause, err
	}
	for _, s := range signed {
		w.seen(s.log)
	}
	if failed != nil {
		return pause, failed
	}
	w.opt.Meter.Show.Since(now)
	return 0, nil // logs may have grown meanwhile
}

// dueLogs are those that get a checkpoint now, as many as one command holds, and when the next is due. Where any is, those that would be soon come
// with it.
func (w *Worker) dueLogs(now time.Time) (due []*tlogmachine.Log, next time.Time) {
	next = now.Add(time.Hour)
	var soon []*tlogmachine.Log
	for _, l := range w.logs.Logs() {
		at, ok := w.when(l, now)
		switch {
		case !ok:
		case !at.After(now):
			due = append(due, l)
		default:
			if at.Before(next) {
				next = at
			}
			if at.Before(now.Add(together)) && !w.last[l].Add(least).After(now) {
				soon = append(soon, l)
			}
		}
	}
	if len(due) > 0 {
		due = append(due, soon...)
	}
	return due[:min(len(due), tlogpart.MaxCheckpoints)], next // the rest comes with the next round, which follows at once
}

// when says when a log should get a checkpoint; false: there is nothing to sign, or nothing to sign with.
func (w *Worker) when(l *tlogmachine.Log, now time.Time) (time.Time, bool) {
	c := l.Checkpoint()
	if l.Held() || l.Damage() != nil || !w.hasKey(l) || !w.mayGoOn(l) || c != nil && c.Size == l.View().Size {
		return now, false
	}
	earliest := w.last[l].Add(least)
	if c == nil || l.Wanted() > 0 {
		return earliest, true
	}
	at, ok := w.due[l]
	if !ok {
		at = now.Add(w.opt.Calm)
		w.due[l] = at
	}
	if at.Before(earliest) {
		at = earliest
	}
	return at, true
}

func (w *Worker) hasKey(l *tlogmachine.Log) bool {
	if w.key(l) {
		delete(w.wrongKey, l)
		if w.keyless[l] {
			delete(w.keyless, l)
			w.opt.Logger.Info("the key is there", "log", l.Spec.Name, "file", w.opt.KeyFile(l.Spec.Name))
		}
		return true
	}
	if w.keyless[l] {
		return false
	}
	if w.opt.Key(l.Spec.Name) == nil {
		w.keyless[l] = true
		w.opt.Logger.Warn("no checkpoints: the key is missing", "log", l.Spec.Name, "file", w.opt.KeyFile(l.Spec.Name))
		return false
	}
	// A start with another key is refused, with a line of its own, as soon as the logs are known. This line is for keys that are found
	// later.
	since := w.wrongKey[l]
	switch now := time.Now(); {
	case since.IsZero():
		w.wrongKey[l] = now
	case now.Sub(since) >= keyPause:
		w.keyless[l] = true
		w.opt.Logger.Warn("no checkpoints: the key is another than the log was begun with", "log", l.Spec.Name, "file", w.opt.KeyFile(l.Spec.Name),
			"want", l.Spec.Key.String())
	}
	return false
}

// sign checks a log and signs what it is now.
func (w *Worker) sign(l *tlogmachine.Log) (tlogpart.Signed, bool) {
	began := time.Now()
	c, err := Sign(w.logs, l, w.opt.Key(l.Spec.Name))
	if err != nil && !tlogmachine.IsDamage(err) { // most likely the store is being closed
		return tlogpart.Signed{}, false
	}
	if err != nil {
		w.damaged(l, err)
		return tlogpart.Signed{}, false
	}
	w.opt.Meter.Sign.Since(began)
	return c, true
}

// damaged notes that a log contradicts itself, and logs it once.
func (w *Worker) damaged(l *tlogmachine.Log, err error) {
	if l.Damage() != nil {
		return
	}
	l.SetDamage(err)
	w.opt.Logger.Error("no more checkpoints", "log", l.Spec.Name, "err", err)
	if w.opt.Damaged != nil {
		w.opt.Damaged(err)
	}
}

// Sign checks a log as a leader must before every signature (tree.Machine.CheckEdge has the checks and errors), and signs its applied
// state. Do not show the result before it is applied, because an uncommitted state may never be. Sign may be called from any goroutine; key
// is the log's.
func Sign(logs *tlogmachine.Machine, l *tlogmachine.Log, key *tiles.Signer) (tlogpart.Signed, error) {
	size, root, err := logs.CheckEdge(l)
	if err != nil {
		return tlogpart.Signed{}, err
	}
	n := tiles.Note{Text: (&tiles.Checkpoint{Origin: l.Spec.Key.Name, Size: size, Root: root}).Text()}
	key.Sign(&n)
	return tlogpart.Signed{Log: l.Number, Size: size, Root: root, Note: n.Append(nil)}, nil
}

func (w *Worker) propose(term uint64, p *tlogpart.Part) error {
	res, err := worker.Propose(w.node, term, entry.Part{Machine: entry.MachineTlog, Body: tlogpart.AppendPart(nil, p)})
	switch {
	case err != nil:
		return err
	case res.Rejection != nil:
		err := fmt.Errorf("propose %s: %w", p.Kind, res.Rejection)
		w.opt.Logger.Error("refused", "err", err)
		return err
	}
	return nil
}

// begin begins the first log if it is missing.
func (w *Worker) begin(term uint64) error {
	s := w.opt.First
	if s == nil || w.logs.Find(s.Name) != nil {
		delete(w.keyless, nil)
		return nil
	}
	if w.opt.Key(s.Name) == nil {
		if !w.keyless[nil] { // the key nil stands for the first log
			w.keyless[nil] = true
			w.opt.Logger.Warn("a log has not begun: its key is missing", "log", s.Name, "file", w.opt.KeyFile(s.Name))
		}
		return nil
	}
	delete(w.keyless, nil)
	s.Key = *w.opt.Key(s.Name).Verifier()
	return w.propose(term, &tlogpart.Part{Kind: tlogpart.Create, Spec: *s})
}
