package watch

import (
	"sync"
	"sync/atomic"

	kvmachine "github.com/holdfastdb/holdfast/doors/kv/machine"
)

// Batch is events that go out together. They are those of one revision for one group, shared by its watchers, or a piece of one watcher's
// backlog, of whole revisions in order. Everything but refs and the encodings is immutable.
type Batch struct {
	Revision      int64 // of the last event
	Events        []kvmachine.Event
	bytes         int64
	puts, deletes int
	refs          atomic.Int32 // queues it stands on

	encodings [2]encoding // without and with the values before
}

func newBatch(events []kvmachine.Event) *Batch {
	b := &Batch{Revision: events[len(events)-1].KV.ModRevision, Events: events}
	for i := range events {
		kv := &events[i].KV
		b.bytes += int64(len(kv.Key) + len(kv.Value))
		if events[i].Type == kvmachine.EventPut {
			b.puts++
		} else {
			b.deletes++
		}
	}
	return b
}

// Wanted is how many of its events pass w's filters.
func (b *Batch) Wanted(w *Watcher) (n int) {
	if !w.NoPuts {
		n += b.puts
	}
	if !w.NoDeletes {
		n += b.deletes
	}
	return n
}

// encoding is made by the first who wants it.
type encoding struct {
	once  sync.Once
	bytes []byte
}

// Encoder writes events for the wire, with or without the values before them. All that are given to one hub's batches write the same.
type Encoder interface {
	Encode(events []kvmachine.Event, withPrev bool) []byte
}

// Encoding returns enc's encoding of all events of b. It is made once for all watchers of the group and must not be changed.
func (b *Batch) Encoding(withPrev bool, enc Encoder) []byte {
	e := &b.encodings[0]
	if withPrev {
		e = &b.encodings[1]
	}
	e.once.Do(func() { e.bytes = enc.Encode(b.Events, withPrev) })
	return e.bytes
}

// Cut reports whether w's filters take out some of b's events.
func (b *Batch) Cut(w *Watcher) bool {
	return w.NoPuts && b.puts > 0 || w.NoDeletes && b.deletes > 0
}
