package crash

import (
	"context"
	"math"
	"math/rand/v2"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
)

// generator draws v3 requests with a taste for edges: empty and \0 keys, open and inverted ranges, past, compacted and future revisions. It
// also draws invalid enum values, nested Txns that write a key twice, and leases that were never granted. It keeps no model: every answer
// is right here as long as there is one.
type generator struct {
	r    *rand.Rand
	seen int64 // a revision the server has shown, to aim near it
	last int64 // a lease id it has shown
}

var edgeKeys = []string{"", "\x00", "\x00\x00", "a", "a\x00", "b", "b/", "b/0", "b/1", "b/2", "b/3", "b/3\x00", "b/4", "b0", "c", "\x7f", "\xff", "\xff\xff", "\xff\xff\xff"}

func (g *generator) key() []byte {
	switch g.r.IntN(20) {
	case 0:
		return []byte(strings.Repeat("k", 1+g.r.IntN(2000)))
	case 1:
		return nil
	case 2, 3, 4, 5, 6, 7, 8, 9:
		return []byte{'b', '/', byte('0' + g.r.IntN(10))}
	}
	return []byte(edgeKeys[g.r.IntN(len(edgeKeys))])
}

func (g *generator) end(key []byte) []byte {
	switch g.r.IntN(8) {
	case 0:
		return []byte{0} // everything from key on
	case 1:
		return key // empty range
	case 2: // prefix
		end := append([]byte(nil), key...)
		for i := len(end) - 1; i >= 0; i-- {
			if end[i] < 0xff {
				end[i]++
				return end[:i+1]
			}
		}
		return []byte{0}
	case 3:
		return g.key()
	}
	return nil
}

func (g *generator) number(near int64) int64 {
	switch g.r.IntN(10) {
	case 0:
		return -1
	case 1:
		return math.MaxInt64
	case 2:
		return math.MinInt64
	case 3, 4:
		return near - g.r.Int64N(200)
	case 5:
		return near + g.r.Int64N(3)
	case 6:
		return 1 + g.r.Int64N(10)
	}
	return 0
}

func (g *generator) value() []byte {
	switch g.r.IntN(40) {
	case 0:
		return nil
	case 1:
		return make([]byte, g.r.IntN(20_000))
	}
	return []byte{byte('a' + g.r.IntN(3)), byte(g.r.Uint32())}
}

func (g *generator) lease() int64 {
	switch g.r.IntN(12) {
	case 0:
		return g.number(g.last)
	case 1, 2:
		return g.last
	case 3:
		return 1 + g.r.Int64N(20)
	}
	return 0
}

// rangeRequest reads at most a few keys of the key space, which stays small.
func (g *generator) rangeRequest() *pb.RangeRequest {
	key := g.key()
	q := &pb.RangeRequest{Key: key, RangeEnd: g.end(key), Serializable: g.r.IntN(3) == 0, KeysOnly: g.r.IntN(8) == 0, CountOnly: g.r.IntN(8) == 0}
	if g.r.IntN(3) == 0 {
		q.Limit = g.number(3)
	}
	if g.r.IntN(3) == 0 {
		q.Revision = g.number(g.seen)
	}
	if g.r.IntN(3) == 0 {
		q.SortOrder = pb.RangeRequest_SortOrder(g.r.IntN(5) - 1)
		q.SortTarget = pb.RangeRequest_SortTarget(g.r.IntN(7) - 1)
	}
	if g.r.IntN(6) == 0 {
		q.MinModRevision, q.MaxModRevision = g.number(g.seen), g.number(g.seen)
		q.MinCreateRevision, q.MaxCreateRevision = g.number(g.seen), g.number(g.seen)
	}
	return q
}

func (g *generator) put() *pb.PutRequest {
	q := &pb.PutRequest{Key: g.key(), Value: g.value(), Lease: g.lease(), PrevKv: g.r.IntN(4) == 0}
	if g.r.IntN(8) == 0 {
		q.IgnoreValue = true
		if g.r.IntN(3) > 0 {
			q.Value = nil
		}
	}
	if g.r.IntN(8) == 0 {
		q.IgnoreLease = true
		if g.r.IntN(3) > 0 {
			q.Lease = 0
		}
	}
	return q
}

func (g *generator) deleteRange() *pb.DeleteRangeRequest {
	key := g.key()
	return &pb.DeleteRangeRequest{Key: key, RangeEnd: g.end(key), PrevKv: g.r.IntN(4) == 0}
}

func (g *generator) compare() *pb.Compare {
	c := &pb.Compare{Key: g.key(), Result: pb.Compare_CompareResult(g.r.IntN(6) - 1), Target: pb.Compare_CompareTarget(g.r.IntN(7) - 1)}
	if g.r.IntN(3) == 0 {
		c.RangeEnd = g.end(c.Key)
	}
	// The operand fits the target most of the time.
	kind := int(c.Target)
	if g.r.IntN(10) == 0 {
		kind = g.r.IntN(6)
	}
	switch kind {
	case 0:
		c.TargetUnion = &pb.Compare_Version{Version: g.number(1)}
	case 1:
		c.TargetUnion = &pb.Compare_CreateRevision{CreateRevision: g.number(g.seen)}
	case 2:
		c.TargetUnion = &pb.Compare_ModRevision{ModRevision: g.number(g.seen)}
	case 3:
		c.TargetUnion = &pb.Compare_Value{Value: g.value()}
	case 4:
		c.TargetUnion = &pb.Compare_Lease{Lease: g.lease()}
	}
	return c
}

func (g *generator) txn(depth int) *pb.TxnRequest {
	q := &pb.TxnRequest{}
	for range g.r.IntN(3) {
		q.Compare = append(q.Compare, g.compare())
	}
	n := 1 + g.r.IntN(4)
	if g.r.IntN(60) == 0 {
		n = 120 + g.r.IntN(20) // on both sides of max-txn-ops
	}
	for range g.r.IntN(n + 1) {
		q.Success = append(q.Success, g.op(depth))
	}
	for range g.r.IntN(4) {
		q.Failure = append(q.Failure, g.op(depth))
	}
	return q
}

func (g *generator) op(depth int) *pb.RequestOp {
	switch k := g.r.IntN(20); {
	case k == 0:
		return &pb.RequestOp{}
	case k < 4 && depth > 0:
		return &pb.RequestOp{Request: &pb.RequestOp_RequestTxn{RequestTxn: g.txn(depth - 1)}}
	case k < 9:
		return &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: g.rangeRequest()}}
	case k < 13:
		return &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: g.deleteRange()}}
	}
	return &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: g.put()}}
}

// send draws one request and sends it. It returns the answer's error and what was asked.
func (g *generator) send(ctx context.Context, cc *grpc.ClientConn) (what string, request any, err error) {
	kv, lease := pb.NewKVClient(cc), pb.NewLeaseClient(cc)
	switch k := g.r.IntN(100); {
	case k < 30:
		q := g.put()
		res, err := kv.Put(ctx, q)
		g.header(res.GetHeader())
		return "put", q, err
	case k < 50:
		q := g.rangeRequest()
		res, err := kv.Range(ctx, q)
		g.header(res.GetHeader())
		return "range", q, err
	case k < 60:
		q := g.deleteRange()
		res, err := kv.DeleteRange(ctx, q)
		g.header(res.GetHeader())
		return "delete", q, err
	case k < 85:
		q := g.txn(3)
		res, err := kv.Txn(ctx, q)
		g.header(res.GetHeader())
		return "txn", q, err
	case k < 88:
		q := &pb.LeaseGrantRequest{ID: g.lease(), TTL: g.number(5)}
		if g.r.IntN(2) == 0 {
			q.TTL = 1 + g.r.Int64N(4) // some run out while the test runs
		}
		res, err := lease.LeaseGrant(ctx, q)
		if err == nil {
			g.last = res.ID
		}
		return "grant", q, err
	case k < 90:
		q := &pb.LeaseRevokeRequest{ID: g.lease()}
		_, err := lease.LeaseRevoke(ctx, q)
		return "revoke", q, err
	case k < 92:
		q := &pb.LeaseTimeToLiveRequest{ID: g.lease(), Keys: g.r.IntN(2) == 0}
		_, err := lease.LeaseTimeToLive(ctx, q)
		return "ttl", q, err
	case k < 94:
		q := &pb.LeaseKeepAliveRequest{ID: g.lease()}
		return "keepalive", q, keepAlive(ctx, lease, q)
	case k < 95:
		q := &pb.LeaseLeasesRequest{}
		_, err := lease.LeaseLeases(ctx, q)
		return "leases", q, err
	case k < 97:
		q := &pb.CompactionRequest{Revision: g.seen - g.r.Int64N(500), Physical: g.r.IntN(4) == 0}
		if g.r.IntN(3) == 0 {
			q.Revision = g.number(g.seen)
		}
		_, err := kv.Compact(ctx, q)
		return "compact", q, err
	case k < 98:
		q := &pb.HashKVRequest{Revision: g.number(g.seen)}
		_, err := pb.NewMaintenanceClient(cc).HashKV(ctx, q)
		return "hashkv", q, err
	case k < 99:
		q := &pb.TxnRequest{}
		if g.r.IntN(2) == 0 {
			q = deletedThenIgnored()
		}
		_, err := kv.Txn(ctx, q)
		return "txn", q, err
	}
	q := g.rangeRequest()
	return "rangestream", q, drain(ctx, kv, q)
}

func (g *generator) header(h *pb.ResponseHeader) {
	if h != nil && h.Revision > 0 {
		g.seen = h.Revision
	}
}

func keepAlive(ctx context.Context, lease pb.LeaseClient, q *pb.LeaseKeepAliveRequest) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := lease.LeaseKeepAlive(ctx)
	if err == nil {
		err = stream.Send(q)
	}
	if err == nil {
		_, err = stream.Recv()
	}
	return err
}

// drain reads a whole RangeStream and forgets it.
func drain(ctx context.Context, kv pb.KVClient, q *pb.RangeRequest) error {
	_, _, err := streamed(ctx, kv, q)
	return err
}

// deletedThenIgnored is the Txn that stops etcd 3.7.3 for good: the delete takes the key whose value the put would keep.
func deletedThenIgnored() *pb.TxnRequest {
	return &pb.TxnRequest{Success: []*pb.RequestOp{
		{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: &pb.DeleteRangeRequest{Key: []byte("b"), RangeEnd: []byte{0}}}},
		{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: []byte("b/3"), IgnoreValue: true}}},
	}}
}
