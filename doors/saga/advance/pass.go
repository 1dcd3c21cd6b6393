package advance

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/holdfastdb/holdfast/core/entry"
	sagamachine "github.com/holdfastdb/holdfast/doors/saga/machine"
	"github.com/holdfastdb/holdfast/doors/saga/outcall"
	sagapart "github.com/holdfastdb/holdfast/doors/saga/part"
)

// pass advances one transaction until it has ended or no further step is possible now. It has no goroutine: the goroutine with news for it
// runs it until the next call or command is in flight.
type pass struct {
	t        *term
	number   uint64
	view     *view
	headers  []outcall.Header
	bytes    int
	begun    int64 // tick
	reserved *endpoint

	under    []call1 // calls under way
	sent     *sent   // the command under way
	unwatch  func()
	look     bool  // the log is to be read again
	hold     int64 // tick until which nothing is proposed
	refusals int   // how often a full log has sent it away
	wakes    int64 // tick for which it is to be woken, 0: none
	isOver   bool

	last   atomic.Pointer[LastCall] // the newest call, nil: none yet
	status atomic.Uint32            // as the pass has it, or is about to have it

	mu     sync.Mutex // guards the rest; the fields above belong to the goroutine that has made busy true
	events []event
	busy   bool
}

// event is news for a pass.
type event struct {
	kind   eventKind
	place  int            // called
	result outcall.Result // called
	answer *entry.Result  // proposed
	err    error          // proposed
}

type eventKind byte

const (
	woken    eventKind = iota // its time has come, or the term is over
	looked                    // another command has changed the transaction
	called                    // a call has ended
	proposed                  // a command has
	relieved                  // others wait for the memory it takes while its calls hang
)

func newPass(t *term, tx *sagamachine.Transaction, inherited bool, now int64) *pass {
	p := &pass{t: t, number: tx.Number, view: newView(tx, &t.w.timing, inherited), bytes: payloadBytes(tx), begun: now}
	for _, h := range tx.Headers {
		p.headers = append(p.headers, outcall.Header{Name: h.Name, Value: h.Value})
	}
	if problem := p.view.plan.problem; problem != "" {
		t.troubles.note(tx.Number, tx.Status, noCall, Trouble{Text: problem})
	}
	p.status.Store(uint32(tx.Status))
	p.unwatch = t.w.state.Watch(tx.Gid, p.heard)
	return p
}

// heard is told of every change of the transaction, by the goroutine that applies entries. A status that is not the worker's doing may mean
// that nothing more is to be called.
func (p *pass) heard(s sagapart.State, _ uint32, _ bool) {
	if s.Number == p.number && uint32(s.Status) != p.status.Load() {
		p.t.w.loads.put(func() { p.post(event{kind: looked}) })
	}
}

func (p *pass) tx() *sagamachine.Transaction { return p.view.tx }

// post gives a pass news. Any goroutine that holds no lock; it may run the pass for some microseconds, or read the store.
func (p *pass) post(e event) {
	p.mu.Lock()
	p.events = append(p.events, e)
	if p.busy {
		p.mu.Unlock()
		return
	}
	p.busy = true
	p.mu.Unlock()
	var all []event
	for {
		p.mu.Lock()
		all, p.events = p.events, all[:0]
		if len(all) == 0 {
			p.busy = false
			p.mu.Unlock()
			return
		}
		p.mu.Unlock()
		p.time()
		for i := range all {
			p.take(&all[i])
		}
		p.advance()
		clear(all)
	}
}

// time tells the view what time it is.
func (p *pass) time() {
	now := p.t.w.now()
	older, nearer := p.t.w.opt.Ahead()
	p.view.ageMs = now - p.tx().CreatedTick + older.Milliseconds()
	p.view.aheadMs = nearer.Milliseconds() - older.Milliseconds()
	p.view.passMs = now - p.begun
}

// take takes in one piece of news.
func (p *pass) take(e *event) {
	switch e.kind {
	case looked:
		p.look = true
	case called:
		p.under = slices.DeleteFunc(p.under, func(c call1) bool { return c.place == e.place })
		p.t.w.counts.called(e.result.Outcome)
		p.view.record(e.place, e.result, spread(p.tx().Number, e.place, p.view.tries(e.place)))
		p.noteCall(e.place, e.result)
	case proposed:
		p.answered(e.answer, e.err)
	case relieved:
		for _, c := range p.under {
			c.cancel()
		}
	}
}

// advance does what is to be done next, until that is waiting.
func (p *pass) advance() {
	for !p.isOver && p.sent == nil {
		if p.t.dead.Load() {
			p.over(false)
			return
		}
		if now := p.t.w.now(); now < p.hold {
			p.wakeAt(p.hold)
			return
		}
		if p.look && !p.reread() {
			return
		}
		p.time()
		s := decide(p.view)
		if s.cancel {
			for _, c := range p.under {
				c.cancel()
			}
		}
		switch {
		case s.over:
			p.over(true)
		case s.reread: // not here: a Caller's goroutine must not wait for the store
			p.t.w.loads.put(func() { p.post(event{kind: looked}) })
			return
		case s.change != nil:
			p.propose(s.change)
		default:
			if s.wakeMs > 0 {
				p.wakeAt(p.begun + s.wakeMs)
			}
			if !p.begin(s.calls) {
				return
			}
		}
	}
}

// reread reads the transaction again and returns false if the pass cannot go on now.
func (p *pass) reread() bool {
	tx, err := p.t.w.state.FindNumber(p.tx().Number)
	switch {
	case err != nil:
		p.t.w.opt.Logger.Error("saga: a transaction cannot be read; trying again", "gid", p.tx().Gid, "error", err)
		p.hold = p.t.w.now() + rereadMs
		p.wakeAt(p.hold)
		return false
	case tx == nil:
		p.over(true)
		return false
	}
	p.look = false
	p.view.merge(tx)
	p.status.Store(uint32(tx.Status))
	p.view.queried = true
	return true
}

// over ends the pass. With ended the transaction has come as far as it can now. Otherwise another pass has it, or the term is over.
func (p *pass) over(ended bool) {
	if p.isOver {
		return
	}
	p.isOver = true
	p.unwatch()
	for _, c := range p.under {
		c.cancel()
	}
	if p.reserved != nil {
		p.t.leave(p.reserved, nil, outcall.Refused)
		p.reserved = nil
	}
	gid, final := p.tx().Gid, p.tx().Status.Final()
	if final {
		p.t.troubles.forget(p.number)
	}
	p.t.ended(p, final)
	if hear := p.t.w.opt.Ended; ended && hear != nil {
		hear(gid)
	}
}

// wakeAt has the pass decide again at a tick, unless it will sooner.
func (p *pass) wakeAt(tick int64) {
	if p.wakes > p.t.w.now() && p.wakes <= tick {
		return
	}
	p.wakes = tick
	p.t.wakeAt(p.tx().Number, tick)
}
