package sim

import (
	"time"

	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/core/node"
	"github.com/holdfastdb/holdfast/doors/tlog/checkpoint"
	tlogpart "github.com/holdfastdb/holdfast/doors/tlog/part"
)

// signer is what a member keeps while it leads in one term.
type signer struct {
	term uint64
	open [2]bool // a command of ours for this log is under way
	last [2]time.Duration
}

// signTurn does after a turn of the loop what doors/tlog/checkpoint does: create the logs that are missing, and sign those that
// have grown.
func (h *host) signTurn() {
	b := &h.w.trees
	term, _ := h.n.Leadership()
	if !b.on || term == 0 {
		h.signer = nil
		return
	}
	if h.signer == nil || h.signer.term != term {
		h.signer = &signer{term: term}
	}
	s := h.signer
	for i, lb := range b.logs {
		if s.open[i] {
			continue
		}
		l := h.tree.Find(lb.spec.Name)
		if l == nil {
			h.proposeTree(s, i, &tlogpart.Part{Kind: tlogpart.Create, Spec: lb.spec})
			continue
		}
		if c := l.Checkpoint(); c != nil && (c.Size == l.View().Size || h.w.now < s.last[i]+b.least) {
			continue
		}
		c, err := checkpoint.Sign(h.tree, l, lb.key)
		if err != nil {
			h.w.fail(Stopped, "%s does not sign %s: %v", h.name, lb.spec.Name, err)
		}
		s.last[i] = h.w.now
		h.proposeTree(s, i, &tlogpart.Part{Kind: tlogpart.Checkpoint, Checkpoints: []tlogpart.Signed{c}})
	}
}

// proposeTree carries a command of the signer through the log, in its term.
func (h *host) proposeTree(s *signer, i int, part *tlogpart.Part) {
	w := h.w
	w.trace.add(w.now, "%s proposes %s in term %d", h.name, part, s.term)
	s.open[i] = true
	err := h.n.ProposeAsync(node.LaneSystem, s.term, []entry.Part{{Machine: entry.MachineTree, Body: tlogpart.AppendPart(nil, part)}},
		func(res *entry.Result, err error) {
			s.open[i] = false
			if err == nil && res.Rejection != nil && res.Rejection.Code != tlogpart.LogExists && res.Rejection.Code != tlogpart.StaleCheckpoint {
				w.fail(WrongOutcome, "%s proposed %s: %v", h.name, part, res.Rejection)
			}
		})
	if err != nil {
		s.open[i] = false
		return
	}
	h.pumpSoon()
}
