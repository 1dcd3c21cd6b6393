package saga

import (
	"net/http"

	"github.com/holdfastdb/holdfast/entry"
	ekv "github.com/holdfastdb/holdfast/entry/kv"
	esaga "github.com/holdfastdb/holdfast/entry/saga"
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
	if r.Mode == esaga.Workflow {
		return nil, refuse(http.StatusBadRequest, "kv: a workflow begins with prepareWorkflow, which takes no change of keys")
	}
	t, err := r.kv.txn()
	if err != nil {
		return nil, refuse(http.StatusBadRequest, "kv: %v", err)
	}
	if d.opts.KV == nil {
		return nil, refuse(http.StatusNotImplemented, "kv: this server has no door to keys (--kv), so none can change beside a transaction")
	}
	p, err := d.begin(r, esaga.Submitted)
	if err != nil {
		return nil, err
	}
	p.Fresh = true
	var w *waiter
	if r.Options.WaitResult {
		w = d.wait(r.Gid)
		defer w.cancel()
	}
	res, err := d.proposeBeside(q, &esaga.Part{Kind: esaga.Begin, Begin: p}, t)
	if err != nil {
		return nil, err
	}
	if err := d.submitted(q, w, res.Of(esaga.Machine).(*esaga.State), p.FirstMs); err != nil {
		return nil, err
	}
	return &struct {
		Result   string `json:"dtm_result"`
		Revision int64  `json:"revision"`
	}{wordSuccess, res.Of(entry.MachineKV).(*ekv.TxnResult).Revision}, nil
}

// proposeBeside carries both parts through the log.
func (d *Door) proposeBeside(q *ask, p *esaga.Part, t *ekv.Txn) (*entry.Result, error) {
	part := entry.Part{Machine: esaga.Machine, Body: esaga.Append(make([]byte, 0, sizeOf(p)), p)}
	for range judgements {
		parts, code, text := d.opts.KV(d.bounded(), &q.Caller, t)
		if code != 0 {
			return nil, &failure{code, text}
		}
		if q.revision != 0 && (len(parts) == 0 || parts[0].Machine != entry.MachineIdent) {
			parts = append([]entry.Part{passOf(q.revision)}, parts...)
		}
		res, err := d.node.Propose(d.bounded(), Lane, append(parts, part)...)
		switch {
		case err != nil:
			return nil, unproposed(err)
		case outdated(res.Rejection):
			if err := d.admit(q); err != nil {
				return nil, err
			}
			continue
		case res.Rejection != nil:
			return nil, besideRefused(res.Rejection)
		}
		q.wrote = res
		return res, nil
	}
	return nil, later("users and roles change too fast to judge this by them")
}

func besideRefused(rej *entry.Rejection) error {
	switch {
	case rej.Machine == esaga.Machine && rej.Code == esaga.WrongStatus:
		return failed("the gid exists already, current status '%s', and nothing was written.", rej.Detail)
	case rej.Machine == esaga.Machine:
		return unknown(rej)
	case rej.Machine == entry.MachineKV && rej.Code == ekv.CompareFailed:
		return failed("kv: a compare is false, and nothing was written.")
	case rej.Machine == entry.MachineKV && rej.Code == ekv.LeaseDenied, rej.Machine == entry.MachineIdent:
		return refuse(http.StatusForbidden, "refused: %s", rej.Detail)
	}
	return refuse(http.StatusBadRequest, "kv: refused: %s", rej.Detail)
}
