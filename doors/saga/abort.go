package saga

import (
	"net/http"

	"github.com/holdfastdb/holdfast/core/entry"
	sagamachine "github.com/holdfastdb/holdfast/doors/saga/machine"
	sagapart "github.com/holdfastdb/holdfast/doors/saga/part"
)

// abort ends a transaction that has not succeeded. A prepared message fails. For tcc, xa and, beyond DTM, sagas, finished work is
// compensated, also while the saga is under way. The transaction's own mode decides; a request that names another trans_type is refused,
// one that names none is not.
func (d *Door) abort(q *ask, r *request) error {
	if err := checkGid(r.Gid); err != nil {
		return err
	}
	for {
		t, err := d.mustFind(r.Gid)
		if err != nil {
			return err
		}
		c := &sagapart.ChangePart{Gid: t.Gid, Number: t.Number, Reason: cut(r.reason)}
		if r.mode != "" && r.mode != t.Mode.String() || !abortable(t, c) {
			return cannotAbort(t.Mode, t.Status.String())
		}
		var w *waiter
		if wait := t.Options.WaitResult && c.To == sagapart.Aborting && !d.machine.Held(); wait {
			w = d.wait(r.Gid)
		}
		st, rej, err := d.propose(q, &sagapart.Part{Kind: sagapart.Change, Change: c})
		if err == nil && rej == nil && w != nil {
			err = d.rolledBack(q, w, st)
		}
		if w != nil {
			w.cancel()
		}
		switch {
		case err != nil || rej == nil:
			return err
		case rej.Code == sagapart.WrongStatus && abortableFrom(t.Mode).Has(sagapart.ParseStatus(rej.Detail)):
			continue // it has moved on, to where it can be aborted as well
		}
		return abortRefused(t, rej)
	}
}

// abortableFrom is the statuses in which a transaction of a mode can be aborted.
func abortableFrom(m sagapart.Mode) sagapart.Statuses {
	switch m {
	case sagapart.Msg:
		return sagapart.Of(sagapart.Prepared)
	case sagapart.TCC, sagapart.XA:
		return sagapart.Of(sagapart.Prepared, sagapart.Aborting)
	case sagapart.Saga:
		return sagapart.Open
	}
	return 0
}

// abortable makes c the change that aborts t, or reports that there is none.
func abortable(t *sagamachine.Transaction, c *sagapart.ChangePart) bool {
	if !abortableFrom(t.Mode).Has(t.Status) {
		return false
	}
	c.From, c.To = sagapart.Of(t.Status), sagapart.Aborting
	c.Timer, c.IntervalMs = true, t.IntervalMs // due now
	if t.Mode == sagapart.Msg {
		c.To, c.Timer, c.IntervalMs = sagapart.Failed, false, 0
	}
	if t.Status == sagapart.Aborting { // the first reason stays
		c.Reason = ""
	}
	return true
}

func cannotAbort(m sagapart.Mode, status string) error {
	return failed("trans type: '%s' current status '%s', cannot abort.", m, status)
}

func abortRefused(t *sagamachine.Transaction, rej *entry.Rejection) error {
	switch rej.Code {
	case sagapart.WrongStatus:
		return cannotAbort(t.Mode, rej.Detail)
	case sagapart.NotFound:
		return noSuch(t.Gid)
	}
	return unknown(rej)
}

// rolledBack waits for the end of the pass that takes back what was done.
func (d *Door) rolledBack(q *ask, w *waiter, st *sagapart.State) error {
	err := d.outcome(q, w, st)
	if err == nil {
		return nil
	}
	if t, err := d.machine.BriefNumber(st.Number); err == nil && t != nil && t.Status == sagapart.Failed {
		return nil
	}
	if broken(err).code == http.StatusConflict {
		return &failure{http.StatusTooEarly, "the transaction is being rolled back: " + wordOngoing}
	}
	return err
}

// forceStopped is the reason of a transaction that was stopped without one.
const forceStopped = "stopped by hand (forceStop), nothing was undone"

// forceStop ends a transaction as failed without taking anything back.
func (d *Door) forceStop(q *ask, r *request) error {
	if err := checkGid(r.Gid); err != nil {
		return err
	}
	c := &sagapart.ChangePart{Gid: r.Gid, From: sagapart.Open, To: sagapart.Failed, Reason: cut(r.reason)}
	if c.Reason == "" {
		// DTM keeps no reason here, and a list of failed transactions then does not tell why this one ended. A reason that is there stays.
		t, err := d.mustFind(r.Gid)
		if err != nil {
			return err
		}
		if t.Reason == "" {
			c.Reason = forceStopped
		}
	}
	_, rej, err := d.propose(q, &sagapart.Part{Kind: sagapart.Change, Change: c})
	switch {
	case err != nil || rej == nil:
		return err
	case rej.Code == sagapart.NotFound:
		return noSuch(r.Gid)
	case rej.Code == sagapart.WrongStatus:
		return failed("global transaction force stop error. status: %s. error:", rej.Detail)
	}
	return unknown(rej)
}

// noSuch is DTM's answer where a gid is not known.
func noSuch(gid string) error { return refuse(500, "no TransGlobal with gid: %s found", gid) }

// mustFind reads a transaction with everything that was acknowledged before, wherever.
func (d *Door) mustFind(gid string) (*sagamachine.Transaction, error) {
	t, err := d.find(gid)
	if err == nil && t == nil {
		err = noSuch(gid)
	}
	return t, err
}

func (d *Door) find(gid string) (*sagamachine.Transaction, error) {
	if err := d.node.Linearize(d.bounded()); err != nil {
		return nil, unread(err)
	}
	var t *sagamachine.Transaction
	err := d.reading(d.small, func() (err error) { // its own texts may be megabytes
		t, err = d.machine.Brief(gid)
		return err
	})
	return t, err
}
