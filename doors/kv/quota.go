package kv

import (
	"context"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/core/node"
	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
)

// The quota is judged here, before a command is proposed, never at Apply. Members may have different quotas and must still come to the same
// state.

const (
	// The overhead that etcd counts for a key and for a lease.
	keyOverhead   = 256
	leaseOverhead = 64
)

func costPut(p *kvpart.Put) int64 { return keyOverhead + int64(len(p.Key)+len(p.Value)) }

// costTxn is the cost of the dearer branch. A Txn without puts costs nothing, so deletes pass a full store.
func costTxn(t *kvpart.Txn) int64 { return max(costOps(t.Then), costOps(t.Else)) }

func costOps(ops []kvpart.Op) (n int64) {
	for i := range ops {
		switch op := &ops[i]; {
		case op.Put != nil:
			n += costPut(op.Put)
		case op.Txn != nil:
			n += costTxn(op.Txn)
		}
	}
	return n
}

// admitChange refuses any change while a CORRUPT alarm stands.
func (d *Door) admitChange() error {
	for _, a := range d.kv.Alarms() {
		if a.Type == kvpart.AlarmCorrupt {
			return rpctypes.ErrGRPCCorrupt
		}
	}
	return nil
}

// admitWrite refuses a change of cost bytes when there is no room for it. It then raises the NOSPACE alarm, which holds for all members
// until it is disarmed.
func (d *Door) admitWrite(ctx context.Context, cost int64) error {
	full := false
	for _, a := range d.kv.Alarms() {
		switch a.Type {
		case kvpart.AlarmCorrupt:
			return rpctypes.ErrGRPCCorrupt
		case kvpart.AlarmNoSpace:
			full = cost > 0
		}
	}
	if full {
		return rpctypes.ErrGRPCNoSpace
	}
	if cost == 0 || d.opts.QuotaBytes < 0 {
		return nil
	}
	if used, _ := d.kv.Size(); used+cost < d.opts.QuotaBytes {
		return nil
	}
	alarm := kvpart.Alarm{On: true, Member: d.node.Status().MemberID, Type: kvpart.AlarmNoSpace}
	body := kvpart.Append(nil, &kvpart.Part{Alarm: &alarm})
	// Whether the alarm could be raised does not change the answer: there is no room. The next write tries again.
	_, _ = d.node.Propose(d.bounded(ctx), node.LaneSystem, entry.Part{Machine: entry.MachineKV, Body: body})
	return rpctypes.ErrGRPCNoSpace
}
