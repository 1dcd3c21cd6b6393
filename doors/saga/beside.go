package saga

import (
	"net/http"
	"slices"

	"github.com/holdfastdb/holdfast/core/entry"
	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
	sagapart "github.com/holdfastdb/holdfast/doors/saga/part"
)

// submitBeside is POST /api/holdfast/submit: a submit that may carry a change of keys, "kv", in the words of etcd's JSON gateway. Both are
// one command: there is the transaction with the change or neither, for every reader and after every crash. Its gid must be new,
// because a change that is sent twice would be made twice.
func (d *Door) submitBeside(q *ask, r *request) (any, error) {
	if r.kv.null() {
		return nil, d.submit(q, r)
	}
	if err := r.check(); err != nil {
		return nil, err
	}
	if r.Mode == sagapart.Workflow {
		return nil, refuse(http.StatusBadRequest, "kv: a workflow begins with prepareWorkflow, which takes no change of keys")
	}
	t, err := r.kv.txn()
	if err != nil {
		return nil, refuse(http.StatusBadRequest, "kv: %v", err)
	}
	if d.opts.KV == nil {
		return nil, refuse(http.StatusNotImplemented, "kv: this server has no door to keys (--kv), so none can change beside a transaction")
	}
	p, err := d.begin(r, sagapart.Submitted)
	if err != nil {
		return nil, err
	}
	p.Fresh = true
	var w *waiter
	if r.Options.WaitResult {
		w = d.wait(r.Gid)
		defer w.cancel()
	}
	q.repeatable = true
	res, err := d.proposeBeside(q, &sagapart.Part{Kind: sagapart.Begin, Begin: p}, t)
	if err != nil {
		return nil, err
	}
	if err := d.submitted(q, w, res.Of(sagapart.Machine).(*sagapart.State), p.FirstMs); err != nil {
		return nil, err
	}
	return &struct {
		Result   string `json:"dtm_result"`
		Revision int64  `json:"revision"`
	}{wordSuccess, res.Of(entry.MachineKV).(*kvpart.TxnResult).Revision}, nil
}

// proposeBeside carries both parts through the log.
func (d *Door) proposeBeside(q *ask, p *sagapart.Part, t *kvpart.Txn) (*entry.Result, error) {
	part := entry.Part{Machine: sagapart.Machine, Body: sagapart.Append(make([]byte, 0, sizeOf(p)), p)}
	res, err := d.carry(q, func() ([]entry.Part, error) {
		parts, code, text := d.opts.KV(d.bounded(), &q.Caller, t)
		if code != 0 {
			return nil, &failure{code, text}
		}
		// The gid is judged before the compares: where the request is sent again they are mostly false, because it has been done.
		at := 0
		if len(parts) > 0 && parts[0].Machine == entry.MachineIdent {
			at = 1
		}
		return slices.Insert(parts, at, part), nil
	})
	switch {
	case err != nil:
		return nil, err
	case res.Rejection != nil:
		return nil, besideRefused(res.Rejection)
	}
	q.session.Wrote = res
	return res, nil
}

func besideRefused(rej *entry.Rejection) error {
	switch {
	case rej.Machine == sagapart.Machine && rej.Code == sagapart.WrongStatus:
		return failed("the gid exists already, current status '%s', and nothing was written now; if this was sent before, its keys were written with "+
			"that transaction.", rej.Detail)
	case rej.Machine == sagapart.Machine:
		return unknown(rej)
	case rej.Machine == entry.MachineKV && rej.Code == kvpart.CompareFailed:
		return failed("kv: a compare is false, and nothing was written.")
	case rej.Machine == entry.MachineKV && rej.Code == kvpart.LeaseDenied, rej.Machine == entry.MachineIdent:
		return refuse(http.StatusForbidden, "refused: %s", rej.Detail)
	}
	return refuse(http.StatusBadRequest, "kv: refused: %s", rej.Detail)
}
