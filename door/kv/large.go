package kv

import (
	"context"
	"errors"
	"runtime"
	"sync"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	mkv "github.com/holdfastdb/holdfast/machine/kv"
)

const (
	// smallAnswer is what any read may hold without asking. Most read far less.
	smallAnswer = 1 << 20
	// largeAnswers is how many reads may hold up to MaxResultBytes each at a time. The others wait, since what one such
	// answer takes is not known before it is read.
	largeAnswers = 2
)

// room is the right to hold one large answer. It is given back when the transport has let go of the encoded bytes, which
// a slow client can delay for long; until then they are in memory.
type room struct{ held *holding }

// holding is apart from room so that the collector can find room unused and still give it back.
type holding struct {
	once  sync.Once
	slots chan struct{}
}

func (h *holding) release() { h.once.Do(func() { <-h.slots }) }

// giveBack gives up an answer that is not sent after all; nil held no room.
func (r *room) giveBack() {
	if r != nil {
		r.held.release()
	}
}

// withRoom runs read with the budget of a small answer and, should that not do, once more with the full budget when there
// is room for it. The room, nil for a small answer, goes with the answer to marshal.
func (d *Door) withRoom(ctx context.Context, read func(maxBytes int64) error) (*room, error) {
	err := read(min(smallAnswer, d.opts.MaxResultBytes))
	if !errors.Is(err, mkv.ErrTooLarge) || d.opts.MaxResultBytes <= smallAnswer {
		return nil, grpcError(err)
	}
	bound := d.bounded(ctx)
	select {
	case d.large <- struct{}{}:
	case <-bound.Done():
		return nil, rpctypes.ErrGRPCRequestTooManyRequests
	case <-ctx.Done():
		return nil, grpcError(ctx.Err())
	}
	r := &room{held: &holding{slots: d.large}}
	if err := read(d.opts.MaxResultBytes); err != nil {
		r.held.release()
		return nil, grpcError(err)
	}
	// The transport frees what it sends or drops. Should it ever forget a buffer, the collector will find the room.
	runtime.AddCleanup(r, (*holding).release, r.held)
	return r, nil
}

// Get and Put make room the pool of the one buffer the transport will free.
func (r *room) Get(n int) *[]byte {
	b := make([]byte, n)
	return &b
}

func (r *room) Put(*[]byte) { r.held.release() }
