package main

import (
	"fmt"
	"math"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// txn draws a Txn of a few operations, nested sometimes.
func (d *dice) txn() *pb.TxnRequest {
	if d.rarely(10) {
		return d.longTxn()
	}
	t := d.txnAt(0)
	harmless(t)
	return t
}

func (d *dice) txnAt(depth int) *pb.TxnRequest {
	t := &pb.TxnRequest{}
	for range d.r.IntN(3) {
		t.Compare = append(t.Compare, d.compare())
	}
	readOnly := d.chance(15)
	branch := func() (ops []*pb.RequestOp) {
		for range d.r.IntN(4) {
			ops = append(ops, d.op(depth, readOnly))
		}
		return ops
	}
	t.Success, t.Failure = branch(), branch()
	if readOnly && depth == 0 && d.chance(8) { // only here: what the two make of it must not set them apart for the rest of the script
		if c := d.compare(); d.chance(50) {
			c.Result = one(d, pb.Compare_CompareResult(4), -1, 256)
			t.Compare = append(t.Compare, c)
		} else {
			c.Target = one(d, pb.Compare_CompareTarget(5), -1, 256)
			t.Compare = append(t.Compare, c)
		}
	}
	return t
}

func (d *dice) op(depth int, readOnly bool) *pb.RequestOp {
	k := d.r.IntN(100)
	if readOnly {
		k = 0
	}
	switch {
	case k < 30:
		return &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: d.readRange()}}
	case k < 70:
		return &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: d.put()}}
	case k < 85:
		return &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: d.delete()}}
	case k < 99 && depth < 3:
		return &pb.RequestOp{Request: &pb.RequestOp_RequestTxn{RequestTxn: d.txnAt(depth + 1)}}
	case k < 99:
		return &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: d.put()}}
	}
	return &pb.RequestOp{}
}

func (d *dice) compare() *pb.Compare {
	c := &pb.Compare{Key: d.key(), Result: pb.Compare_CompareResult(d.r.IntN(4)), Target: pb.Compare_CompareTarget(d.r.IntN(5))}
	if d.chance(30) {
		c.RangeEnd = d.end(c.Key)
	}
	operand := c.Target
	if d.chance(4) { // an operand that does not fit
		operand = pb.Compare_CompareTarget(d.r.IntN(6))
	}
	switch operand {
	case pb.Compare_VERSION:
		c.TargetUnion = &pb.Compare_Version{Version: one(d, int64(0), 1, 2, 3, -1)}
	case pb.Compare_CREATE:
		c.TargetUnion = &pb.Compare_CreateRevision{CreateRevision: one(d, 0, d.at(), d.at())}
	case pb.Compare_MOD:
		c.TargetUnion = &pb.Compare_ModRevision{ModRevision: one(d, 0, d.at(), d.at(), math.MaxInt64)}
	case pb.Compare_VALUE:
		c.TargetUnion = &pb.Compare_Value{Value: d.value()}
	case pb.Compare_LEASE:
		id := one(d, 0, 0, d.lease())
		if c.Result == pb.Compare_GREATER || c.Result == pb.Compare_LESS {
			id = one(d, int64(0), 1) // which of two ids that servers chose is the larger one is chance
		}
		c.TargetUnion = &pb.Compare_Lease{Lease: id}
	}
	return c
}

// longTxn draws a Txn about as long, or as deep, as is allowed.
func (d *dice) longTxn() *pb.TxnRequest {
	n := one(d, 13, 40, 127, 128, 129)
	t := &pb.TxnRequest{}
	if d.chance(30) {
		for range min(n, 128) {
			outer := &pb.TxnRequest{Success: []*pb.RequestOp{{Request: &pb.RequestOp_RequestTxn{RequestTxn: t}}}}
			if t.Success == nil && t.Compare == nil {
				outer.Success[0] = &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: d.put()}}
			}
			t = outer
		}
		return t
	}
	for i := range n {
		t.Success = append(t.Success, &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{
			Key: fmt.Appendf(nil, "%sn%03d", d.prefix, i), Value: d.value(), PrevKv: d.chance(10)}}})
	}
	return t
}

// harmless removes from a Txn the operations that end the original. The original checks a Txn for keys written twice, but a delete whose
// range end is "\0" escapes it. Followed by a put of a key so deleted, it panics over a missing previous value (with ignore_value or
// ignore_lease). Otherwise it panics at the next compaction over a lost version. Such a delete becomes one of its first key.
func harmless(t *pb.TxnRequest) {
	puts := map[string]bool{}
	walk(t, func(op *pb.RequestOp) {
		if p := op.GetRequestPut(); p != nil {
			puts[string(p.Key)] = true
		}
	})
	walk(t, func(op *pb.RequestOp) {
		r := op.GetRequestDeleteRange()
		if r == nil || string(r.RangeEnd) != "\x00" {
			return
		}
		for key := range puts {
			if key >= string(r.Key) {
				r.RangeEnd = nil
			}
		}
	})
}

func walk(t *pb.TxnRequest, f func(*pb.RequestOp)) {
	for _, branch := range [][]*pb.RequestOp{t.Success, t.Failure} {
		for _, op := range branch {
			f(op)
			if inner := op.GetRequestTxn(); inner != nil {
				walk(inner, f)
			}
		}
	}
}
