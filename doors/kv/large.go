package kv

import (
	"context"
	"errors"
	"runtime"
	"strconv"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/holdfastdb/holdfast/doors/kv/etcderr"
	"github.com/holdfastdb/holdfast/doors/kv/gateway"
	kvmachine "github.com/holdfastdb/holdfast/doors/kv/machine"
	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
	"github.com/holdfastdb/holdfast/serve/port"
)

const (
	// freeAnswer is the uncounted size of an answer: most are far smaller, and an open call counts for as much.
	freeAnswer = 4 << 10
	// crowdedAnswer is what any read may hold while it is made, even when answers have no room.
	crowdedAnswer = 64 << 10
	// smallAnswer is the room taken for a read before its size is known. Most read far less.
	smallAnswer = 1 << 20
	// largeAnswers is how many reads may make an answer of more than smallAnswer at a time. Clients that take their answers slowly do not count
	// here.
	largeAnswers = 2
)

// room is the right to hold an answer. It is given back when the transport has released the encoded bytes, which a slow client can delay
// for long. Until then they are in memory.
type room struct{ held *holding }

// holding is a separate object so that the cleanup of an unreachable room can still release it.
type holding struct {
	once  sync.Once
	port  *port.Port
	from  *port.From // nil: a call from this process
	bytes int64
	line  *line // nil: no waiter to wake
}

func (h *holding) release() {
	h.once.Do(func() {
		h.port.AnswerSent(h.from, h.bytes)
		if h.line != nil {
			h.line.came()
		}
	})
}

// giveBack gives up an answer that is not sent after all; nil held no room.
func (r *room) giveBack() {
	if r != nil {
		r.held.release()
	}
}

// newRoom makes a room of bytes that were taken.
func (d *Door) newRoom(from *port.From, n int64) *room {
	r := &room{held: &holding{port: d.port, from: from, bytes: n, line: &d.line}}
	// The transport frees what it sends or drops. Should it ever forget a buffer, the garbage collector gives the room back.
	runtime.AddCleanup(r, (*holding).release, r.held)
	return r
}

// fit gives back what of taken an answer of n bytes does not need, and returns the room for the rest; nil: none is needed.
func (d *Door) fit(from *port.From, taken, n int64) *room {
	if n <= freeAnswer {
		d.port.AnswerGone(from, taken)
		return nil
	}
	n = min(n, taken)
	if from.Asks() {
		n = min(2*n, taken) // it becomes JSON, half as long again, with a copy of that for a while
	}
	d.port.AnswerGone(from, taken-n)
	return d.newRoom(from, n)
}

// waitForRoom takes n bytes for an answer as soon as they are there, unless bound or ctx end before. Large answers get theirs in turn; a small one
// does not wait behind them.
func (d *Door) waitForRoom(ctx, bound context.Context, from *port.From, n int64) error {
	large := n > smallAnswer
	if (!large || d.line.empty()) && d.port.TakeAnswer(from, n) {
		return nil
	}
	var turn chan struct{}
	may := func() bool { return true }
	if large {
		p := d.line.enter(from)
		defer d.line.leave(p)
		turn, may = p.turn, func() bool { return d.line.may(p) }
	}
	again := time.NewTicker(roomInterval) // room may come without a word: from an HTTP client, or a connection that is closed
	defer again.Stop()
	for {
		if may() && d.port.TakeAnswer(from, n) {
			return nil
		}
		select {
		case <-turn:
		case <-again.C:
		case <-bound.Done():
			return noRoom(ctx)
		case <-ctx.Done():
			return noRoom(ctx)
		}
	}
}

// noRoom is the error of a read that waited for room in vain. If the client's own deadline ended the wait (it ends both contexts), that is
// the error. A client that gave up by itself does not expect "too many requests".
func noRoom(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return etcderr.Of(err)
	}
	return rpctypes.ErrGRPCRequestTooManyRequests
}

// roomInterval is between two looks for room.
const roomInterval = 5 * time.Millisecond

// account is the one an answer is drawn from: of the connection a call came on or, of the gateway's calls, of the HTTP client's.
func (d *Door) account(ctx context.Context) *port.From {
	if from := client(ctx); from != nil {
		return from
	}
	if n, ok := asker(ctx); ok {
		return d.port.Asker(n)
	}
	return nil
}

// asker is the number of the HTTP request that the gateway makes a call for; false: it is no call of the gateway's.
func asker(ctx context.Context) (uint64, bool) {
	p, ok := peer.FromContext(ctx)
	if !ok || p.Addr.Network() != port.InProcess {
		return 0, false
	}
	v := metadata.ValueFromIncomingContext(ctx, gateway.AskerKey)
	if len(v) == 0 {
		return 0, false
	}
	n, err := strconv.ParseUint(v[len(v)-1], 10, 64)
	return n, err == nil
}

// withRoom runs read with the room of a small answer. If that does not suffice it runs read again with the room of a large one, when there
// is some. The size is not known before the read, so there are steps. They are the size in the failed attempt's error if it has one, a
// third of all room, and two thirds. size is how large the answer is that was read. The room, nil for one that needs none, goes with the
// answer to marshal.
func (d *Door) withRoom(ctx context.Context, read func(maxBytes int64) error, size func() int64) (*room, error) {
	from := d.account(ctx)
	small := min(smallAnswer, d.opts.MaxAnswerBytes/3)
	var bound context.Context // of all waits together; most answers wait for nothing, and need none
	if !d.port.TakeAnswer(from, small) {
		bound = d.bounded(ctx)
		tiny := min(crowdedAnswer, small)
		err := read(tiny)
		if err == nil {
			n := size()
			if n <= freeAnswer {
				return nil, nil
			}
			if err := d.waitForRoom(ctx, bound, from, n); err != nil {
				return nil, err
			}
			return d.newRoom(from, n), nil
		}
		if !errors.Is(err, kvmachine.ErrTooLarge) || tiny == small {
			return nil, etcderr.Of(err)
		}
		if err := d.waitForRoom(ctx, bound, from, small); err != nil {
			return nil, err
		}
	}
	err := read(small)
	if err == nil {
		return d.fit(from, small, size()), nil
	}
	d.port.AnswerGone(from, small)
	third := d.opts.MaxAnswerBytes / 3
	most := 2 * third
	about := true // the failed attempt's size is of use
	if from.Asks() {
		most, about = third, false // as JSON it takes twice as much
	}
	if bound == nil {
		bound = d.bounded(ctx)
	}
	for step := small; errors.Is(err, kvmachine.ErrTooLarge) && step < most; {
		step = nextStep(err, about, step, third, most)
		var r *room
		if r, err = d.withLargeRoom(ctx, bound, from, step, read, size); err == nil {
			return r, nil
		}
	}
	return nil, etcderr.Of(err)
}

// nextStep is the bound for the next attempt of an answer that was too large for step. It is about its known size, if any, with a margin.
func nextStep(err error, about bool, step, third, most int64) int64 {
	next := third
	var large *kvmachine.TooLargeError
	if about && errors.As(err, &large) && large.About < most {
		next = large.About + large.About/16
	} else if large != nil {
		next = most
	}
	if next <= step {
		next = most
	}
	return min(next, most)
}

// withLargeRoom is one step of withRoom; bound ends what it waits.
func (d *Door) withLargeRoom(ctx, bound context.Context, from *port.From, most int64, read func(maxBytes int64) error, size func() int64) (*room, error) {
	if err := d.waitForRoom(ctx, bound, from, most); err != nil {
		return nil, err
	}
	select {
	case d.large <- struct{}{}:
		defer func() { <-d.large }()
	case <-bound.Done():
		d.port.AnswerGone(from, most)
		return nil, noRoom(ctx)
	case <-ctx.Done():
		d.port.AnswerGone(from, most)
		return nil, noRoom(ctx)
	}
	if err := read(most); err != nil {
		d.port.AnswerGone(from, most)
		return nil, err
	}
	return d.fit(from, most, size()), nil
}

// kvBytes is about what keys and values take in an answer.
func kvBytes(kvs []kvpart.KeyValue) (n int64) {
	for i := range kvs {
		n += int64(len(kvs[i].Key)+len(kvs[i].Value)) + 32
	}
	return n
}

// Get and Put make room a buffer pool of which the transport frees one buffer.
func (r *room) Get(n int) *[]byte { return pool.Get(n) }

func (r *room) Put(b *[]byte) {
	r.held.release()
	pool.Put(b)
}

// lent is a room whose bytes are not the pool's.
type lent struct{ room *room }

func (l lent) Get(n int) *[]byte { return l.room.Get(n) }

func (l lent) Put(*[]byte) { l.room.held.release() }
