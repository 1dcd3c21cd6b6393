package kv

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc"

	eident "github.com/holdfastdb/holdfast/core/entry/ident"
	"github.com/holdfastdb/holdfast/doors/kv/auth"
	"github.com/holdfastdb/holdfast/doors/kv/etcderr"
	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
)

// rangeCall keeps a copy of the request, because the transport's buffer is freed before the read. It also holds the answer, which may refer
// to that copy. The codec gives the call back to the pool once it has encoded it.
type rangeCall struct {
	req          kvpart.Range
	serializable bool
	mem          []byte // backs req's slices
	answer       rangeAnswer
	room         *room
}

var rangeCalls = sync.Pool{New: func() any { return new(rangeCall) }}

func (c *rangeCall) recycle() {
	c.req, c.answer.result, c.room = kvpart.Range{}, nil, nil
	rangeCalls.Put(c)
}

func (c *rangeCall) decode(b []byte) (err error) {
	c.mem = append(c.mem[:0], b...)
	c.req = kvpart.Range{}
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
	for waited := false; ; {
		a, err := d.users.Access(ctx)
		if err == nil {
			err = a.May(eident.Read, c.req.Key, c.req.End)
		}
		if err != nil {
			return nil, err
		}
		var res *kvpart.RangeResult
		var revision int64
		room, err := d.withRoom(ctx, func(maxBytes int64) (err error) {
			res, revision, err = d.read(&c.req, maxBytes)
			return err
		}, func() int64 { return kvBytes(res.KVs) })
		if err != nil {
			return nil, err
		}
		if d.users.Stands(a) {
			if c.serializable {
				if archived, ok := d.archivedAlready(ctx, &c.req, revision); ok {
					c.answer, c.room = rangeAnswer{header: d.header(archived, 0), result: res}, room
					return c, nil
				}
			}
			again, err := d.shownWith(ctx, room, &waited)
			if err != nil {
				return nil, err
			}
			if again {
				continue
			}
			c.answer, c.room = rangeAnswer{header: d.header(revision, 0), result: res}, room
			return c, nil
		}
		room.giveBack()
	}
}

// read reads a Range's keys, and times it.
func (d *Door) read(r *kvpart.Range, maxBytes int64) (*kvpart.RangeResult, int64, error) {
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
	if err := d.shown(ctx); err != nil { // before it holds room; each chunk waits too, for entries added meanwhile
		return err
	}
	if c.req.Target != kvpart.SortByKey {
		return d.sortedStream(stream, c)
	}
	// Header, more and count belong on the last chunk only, so each chunk is sent when the next one is there. All are of the revision of
	// the first: once the permission for that one stands, it stands for all.
	//
	// At most three chunks are held: the waiting one, the one being read, and the one that the client has not taken.
	from := client(ctx)
	if err := d.waitForRoom(ctx, d.bounded(ctx), from, 3*streamChunkBytes); err != nil {
		return err
	}
	room := d.newRoom(from, 3*streamChunkBytes)
	defer func() { room.giveBack() }()
	var held *kvpart.RangeResult
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
		err = d.kv.RangeStream(ctx, &c.req, streamChunkBytes, func(chunk *kvpart.RangeResult, at int64) error {
			revision = at
			if held == nil && !d.users.Stands(a) {
				again = true
				return errSeenEnough
			}
			if held != nil {
				kvs := kvpart.RangeResult{KVs: held.KVs}
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
		held = &kvpart.RangeResult{}
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
	var res *kvpart.RangeResult
	var revision int64
	var room *room
	defer func() { room.giveBack() }()
	err := d.users.Reading(ctx, func(a *auth.Access) error { return a.May(eident.Read, c.req.Key, c.req.End) }, func() (err error) {
		room.giveBack() // of a first attempt; its permissions have changed since
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
