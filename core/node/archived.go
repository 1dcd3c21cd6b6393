package node

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfastdb/holdfast/core/peer"
	"github.com/holdfastdb/holdfast/internal/task"
	"github.com/holdfastdb/holdfast/internal/wire"
)

// ErrNoArchive: this member was not told that the log is archived (Config.Archive), so nothing will ever be.
var ErrNoArchive = errors.New("there is no archive: --archive is not set on this member")

// The frames of the control channel that are not raft's begin with a byte that no kind of raft message has. The watermark is a fact and not
// a decision: it holds in every term, from any member, and never falls. Byte table: docs/formats/peer.md.
const (
	controlFrames      = 0x80 // from here on
	frameArchived      = 0x80 // leader → member: the watermark
	frameArchiveWanted = 0x81 // member → leader: the highest index that is waited for there, 0: none
)

// watermark is the highest index known to be archived, and the callers that wait for a higher one. Each caller chooses
// its own level and term of durability. Nothing here is logged or on disk: after a start it is 0 until the leader or its
// shipper reports.
type watermark struct {
	archived atomic.Uint64
	wanted   atomic.Uint64 // the highest index that a caller here, or on a leader's other members, has waited for
	more     broadcast     // wanted  has risen
	moved    atomic.Bool   // the loop has something to tell
	waiting  atomic.Int64  // callers that wait here

	mu     sync.Mutex
	queues []archiveQueue // guarded by mu; by ascending index

	// The rest is what members have told each other since the term began, or the leader changed. Loop only.
	term, lead uint64
	listeners  []uint64      // members that have spoken of the archive to this leader, in order: a build before archives does not, and is told nothing
	told       uint64        // to all of those
	asked      bool          // the leader knows of this member
	askedFor   uint64        // and of this index
	askAt      time.Duration // when it is asked again, because a frame may be lost
}

// archiveQueue is the callers that wait for one index.
type archiveQueue struct {
	index   uint64
	callers int
	done    chan struct{} // closed once it is archived
}

// ArchivedIndex returns the highest index that the archive is known to hold; 0 if this member has heard of none since its
// start. Safe for concurrent use, and cheap.
func (n *Node) ArchivedIndex() uint64 { return n.watermark.archived.Load() }

// ReadIndex returns an upper bound on the index that any reader has seen here, in the machines or in a View. A reader's
// result may be shown once that index is archived. Status().Applied may be lower. Safe for concurrent use, and cheap.
func (n *Node) ReadIndex() uint64 { return n.applier.Applied() }

// Archived returns once the archive holds the log up to index, on any member: at once if this one has heard so already. It says nothing
// about an index that is not committed, and waits for it. Safe for concurrent use.
//
// Errors: ErrNoArchive, ErrStopped, ctx's. None of them says that the index will not be archived.
func (n *Node) Archived(ctx context.Context, index uint64) error {
	w := &n.watermark
	if w.archived.Load() >= index {
		return nil
	}
	if !n.cfg.Archive {
		return ErrNoArchive
	}
	done := w.join(index)
	if done == nil {
		return nil
	}
	if w.raise(index) && n.pub.Load().leads == 0 {
		n.wakeup() // to ask the leader
	}
	switch n.tasks.Wait(task.Forever, done, ctx.Done(), n.dead) {
	case 0:
		return nil
	case 1:
		w.leave(index)
		return ctx.Err()
	default:
		return ErrStopped
	}
}

// SetArchived says that the archive holds the log up to index: for who ships it, on the leader, which tells the others. It holds for good;
// a lower index than an earlier one changes nothing. Safe for concurrent use; it waits for nothing.
func (n *Node) SetArchived(index uint64) {
	if n.watermark.reached(index) {
		n.watermark.moved.Store(true)
		n.wakeup()
	}
}

// ArchiveWanted returns the highest index that a caller on any member waits for, as far as the leader has heard. It is 0
// if everything waited for is archived. The channel is closed when a higher index is waited for. A caller that gave up
// counts until its index is archived. Only the shipper on the leader uses it; another member answers for its own callers
// alone. Safe for concurrent use.
func (n *Node) ArchiveWanted() (index uint64, more <-chan struct{}) {
	more = n.watermark.more.wait()
	if index = n.watermark.wanted.Load(); index <= n.watermark.archived.Load() {
		index = 0
	}
	return index, more
}

// ArchiveWaiters is how many calls of Archived wait on this member. Safe for concurrent use.
func (n *Node) ArchiveWaiters() int64 { return n.watermark.waiting.Load() }

// join adds a caller to those that wait for index, and returns what is closed for them; nil if it is archived meanwhile.
func (w *watermark) join(index uint64) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.archived.Load() >= index { // it is stored under mu
		return nil
	}
	i, found := w.find(index)
	if !found {
		w.queues = slices.Insert(w.queues, i, archiveQueue{index: index, done: make(chan struct{})})
	}
	w.queues[i].callers++
	w.waiting.Add(1)
	return w.queues[i].done
}

// leave removes a caller that stopped waiting; an index without callers takes no memory.
func (w *watermark) leave(index uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	i, found := w.find(index)
	if !found {
		return // it has been archived at this moment
	}
	w.waiting.Add(-1)
	if w.queues[i].callers--; w.queues[i].callers == 0 {
		w.queues = slices.Delete(w.queues, i, i+1)
	}
}

func (w *watermark) find(index uint64) (int, bool) {
	return slices.BinarySearchFunc(w.queues, index, func(q archiveQueue, index uint64) int {
		switch {
		case q.index < index:
			return -1
		case q.index > index:
			return 1
		}
		return 0
	})
}

// reached moves the watermark and wakes who waited for that; false if it was there.
func (w *watermark) reached(index uint64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if index <= w.archived.Load() {
		return false
	}
	w.archived.Store(index)
	k := 0
	for ; k < len(w.queues) && w.queues[k].index <= index; k++ {
		close(w.queues[k].done)
		w.waiting.Add(-int64(w.queues[k].callers))
	}
	w.queues = slices.Delete(w.queues, 0, k)
	return true
}

// raise notes that index is waited for; false if that, or more, was before.
func (w *watermark) raise(index uint64) bool {
	for {
		old := w.wanted.Load()
		if index <= old {
			return false
		}
		if w.wanted.CompareAndSwap(old, index) {
			w.more.notify()
			return true
		}
	}
}

// highest is the highest index that is waited for here and now, 0: none.
func (w *watermark) highest() uint64 {
	if w.waiting.Load() == 0 {
		return 0
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if k := len(w.queues); k > 0 {
		return w.queues[k-1].index
	}
	return 0
}

// tellArchived sends the other members news of the archive. A leader sends the watermark when it has moved. Another
// member sends the index its callers wait for when that has risen. It repeats this each tick while callers wait, because
// a frame may be lost. Without waiting callers and without shipping, no frame is sent. Loop only.
func (n *Node) tellArchived() {
	w := &n.watermark
	if term, lead := n.rep.Term(), n.rep.Leader(); w.term != term || w.lead != lead {
		w.term, w.lead, w.listeners, w.told, w.asked, w.askedFor = term, lead, w.listeners[:0], 0, false, 0
	}
	switch {
	case n.rep.IsLeader():
		if !w.moved.Load() {
			return
		}
		w.moved.Store(false)
		if at := w.archived.Load(); at > w.told {
			w.told = at
			for _, id := range w.listeners {
				n.sendArchived(id)
			}
		}
	case w.lead != 0:
		index, now := w.highest(), n.clock.Mono()
		if w.asked && index <= w.askedFor && (index == 0 || now < w.askAt) {
			return
		}
		frame := binary.AppendUvarint([]byte{frameArchiveWanted}, index)
		if n.net.Send(w.lead, peer.ChannelControl, frame) {
			w.asked, w.askedFor, w.askAt = true, max(w.askedFor, index), now+n.cfg.TickInterval
		}
	}
}

func (n *Node) sendArchived(to uint64) {
	frame := binary.AppendUvarint([]byte{frameArchived}, n.watermark.archived.Load())
	n.net.Send(to, peer.ChannelControl, frame) // a lost frame is sent again while a caller waits
}

// takeControl takes a frame of the control channel that is not raft's. One of a kind, or of a form, that this build does not know is
// ignored. Loop only.
func (n *Node) takeControl(from uint64, b []byte) {
	w, r := &n.watermark, wire.NewReader(b[1:])
	index := r.Uvarint()
	if r.End() != nil || !n.cfg.Archive {
		return
	}
	switch b[0] {
	case frameArchived:
		w.reached(index)
	case frameArchiveWanted:
		if !n.rep.IsLeader() {
			return // it hears of the leader by itself, and asks that one
		}
		if i, found := slices.BinarySearch(w.listeners, from); !found {
			w.listeners = slices.Insert(w.listeners, i, from)
		}
		// An uncommitted entry cannot be shipped, and a damaged number must not make the shipper hurry for ever.
		w.raise(min(index, n.rep.Commit()))
		if w.archived.Load() > 0 {
			n.sendArchived(from)
		}
	}
}
