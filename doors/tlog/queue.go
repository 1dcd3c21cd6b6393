package tlog

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/core/node"
	tlogmachine "github.com/holdfastdb/holdfast/doors/tlog/machine"
	tlogpart "github.com/holdfastdb/holdfast/doors/tlog/part"
	"github.com/holdfastdb/holdfast/doors/tlog/tiles"
	"github.com/holdfastdb/holdfast/internal/meter"
)

// batchBytes is how many bytes of entries share a command. A command is one unit to the log: a larger one would hold up the
// others behind it.
const batchBytes = 512 << 10

// queue gathers the adds of one log into commands: one command is in flight, and everything that comes meanwhile is in the next one. There
// is no timer. A command per add was rejected. Each costs the log a queue entry, a map entry and a wake-up, together more than hashing the
// entry.
type queue struct {
	d     *Door
	log   *tlogmachine.Log
	meter *meter.TlogLog

	mu      sync.Mutex
	flying  bool     // guarded by mu: a command is in flight
	waiting []*batch // guarded by mu: in order; only the last takes more entries
	bytes   int      // guarded by mu: the sum of len(body) over waiting
	size    int      // guarded by mu: bytes of the last batch, a guess at the next one's
}

// batch is the entries of one command. body and n are guarded by the queue's mutex until its turn has come; then they belong
// to the goroutine that proposes it. res and err are written before done is closed.
type batch struct {
	body  []byte
	n     int
	hurry bool
	turn  chan struct{} // closed when the queue wants it proposed; nil if that was at once
	done  chan struct{}
	res   *tlogpart.Appended
	by    *entry.Result // the add that res belongs to
	err   error
}

var (
	// errQueueFull: nothing was proposed.
	errQueueFull = errors.New("too many entries are waiting")
	// errNoTurn: the log took too long with earlier commands; nothing was proposed.
	errNoTurn = errors.New("the log did not take more entries in time")
)

const (
	// headBytes is a command's overhead in front of its entries: kind, flags, the log's number.
	headBytes = 2 + binary.MaxVarintLen64
	// entryHeadBytes is an entry's overhead in front of its bytes: their number.
	entryHeadBytes = 2
)

// add puts an entry into the log and returns its index, and the result of the command it was in, once that is durable. hurry asks for a checkpoint that covers it. An
// error is of proposing; only node.ErrUnknown leaves open whether the entry is in the log.
func (q *queue) add(e []byte, hurry bool) (index uint64, by *entry.Result, err error) {
	q.mu.Lock()
	if q.bytes+entryHeadBytes+len(e) > q.d.opts.MaxQueueBytes {
		q.mu.Unlock()
		return 0, nil, errQueueFull
	}
	var b *batch
	if n := len(q.waiting); n > 0 {
		if last := q.waiting[n-1]; last.n < tlogpart.MaxEntries && len(last.body)+len(e) <= batchBytes {
			b = last
		}
	}
	first := b == nil
	if first {
		b = &batch{done: make(chan struct{}), body: make([]byte, 0, headBytes+max(q.size, entryHeadBytes+len(e)))}
		b.body = append(b.body, byte(tlogpart.Append), 0)
		b.body = binary.AppendUvarint(b.body, q.log.Number)
	}
	i := b.n
	b.n++
	b.hurry = b.hurry || hurry
	had := len(b.body)
	b.body = tiles.AppendEntry(b.body, e)
	switch {
	case !first:
		q.bytes += len(b.body) - had
		q.mu.Unlock()
		<-b.done
	case !q.flying:
		q.flying = true
		q.mu.Unlock()
		q.fly(b)
	default:
		b.turn = make(chan struct{})
		q.waiting = append(q.waiting, b)
		q.bytes += len(b.body)
		q.mu.Unlock()
		q.await(b)
	}
	if b.err != nil {
		return 0, nil, b.err
	}
	return b.res.At(i), b.by, nil
}

// await proposes a batch when its turn comes, or gives up on it.
func (q *queue) await(b *batch) {
	late := time.NewTimer(q.d.opts.RequestTimeout)
	defer late.Stop()
	select {
	case <-b.turn:
		q.fly(b)
		return
	case <-late.C:
		b.err = errNoTurn
	case <-q.d.node.StoppedC():
		b.err = node.ErrStopped
	}
	q.mu.Lock()
	for i, w := range q.waiting {
		if w == b {
			q.waiting = append(q.waiting[:i], q.waiting[i+1:]...)
			q.bytes -= len(b.body)
			q.mu.Unlock()
			close(b.done)
			return
		}
	}
	q.mu.Unlock()
	b.err = nil // its turn came at the same moment
	q.fly(b)
}

// fly proposes a batch, gives the turn to the next one and wakes the batch's waiting adds.
func (q *queue) fly(b *batch) {
	if b.hurry {
		b.body[1] = tlogpart.FlagHurry
	}
	ctx, cancel := context.WithTimeout(context.Background(), q.d.opts.RequestTimeout)
	res, err := q.d.node.Propose(ctx, Lane, entry.Part{Machine: entry.MachineTlog, Body: b.body})
	cancel()
	q.next(len(b.body))
	switch {
	case err != nil:
		b.err = err
	case res.Rejection != nil:
		b.err = res.Rejection
	default:
		var ok bool
		b.by = res
		if b.res, ok = res.Of(entry.MachineTlog).(*tlogpart.Appended); !ok {
			b.err = fmt.Errorf("append to log %s: result %T", q.log.Spec.Name, res.Of(entry.MachineTlog))
		}
	}
	q.d.opts.Meter.Batch.Record(b.n)
	if b.err == nil {
		q.meter.Added.Add(uint64(b.n))
	}
	close(b.done)
}

// next gives the turn to the batch that waits for it.
func (q *queue) next(size int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.size = min(size, batchBytes)
	if len(q.waiting) == 0 {
		q.flying = false
		return
	}
	b := q.waiting[0]
	q.waiting[0] = nil
	if q.waiting = q.waiting[1:]; len(q.waiting) == 0 {
		q.waiting = nil
	}
	q.bytes -= len(b.body)
	close(b.turn)
}
