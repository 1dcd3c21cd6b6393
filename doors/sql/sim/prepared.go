package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/holdfastdb/holdfast/doors/sql/txn"
	"github.com/holdfastdb/holdfast/sim"
)

// preparedOne is a transaction that is prepared, or may be: whoever decides it asks again until it is told.
type preparedOne struct {
	t       *transaction
	name    []byte
	commits bool
	by      *sim.Member // that it was prepared at
	process int
	sure    bool        // its client was told that it is prepared
	at      *sim.Member // that decides it at the moment; nil: none does
	in      int         // the process of at
	asked   bool        // a decision was asked for, and what has become of it is not known
	done    bool
}

// prepare has the transaction prepared, and decided later by some member that leads.
func (t *transaction) prepare() {
	p := &preparedOne{t: t, name: fmt.Appendf(nil, "transaction %d", t.n), commits: t.b.r.IntN(4) > 0, by: t.h, process: t.h.Process()}
	t.b.kept = append(t.b.kept, p) // its process may die before it hears
	p.at, p.in = t.h, p.process
	t.b.w.After(sim.Between(t.b.r, 5*time.Millisecond, 2*time.Second), p.decide)
	err := t.x.Prepare(p.name)
	p.at = nil
	t.trace("is prepared: %v", err)
	switch {
	case err == nil:
		p.sure = true
	case errors.Is(err, txn.ErrUnknown):
	case noEffect(err), errors.Is(err, txn.ErrTooManyLocks):
		p.forget()
		t.outcome = without
		t.failed(err)
	default:
		t.b.w.Fail(sim.WrongOutcome, "%s: %s was not prepared: %v", t.h.Name(), t, err)
	}
}

// decide asks a member to decide the transaction, and comes again until that is done.
func (p *preparedOne) decide() {
	b := p.t.b
	if p.done {
		return
	}
	b.w.After(sim.Between(b.r, 5*time.Millisecond, 300*time.Millisecond), p.decide)
	if p.at != nil && p.at.Process() == p.in {
		return // it is asked at the moment
	}
	h := b.w.Members()[b.r.IntN(len(b.w.Members()))]
	wk := b.workers[h]
	if h.Node() == nil || wk == nil || wk.process != h.Process() || h.Leads() == 0 {
		return
	}
	p.at, p.in = h, h.Process()
	before := p.asked
	p.asked = true // the process may die before it says what has become of that
	h.Go(time.Hour, func(context.Context) {
		_, err := wk.EndPrepared(p.name, p.commits)
		p.t.trace("is decided at %s, commits %v: %v", h.Name(), p.commits, err)
		p.at = nil
		switch {
		case err == nil:
		case errors.Is(err, txn.ErrNotPrepared) && (before || !p.sure):
		case errors.Is(err, txn.ErrNotPrepared):
			b.w.Fail(CommitLost, "%s: %s was prepared, and is not there", h.Name(), p.t)
		case errors.Is(err, txn.ErrUnknown):
			return
		case errors.Is(err, txn.ErrNotLeader), noEffect(err):
			p.asked = before
			return
		default:
			b.w.Fail(sim.WrongOutcome, "%s: %s was not decided: %v", h.Name(), p.t, err)
		}
		p.over(err == nil || before && p.sure, h)
	})
}

// over takes in that the transaction is decided. told: by the verdict that was asked for. Otherwise it may never have been prepared, and its outcome stays
// open.
func (p *preparedOne) over(told bool, h *sim.Member) {
	b := p.t.b
	p.forget()
	if !told {
		return
	}
	b.w.Count(Prepared, 1)
	if h != p.by || h.Process() != p.process {
		b.w.Count(PreparedAt, 1)
	}
	if p.commits {
		p.t.outcome = committed
		p.t.acknowledged()
		return
	}
	p.t.outcome = without
}

// forget has nobody decide the transaction any more.
func (p *preparedOne) forget() {
	p.done = true
	p.t.b.kept = slices.DeleteFunc(p.t.b.kept, func(other *preparedOne) bool { return other == p })
}
