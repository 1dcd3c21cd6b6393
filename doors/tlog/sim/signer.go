package sim

import (
	"time"

	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/core/node"
	"github.com/holdfastdb/holdfast/doors/tlog/checkpoint"
	tlogpart "github.com/holdfastdb/holdfast/doors/tlog/part"
	"github.com/holdfastdb/holdfast/sim"
)

// signer is a member's state while it leads in one term.
type signer struct {
	term uint64
	open [2]bool // a command of ours for this log is under way
	last [2]time.Duration
}

// sign does after a turn of the loop what doors/tlog/checkpoint does: create the logs that are missing, and sign those that
// have grown.
func (b *logsBook) sign(h *sim.Member) {
	p := b.process(h)
	term, _ := h.Node().Leadership()
	if term == 0 {
		p.signer = nil
		return
	}
	if p.signer == nil || p.signer.term != term {
		p.signer = &signer{term: term}
	}
	s := p.signer
	for i, lb := range b.logs {
		if s.open[i] {
			continue
		}
		l := machineOf(h).Find(lb.spec.Name)
		if l == nil {
			b.propose(h, s, i, &tlogpart.Part{Kind: tlogpart.Create, Spec: lb.spec})
			continue
		}
		if c := l.Checkpoint(); c != nil && (c.Size == l.View().Size || b.w.Now() < s.last[i]+b.least) {
			continue
		}
		c, err := checkpoint.Sign(machineOf(h), l, lb.key)
		if err != nil {
			b.w.Fail(sim.Stopped, "%s does not sign %s: %v", h.Name(), lb.spec.Name, err)
		}
		s.last[i] = b.w.Now()
		b.propose(h, s, i, &tlogpart.Part{Kind: tlogpart.Checkpoint, Checkpoints: []tlogpart.Signed{c}})
	}
}

// propose carries a command of the signer through the log, in its term.
func (b *logsBook) propose(h *sim.Member, s *signer, i int, part *tlogpart.Part) {
	w := b.w
	w.Trace("%s proposes %s in term %d", h.Name(), part, s.term)
	s.open[i] = true
	err := h.Node().ProposeAsync(node.LaneSystem, s.term, []entry.Part{{Machine: entry.MachineTlog, Body: tlogpart.AppendPart(nil, part)}},
		func(res *entry.Result, err error) {
			s.open[i] = false
			if err == nil && res.Rejection != nil && res.Rejection.Code != tlogpart.LogExists && res.Rejection.Code != tlogpart.StaleCheckpoint {
				w.Fail(sim.WrongOutcome, "%s proposed %s: %v", h.Name(), part, res.Rejection)
			}
		})
	if err != nil {
		s.open[i] = false
		return
	}
	h.Pump()
}
