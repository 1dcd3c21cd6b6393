package node

import (
	"context"
	"encoding/binary"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfastdb/holdfast/replica"
)

// readRetry is after what time an unanswered read-index round is asked again, with a fresh context.
const readRetry = 300 * time.Millisecond

// reads are the linearizable reads: one round in flight, shared by all who asked before it started.
type reads struct {
	mu    sync.Mutex
	queue []*readWaiter // not in a round yet; guarded by mu

	// Loop only.
	round   []*readWaiter
	context []byte
	counter uint64
	started time.Duration
	waiting []readWait // answered, waiting for Apply
}

type readWaiter struct {
	done   chan error // capacity 1
	inTerm uint64
	call   func(error)
	gone   atomic.Bool // nobody waits any more
}

type readWait struct {
	index   uint64
	waiters []*readWaiter
}

func (w *readWaiter) finish(err error) {
	if w.call != nil {
		w.call(err)
		return
	}
	w.done <- err
}

// Linearize returns once everything acknowledged anywhere before the call is applied here, by a read-index round shared
// with whoever else waits. The only voter of a cluster needs no round: what was acknowledged was applied here first.
// Errors: ErrStopped, or ctx's.
func (n *Node) Linearize(ctx context.Context) error {
	if n.stopping.Load() { // what was published last is not true any more
		return ErrStopped
	}
	if n.pub.Load().sole {
		return nil
	}
	return n.linearize(ctx, 0)
}

// LinearizeInTerm confirms by a heartbeat round that this member led in term at some moment after the call began;
// ErrSuperseded if it did not.
func (n *Node) LinearizeInTerm(ctx context.Context, term uint64) error {
	if n.stopping.Load() {
		return ErrStopped
	}
	if p := n.pub.Load(); p.sole && p.leads == term {
		return nil
	}
	return n.linearize(ctx, term)
}

func (n *Node) linearize(ctx context.Context, inTerm uint64) error {
	w := &readWaiter{done: make(chan error, 1), inTerm: inTerm}
	n.reads.mu.Lock()
	n.reads.queue = append(n.reads.queue, w)
	n.reads.mu.Unlock()
	n.wakeup()
	select {
	case err := <-w.done:
		return err
	case <-ctx.Done():
		w.gone.Store(true)
		return ctx.Err()
	case <-n.dead:
		return ErrStopped
	}
}

// LinearizeAsync is Linearize for a driver without goroutines.
func (n *Node) LinearizeAsync(inTerm uint64, done func(error)) {
	n.reads.mu.Lock()
	n.reads.queue = append(n.reads.queue, &readWaiter{inTerm: inTerm, call: done})
	n.reads.mu.Unlock()
	n.wakeup()
}

// startReadRound asks raft for a read index if somebody waits and no round is out. Loop only.
func (n *Node) startReadRound() {
	r := &n.reads
	now := n.clock.Mono()
	if r.context != nil && now-r.started < readRetry {
		return
	}
	r.mu.Lock()
	r.round = append(r.round, r.queue...)
	r.queue = nil
	r.mu.Unlock()
	if len(r.round) == 0 {
		r.context = nil
		return
	}
	if n.cfg.Break.ReadWithoutRead && n.rep.IsLeader() {
		n.answerReads(n.appliedIdx)
		return
	}
	if n.rep.Leader() == 0 {
		// Who left must not pile up here: this may last.
		r.round = slices.DeleteFunc(r.round, func(w *readWaiter) bool { return w.gone.Load() })
		r.context = nil
		return // asked again when there is one; raft would drop it silently
	}
	// Never a context twice: an answer to an earlier attempt must not be taken for one to this.
	r.counter++
	r.context = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, n.origin), r.counter)
	r.started = now
	n.rep.ReadIndex(r.context)
}

// readAnswered takes an answer from raft. Loop only.
func (n *Node) readAnswered(s replica.ReadState) {
	if n.reads.context == nil || string(s.Context) != string(n.reads.context) {
		return
	}
	n.answerReads(s.Index)
}

func (n *Node) answerReads(index uint64) {
	r := &n.reads
	round := r.round
	r.round, r.context = nil, nil
	keep := round[:0]
	for _, w := range round {
		if w.inTerm != 0 && !(n.rep.IsLeader() && n.rep.Term() == w.inTerm) {
			w.finish(ErrSuperseded)
			continue
		}
		keep = append(keep, w)
	}
	if len(keep) > 0 {
		r.waiting = append(r.waiting, readWait{index: index, waiters: keep})
	}
	n.readsApplied()
}

// readsApplied answers the reads whose index is applied. Loop only.
func (n *Node) readsApplied() {
	r := &n.reads
	for len(r.waiting) > 0 && r.waiting[0].index <= n.appliedIdx {
		for _, w := range r.waiting[0].waiters {
			w.finish(nil)
		}
		r.waiting[0] = readWait{}
		r.waiting = r.waiting[1:]
	}
}
