package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/core/node"
	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
	"github.com/holdfastdb/holdfast/doors/saga/outcall"
	sagapart "github.com/holdfastdb/holdfast/doors/saga/part"
	"github.com/holdfastdb/holdfast/sim"
)

// order is one global transaction of a client: a saga, or a message that is delivered later. A submit whose outcome the client did not
// hear it may send again.
type order struct {
	gid   string
	mode  sagapart.Mode
	opt   sagapart.Options
	data  string        // CustomData
	delay time.Duration // of a message
	steps []deed
	fails int // the step that its service refuses to do, -1: none
	// with is the change of keys in the same command.
	with besides

	asked   time.Duration // when it was sent first
	aborted bool          // its client has asked for its end meanwhile
	there   bool          // its client was told that it is there
	taken   bool          // or even that this submit has brought it there
	sent    int           // submits
	open    int           // those of them that may be in the log, or get there yet
}

// besides is the part beside a saga in its command.
type besides byte

const (
	alone     besides = iota
	withPut           // a key of its own, once
	withCAS           // the same, if no other order has changed the key of the last one meanwhile
	withLie           // the same, if a key is there that never is
	lastOrder = "saga/last"
	neverKey  = "saga/never"
)

// deed is what one step of an order does at its service.
type deed struct {
	acts, undoes int  // how often it was called to
	done, undone bool // it did; it has undone what it did, or will not do it any more
}

func (o *order) key() string { return "saga/" + o.gid }

func (o *order) String() string {
	return fmt.Sprintf("%s %s of %d steps", o.mode, o.gid, len(o.steps))
}

// plain reports whether nothing but an action's failure can end it other than well.
func (o *order) plain() bool { return o.opt.TimeoutMs == 0 && o.opt.RetryLimit == 0 && !o.aborted }

// lazy is doors/saga/advance's rule for results that may wait (DECISIONS A17).
func (o *order) lazy() bool {
	return o.mode == sagapart.Saga && o.data == "" && o.opt.TimeoutMs == 0 && o.opt.RetryLimit == 0
}

// free reports whether all steps that step k follows have succeeded.
func (o *order) free(k int, done func(step int) bool) bool {
	for earlier := range k {
		if o.data == "" && !done(earlier) {
			return false
		}
	}
	return true
}

// wait gives a message a delay.
func (o *order) wait(d time.Duration) {
	o.delay = d.Truncate(time.Millisecond)
	o.data = fmt.Sprintf(`{"delay":%.3f}`, o.delay.Seconds())
}

// draw makes a new order.
func (b *sagaBook) draw(with besides) *order {
	r := b.r
	o := &order{gid: fmt.Sprintf("g%d", len(b.all)+1), mode: sagapart.Saga, fails: -1, with: with, steps: make([]deed, 1+r.IntN(4))}
	switch r.IntN(10) {
	case 0, 1:
		o.data = `{"concurrent":true}`
	case 2:
		o.opt.TimeoutMs = 200 + r.Int64N(3000)
	case 3:
		o.opt.RetryLimit = 1 + r.Int64N(3)
	case 4, 5:
		o.mode = sagapart.Msg
		o.wait(sim.Between(r, 200*time.Millisecond, 4*time.Second))
	}
	if o.mode == sagapart.Saga && r.IntN(3) == 0 {
		o.fails = r.IntN(len(o.steps))
	}
	b.all = append(b.all, o)
	b.by[o.gid] = o
	return o
}

// parts is the command, as the door makes it.
func (b *sagaBook) parts(h *sim.Member, o *order) []entry.Part {
	g := &sagapart.BeginPart{Status: sagapart.Submitted, Fresh: o.with != alone, IntervalMs: intervalMs,
		Definition: sagapart.Definition{Gid: o.gid, Mode: o.mode, Protocol: outcall.HTTP, CustomData: o.data, Options: o.opt}}
	if o.delay > 0 {
		g.FirstMs = o.delay.Milliseconds() + 1
	}
	for k := range o.steps {
		id, at := fmt.Sprintf("%02d", k+1), fmt.Sprintf("http://s%d/", k%2)
		if o.mode == sagapart.Saga {
			g.Branches = append(g.Branches, sagapart.Branch{ID: id, Op: sagapart.OpCompensate, URL: at + "undo", Status: sagapart.Prepared})
		}
		g.Branches = append(g.Branches, sagapart.Branch{ID: id, Op: sagapart.OpAction, URL: at + "do", Status: sagapart.Prepared})
	}
	begin := entry.Part{Machine: sagapart.Machine, Body: sagapart.Append(nil, &sagapart.Part{Kind: sagapart.Begin, Begin: g})}
	if o.with == alone {
		parts := h.Permitted(begin)
		return parts
	}
	put := func(key string) kvpart.Op { return kvpart.Op{Put: &kvpart.Put{Key: []byte(key), Value: []byte(o.gid)}} }
	t := &kvpart.Txn{Then: []kvpart.Op{put(o.key())}}
	switch o.with {
	case withCAS:
		t.Then = append(t.Then, put(lastOrder))
		t.Compare = []kvpart.Compare{{Key: []byte(lastOrder), Target: kvpart.CompareMod, Result: kvpart.CompareEqual, Int: b.last}}
	case withLie:
		t.Compare = []kvpart.Compare{{Key: []byte(neverKey), Target: kvpart.CompareVersion, Result: kvpart.CompareGreater}}
	}
	parts := h.Permitted(entry.Part{Machine: entry.MachineKV, Body: kvpart.Append(nil, &kvpart.Part{Must: true, Txn: t})})
	return append(parts, begin)
}

// submit sends an order through a member that runs. heard is called when its client knows what became of it, or never will.
func (b *sagaBook) submit(h *sim.Member, o *order, patience time.Duration, heard func()) {
	w, n := b.w, h.Node()
	if o.asked == 0 {
		o.asked = w.Now()
		if o.with != alone {
			b.pairs = append(b.pairs, o)
		}
	}
	o.sent++
	o.open++
	w.Trace("saga → %s submit %s", h.Name(), o)
	told := false
	tell := func() {
		if !told {
			told = true
			heard()
		}
	}
	w.After(patience+time.Second, tell) // the process may end before it has begun with this
	h.Go(patience, func(ctx context.Context) {
		defer tell()
		for {
			res, err := n.Propose(ctx, lane, b.parts(h, o)...)
			if err == nil && w.Outdated(res.Rejection) {
				continue
			}
			b.told(h, o, res, err)
			return
		}
	})
}

// told records a client's answer to a submit.
func (b *sagaBook) told(h *sim.Member, o *order, res *entry.Result, err error) {
	w := b.w
	if err != nil {
		w.Trace("saga ← %s submit %s: %v", h.Name(), o, err)
	} else {
		w.Trace("saga ← %s %s@%d submit %s: %v", h.Name(), res.Pos, res.Term, o, res.Rejection)
	}
	switch {
	case errors.Is(err, node.ErrUnknown):
		return // it stays open
	case errors.Is(err, node.ErrOverloaded), errors.Is(err, node.ErrNoLeader), errors.Is(err, node.ErrLevel):
	case err != nil:
		w.Fail(sim.WrongOutcome, "a submit through %s ended with %v", h.Name(), err)
	case res.Rejection == nil && o.with != alone && o.taken:
		w.Fail(sim.HalfCommand, "%s took %s a second time, and so changed its keys twice", h.Name(), o)
	case res.Rejection == nil && o.with == withLie:
		w.Fail(sim.HalfCommand, "%s took %s, although a compare was false", h.Name(), o)
	case res.Rejection == nil:
		o.there, o.taken = true, true
		if o.with != alone {
			w.Count(Pairs, 1)
			b.last = res.Of(entry.MachineKV).(*kvpart.TxnResult).Revision
		}
	case res.Rejection.Machine == sagapart.Machine && res.Rejection.Code == sagapart.WrongStatus && o.sent > 1:
		o.there = true // another submit of it has come through
	case res.Rejection.Machine == entry.MachineKV && res.Rejection.Code == kvpart.CompareFailed && slices.Contains([]besides{withCAS, withLie}, o.with):
		w.Count(Refused, 1)
	default:
		w.Fail(sim.WrongOutcome, "a submit of %s through %s: %v", o, h.Name(), res.Rejection)
	}
	o.open--
}

// abort asks for the end of a saga, as its client may at any time.
func (b *sagaBook) abort(h *sim.Member, o *order) {
	o.aborted = true
	b.change(h, o, "abort", &sagapart.ChangePart{To: sagapart.Aborting, Reason: "by hand"})
}

// hurry makes an order due now, as an operator may. A message that waits for its time is not delivered all the same.
func (b *sagaBook) hurry(h *sim.Member, o *order) { b.change(h, o, "hurry", &sagapart.ChangePart{}) }

// change proposes a client's change of an order that runs. The order has to end, with any outcome of the change.
func (b *sagaBook) change(h *sim.Member, o *order, what string, c *sagapart.ChangePart) {
	c.Gid, c.From, c.Timer, c.IntervalMs = o.gid, sagapart.Of(sagapart.Submitted), true, intervalMs
	parts := h.Permitted(entry.Part{Machine: sagapart.Machine, Body: sagapart.Append(nil, &sagapart.Part{Kind: sagapart.Change, Change: c})})
	b.w.Trace("saga → %s %s %s", h.Name(), what, o)
	_ = h.Node().ProposeAsync(lane, 0, parts, func(*entry.Result, error) {})
	h.Pump()
}
