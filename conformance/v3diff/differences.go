package main

import (
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
)

// difference is something Holdfast answers otherwise on purpose, or that the original does not answer the same twice.
type difference struct {
	name, why string
	// covers reports whether it explains two answers to a request; nil if it is dealt with where it is met, or not drawn at all.
	covers func(req proto.Message, etcd, ours *answer) bool
}

// differences is the whole list. Any other difference is a bug of Holdfast.
var differences = []difference{
	{
		name: "unknown-compare",
		why: "a compare whose result or target is no value of the protocol: etcd counts the first as true and compares nothing with the " +
			"second; a condition nobody understands is no licence to write, so it is refused",
		covers: func(req proto.Message, _, ours *answer) bool {
			return ours.code == codes.InvalidArgument && strings.Contains(ours.text, "compare with an unknown result or target") && oddCompare(req)
		},
	},
	{
		name: "malformed",
		why: "bytes that are no message have the same code and beginning of a text; what follows is the words of the protobuf library, " +
			"which change from build to build by design, or of a decoder of ours",
		covers: func(_ proto.Message, etcd, ours *answer) bool {
			const begin = "Internal: grpc: error unmarshalling request: "
			return strings.HasPrefix(etcd.text, begin) && strings.HasPrefix(ours.text, begin)
		},
	},
	{
		name: "sorted-stream",
		why: "RangeStream with something to sort by but no order: etcd sorts each chunk of ten keys by itself and goes on behind the last " +
			"key of it, so that keys are lost or come twice, and counts what lies behind that one; here the whole answer is sorted",
		covers: func(req proto.Message, _, ours *answer) bool {
			r, ok := req.(*pb.RangeRequest)
			res, isRange := ours.message.(*pb.RangeResponse)
			return ok && isRange && r.SortTarget != pb.RangeRequest_KEY && (len(res.Kvs) > 10 || res.More)
		},
	},
	{
		name: "order-of-equals",
		why: "more than a dozen keys sorted by something in which some are equal: etcd's sort leaves equals in an order of its own, and a " +
			"limit then cuts off any of them; here equals stay in the order of their keys",
		covers: untied,
	},
	{
		name: "forgotten-watch",
		why: "a watch that a compaction has ended is forgotten: its id may be used again, cancelling it has no answer, and progress is " +
			"reported for the rest of the stream; etcd does neither until the client has cancelled it, so the script does that for etcd",
	},
	{
		name: "leader-key-without-a-lease",
		why: "a Proclaim or Resign whose leader key names no lease: etcd makes a lease for it, which nobody hears of and which lasts a minute, " +
			"and gives the key to that; here the key has no lease, as it says; it is not drawn",
	},
	{
		name: "fatal-txn",
		why: "a Txn that deletes from a key on (range end \\0) and puts one of those keys gets past etcd's check for keys written twice and " +
			"ends it, at once or after the next compaction; it is not drawn",
	},
}

// oddCompare reports whether a request compares with something that is not in the protocol.
func oddCompare(req proto.Message) bool {
	t, ok := req.(*pb.TxnRequest)
	if !ok {
		return false
	}
	odd := func(t *pb.TxnRequest) bool {
		for _, c := range t.Compare {
			if pb.Compare_CompareResult_name[int32(c.Result)] == "" || pb.Compare_CompareTarget_name[int32(c.Target)] == "" {
				return true
			}
		}
		return false
	}
	found := odd(t)
	walk(t, func(op *pb.RequestOp) {
		if inner := op.GetRequestTxn(); inner != nil {
			found = found || odd(inner)
		}
	})
	return found
}
