package saga

import (
	"errors"
	"slices"
	"sync"

	"github.com/holdfastdb/holdfast/entry"
	esaga "github.com/holdfastdb/holdfast/entry/saga"
	msaga "github.com/holdfastdb/holdfast/machine/saga"
	"github.com/holdfastdb/holdfast/node"
	"github.com/holdfastdb/holdfast/outcall"
	"github.com/holdfastdb/holdfast/worker"
)

// pass carries one transaction on until it has ended or nothing more can be done now. It has no goroutine: whoever has news for it runs
// it until the next call or command is on its way.
type pass struct {
	t        *term
	view     *view
	headers  []outcall.Header
	bytes    int
	begun    int64 // tick
	reserved *endpoint

	under  []call1 // calls under way
	sent   *sent   // the command under way
	look   bool    // the log is to be read again
	hold   int64   // tick until which nothing is proposed
	wakes  int64   // tick for which it is to be woken, 0: none
	isOver bool

	mu     sync.Mutex // guards the rest; what is above belongs to the goroutine that has made busy true
	events []event
	busy   bool
}

// call1 is one call under way.
type call1 struct {
	place  int
	cancel func()
}

// sent is a command under way.
type sent struct {
	change  *change
	results []esaga.BranchResult
	to      esaga.Status
	retries int64
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
	looked                    // somebody else has changed the transaction
	called                    // a call has ended
	proposed                  // a command has
)

func newPass(t *term, tx *msaga.Transaction, inherited bool, now int64) *pass {
	p := &pass{t: t, view: newView(tx, &t.w.timing, inherited), bytes: payloadBytes(tx), begun: now}
	for _, h := range tx.Headers {
		p.headers = append(p.headers, outcall.Header{Name: h.Name, Value: h.Value})
	}
	return p
}

func (p *pass) tx() *msaga.Transaction { return p.view.tx }

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
	now := p.t.w.node.Tick()
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
	case proposed:
		p.answered(e.answer, e.err)
	}
}

// answered takes in what became of the command under way.
func (p *pass) answered(res *entry.Result, err error) {
	s := p.sent
	p.sent = nil
	switch {
	case err == nil && res.Rejection == nil:
		p.logged(s)
	case err == nil && (res.Rejection.Code == esaga.WrongStatus || res.Rejection.Code == esaga.NotFound):
		p.look = true // somebody else was faster
	case err == nil:
		p.refused(res.Rejection)
	case errors.Is(err, node.ErrSuperseded) || errors.Is(err, node.ErrStopped):
		p.over(false) // the next leader has it
	case errors.Is(err, node.ErrUnknown):
		p.look = true // it may be in the log, or get there yet
	case errors.Is(err, node.ErrOverloaded) || errors.Is(err, node.ErrNoLeader):
		p.hold = p.t.w.node.Tick() + pause.Milliseconds()
	default:
		p.refused(err)
	}
}

// refusedMs is how long a transaction rests whose command nobody takes.
const refusedMs = 30_000

func (p *pass) refused(why error) {
	p.t.w.opt.Logger.Error("saga: a transaction cannot go on: the log refuses what became of it", "gid", p.tx().Gid, "error", why)
	p.look, p.hold = true, p.t.w.node.Tick()+refusedMs
}

// logged takes in that a command is in the log.
func (p *pass) logged(s *sent) {
	v, tx := p.view, p.tx()
	for _, r := range s.results {
		if b := &v.branches[r.Branch]; b.status == r.Status {
			b.saved = true
		}
	}
	tx.Retries = s.retries
	if s.change.reason != "" {
		tx.Reason = s.change.reason
	}
	if s.to != 0 {
		// Branches could be registered until now, and more may have been than were read.
		p.look = p.look || tx.Status == esaga.Prepared
		tx.Status = s.to
	}
	if s.change.alert != nil {
		p.t.w.tell(s.change.alert)
	}
	if s.change.end {
		p.t.w.counts.ended(tx.Status)
		p.over(true)
	}
}

// advance does what is to be done next, until that is waiting.
func (p *pass) advance() {
	for !p.isOver && p.sent == nil {
		if p.t.dead.Load() {
			p.over(false)
			return
		}
		if now := p.t.w.node.Tick(); now < p.hold {
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
		p.hold = p.t.w.node.Tick() + rereadMs
		p.wakeAt(p.hold)
		return false
	case tx == nil:
		p.over(true)
		return false
	}
	p.look = false
	p.view.merge(tx)
	p.view.queried = true
	return true
}

// begin begins calls, and returns false if there is nothing to decide before one of them ends.
func (p *pass) begin(places []int) (decide bool) {
	full := ""
	for _, place := range places {
		url := p.url(place)
		if url == "" { // nothing to call, and so done
			p.view.start(place)
			p.view.record(place, outcall.Result{Outcome: outcall.OK}, 0)
			decide = true
			continue
		}
		name := endpointOf(url)
		e := p.t.enter(name, p.bytes, &p.reserved)
		if e == nil {
			full = name
			continue
		}
		p.view.start(place)
		cancel := p.t.w.opt.Caller.Go(p.request(place, url), func(r outcall.Result) {
			p.t.leave(e, p.bytes)
			p.post(event{kind: called, place: place, result: r})
		})
		p.under = append(p.under, call1{place, cancel})
	}
	if p.reserved != nil && len(places) > 0 {
		p.t.leave(p.reserved, 0)
		p.reserved = nil
	}
	if full == "" || decide || len(p.under) > 0 {
		return decide
	}
	return p.full(full)
}

// full waits for a place at an endpoint, outside of memory: nothing else of the transaction is under way. What the log lacks goes there
// first. If an earlier call of the pass did not come to an end, the pass ends instead, so that the wait it has earned is kept.
func (p *pass) full(name string) (decide bool) {
	v := p.view
	_, broken, ongoing := v.trouble()
	switch {
	case broken || ongoing:
		p.propose(v.later().change)
	case len(v.results()) > 0:
		p.propose(&change{})
	default:
		if !p.t.park(p, name, v.anyCalled()) {
			return true
		}
		p.isOver = true
	}
	return false
}

// propose proposes a change with all the log lacks.
func (p *pass) propose(c *change) {
	v, tx := p.view, p.tx()
	for _, m := range c.marks {
		b := &v.branches[m.Branch]
		b.status, b.saved = m.Status, false
	}
	s := &sent{change: c, results: v.results(), to: c.to, retries: v.retries}
	part := esaga.ChangePart{Gid: tx.Gid, Number: tx.Number, From: esaga.Of(tx.Status), To: c.to, Reason: c.reason, Results: s.results,
		Retries: s.retries, Pass: c.end, Worker: true}
	if c.end && !c.to.Final() {
		part.Timer, part.NextMs, part.IntervalMs = true, c.nextMs, c.intervalMs
	}
	body := esaga.Append(nil, &esaga.Part{Kind: esaga.Change, Change: &part})
	p.sent = s
	p.t.w.proposals.put(func() {
		res, err := worker.Propose(p.t.w.node, p.t.number, entry.Part{Machine: esaga.Machine, Body: body})
		p.post(event{kind: proposed, answer: res, err: err})
	})
}

// over ends the pass. With ended the transaction has come as far as it can now; else somebody else has it, or the term is over.
func (p *pass) over(ended bool) {
	if p.isOver {
		return
	}
	p.isOver = true
	for _, c := range p.under {
		c.cancel()
	}
	if p.reserved != nil {
		p.t.leave(p.reserved, 0)
		p.reserved = nil
	}
	gid, final := p.tx().Gid, p.tx().Status.Final()
	p.t.ended(p, final)
	if hear := p.t.w.opt.Ended; ended && hear != nil {
		hear(gid)
	}
}

// wakeAt has the pass decide again at a tick, unless it will sooner.
func (p *pass) wakeAt(tick int64) {
	if p.wakes > p.t.w.node.Tick() && p.wakes <= tick {
		return
	}
	p.wakes = tick
	p.t.wakeAt(p.tx().Number, tick)
}

// url is what a place is called at.
func (p *pass) url(place int) string {
	if place == queryCall {
		return p.tx().QueryPrepared
	}
	return p.tx().Branches[place].URL
}

// request is one call.
func (p *pass) request(place int, url string) *outcall.Request {
	tx := p.tx()
	r := &outcall.Request{URL: url, Protocol: tx.Protocol, Gid: tx.Gid, Mode: tx.Mode.String(), Headers: p.headers, Timeout: p.view.timeoutOf(),
		Post: tx.Mode == esaga.XA}
	switch {
	case place != queryCall:
		b := &tx.Branches[place]
		r.BranchID, r.Op, r.Payload = b.ID, b.Op, b.Payload
	case tx.Mode == esaga.Workflow:
		r.BranchID, r.Op, r.Payload = "00", p.view.plan.name, p.view.workflowBody()
	default:
		r.BranchID, r.Op = "00", "msg"
	}
	return r
}

// spread is a number from 0 to 1 that differs between transactions, branches and tries, and is the same in every run of a simulation.
func spread(number uint64, place, tries int) float64 {
	x := number*0x9e3779b97f4a7c15 + uint64(place)<<32 + uint64(tries)
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	x ^= x >> 31
	return float64(x>>11) / (1 << 53)
}
