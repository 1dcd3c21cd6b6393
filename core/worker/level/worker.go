// Package level raises the level of the cluster once every member runs a build that knows a higher one (DECISIONS A20). Members tell the
// leader which level they know; the leader's Worker proposes the raise when all have, learners and members that were only added too.
//
// It does not decide the meaning of a level. Machines and lanes name the level from which on they may be used, and node refuses them below
// it.
package level

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfastdb/holdfast/core/entry"
	emember "github.com/holdfastdb/holdfast/core/entry/member"
	"github.com/holdfastdb/holdfast/core/node"
	"github.com/holdfastdb/holdfast/core/worker"
	"github.com/holdfastdb/holdfast/internal/wire"
)

// Services that the leader answers. Operators' programs ask the last two by name (serve/admin). A leader of a build before levels has none
// of them, and is asked again in vain.
const (
	announceService = "level.announce"
	raiseService    = "level.raise"
	waitsService    = "level.waits"
)

// Options of a Worker. Zero times take the defaults.
type Options struct {
	// Hold keeps the level down while this member runs with it, under any leader, until Raise is called.
	Hold bool
	// Interval is the time between two announcements, default 1 s. A member that was silent for three of them counts as never heard. Settle
	// is how long all members must have been heard before the level is raised, default 5 s. An operator who restores the older build at
	// once must still be able to.
	Interval, Settle time.Duration
	Logger           *slog.Logger
}

// member is a Worker's view of its node. *node.Node is the one.
type member interface {
	worker.Member
	Call(ctx context.Context, service string, req []byte) ([]byte, error)
	Handle(service string, fn func(ctx context.Context, req []byte) ([]byte, error))
	IDs() (cluster, member uint64)
	Members() []node.Member
	ClusterLevel() uint16
	KnownLevel() uint16
	Mono() time.Duration
}

// Worker is one member's part in raising the level. Methods but Run are safe for concurrent use.
type Worker struct {
	node member
	opt  Options

	mu    sync.Mutex
	term  uint64            // guarded by mu: the leadership in which heard was heard
	heard map[uint64]*heard // guarded by mu: by member
}

// heard is a member's last announcement.
type heard struct {
	known       uint16
	hold        bool
	since, last time.Duration
}

// New makes n's worker and lets it be asked; Run starts it. Call it before any Call of the node.
func New(n *node.Node, opt Options) *Worker { return newWorker(n, opt) }

var _ member = (*node.Node)(nil)

func newWorker(n member, opt Options) *Worker {
	opt.Interval, opt.Settle = cmp.Or(opt.Interval, time.Second), cmp.Or(opt.Settle, 5*time.Second)
	if opt.Logger == nil {
		opt.Logger = slog.New(slog.DiscardHandler)
	}
	w := &Worker{node: n, opt: opt, heard: map[uint64]*heard{}}
	n.Handle(announceService, w.handleAnnounce)
	n.Handle(waitsService, func(context.Context, []byte) ([]byte, error) { return []byte(w.Waits()), nil })
	n.Handle(raiseService, func(context.Context, []byte) ([]byte, error) { return nil, w.raise(true) })
	return w
}

// Run works until the cluster is at the level that this member knows, or the member stops. Call it once.
func (w *Worker) Run() {
	for w.node.ClusterLevel() < w.node.KnownLevel() {
		term, changed := w.node.Leadership()
		wait := w.opt.Interval
		if term != 0 {
			_, self := w.node.IDs()
			w.hear(term, self, w.node.KnownLevel(), w.opt.Hold)
			if err := w.raise(false); err != nil {
				w.opt.Logger.Debug("level not raised", "err", err)
				if errors.Is(err, errYoung) {
					wait = min(wait, w.opt.Settle) // a cluster that begins is not to write a second's worth of rows in the old way
				}
			}
		} else {
			ctx, cancel := w.node.Tasks().Timeout(w.opt.Interval)
			_, _ = w.node.Call(ctx, announceService, w.announcement()) // lost, or to a build before levels: it is said again
			cancel()
		}
		if w.node.Tasks().Wait(wait, changed, w.node.StoppedC()) == 1 {
			return
		}
	}
}

// errYoung: all have said that they know a higher level, and not yet for as long as Options.Settle.
var errYoung = errors.New("for some seconds more")

const flagHold = 1

var errMalformed = errors.New("malformed announcement of a level")

// announcement is member u64, level u, flags (1 hold).
func (w *Worker) announcement() []byte {
	_, self := w.node.IDs()
	b := binary.LittleEndian.AppendUint64(nil, self)
	b = binary.AppendUvarint(b, uint64(w.node.KnownLevel()))
	return append(b, wire.Bit(w.opt.Hold, flagHold))
}

// handleAnnounce runs on the leader.
func (w *Worker) handleAnnounce(_ context.Context, req []byte) ([]byte, error) {
	r := wire.NewReader(req)
	id, known, flags := r.Uint64(), r.Uvarint(), r.Flags(flagHold, errMalformed)
	if r.End() != nil || known > 1<<16-1 {
		return nil, errMalformed
	}
	term, _ := w.node.Leadership()
	if term == 0 {
		return nil, node.ErrNotLeader
	}
	w.hear(term, id, uint16(known), flags&flagHold != 0)
	return nil, nil
}

// hear notes what a member said. A new leadership begins with nothing, because earlier announcements may be of builds that no
// longer run.
func (w *Worker) hear(term, id uint64, known uint16, hold bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if term != w.term {
		w.term = term
		clear(w.heard)
	}
	now := w.node.Mono()
	h := w.heard[id]
	if h == nil || h.known != known || now-h.last > 3*w.opt.Interval {
		h = &heard{since: now}
		w.heard[id] = h
	}
	h.known, h.hold, h.last = known, hold, now
}

// raise proposes the level that all members know, if that is above the cluster's. With asked, an operator has asked for it: then no hold
// counts, and there is no waiting time. The error names the members in the way.
func (w *Worker) raise(asked bool) error {
	term, _ := w.node.Leadership()
	if term == 0 {
		return node.ErrNotLeader
	}
	level, ids, err := w.agreed(term, asked)
	if err != nil {
		return err
	}
	part := emember.Part{RaiseLevel: &emember.RaiseLevel{Level: level, Members: ids}}
	res, err := worker.Propose(w.node, term, entry.Part{Machine: entry.MachineMember, Body: emember.AppendPart(nil, &part)})
	switch {
	case err != nil:
		return fmt.Errorf("raise level: %w", err)
	case res.Rejection != nil && res.Rejection.Code != emember.LevelReached:
		return fmt.Errorf("raise level: %w", res.Rejection) // a member came in between: it is heard first
	}
	return nil
}

// agreed is the level to raise to, and the members that have said that they know it.
func (w *Worker) agreed(term uint64, asked bool) (level uint16, ids []uint64, err error) {
	members, now, at := w.node.Members(), w.node.Mono(), w.node.ClusterLevel()
	w.mu.Lock()
	defer w.mu.Unlock()
	level = w.node.KnownLevel()
	var silent, lower, holding []string
	young := false
	for _, m := range members {
		name := cmp.Or(m.Name, fmt.Sprintf("%x", m.ID))
		h := w.heard[m.ID]
		switch {
		case w.term != term, h == nil, now-h.last > 3*w.opt.Interval:
			silent = append(silent, name)
			continue
		case h.known <= at:
			lower = append(lower, name)
		case h.hold:
			holding = append(holding, name)
		}
		level = min(level, h.known)
		young = young || now-h.since < w.opt.Settle
		ids = append(ids, m.ID)
	}
	slices.Sort(ids)
	switch {
	case at >= w.node.KnownLevel():
		return 0, nil, fmt.Errorf("the cluster is at level %d, the highest that this build knows", at)
	case len(silent) > 0:
		return 0, nil, fmt.Errorf("the level stays at %d: %s did not say which level it knows; it does not run, or runs a build before levels",
			at, strings.Join(silent, ", "))
	case len(lower) > 0:
		return 0, nil, fmt.Errorf("the level stays at %d: %s runs a build that knows no higher one", at, strings.Join(lower, ", "))
	case len(holding) > 0 && !asked:
		return 0, nil, fmt.Errorf("the level stays at %d: %s was started with --hold-level", at, strings.Join(holding, ", "))
	case young && !asked:
		return 0, nil, fmt.Errorf("the level stays at %d %w", at, errYoung)
	}
	return level, ids, nil
}

// Raise asks the leader, through any member, to raise the level now. The error names the members in the way.
func (w *Worker) Raise(ctx context.Context) error {
	_, err := w.node.Call(ctx, raiseService, nil)
	return err
}

// Waits returns one line on why the level is below the one this member knows. It is "" if it is not, or if another member leads: only the
// leader hears the others.
func (w *Worker) Waits() string {
	term, _ := w.node.Leadership()
	if term == 0 || w.node.ClusterLevel() >= w.node.KnownLevel() {
		return ""
	}
	if _, _, err := w.agreed(term, false); err != nil {
		return err.Error()
	}
	return ""
}
