package saga

import (
	"net/http"

	sagapart "github.com/holdfastdb/holdfast/doors/saga/part"
)

// registration is a branch that a client adds to a transaction of its own making: DTM's flat object of texts.
type registration struct {
	gid, mode, branch, op, status string
	url, confirm, cancel          string
	data                          []byte
	broken                        error // why it did not come
}

// readRegistration reads one as JSON.
func readRegistration(doc []byte) (*registration, error) {
	v, err := parse(doc)
	if err != nil {
		return nil, err
	}
	return v.registration()
}

func (v value) registration() (*registration, error) {
	r := &registration{}
	return r, v.members(func(name string, v value) (err error) {
		if name == "data" {
			r.data, err = v.bytes()
			return err
		}
		s, err := v.text()
		switch name {
		case "gid":
			r.gid = s
		case "trans_type":
			r.mode = s
		case "branch_id":
			r.branch = s
		default:
			r.set(name, s)
		}
		return err
	})
}

// set takes a field that belongs to one mode; over gRPC these are in a map of their own.
func (r *registration) set(name, s string) {
	switch name {
	case "op":
		r.op = s
	case "status":
		r.status = s
	case "url":
		r.url = s
	case sagapart.OpConfirm:
		r.confirm = s
	case sagapart.OpCancel:
		r.cancel = s
	}
}

// branches are the rows that DTM makes of it, in its order: the worker goes through them from the back.
func (r *registration) branches() ([]sagapart.Branch, error) {
	one := sagapart.Branch{ID: r.branch, Status: sagapart.Prepared, Payload: r.data}
	two := one
	switch r.mode {
	case "tcc":
		one.Op, one.URL = sagapart.OpCancel, r.cancel
		two.Op, two.URL = sagapart.OpConfirm, r.confirm
	case "xa":
		one.Op, one.URL = sagapart.OpRollback, r.url
		two.Op, two.URL = sagapart.OpCommit, r.url
	case "workflow":
		one.Op, one.Status = r.op, sagapart.ParseStatus(r.status)
		switch {
		case r.op == "":
			return nil, refuse(500, "op: a workflow's branch needs one")
		case one.Status == 0 || one.Status == sagapart.Submitted || one.Status == sagapart.Aborting:
			return nil, refuse(500, "status %s: a workflow's branch is prepared, succeed or failed", quote(r.status))
		}
		return []sagapart.Branch{one}, nil
	default:
		return nil, refuse(500, "unknow trans type: %s", r.mode)
	}
	return []sagapart.Branch{one, two}, nil
}

// register adds branches to a prepared transaction.
func (d *Door) registerBranch(q *ask, r *registration) error {
	if r.broken != nil {
		return r.broken
	}
	if err := checkGid(r.gid); err != nil {
		return err
	}
	all, err := r.branches()
	if err != nil {
		return err
	}
	for i := range all {
		b := &all[i]
		if err := checkURL(b.Op, b.URL); err != nil {
			return err
		}
		switch {
		case len(b.ID) > sagapart.MaxGidBytes:
			return refuse(http.StatusBadRequest, "branch_id: %d bytes are too many; at most %d", len(b.ID), sagapart.MaxGidBytes)
		case len(b.Op) > sagapart.MaxGidBytes:
			return refuse(http.StatusBadRequest, "op: %d bytes are too many; at most %d", len(b.Op), sagapart.MaxGidBytes)
		case len(b.Payload) > sagapart.MaxPayload:
			return refuse(http.StatusRequestEntityTooLarge, "data: %d bytes are too many; at most %d", len(b.Payload), sagapart.MaxPayload)
		}
	}
	_, rej, err := d.propose(q, &sagapart.Part{Kind: sagapart.Register, Register: &sagapart.RegisterPart{Gid: r.gid, Branches: all}})
	switch {
	case err != nil || rej == nil:
		return err
	case rej.Code == sagapart.NotFound || rej.Code == sagapart.WrongStatus:
		return failed("no trans with gid: %s status: prepared found", r.gid)
	}
	return unknown(rej)
}
