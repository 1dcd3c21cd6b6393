package advance

import (
	"errors"

	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/core/node"
	"github.com/holdfastdb/holdfast/core/worker"
	sagapart "github.com/holdfastdb/holdfast/doors/saga/part"
)

// sent is a command under way.
type sent struct {
	change  *change
	results []sagapart.BranchResult
	to      sagapart.Status
	retries int64
}

// propose proposes a change with all the log lacks.
func (p *pass) propose(c *change) {
	v, tx := p.view, p.tx()
	for _, m := range c.marks {
		b := &v.branches[m.Branch]
		b.status, b.saved = m.Status, false
	}
	s := &sent{change: c, results: v.results(), to: c.to, retries: v.retries}
	part := sagapart.ChangePart{Gid: tx.Gid, Number: tx.Number, From: sagapart.Of(tx.Status), To: c.to, Reason: c.reason, Results: s.results,
		Retries: s.retries, Pass: c.end, Worker: true}
	if c.end && !c.to.Final() {
		part.Timer, part.NextMs, part.IntervalMs = true, c.nextMs, c.intervalMs
	}
	if c.to != 0 {
		p.status.Store(uint32(c.to))
	}
	body := sagapart.Append(nil, &sagapart.Part{Kind: sagapart.Change, Change: &part})
	p.sent = s
	pool := p.t.w.proposals
	if part.Timer && c.nextMs > 0 && c.to == 0 && len(s.results) == 0 {
		pool = p.t.w.retries
	}
	pool.put(func() {
		res, err := worker.Propose(p.t.w.node, p.t.number, entry.Part{Machine: sagapart.Machine, Body: body})
		p.post(event{kind: proposed, answer: res, err: err})
	})
}

// answered takes in what became of the command under way.
func (p *pass) answered(res *entry.Result, err error) {
	s, tx := p.sent, p.tx()
	p.sent = nil
	switch {
	case err == nil && res.Rejection == nil:
		p.logged(s)
	case err == nil && (res.Rejection.Code == sagapart.WrongStatus || res.Rejection.Code == sagapart.NotFound):
		p.look = true // another command was faster
	case err == nil:
		p.refused(res.Rejection)
	case errors.Is(err, node.ErrSuperseded) || errors.Is(err, node.ErrStopped):
		p.over(false) // the next leader has it
	case errors.Is(err, node.ErrUnknown):
		p.look = true // it may be in the log, or get there yet
	case errors.Is(err, node.ErrOverloaded) || errors.Is(err, node.ErrNoLeader):
		wait := float64(pause.Milliseconds()) * (0.5 + spread(tx.Number, 0, p.refusals))
		p.refusals++
		p.hold = p.t.w.now() + int64(wait)
	default:
		p.refused(err)
	}
}

// refusedMs is how long a transaction rests after its command was refused.
const refusedMs = 30_000

func (p *pass) refused(why error) {
	p.t.w.opt.Logger.Error("saga: a transaction cannot go on: the log refuses what became of it", "gid", p.tx().Gid, "error", why)
	p.t.troubles.note(p.number, p.tx().Status, noCall, Trouble{Text: "the log refuses what became of it: " + why.Error()})
	p.look, p.hold = true, p.t.w.now()+refusedMs
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
		p.look = p.look || tx.Status == sagapart.Prepared
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
