package node

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/holdfastdb/holdfast/core/peer"
	"github.com/holdfastdb/holdfast/internal/task"
	"github.com/holdfastdb/holdfast/internal/wire"
)

// calls are named services that only the leader can answer (leases, membership): Call runs them here or over the forward
// lane. A call may be lost and its outcome unknown; services must bear being asked twice.
type calls struct {
	mu       sync.Mutex
	services map[string]func(context.Context, []byte) ([]byte, error)
	open     map[uint64]*openCall
	next     uint64
	slots    chan struct{} // bounds calls served for others
}

// callAnswer is the leader's answer to a call.
type callAnswer struct {
	status byte
	body   []byte
}

// openCall waits for the leader's answer.
type openCall struct {
	to     uint64        // the member asked
	come   chan struct{} // closed once answer is set
	answer callAnswer
}

const (
	answerOK = iota
	answerError
	answerNotLeader
	answerBusy
)

const callSlots = 256

func (c *calls) init() {
	c.services = map[string]func(context.Context, []byte) ([]byte, error){}
	c.open = map[uint64]*openCall{}
	c.slots = make(chan struct{}, callSlots)
}

// sentinels travel by their text.
var sentinels = []error{ErrNotLeader, ErrMemberNotFound, ErrMemberExists, ErrPeerAddrExists, ErrNotEnoughStarted, ErrUnhealthy,
	ErrLearnerNotReady, ErrMemberNotLearner, ErrTooManyLearners, ErrTransferTargetUnknown, ErrTimeoutTransfer, ErrOverloaded,
	ErrSuperseded, ErrUnknown, ErrNoLeader, ErrStopped}

// serviceText is what travels of a service's error. A sentinel travels as its text alone, which earlier builds compare. The exception is
// ErrUnhealthy: its details say which member to start.
func serviceText(err error) string {
	for _, s := range sentinels {
		switch {
		case !errors.Is(err, s):
		case s == ErrUnhealthy && strings.HasPrefix(err.Error(), s.Error()+": "):
			return err.Error()
		default:
			return s.Error()
		}
	}
	return err.Error()
}

// serviceError makes an error of a service from its text. One that begins with a sentinel's text and a colon wraps that sentinel.
func serviceError(text string) error {
	for _, s := range sentinels {
		switch rest, ok := strings.CutPrefix(text, s.Error()); {
		case ok && rest == "":
			return s
		case ok && strings.HasPrefix(rest, ": ") && s != ErrNotLeader:
			return fmt.Errorf("%w%s", s, rest)
		}
	}
	return errors.New(text)
}

// Handle registers a service; before the first Call.
func (n *Node) Handle(service string, fn func(ctx context.Context, req []byte) ([]byte, error)) {
	n.calls.mu.Lock()
	n.calls.services[service] = fn
	n.calls.mu.Unlock()
}

// Call runs a named service on the leader, here or over the forward lane. It waits for a leader, and follows a change of
// leader, until ctx ends. An error of the service comes back with its text; this package's errors keep their identity.
func (n *Node) Call(ctx context.Context, service string, req []byte) ([]byte, error) {
	for {
		changed := n.pubChange.wait()
		p := n.pub.Load()
		switch {
		case p.leads != 0:
			n.calls.mu.Lock()
			fn := n.calls.services[service]
			n.calls.mu.Unlock()
			if fn == nil {
				return nil, fmt.Errorf("call %s: no such service", service)
			}
			b, err := fn(ctx, req)
			if !errors.Is(err, ErrNotLeader) {
				return b, err
			}
		case p.leader != 0 && p.leader != n.id:
			a, err := n.callRemote(ctx, p.leader, service, req, changed)
			if err != nil {
				return nil, err
			}
			switch a.status {
			case answerOK:
				return a.body, nil
			case answerError:
				if err := serviceError(string(a.body)); !errors.Is(err, ErrNotLeader) {
					return nil, err
				}
			case answerBusy:
				return nil, ErrOverloaded
			}
		}
		switch n.tasks.Wait(tickInterval, changed, ctx.Done(), n.dead) { // no news: the leader was not ready, or a frame was lost
		case 1:
			return nil, fmt.Errorf("%w: %w", ErrNoLeader, ctx.Err())
		case 2:
			return nil, ErrStopped
		}
	}
}

// callRemote sends the call and waits; answerNotLeader stands for every failure after which the call may be repeated.
func (n *Node) callRemote(ctx context.Context, leader uint64, service string, req []byte, changed <-chan struct{}) (callAnswer, error) {
	c := &n.calls
	call := &openCall{to: leader, come: make(chan struct{})}
	c.mu.Lock()
	c.next++
	id := c.next
	c.open[id] = call
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		delete(c.open, id)
		c.mu.Unlock()
	}()
	f := append(make([]byte, 0, 32+len(service)+len(req)), frameCall)
	f = binary.AppendUvarint(f, id)
	f = append(wire.AppendBytes(f, service), req...)
	if !n.net.Send(leader, peer.ChannelForward, f) {
		return callAnswer{status: answerNotLeader}, nil
	}
	for {
		switch n.tasks.Wait(task.Forever, call.come, changed, ctx.Done(), n.dead) {
		case 0:
			return call.answer, nil
		case 1:
			// Asking again while the first call is still being served could do its work twice.
			changed = n.pubChange.wait()
			if n.pub.Load().leader != leader {
				return callAnswer{status: answerNotLeader}, nil
			}
		case 2:
			return callAnswer{}, fmt.Errorf("call %s: %w", service, ctx.Err())
		case 3:
			return callAnswer{}, ErrStopped
		}
	}
}

// handleCallFrame serves calls and takes answers; on the connection's goroutine.
func (n *Node) handleCallFrame(from uint64, b []byte) {
	r := wire.NewReader(b)
	kind, id := r.Byte(), r.Uvarint()
	if kind == frameAnswer {
		status := r.Byte()
		if r.Err() != nil {
			return
		}
		n.calls.mu.Lock()
		call := n.calls.open[id]
		if call != nil && call.to != from {
			call = nil
		} else {
			delete(n.calls.open, id)
		}
		n.calls.mu.Unlock()
		if call != nil {
			call.answer = callAnswer{status, r.Rest()}
			close(call.come)
		}
		return
	}
	service := r.Bytes()
	if r.Err() != nil || !n.knows(from) {
		return
	}
	req := r.Rest()
	reply := func(status byte, body []byte) {
		f := append(make([]byte, 0, 16+len(body)), frameAnswer)
		f = binary.AppendUvarint(f, id)
		f = append(f, status)
		n.net.Send(from, peer.ChannelForward, append(f, body...))
	}
	n.calls.mu.Lock()
	fn := n.calls.services[string(service)]
	n.calls.mu.Unlock()
	if n.pub.Load().leads == 0 || fn == nil {
		reply(answerNotLeader, nil)
		return
	}
	select {
	case n.calls.slots <- struct{}{}:
	default:
		reply(answerBusy, nil)
		return
	}
	n.tasks.Go(func() {
		defer func() { <-n.calls.slots }()
		ctx, cancel := n.tasks.Timeout(10 * time.Second)
		defer cancel()
		body, err := fn(ctx, req)
		if err != nil {
			reply(answerError, []byte(serviceText(err)))
			return
		}
		reply(answerOK, body)
	})
}

// broadcast is a channel that closes at the next change.
type broadcast struct {
	mu sync.Mutex
	c  chan struct{}
}

func (b *broadcast) init() { b.c = make(chan struct{}) }

func (b *broadcast) wait() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.c
}

func (b *broadcast) notify() {
	b.mu.Lock()
	close(b.c)
	b.c = make(chan struct{})
	b.mu.Unlock()
}
