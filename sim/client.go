package sim

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/core/node"
	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
)

// client does one operation after the other on a few keys, each through a member of its choice, like a door. A write is a proposal, a read
// is a read-index round followed by a read of that member's state.
type client struct {
	w     *World
	id    int
	count int
	known map[string]int64 // revision a key was last seen at, for compare-and-swap
	done  bool
	pause time.Duration // mean time between two operations
	home  *host         // the member it prefers; nil: none
}

// The operations of clients.
const (
	clientCount = 5
	keyCount    = 6
)

func (w *World) startClients() {
	if w.opt.Quiet {
		return
	}
	for i := range clientCount {
		c := &client{w: w, id: i, known: map[string]int64{}, pause: Between(w.rClient, 5*time.Millisecond, 80*time.Millisecond)}
		if i > 1 {
			c.home = w.hosts[w.rClient.IntN(len(w.hosts))]
		}
		w.clients = append(w.clients, c)
		w.after(Between(w.rClient, 0, 100*time.Millisecond), c.next)
	}
}

func (w *World) stopClients() {
	for _, c := range w.clients {
		c.done = true
	}
}

// next starts an operation. The one after starts when this one ends, or when the client gives up on it.
func (c *client) next() {
	if c.done {
		return
	}
	w, r := c.w, c.w.rClient
	h := c.home
	if h == nil || h.n == nil {
		h = w.hosts[r.IntN(len(w.hosts))]
	}
	again := func() { w.after(Around(r, c.pause), c.next) }
	if h.n == nil {
		w.after(Between(r, time.Millisecond, 30*time.Millisecond), c.next)
		return
	}
	c.count++
	o := &op{client: c.id, n: c.count, key: fmt.Sprintf("k%d", r.IntN(keyCount)), host: h}
	switch k := r.IntN(100); {
	case k < 40:
		o.kind = opPut
	case k < 60:
		o.kind, o.expect = opCAS, c.known[o.key]
	case k < 93:
		o.kind = opRead
	default:
		o.kind = opDelete
	}
	o.value = fmt.Sprintf("%d.%d", c.id, c.count)
	moved := false
	move := func() {
		if !moved {
			moved = true
			again()
		}
	}
	w.after(Between(r, 2*time.Second, 6*time.Second), func() { // a client that gives up; the answer may still come
		if !moved && o.ret == 0 {
			w.trace.add(w.now, "c%d gives up on %s", c.id, o)
		}
		move()
	})
	c.invoke(o, func() {
		if o.answered && o.after.mod != 0 {
			c.known[o.key] = o.after.mod
		}
		move()
	})
}

// invoke hands o to its member as a door's call, with a deadline when the client gives up, or later.
func (c *client) invoke(o *op, done func()) {
	w, h := c.w, o.host
	n, patience := h.n, Between(w.rClient, time.Second, 8*time.Second)
	w.history.begin(w, o)
	w.trace.add(w.now, "c%d → %s %s", c.id, h.name, o)
	h.tasks.Go(func() {
		ctx, cancel := h.tasks.Timeout(patience)
		defer cancel()
		defer done()
		if o.kind == opRead {
			c.read(ctx, n, o)
		} else {
			c.write(ctx, n, o)
		}
	})
}

func (c *client) read(ctx context.Context, n *node.Node, o *op) {
	w, h := c.w, o.host
	m := h.kv // of the process that was asked
	err := n.Linearize(ctx)
	switch {
	case ctx.Err() != nil:
		return
	case err != nil:
		w.fail(WrongOutcome, "read through %s ended with %v", h.name, err)
	}
	res, rev, err := m.Range(&kvpart.Range{Key: []byte(o.key)}, 0)
	if err != nil {
		w.fail(Stopped, "%s range: %v", h.name, err)
	}
	o.rev = rev
	o.after = stateOf(res)
	w.history.end(w, o)
	w.trace.add(w.now, "c%d ← %s %s", c.id, h.name, o)
}

// write proposes a write, and again if it was refused because the catalogue of users has changed since it was judged.
func (c *client) write(ctx context.Context, n *node.Node, o *op) {
	w, h := c.w, o.host
	for {
		parts, p := h.permit(entry.Part{Machine: entry.MachineKV, Body: kvpart.Append(nil, o.part())})
		res, err := n.Propose(ctx, laneKV, parts...)
		switch {
		case err == nil && w.users.outdated(res.Rejection):
			w.trace.add(w.now, "c%d ← %s %s: %v", c.id, h.name, o, res.Rejection)
			continue
		case errors.Is(err, node.ErrUnknown):
			w.trace.add(w.now, "c%d ← %s %s: unknown", c.id, h.name, o)
		case errors.Is(err, node.ErrOverloaded), errors.Is(err, node.ErrNoLeader):
			o.refused = true
			w.trace.add(w.now, "c%d ← %s %s: %v", c.id, h.name, o, err)
		case err != nil:
			w.fail(WrongOutcome, "%s through %s ended with %v", o, h.name, err)
		case res.Rejection != nil:
			w.fail(WrongOutcome, "%s through %s: %v", o, h.name, res.Rejection)
		default:
			o.take(res.Of(parts[len(parts)-1].Machine))
			w.history.end(w, o)
			w.users.accepted(o, h, p)
			w.trace.add(w.now, "c%d ← %s %s@%d %s", c.id, h.name, res.Pos, res.Term, o)
		}
		return
	}
}

// compact asks for a compaction at the current revision or a little below, as operators and controllers do.
func (w *World) compact(h *host) {
	if h.n == nil {
		return
	}
	rev, _ := h.kv.Revision()
	rev -= w.rFault.Int64N(40)
	if rev <= 1 {
		return
	}
	w.trace.add(w.now, "%s compact %d", h.name, rev)
	_ = h.n.ProposeAsync(node.LaneSystem, 0, []entry.Part{{Machine: entry.MachineKV,
		Body: kvpart.Append(nil, &kvpart.Part{Compact: &kvpart.Compact{Revision: rev}})}}, func(*entry.Result, error) {})
	h.pumpSoon()
}
