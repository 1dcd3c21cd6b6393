package kv

import (
	"context"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"

	"github.com/holdfastdb/holdfast/core/entry"
	eident "github.com/holdfastdb/holdfast/core/entry/ident"
	"github.com/holdfastdb/holdfast/core/node"
	"github.com/holdfastdb/holdfast/doors/kv/etcderr"
	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
	"github.com/holdfastdb/holdfast/serve/port"
)

// kvService is etcdserverpb.KV with requests and answers of our own instead of the generated ones.
var kvService = grpc.ServiceDesc{
	ServiceName: pb.KV_ServiceDesc.ServiceName,
	HandlerType: (*any)(nil),
	Methods: []grpc.MethodDesc{
		{MethodName: "Range", Handler: handleRange},
		{MethodName: "Put", Handler: handlePut},
		{MethodName: "DeleteRange", Handler: handleDelete},
		{MethodName: "Txn", Handler: handleTxn},
		{MethodName: "Compact", Handler: handleCompact},
	},
	Streams:  []grpc.StreamDesc{{StreamName: "RangeStream", Handler: handleRangeStream, ServerStreams: true}},
	Metadata: pb.KV_ServiceDesc.Metadata,
}

// A call is a decoded request on its way into the log. Its decode method runs while the transport's buffer is valid, so it goes all the way
// to the command's bytes. Only body outlives it, and then belongs to the log. refusal is the result of the checks. The handler answers it,
// since decode can only fail as protobuf does.
type call struct {
	body    []byte
	refusal error
	size    int // bytes on the wire
}

func (c *call) base() *call { return c }

// seal encodes the part. room is the size of the request, which the part will not exceed by much.
func (c *call) seal(p *kvpart.Part, room int) {
	c.body = kvpart.Seal(p, room+24)
}

// propose carries a kv part through the log, if the client is permitted it, and returns its result.
func (d *Door) propose(ctx context.Context, lane node.Lane, part *kvpart.Part) (*entry.Result, error) {
	return d.carry(ctx, lane, part, kvpart.Append(nil, part))
}

// proposeSealed is propose for a request of which only the encoded part is left: the struct was in the transport's memory, which is gone. A
// copy of every request would cost the clients of servers without users. With users, the part is decoded to be judged.
func (d *Door) proposeSealed(ctx context.Context, lane node.Lane, body []byte) (*entry.Result, error) {
	return d.carry(ctx, lane, nil, body)
}

// carry proposes body, and again as often as the catalogue of users changes meanwhile. part is what body encodes; nil: it is decoded once it
// has to be judged.
func (d *Door) carry(ctx context.Context, lane node.Lane, part *kvpart.Part, body []byte) (*entry.Result, error) {
	bound := d.bounded(ctx)
	for {
		a, err := d.users.Access(ctx)
		if err != nil {
			return nil, err
		}
		var res *entry.Result
		if a == nil {
			res, err = d.node.Propose(bound, lane, entry.Part{Machine: entry.MachineKV, Body: body})
		} else {
			if part == nil {
				if part, err = kvpart.Decode(body); err != nil {
					return nil, etcderr.Malformed // cannot be: the door has encoded it itself
				}
			}
			var parts []entry.Part
			if parts, err = a.Permitted(part, body); err != nil {
				return nil, err
			}
			res, err = d.node.Propose(bound, lane, parts...)
		}
		switch {
		case err != nil:
			return nil, etcderr.Of(err)
		case eident.Outdated(res.Rejection):
			continue // the catalogue has changed: judge again by the new one
		}
		err = d.written(ctx, bound, res)
		switch {
		case err != nil:
			return nil, err
		case res.Rejection != nil:
			return nil, etcderr.Rejected(res.Rejection)
		}
		return res, nil
	}
}

type putCall struct {
	call
	put  kvpart.Put
	part kvpart.Part
	cost int64
}

var putCalls = sync.Pool{New: func() any { return new(putCall) }}

// decodeInto is decode for a message that came in several pieces. It assembles them where the part will be, with the value in its place,
// which saves a copy.
func (c *putCall) decodeInto(pieces mem.BufferSlice) error {
	n := pieces.Len()
	buf, b := kvpart.RoomForPut(n)
	pieces.CopyTo(b)
	if port.TurnedAway(b) {
		c.refusal = errTurnedAway
		return nil
	}
	c.put = kvpart.Put{}
	if err := decodePut(b, &c.put); err != nil {
		return err
	}
	c.size = n
	c.cost = costPut(&c.put)
	if c.refusal = checkPut(&c.put); c.refusal == nil {
		c.body = kvpart.PutInPlace(buf, &c.put)
	}
	c.put = kvpart.Put{}
	return nil
}

func (c *putCall) decode(b []byte) error {
	c.put = kvpart.Put{}
	if err := decodePut(b, &c.put); err != nil {
		return err
	}
	c.size = len(b)
	c.cost = costPut(&c.put)
	if c.refusal = checkPut(&c.put); c.refusal == nil {
		c.part.Put = &c.put
		c.seal(&c.part, len(b))
	}
	c.put = kvpart.Put{} // its slices die with the transport's buffer
	return nil
}

func handlePut(srv any, ctx context.Context, dec func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
	d := srv.(*Door)
	c := putCalls.Get().(*putCall)
	if err := dec(c); err != nil {
		return nil, err
	}
	body, refusal, size, cost := c.body, c.refusal, c.size, c.cost
	c.call = call{}
	putCalls.Put(c)
	if err := d.admit(ctx, false); err != nil {
		return nil, err
	}
	if refusal != nil {
		return nil, refusal
	}
	if size > d.opts.MaxRequestBytes {
		return nil, rpctypes.ErrGRPCRequestTooLarge
	}
	if err := d.admitWrite(ctx, cost); err != nil {
		return nil, err
	}
	res, err := d.proposeSealed(ctx, Lane, body)
	if err != nil {
		return nil, err
	}
	put := res.Of(entry.MachineKV).(*kvpart.PutResult)
	return &putAnswer{header: d.header(put.Revision, res.Term), prev: put.Prev}, nil
}

type deleteCall struct {
	call
	byRange bool // the cluster's level allows it
}

func (c *deleteCall) decode(b []byte) error {
	var del kvpart.DeleteRange
	if err := decodeDelete(b, &del); err != nil {
		return err
	}
	c.size = len(b)
	del.ByRange = c.byRange && len(del.End) > 0 && !del.PrevKV
	if c.refusal = checkDelete(&del); c.refusal == nil {
		c.seal(&kvpart.Part{Delete: &del}, len(b))
	}
	return nil
}

func handleDelete(srv any, ctx context.Context, dec func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
	d := srv.(*Door)
	c := &deleteCall{byRange: d.node.ClusterLevel() >= kvpart.ByRangeLevel}
	if err := dec(c); err != nil {
		return nil, err
	}
	if err := d.admit(ctx, false); err != nil {
		return nil, err
	}
	if c.refusal != nil {
		return nil, c.refusal
	}
	if c.size > d.opts.MaxRequestBytes {
		return nil, rpctypes.ErrGRPCRequestTooLarge
	}
	if err := d.admitChange(); err != nil {
		return nil, err
	}
	res, err := d.proposeSealed(ctx, node.LaneSystem, c.body)
	if err != nil {
		return nil, err
	}
	del := res.Of(entry.MachineKV).(*kvpart.DeleteResult)
	return &deleteAnswer{header: d.header(del.Revision, res.Term), result: del}, nil
}

func handleCompact(srv any, ctx context.Context, dec func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
	d := srv.(*Door)
	var req pb.CompactionRequest
	if err := dec(&req); err != nil {
		return nil, err
	}
	if err := d.admit(ctx, false); err != nil {
		return nil, err
	}
	if err := d.admitChange(); err != nil {
		return nil, err
	}
	// Compacted revisions cannot be read once the command is applied; later entries free their space piece by piece.
	res, err := d.propose(ctx, node.LaneSystem, &kvpart.Part{Compact: &kvpart.Compact{Revision: req.Revision}})
	if err != nil {
		return nil, err
	}
	if req.Physical {
		if err := d.scrubbed(ctx, req.Revision); err != nil {
			return nil, err
		}
	}
	return &pb.CompactionResponse{Header: d.pbHeader(res.Of(entry.MachineKV).(*kvpart.CompactResult).Revision)}, nil
}

// scrubbed waits until the history below a compaction at rev is gone from this member's state. The store gives its bytes back
// with its own next compaction, as etcd does with the next defragmentation. It polls, because this is asked for once an hour at
// most.
func (d *Door) scrubbed(ctx context.Context, rev int64) error {
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for d.kv.Scrubbed() < rev {
		select {
		case <-look.C:
		case <-ctx.Done():
			return rpctypes.ErrGRPCTimeout
		case <-d.stopping:
			return rpctypes.ErrGRPCStopped
		}
	}
	return nil
}
