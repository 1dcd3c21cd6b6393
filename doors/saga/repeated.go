package saga

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfastdb/holdfast/core/entry"
	sagamachine "github.com/holdfastdb/holdfast/doors/saga/machine"
	sagapart "github.com/holdfastdb/holdfast/doors/saga/part"
)

// A client that heard no answer sends its submit again, with the same gid. It hears what it would have heard: the transaction is there once.
// DTM answers 409 for one that has succeeded, and its clients then undo what was done.

// finished is the answer to a submit whose gid exists in another status than prepared or submitted. It is a success if that is the same
// transaction and it has succeeded.
func (d *Door) finished(q *ask, r *request, p *sagapart.BeginPart, rej *entry.Rejection) error {
	if rej.Code != sagapart.WrongStatus || rej.Detail != sagapart.Succeed.String() || r.Mode != sagapart.Saga && r.Mode != sagapart.Msg {
		return refusedAs(rej, submitWord)
	}
	t, err := d.machine.Find(r.Gid)
	if err != nil {
		return err
	}
	if t == nil || t.Status != sagapart.Succeed { // forgotten, and perhaps begun anew meanwhile
		return refusedAs(rej, submitWord)
	}
	if differs := different(t, r, p); differs != "" {
		return failed("current status '%s', cannot %s: another transaction has this gid, %s.", t.Status, submitWord, differs)
	}
	q.saw = true
	return nil
}

// sameOpen judges a submit whose gid had been submitted before and has not ended: with another content it is no repetition.
func (d *Door) sameOpen(q *ask, r *request, p *sagapart.BeginPart, st *sagapart.State) error {
	if r.Mode != sagapart.Saga && r.Mode != sagapart.Msg {
		return nil
	}
	t, err := d.machine.FindNumber(st.Number)
	if err != nil || t == nil {
		return err
	}
	if differs := different(t, r, p); differs != "" {
		q.saw = true
		return failed("current status '%s', cannot %s: another transaction has this gid, %s.", t.Status, submitWord, differs)
	}
	return nil
}

// different names a difference between a submit and the transaction of its gid, "" if there is none. Fields that a submit leaves out do not
// differ, nor do the subscribers of a topic, which change. Options and headers do not count: they steer a transaction, and a client may
// send the headers of its present trace. DTM accepts other ones with the same gid and leaves the transaction unchanged.
func different(t *sagamachine.Transaction, r *request, p *sagapart.BeginPart) string {
	had, given := t.Definition, &p.Definition
	switch {
	case given.Mode != had.Mode:
		return fmt.Sprintf("its trans_type is %s", had.Mode)
	case given.Protocol != had.Protocol:
		return fmt.Sprintf("its protocol is %s", quote(had.Protocol))
	case given.QueryPrepared != "" && given.QueryPrepared != had.QueryPrepared:
		return "with another query_prepared"
	case given.CustomData != "" && given.CustomData != had.CustomData:
		return "with other custom_data"
	}
	if len(r.steps) == 0 || slices.ContainsFunc(r.steps, func(s step) bool { return strings.HasPrefix(s.action, topicPrefix) }) {
		return ""
	}
	if len(t.Branches) != len(p.Branches) {
		return fmt.Sprintf("with %d branches and not %d", len(t.Branches), len(p.Branches))
	}
	for i := range p.Branches {
		a, b := &p.Branches[i], &t.Branches[i].Branch
		switch {
		case a.ID != b.ID || a.Op != b.Op || a.URL != b.URL:
			return fmt.Sprintf("with another %s in step %s", b.Op, b.ID)
		case !bytes.Equal(a.Payload, b.Payload):
			return fmt.Sprintf("with another payload in step %s", b.ID)
		}
	}
	return ""
}
