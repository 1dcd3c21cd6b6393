package store

import "sync"

const (
	// backlogTables is how many memtables may be in memory before a commit waits for the disk: the one written to and a full one.
	backlogTables = 2
	// backlogLookBytes is how much is committed between two looks at the waiting memory; a look costs Pebble's mutex.
	backlogLookBytes = 1 << 20
	// noMemtableStop is so many memtables that Pebble's own stop never comes, see backlog.
	noMemtableStop = 1 << 20
)

// backlog makes commits wait when the disk falls behind, so that memory is bounded. Pebble has such a stop, but it counts a huge batch (one
// command that deletes a hundred thousand keys) like any other waiting memory. The batch alone exceeds the limit, and small commits stop
// until all of it is on disk: half a second for every client. Here a huge batch does not count while it waits: it is in memory already, and
// stopping small commits does not shrink it.
type backlog struct {
	since int    // bytes committed since the last look; owned by the committing goroutine
	huge  uint64 // bytes of huge batches that may still wait; owned by the committing goroutine
	until int    // the flush that takes them; owned by the committing goroutine

	mu      sync.Mutex
	begun   int           // flushes; Pebble makes one at a time; under mu
	done    int           // the last one that ended; under mu
	flushed chan struct{} // closed by the next end of a flush; under mu
}

// began is called by Pebble at the beginning of each flush.
func (l *backlog) began() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.begun++
}

// ended wakes a commit that waits. Called by Pebble at the end of each flush, failed ones too.
func (l *backlog) ended() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.done = l.begun
	if l.flushed != nil {
		close(l.flushed)
		l.flushed = nil
	}
}

// next is closed when a flush ends; begun and done are as of now.
func (l *backlog) next() (flushed <-chan struct{}, begun, done int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.flushed == nil {
		l.flushed = make(chan struct{})
	}
	return l.flushed, l.begun, l.done
}

// admit waits until there is room for a batch, or returns why the store failed.
func (l *backlog) admit(g *generation, repr []byte) error {
	if l.since += len(repr); l.since < backlogLookBytes {
		return nil
	}
	l.since = 0
	var begun int
	for {
		// Taken before the look, or a flush that ends in between is waited for in vain.
		flushed, b, done := l.next()
		begun = b
		waits := g.pdb.Metrics().MemTable.Size
		if l.huge = min(l.huge, waits); done >= l.until {
			l.huge = 0 // or small ones would go on in its room for as long as the disk stays behind
		}
		if waits-l.huge <= backlogTables*uint64(g.s.opts.MemtableBytes) {
			break
		}
		select {
		case <-flushed:
		case <-g.failed:
			return g.failure
		}
	}
	if int64(len(repr)) >= g.s.opts.MemtableBytes/2 { // Pebble queues the batch's own memory instead of copying it into a memtable
		l.huge += uint64(cap(repr))
		l.until = begun + 1
	}
	return nil
}
