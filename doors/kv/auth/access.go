package auth

import (
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/holdfastdb/holdfast/core/entry"
	eident "github.com/holdfastdb/holdfast/core/entry/ident"
	mident "github.com/holdfastdb/holdfast/core/machine/ident"
	"github.com/holdfastdb/holdfast/doors/kv/etcderr"
	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
)

// Access is the user of a request, and the catalogue that judges it. A nil Access means that authentication is off: its methods then
// allow everything, so that callers need no check of their own.
//
// A catalogue can change between judging and doing. A write carries the catalogue's revision into the log and is refused there
// if it is another by then (Permitted). A read looks again when it is done (Users.Stands). In both cases the door repeats the request,
// where etcd answers "revision of auth store is old".
type Access struct {
	st    *mident.State
	name  string
	given bool // the request named a user, by a token or certificate
	// revision is the revision of the catalogue at which the client proved its identity. It is the state's own, except for signed tokens,
	// which are good only until the catalogue changes.
	revision uint64
}

// Of is the Access of a user who has proved its identity at a revision of the catalogue st. An empty name means that the request named no
// user.
func Of(st *mident.State, name string, revision uint64) *Access {
	return &Access{st: st, name: name, given: name != "", revision: revision}
}

// Name is the user's, empty if the request named none.
func (a *Access) Name() string { return a.name }

// Named refuses requests without a user.
func (a *Access) Named() error {
	if a != nil && !a.given {
		return rpctypes.ErrGRPCUserEmpty
	}
	return nil
}

// Admin refuses users without the role root.
func (a *Access) Admin() error {
	if a == nil {
		return nil
	}
	if code := a.st.Admin(a.name); code != 0 {
		return etcderr.Ident(code)
	}
	return nil
}

// May refuses users without permission for all of [key, end).
func (a *Access) May(what eident.Access, key, end []byte) error {
	switch {
	case a == nil:
		return nil
	case !a.given || a.revision == 0:
		return rpctypes.ErrGRPCUserEmpty
	case a.revision < a.st.Revision:
		return rpctypes.ErrGRPCAuthOldRevision
	case !a.st.Permits(a.name, what, key, end):
		return rpctypes.ErrGRPCPermissionDenied
	}
	return nil
}

// MayTxn judges both branches, regardless of the compares, down to the last nested Txn, as etcd does. It also reports whether a put
// attaches a key to a lease.
func (a *Access) MayTxn(t *kvpart.Txn) (leased bool, err error) {
	for i := range t.Compare {
		if err := a.May(eident.Read, t.Compare[i].Key, t.Compare[i].End); err != nil {
			return false, err
		}
	}
	for _, branch := range [2][]kvpart.Op{t.Then, t.Else} {
		for i := range branch {
			var inner bool
			switch op := &branch[i]; {
			case op.Range != nil:
				err = a.May(eident.Read, op.Range.Key, op.Range.End)
			case op.Put != nil:
				inner, err = op.Put.Lease != 0, a.mayPut(op.Put)
			case op.Delete != nil:
				err = a.mayDelete(op.Delete)
			case op.Txn != nil:
				inner, err = a.MayTxn(op.Txn)
			}
			if err != nil {
				return false, err
			}
			leased = leased || inner
		}
	}
	return leased, nil
}

func (a *Access) mayPut(p *kvpart.Put) error {
	err := a.May(eident.Write, p.Key, nil)
	if err == nil && p.PrevKV {
		err = a.May(eident.Read, p.Key, nil)
	}
	return err
}

func (a *Access) mayDelete(del *kvpart.DeleteRange) error {
	err := a.May(eident.Write, del.Key, del.End)
	if err == nil && del.PrevKV {
		err = a.May(eident.Read, del.Key, del.End)
	}
	return err
}

// Permitted judges a part that is about to be proposed and returns the command: the part with a pass for it. body is the encoding of part,
// and belongs to the command. part is only read, so it can be judged again when the catalogue has changed.
func (a *Access) Permitted(part *kvpart.Part, body []byte) (_ []entry.Part, err error) {
	leased := false
	switch {
	case part.Put != nil:
		leased, err = part.Put.Lease != 0, a.mayPut(part.Put)
	case part.Delete != nil:
		err = a.mayDelete(part.Delete)
	case part.Txn != nil:
		leased, err = a.MayTxn(part.Txn)
	case part.Grant != nil:
		err = a.Named()
	case part.Revoke != nil:
		leased, err = true, a.Named()
	default: // compaction, alarms
		err = a.Admin()
	}
	if err != nil {
		return nil, err
	}
	if leased {
		if body, err = a.limited(part, body); err != nil {
			return nil, err
		}
	}
	pass := Part(&eident.Part{Pass: &eident.Pass{Revision: a.st.Revision}})
	return []entry.Part{pass, {Machine: entry.MachineKV, Body: body}}, nil
}

// limited adds the keys that the user may write to a part about leases. The lease may have other keys by the time the part is applied.
func (a *Access) limited(part *kvpart.Part, body []byte) ([]byte, error) {
	spans, all := a.st.Writable(a.name)
	if all {
		return body, nil
	}
	if len(spans) > kvpart.MaxSpans {
		return nil, rpctypes.ErrGRPCRequestTooLarge
	}
	within := *part
	within.Within = &kvpart.Within{Spans: make([]kvpart.Span, len(spans))}
	for i, s := range spans {
		within.Within.Spans[i] = kvpart.Span{From: []byte(s.From), To: []byte(s.To)}
	}
	return kvpart.Append(make([]byte, 0, len(body)+32*len(spans)), &within), nil
}
