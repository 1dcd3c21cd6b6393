package node

import (
	"context"
	"encoding/binary"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfastdb/holdfast/core/raft"
)

// readRetry is after what time an unanswered read-index round is asked again, with a fresh context.
const readRetry = 300 * time.Millisecond

// reads are the linearizable reads: one round in flight, shared by all reads that came before it started.
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
	done   chan struct{} // closed once err is set
	err    error
	inTerm uint64
	call   func(error)
	gone   atomic.Bool // the caller has stopped waiting
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
	w.err = err
	close(w.done)
}

// Linearize returns once everything acknowledged anywhere before the call is applied here, by a read-index round shared with the other
// reads that wait. A voter that is alone needs no round: acknowledged writes were applied here first. Errors: ErrStopped, or ctx's.
func (n *Node) Linearize(ctx context.Context) error { return n.linearize(ctx, 0) }

// LinearizeInTerm is Linearize, and confirms that this member led in term at some moment after the call began;
// ErrSuperseded if it did not.
func (n *Node) LinearizeInTerm(ctx context.Context, term uint64) error { return n.linearize(ctx, term) }

func (n *Node) linearize(ctx context.Context, inTerm uint64) error {
	if done, err := n.readAlone(inTerm); done {
		return err
	}
	w := &readWaiter{done: make(chan struct{}), inTerm: inTerm}
	n.joinRound(w)
	if n.await(ctx, w.done) {
		return w.err
	}
	w.gone.Store(true)
	if err := ctx.Err(); err != nil {
		return err
	}
	return ErrStopped
}

// LinearizeAsync is Linearize (inTerm 0) and LinearizeInTerm for a driver without goroutines, by the same decisions. done
// is called on the loop, or before the call returns if no round is needed. It is not called if the node stops meanwhile.
func (n *Node) LinearizeAsync(inTerm uint64, done func(error)) {
	if now, err := n.readAlone(inTerm); now {
		done(err)
		return
	}
	n.joinRound(&readWaiter{inTerm: inTerm, call: done})
}

// readAlone decides whether a read is answered without a round, and how. Any goroutine.
func (n *Node) readAlone(inTerm uint64) (done bool, err error) {
	if n.stopping.Load() { // the last published state is not true any more
		return true, ErrStopped
	}
	p := n.pub.Load()
	return p.sole && (inTerm == 0 || inTerm == p.leads), nil
}

// LeadsAlone reports whether this member, as the only voter, led in term at some moment after the call began. It asks no
// other member. Where it is true, LinearizeInTerm answers at once. Any goroutine.
func (n *Node) LeadsAlone(term uint64) bool {
	alone, err := n.readAlone(term)
	return alone && err == nil && term != 0
}

// joinRound adds w to the reads that wait for the next round.
func (n *Node) joinRound(w *readWaiter) {
	n.reads.mu.Lock()
	n.reads.queue = append(n.reads.queue, w)
	n.reads.mu.Unlock()
	n.wakeup()
}

// startReadRound asks raft for a read index if reads wait and no round is under way. Loop only.
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
		// Callers that have left must not pile up: it may take long until there is a leader.
		r.round = slices.DeleteFunc(r.round, func(w *readWaiter) bool { return w.gone.Load() })
		r.context = nil
		return // asked again when there is one; raft would drop it silently
	}
	// Each attempt has a new context, so that an answer to an earlier one is not taken for its own.
	r.counter++
	r.context = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, n.origin), r.counter)
	r.started = now
	n.rep.ReadIndex(r.context)
}

// readAnswered takes an answer from raft. Loop only.
func (n *Node) readAnswered(s raft.ReadState) {
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
