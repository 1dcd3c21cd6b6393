package kv

import (
	"bytes"
	"context"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"

	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/doors/kv/etcderr"
	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
)

type txnCall struct {
	call
	maxOps int
	traits txnTraits
	cost   int64
	reads  *kvpart.Txn // a Txn that only reads, in memory of its own; body is nil then
}

func (c *txnCall) decode(b []byte) error {
	var txn kvpart.Txn
	c.traits.left = max(leastTotal, 3*c.maxOps)
	if err := decodeTxn(b, &txn, &c.traits); err != nil {
		return err
	}
	c.size = len(b)
	if c.traits.tooDeep {
		c.refusal = rpctypes.ErrGRPCTooManyOps
		return nil
	}
	if c.refusal = checkTxn(&txn, c.maxOps); c.refusal != nil {
		return nil
	}
	c.cost = costTxn(&txn)
	if c.traits.writes {
		c.seal(&kvpart.Part{Txn: &txn}, len(b))
		return nil
	}
	c.reads = new(kvpart.Txn)
	c.traits.left = max(leastTotal, 3*c.maxOps)
	return decodeTxn(bytes.Clone(b), c.reads, &c.traits)
}

func handleTxn(srv any, ctx context.Context, dec func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
	d := srv.(*Door)
	c := &txnCall{maxOps: d.opts.MaxTxnOps}
	if err := dec(c); err != nil {
		return nil, err
	}
	if err := d.admit(ctx, false); err != nil {
		return nil, err
	}
	if c.refusal != nil {
		return nil, c.refusal
	}
	if c.reads != nil {
		return d.readTxn(ctx, c)
	}
	if c.size > d.opts.MaxRequestBytes {
		return nil, rpctypes.ErrGRPCRequestTooLarge
	}
	if err := d.admitWrite(ctx, c.cost); err != nil {
		return nil, err
	}
	res, err := d.proposeSealed(ctx, Lane, c.body)
	if err != nil {
		return nil, err
	}
	txn := res.Of(entry.MachineKV).(*kvpart.TxnResult)
	if txn.TooLarge {
		return nil, etcderr.TxnAnswerTooLarge
	}
	return answerTxn(d.header(txn.Revision, res.Term), txn), nil
}

// readTxn answers a Txn that only reads, at one revision and without the log.
func (d *Door) readTxn(ctx context.Context, c *txnCall) (any, error) {
	// A Txn of comparisons only has nothing in it that was asked to be stale. By etcd's rule it counts as serializable all the
	// same, so a client that compares on another member may get an old answer. Here it is linearizable.
	if !c.traits.allSerializable || len(c.reads.Then)+len(c.reads.Else) == 0 {
		if err := d.node.Linearize(d.bounded(ctx)); err != nil {
			return nil, etcderr.Of(err)
		}
	}
	for waited := false; ; {
		a, err := d.users.Access(ctx)
		if err == nil && a != nil {
			_, err = a.MayTxn(c.reads)
		}
		if err != nil {
			return nil, err
		}
		var res *kvpart.TxnResult
		room, err := d.withRoom(ctx, func(maxBytes int64) (err error) {
			res, err = d.kv.Txn(c.reads, maxBytes)
			return err
		}, func() int64 { return int64(answerTxn(header{}, res).size()) })
		if err != nil {
			return nil, err
		}
		if d.users.Stands(a) {
			again, err := d.shownWith(ctx, room, &waited)
			if err != nil {
				return nil, err
			}
			if again {
				continue
			}
			answer := answerTxn(d.header(res.Revision, 0), res)
			answer.room = room
			return answer, nil
		}
		room.giveBack()
	}
}
