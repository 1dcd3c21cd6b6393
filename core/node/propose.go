package node

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/internal/task"
)

// proposals are this member's own commands on their way. Loop only.
type proposals struct {
	nextSeq       uint64
	inflight      map[uint64]*pending
	inflightBytes int // sum of their sizes
	resendAt      time.Duration
	resendWait    time.Duration
}

// How a proposal or a read can end other than well. Propose ends in exactly one of: applied (a Result, perhaps with a
// Rejection), superseded (provably dead), or unknown (DECISIONS A3).
var (
	// ErrOverloaded: the lane's queue is full; nothing was proposed.
	ErrOverloaded = errors.New("log queue is full")
	// ErrSuperseded: the command can never take effect; it may be proposed again. Propose itself retries until ctx ends.
	ErrSuperseded = errors.New("superseded by a later term")
	// ErrUnknown: ctx ended or the node stopped while the outcome was open.
	ErrUnknown = errors.New("outcome unknown")
	// ErrNoLeader: ctx ended before there was a leader to take it; nothing was proposed.
	ErrNoLeader = errors.New("no leader")
	// ErrStopped: the node is stopping; nothing was proposed.
	ErrStopped = errors.New("node stopped")
	// ErrTooLarge: a command over entry.MaxCommandBytes; nothing was proposed.
	ErrTooLarge = errors.New("command too large")
	// ErrInapplicable: a command that would stop every member that applies it, at each of its restarts; nothing was proposed.
	ErrInapplicable = errors.New("command cannot be applied")
)

// Propose logs one command (at most one part per machine), waits until it is applied here and returns its result. It
// works on every member. A follower forwards to the leader and answers from its own Apply, so a caller that reads here
// afterwards sees its write. A superseded command is proposed again until ctx ends. The parts' memory belongs to the node
// until Propose returns, and beyond if it returns ErrUnknown. Safe for concurrent use.
func (n *Node) Propose(ctx context.Context, lane Lane, parts ...entry.Part) (*entry.Result, error) {
	return n.propose(ctx, lane, 0, nil, parts)
}

// ProposeInTerm proposes once under the given term: ErrSuperseded if that term is over. It never retries, so a worker's
// decision dies with the leadership under which it was taken (DECISIONS A2).
func (n *Node) ProposeInTerm(ctx context.Context, term uint64, lane Lane, parts ...entry.Part) (*entry.Result, error) {
	if term == 0 {
		return nil, ErrSuperseded
	}
	return n.propose(ctx, lane, term, nil, parts)
}

func (n *Node) propose(ctx context.Context, lane Lane, inTerm uint64, ch *change, parts []entry.Part) (*entry.Result, error) {
	size := overheadBytes
	for i := range parts {
		size += len(parts[i].Body)
	}
	if size > entry.MaxCommandBytes {
		return nil, ErrTooLarge
	}
	if err := n.proposable(lane, parts); err != nil {
		return nil, err
	}
	p := pendingPool.Get().(*pending)
	p.lane, p.parts, p.size, p.inTerm, p.change = lane, parts, size, inTerm, ch
	p.queuedAt = n.clock.Mono()
	p.state.Store(stateQueued)
	if n.stopping.Load() {
		return nil, ErrStopped
	}
	if !n.lanes.push(p) {
		n.refused.Add(1)
		return nil, ErrOverloaded
	}
	n.wakeup()
	if n.await(ctx, p.done) {
		return n.finish(p)
	}
	for {
		was := p.state.Load()
		if was == stateDone {
			<-p.done
			return n.finish(p)
		}
		if p.state.CompareAndSwap(was, stateAbandoned) { // the loop forgets it when it meets it; p is not reused
			if was == stateDispatched {
				return nil, ErrUnknown
			}
			if ctx.Err() == nil {
				return nil, ErrStopped
			}
			return nil, fmt.Errorf("%w: %w", ErrNoLeader, ctx.Err())
		}
	}
}

// await waits for done; false if ctx or the node ended first. It does what Tasks.Wait does at less cost, because every write
// and read waits here.
func (n *Node) await(ctx context.Context, done <-chan struct{}) bool {
	if n.cfg.Manual {
		return n.tasks.Wait(task.Forever, done, ctx.Done(), n.dead) == 0
	}
	select {
	case <-done:
		return true
	case <-ctx.Done():
	case <-n.dead:
	}
	return false
}

func (n *Node) finish(p *pending) (*entry.Result, error) {
	res, err := p.res, p.err
	p.res, p.err, p.parts, p.change, p.foreign = nil, nil, nil, nil, nil
	pendingPool.Put(p)
	return res, err
}

// complete hands an outcome to the caller that waits. Loop only.
func (n *Node) complete(p *pending, res *entry.Result, err error) {
	if p.call != nil {
		p.call(res, err)
		return
	}
	for {
		was := p.state.Load()
		if was == stateAbandoned || was == stateDone {
			return
		}
		p.res, p.err = res, err
		if p.state.CompareAndSwap(was, stateDone) {
			p.done <- struct{}{}
			return
		}
	}
}

// ProposeAsync is Propose for a driver without goroutines: done is called on the loop with the outcome. The outcome is
// never ErrUnknown, because the caller decides how long it waits.
func (n *Node) ProposeAsync(lane Lane, inTerm uint64, parts []entry.Part, done func(*entry.Result, error)) error {
	if err := n.proposable(lane, parts); err != nil {
		return err
	}
	p := &pending{lane: lane, parts: parts, inTerm: inTerm, call: done, size: overheadBytes}
	for i := range parts {
		p.size += len(parts[i].Body)
	}
	if !n.lanes.push(p) {
		return ErrOverloaded
	}
	n.wakeup()
	return nil
}

// dispatch turns what is queued into log entries if this member leads, or forwards it to the leader. Loop only.
func (n *Node) dispatch() error {
	if n.rep.IsLeader() && n.termLed != n.rep.Term() {
		if n.termApplied != n.rep.Term() {
			return nil // not all stamps of earlier leaders are applied: its own stamps come after theirs
		}
		n.termLed = n.termApplied
		n.tellUncounted(n.leads(n.clock.Mono(), n.clock.Wall().UnixNano()))
	}
	if n.lanes.queued.Load() == 0 {
		return nil
	}
	if n.rep.IsLeader() {
		if !n.transferring() {
			return n.pack()
		}
		return nil
	}
	if lead := n.rep.Leader(); lead != 0 && lead != n.id {
		n.forward(lead)
	}
	return nil
}

// track gives p its identity and remembers it until its outcome is known. Loop only.
func (n *Node) track(p *pending, term uint64) {
	p.seq, p.term = n.nextSeq, term
	n.nextSeq++
	p.sentAt = n.clock.Mono()
	n.inflight[p.seq] = p
	n.inflightBytes += p.size
	if p.queuedAt != 0 {
		n.steps.Propose.Done(1, p.sentAt-p.queuedAt)
	}
}

// forget takes p out of the commands in flight; its memory may belong to the caller once it is completed. Loop only.
func (n *Node) forget(p *pending) {
	delete(n.inflight, p.seq)
	n.inflightBytes -= p.size
}

// untrack makes p as if it had never been dispatched. Its sequence number is not used again. Loop only.
func (n *Node) untrack(p *pending) {
	n.forget(p)
	if p.call == nil {
		p.state.CompareAndSwap(stateDispatched, stateQueued)
	}
}

// wanted and applied connect Apply with the callers that wait. Loop only.
func (n *Node) wanted(origin, seq uint64) bool {
	return origin == n.origin && n.inflight[seq] != nil
}

func (n *Node) applied(origin, seq uint64, res *entry.Result) {
	p := n.inflight[seq]
	n.forget(p)
	n.resendAt, n.resendWait = n.clock.Mono()+resendAfter, resendAfter
	n.complete(p, res, nil)
}

// supersede ends every command of an earlier term that was not seen applied. This member has applied an entry of a later
// term. Apply drops commands whose term is not their entry's, so these can never take effect (DECISIONS A3). They go back
// to the queue, except those that belong to a term.
func (n *Node) supersede(term uint64) {
	var again []*pending
	for _, seq := range n.inOrder() {
		p := n.inflight[seq]
		if p.term >= term {
			continue
		}
		n.forget(p)
		if p.inTerm != 0 {
			n.complete(p, nil, ErrSuperseded)
			continue
		}
		if p.call == nil && !p.state.CompareAndSwap(stateDispatched, stateQueued) {
			continue // abandoned
		}
		n.superseded.Add(1)
		again = append(again, p)
	}
	n.lanes.unshift(again)
}

// inOrder lists what is in flight by sequence number, so in the order of its proposal. Loop only.
func (n *Node) inOrder() []uint64 { return slices.Sorted(maps.Keys(n.inflight)) }
