package kv

import (
	"bytes"
	"context"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"

	"github.com/holdfastdb/holdfast/door/kv/auth"
	"github.com/holdfastdb/holdfast/door/kv/etcderr"
	"github.com/holdfastdb/holdfast/entry"
	eident "github.com/holdfastdb/holdfast/entry/ident"
	ekv "github.com/holdfastdb/holdfast/entry/kv"
	"github.com/holdfastdb/holdfast/node"
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

// A call is a decoded request on its way into the log. Its decode method runs while the transport's buffer is valid, so it goes
// all the way to the command's bytes: only body outlives it, and then belongs to the log. refusal is what the checks found; it
// is answered by the handler, since decode can only fail as protobuf does.
type call struct {
	body    []byte
	refusal error
	size    int // bytes on the wire
}

func (c *call) base() *call { return c }

// seal encodes the part. room is the size of the request, which the part will not exceed by much.
func (c *call) seal(p *ekv.Part, room int) {
	c.body = ekv.Append(make([]byte, 0, room+24), p)
}

// propose carries a kv part through the log, if the client is permitted it, and returns its result.
func (d *Door) propose(ctx context.Context, lane node.Lane, body []byte) (*entry.Result, error) {
	for {
		a, err := d.users.Access(ctx)
		if err != nil {
			return nil, err
		}
		var res *entry.Result
		if a == nil {
			res, err = d.node.Propose(d.bounded(ctx), lane, entry.Part{Machine: entry.MachineKV, Body: body})
		} else {
			var parts []entry.Part
			if parts, err = a.Permitted(body); err != nil {
				return nil, err
			}
			res, err = d.node.Propose(d.bounded(ctx), lane, parts...)
		}
		switch {
		case err != nil:
			return nil, etcderr.Of(err)
		case auth.Outdated(res.Rejection):
			continue // the catalogue has changed: judge again by the new one
		case res.Rejection != nil:
			return nil, etcderr.Rejected(res.Rejection)
		}
		return res, nil
	}
}

type putCall struct {
	call
	put  ekv.Put
	part ekv.Part
	cost int64
}

var putCalls = sync.Pool{New: func() any { return new(putCall) }}

func (c *putCall) decode(b []byte) error {
	c.put = ekv.Put{}
	if err := decodePut(b, &c.put); err != nil {
		return err
	}
	c.size = len(b)
	c.cost = costPut(&c.put)
	if c.refusal = checkPut(&c.put); c.refusal == nil {
		c.part.Put = &c.put
		c.seal(&c.part, len(b))
	}
	c.put = ekv.Put{} // its slices die with the transport's buffer
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
	res, err := d.propose(ctx, Lane, body)
	if err != nil {
		return nil, err
	}
	put := res.Of(entry.MachineKV).(*ekv.PutResult)
	return &putAnswer{header: d.header(put.Revision, res.Term), prev: put.Prev}, nil
}

// rangeCall keeps a copy of the request, because reading happens after the transport's buffer is gone, and holds the
// answer, which may refer to that copy: the codec gives the call back to the pool once it has encoded it.
type rangeCall struct {
	req          ekv.Range
	serializable bool
	mem          []byte // backs req's slices
	answer       rangeAnswer
	room         *room
}

var rangeCalls = sync.Pool{New: func() any { return new(rangeCall) }}

func (c *rangeCall) recycle() {
	c.req, c.answer.result, c.room = ekv.Range{}, nil, nil
	rangeCalls.Put(c)
}

func (c *rangeCall) decode(b []byte) (err error) {
	c.mem = append(c.mem[:0], b...)
	c.req = ekv.Range{}
	c.serializable, err = decodeRange(c.mem, &c.req, false)
	return err
}

func handleRange(srv any, ctx context.Context, dec func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
	d := srv.(*Door)
	c := rangeCalls.Get().(*rangeCall)
	if err := dec(c); err != nil {
		return nil, err
	}
	if err := d.admit(ctx, c.serializable); err != nil {
		return nil, err
	}
	if err := checkRange(&c.req); err != nil {
		return nil, err
	}
	if !c.serializable {
		if err := d.node.Linearize(d.bounded(ctx)); err != nil {
			return nil, etcderr.Of(err)
		}
	}
	for {
		a, err := d.users.Access(ctx)
		if err == nil {
			err = a.May(eident.Read, c.req.Key, c.req.End)
		}
		if err != nil {
			return nil, err
		}
		var res *ekv.RangeResult
		var revision int64
		room, err := d.withRoom(ctx, func(maxBytes int64) (err error) {
			res, revision, err = d.read(&c.req, maxBytes)
			return err
		}, func() int64 { return kvBytes(res.KVs) })
		if err != nil {
			return nil, err
		}
		if d.users.Stands(a) {
			c.answer, c.room = rangeAnswer{header: d.header(revision, 0), result: res}, room
			return c, nil
		}
		room.giveBack()
	}
}

// read reads a Range's keys, and times it.
func (d *Door) read(r *ekv.Range, maxBytes int64) (*ekv.RangeResult, int64, error) {
	began := time.Now()
	res, revision, err := d.kv.Range(r, maxBytes)
	d.counts.Ranged(began, err == nil)
	return res, revision, err
}

// streamChunkBytes is about how much one RangeStream message holds.
const streamChunkBytes = 256 << 10

func handleRangeStream(srv any, stream grpc.ServerStream) error {
	d := srv.(*Door)
	c := new(rangeCall)
	if err := stream.RecvMsg(c); err != nil {
		return err
	}
	if err := checkRangeStream(&c.req); err != nil {
		return err
	}
	ctx := stream.Context()
	if !c.serializable {
		if err := d.node.Linearize(d.bounded(ctx)); err != nil {
			return etcderr.Of(err)
		}
	}
	if c.req.Target != ekv.SortByKey {
		return d.sortedStream(stream, c)
	}
	// Header, more and count belong on the last chunk only, so each chunk is sent when the next one is there. All are of the
	// revision of the first: once the permission for that one stands, it stands for all.
	//
	// What is held at a time are the chunk that waits, the one that is read and the one that the client has not taken.
	from := client(ctx)
	if err := d.waitForRoom(ctx, from, 3*streamChunkBytes); err != nil {
		return err
	}
	room := d.newRoom(from, 3*streamChunkBytes)
	defer func() { room.giveBack() }()
	var held *ekv.RangeResult
	var revision int64
	for again := true; again; {
		a, err := d.users.Access(ctx)
		if err == nil {
			err = a.May(eident.Read, c.req.Key, c.req.End)
		}
		if err != nil {
			return err
		}
		held, again = nil, false
		err = d.kv.RangeStream(ctx, &c.req, streamChunkBytes, func(chunk *ekv.RangeResult, at int64) error {
			revision = at
			if held == nil && !d.users.Stands(a) {
				again = true
				return errSeenEnough
			}
			if held != nil {
				kvs := ekv.RangeResult{KVs: held.KVs}
				if err := stream.SendMsg(&rangeStreamAnswer{rangeAnswer: rangeAnswer{noHeader: true, result: &kvs}}); err != nil {
					return err
				}
			}
			held = chunk
			return nil
		})
		if err != nil && !again {
			return etcderr.Of(err)
		}
	}
	if held == nil {
		held = &ekv.RangeResult{}
	}
	last := &rangeStreamAnswer{rangeAnswer: rangeAnswer{header: d.header(revision, 0), result: held}}
	if kvBytes(held.KVs) > freeAnswer { // smaller ones need no room
		last.room, room = room, nil // the transport gives it back
	}
	return stream.SendMsg(last)
}

// sortedStream answers a stream that names something to sort by but no order, which a Range takes as ascending. Sorting needs
// all of it at once, so it is one message with a Range's bounds. (etcd sorts within each chunk and then goes on behind the last
// key, which loses keys as soon as there is a second chunk.)
func (d *Door) sortedStream(stream grpc.ServerStream, c *rangeCall) error {
	ctx := stream.Context()
	var res *ekv.RangeResult
	var revision int64
	var room *room
	defer func() { room.giveBack() }()
	err := d.users.Reading(ctx, func(a *auth.Access) error { return a.May(eident.Read, c.req.Key, c.req.End) }, func() (err error) {
		room.giveBack() // of a first attempt, whose permissions have changed since
		room, err = d.withRoom(ctx, func(maxBytes int64) (err error) {
			res, revision, err = d.read(&c.req, maxBytes)
			return err
		}, func() int64 { return kvBytes(res.KVs) })
		return err
	}, nil)
	if err != nil {
		return err
	}
	answer := &rangeStreamAnswer{rangeAnswer: rangeAnswer{header: d.header(revision, 0), result: res}, room: room}
	room = nil // the transport gives it back
	return stream.SendMsg(answer)
}

type deleteCall struct{ call }

func (c *deleteCall) decode(b []byte) error {
	var del ekv.DeleteRange
	if err := decodeDelete(b, &del); err != nil {
		return err
	}
	c.size = len(b)
	if c.refusal = checkDelete(&del); c.refusal == nil {
		c.seal(&ekv.Part{Delete: &del}, len(b))
	}
	return nil
}

func handleDelete(srv any, ctx context.Context, dec func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
	d := srv.(*Door)
	c := new(deleteCall)
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
	res, err := d.propose(ctx, node.LaneSystem, c.body)
	if err != nil {
		return nil, err
	}
	del := res.Of(entry.MachineKV).(*ekv.DeleteResult)
	return &deleteAnswer{header: d.header(del.Revision, res.Term), result: del}, nil
}

type txnCall struct {
	call
	maxOps int
	traits txnTraits
	cost   int64
	reads  *ekv.Txn // a Txn that only reads, in memory of its own; body is nil then
}

func (c *txnCall) decode(b []byte) error {
	var txn ekv.Txn
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
		c.seal(&ekv.Part{Txn: &txn}, len(b))
		return nil
	}
	c.reads = new(ekv.Txn)
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
	res, err := d.propose(ctx, Lane, c.body)
	if err != nil {
		return nil, err
	}
	txn := res.Of(entry.MachineKV).(*ekv.TxnResult)
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
	for {
		a, err := d.users.Access(ctx)
		if err == nil && a != nil {
			_, err = a.MayTxn(c.reads)
		}
		if err != nil {
			return nil, err
		}
		var res *ekv.TxnResult
		room, err := d.withRoom(ctx, func(maxBytes int64) (err error) {
			res, err = d.kv.Txn(c.reads, maxBytes)
			return err
		}, func() int64 { return int64(answerTxn(header{}, res).size()) })
		if err != nil {
			return nil, err
		}
		if d.users.Stands(a) {
			answer := answerTxn(d.header(res.Revision, 0), res)
			answer.room = room
			return answer, nil
		}
		room.giveBack()
	}
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
	// What is compacted cannot be read once the command is applied; the entries that follow free its space piece by piece,
	// without being asked.
	body := ekv.Append(nil, &ekv.Part{Compact: &ekv.Compact{Revision: req.Revision}})
	res, err := d.propose(ctx, node.LaneSystem, body)
	if err != nil {
		return nil, err
	}
	if req.Physical {
		if err := d.scrubbed(ctx, req.Revision); err != nil {
			return nil, err
		}
	}
	return &pb.CompactionResponse{Header: d.pbHeader(res.Of(entry.MachineKV).(*ekv.CompactResult).Revision)}, nil
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
