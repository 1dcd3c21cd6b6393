package node

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/holdfastdb/holdfast/core/wal"
	"github.com/holdfastdb/holdfast/internal/task"
)

// Entry is one entry of the log as raft has it: its place, its term, raft's kind of it, and its data. A membership change is an entry
// too. Data is shared with the log and must not be changed.
type Entry = wal.Entry

// ErrTruncated: the log does not go back that far any more. The state holds the effect of the entries that went.
var ErrTruncated = errors.New("the log does not go back that far")

const (
	// entryCharge is an entry's cost beside its data, as in the log.
	entryCharge = 48
	// readAtOnce bounds what one question to the log gives: the newest entries are in memory, under a lock that the writer takes too.
	readAtOnce = 256 << 10
)

// feed is how others read the log as it grows. Any goroutine.
type feed struct {
	log     *wal.WAL     // Node.wal without its end: set once, and closed when the node is
	waiting atomic.Int64 // calls that wait for an entry: while there are none, the loop looks no further
	more    broadcast    // entries have been applied
}

// grew wakes the waiting readers after the applied index was published. Loop only.
func (f *feed) grew() {
	if f.waiting.Load() > 0 {
		f.more.notify()
	}
}

// Committed returns entries that are committed and applied here, in order, starting at the index from. It waits for the
// first, and returns as many as fit in maxBytes (their data plus 48 bytes each). They are the same on every member, and
// final. The slice is the caller's. Safe for concurrent use; the write path does not wait for it.
//
// Errors: ErrTruncated, ErrStopped, ctx's. Damage of the log, or a failed read, stops the node.
func (n *Node) Committed(ctx context.Context, from uint64, maxBytes int) ([]Entry, error) {
	applied, err := n.awaitApplied(ctx, from)
	if err != nil {
		return nil, err
	}
	var out []Entry
	for spent := 0; from <= applied && (spent < maxBytes || len(out) == 0); {
		some, err := n.feed.log.Entries(from, applied+1, uint64(min(max(maxBytes-spent, 0), readAtOnce)))
		if err != nil && len(out) > 0 && (errors.Is(err, wal.ErrTruncated) || errors.Is(err, wal.ErrClosed)) {
			return out, nil // the entries read so far are good
		}
		if err != nil {
			return nil, n.unread(from, err)
		}
		for i := range some {
			if spent += len(some[i].Data) + entryCharge; spent > maxBytes && len(out)+i > 0 {
				return append(out, some[:i]...), nil
			}
		}
		from = some[len(some)-1].Index + 1
		if out == nil {
			out = some
		} else {
			out = append(out, some...)
		}
	}
	return out, nil
}

// unread says why an entry that is applied cannot be had.
func (n *Node) unread(from uint64, err error) error {
	switch {
	case errors.Is(err, wal.ErrTruncated):
		return fmt.Errorf("%w: entry %d was asked for, the first one is %d", ErrTruncated, from, n.feed.log.FirstIndex())
	case errors.Is(err, wal.ErrClosed):
		return ErrStopped
	}
	err = fmt.Errorf("read entry %d of the log: %w", from, err)
	n.fatalLater(err)
	return err
}

// awaitApplied returns the applied index once that is at least index.
func (n *Node) awaitApplied(ctx context.Context, index uint64) (applied uint64, err error) {
	if applied = n.shownIdx.Load(); applied >= index {
		return applied, nil
	}
	// A counted reader is woken for every entry published after this line; an entry published before is seen below.
	n.feed.waiting.Add(1)
	defer n.feed.waiting.Add(-1)
	for {
		more := n.feed.more.wait()
		if applied = n.shownIdx.Load(); applied >= index {
			return applied, nil
		}
		switch n.tasks.Wait(task.Forever, more, ctx.Done(), n.dead) {
		case 1:
			return 0, ctx.Err()
		case 2:
			return 0, ErrStopped
		}
	}
}

// StateHash returns the rolling state hash after the entry at index, which all members have there and leaders stamp on entries. known is
// false if this member has not applied that entry, or has forgotten: it remembers about 4,000. Errors: ErrStopped, or ctx's.
func (n *Node) StateHash(ctx context.Context, index uint64) (hash uint64, known bool, err error) {
	err = n.onLoop(ctx, func() { hash, known = n.applier.HashAt(index) })
	if err != nil {
		return 0, false, err
	}
	return hash, known, nil
}
