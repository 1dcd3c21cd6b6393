package node

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfastdb/holdfast/core/raft"
	"github.com/holdfastdb/holdfast/core/wal"
)

// writer carries writes to the WAL in order: everything that queued while the last fsync ran shares the next one.
type writer struct {
	mu     sync.Mutex
	cond   *sync.Cond
	queue  []*raft.Write // waiting; guarded by mu
	done   []*raft.Write // durable, not yet seen by the loop; guarded by mu
	err    error         // the first failure; guarded by mu
	closed bool
	spare  []*raft.Write
	moved  *wal.HardState // commit index that no record holds yet; owned by WriteStep

	lastSync atomic.Int64 // how long the last fsync took, ns
	meanSync atomic.Int64 // of the last ones, ns; set by WriteStep
	allSyncs atomic.Int64 // of all that ended, ns
	began    atomic.Int64 // when the one under way did, ns of the clock; 0: there is none
	// slowFrom is the start, in ns of the clock, of the present run of syncs that each took slowSync or more. 0: the last sync was fast.
	// slowTo is when the last of them ended.
	slowFrom, slowTo atomic.Int64
}

func (w *writer) init() { w.cond = sync.NewCond(&w.mu) }

func (w *writer) close() {
	w.mu.Lock()
	w.closed = true
	if w.cond != nil {
		w.cond.Broadcast()
	}
	w.mu.Unlock()
}

// submit queues a write; kickWriter or writeHere gets it done. Loop only.
func (n *Node) submit(w *raft.Write) {
	n.writesOut++
	n.unkicked++
	for i := range w.Batch.Entries {
		n.logged += len(w.Batch.Entries[i].Data)
	}
	n.writer.mu.Lock()
	n.writer.queue = append(n.writer.queue, w)
	n.writer.mu.Unlock()
}

// kickWriter lets the writer goroutine run beside what the loop does next. Loop only.
func (n *Node) kickWriter() {
	if n.unkicked > 0 && n.writer.cond != nil {
		n.unkicked = 0
		n.writer.mu.Lock()
		n.writer.cond.Signal()
		n.writer.mu.Unlock()
	}
}

// The loop waits for fsyncs itself if the recent mean is at most fastSync, and the last one took not much longer. One slow sync says
// nothing about the next, but a longer one may be the first of many.
const (
	fastSync = time.Millisecond
	stalled  = 10 * time.Millisecond
)

// fast reports whether the loop may wait for the next fsync itself.
func (w *writer) fast() bool {
	return time.Duration(w.meanSync.Load()) <= fastSync && time.Duration(w.lastSync.Load()) <= stalled
}

// synced records the duration of an fsync. The goroutine that runs WriteStep calls it.
func (w *writer) synced(took time.Duration) {
	w.lastSync.Store(int64(took))
	w.noteSlow(took)
	w.allSyncs.Add(int64(took))
	w.began.Store(0)
	mean := w.meanSync.Load()
	w.meanSync.Store(mean + (int64(min(took, slowestSync))-mean)/16)
}

// noteSlow takes in how long an fsync took that has just ended. One that comes long after the others says nothing of the time between.
func (w *writer) noteSlow(took time.Duration) {
	start := w.began.Load()
	switch from, to := w.slowFrom.Load(), w.slowTo.Load(); {
	case took < slowSync:
		w.slowFrom.Store(0)
		return
	case from == 0, time.Duration(start-to) >= slowFor:
		w.slowFrom.Store(start)
	}
	w.slowTo.Store(start + int64(took))
}

// slow returns since when every sync has taken slowSync or more, 0 if the last one did not, and how long the last one took. The one under way
// counts once it has taken that long itself.
func (w *writer) slow(now time.Duration) (from, last time.Duration) {
	from, last = time.Duration(w.slowFrom.Load()), time.Duration(w.lastSync.Load())
	to := time.Duration(w.slowTo.Load())
	if began := time.Duration(w.began.Load()); began != 0 && now-began >= slowSync {
		last = now - began
		if from == 0 || began-to >= slowFor {
			from = began
		}
		to = now
	}
	if from != 0 && now-to >= slowFor { // nothing is written: there is nothing to say of the disk
		return 0, last
	}
	return from, last
}

// syncs is what Config.Ticked is told. The one under way counts: while a disk stalls nothing else happens, which looks like little work.
func (w *writer) syncs(now time.Duration) Syncs {
	s := Syncs{Mean: time.Duration(w.meanSync.Load()), Total: time.Duration(w.allSyncs.Load())}
	if began := time.Duration(w.began.Load()); began != 0 {
		s.Total += now - began
	}
	return s
}

// slowestSync bounds a sync's weight in the mean: one long sync does not make the disk slow.
const slowestSync = 2 * time.Millisecond

// writeHere does the queued writes on the loop if that is quicker. The loop must have no other work, the writer goroutine no write, and the
// disk must have been fast of late. It saves two wake-ups per write, which is most of one client's waiting time beside the disk. On a slow
// disk the loop must stay free for heartbeats. Loop only.
func (n *Node) writeHere() bool {
	if n.unkicked == 0 || n.unkicked != n.writesOut || n.lanes.queued.Load() > 0 || n.writer.cond == nil || !n.writer.fast() {
		return false
	}
	n.unkicked = 0
	return n.WriteStep()
}

// runWriter is the writer goroutine.
func (n *Node) runWriter() {
	w := &n.writer
	for {
		w.mu.Lock()
		for len(w.queue) == 0 && !w.closed {
			w.cond.Wait()
		}
		if w.closed {
			w.mu.Unlock()
			return
		}
		w.mu.Unlock()
		n.WriteStep()
		n.wakeup()
		w.mu.Lock()
		failed := w.err != nil
		w.mu.Unlock()
		if failed {
			return
		}
	}
}

// WriteStep writes everything that is queued and makes it durable with one fsync; false if there was nothing. Called by
// the writer goroutine, or by the simulation.
func (n *Node) WriteStep() bool {
	w := &n.writer
	w.mu.Lock()
	jobs := w.queue
	w.queue, w.spare = w.spare[:0], nil
	w.mu.Unlock()
	if len(jobs) == 0 {
		w.mu.Lock()
		w.spare = jobs
		w.mu.Unlock()
		return false
	}
	err := n.writeJobs(jobs)
	w.mu.Lock()
	if err != nil && w.err == nil {
		w.err = err
	}
	if err == nil {
		w.done = append(w.done, jobs...)
	}
	clear(jobs)
	w.spare = jobs[:0]
	w.mu.Unlock()
	return true
}

func (n *Node) writeJobs(jobs []*raft.Write) error {
	start, sync := n.clock.Mono(), false
	for _, j := range jobs {
		if len(j.Batch.Entries) == 0 && !j.Sync {
			// Only the commit index moved, or messages wait for earlier writes: nothing to write now.
			if j.Batch.HardState != nil {
				n.writer.moved = j.Batch.HardState
			}
			continue
		}
		// The commit index goes with the next record; without it a restart would know only the entries that the store had flushed.
		if j.Batch.HardState == nil {
			j.Batch.HardState = n.writer.moved
		}
		n.writer.moved = nil
		if err := n.wal.Append(j.Batch); err != nil {
			return fmt.Errorf("append to the log: %w", err)
		}
		sync = sync || j.Sync
	}
	appended := n.clock.Mono()
	if !sync {
		return nil
	}
	n.steps.Append.Done(len(jobs), appended-start)
	if n.cfg.Break.AckBeforeSync {
		return nil
	}
	// The commit point of this member's promise: only after this may it say that it holds the entries.
	n.writer.began.Store(int64(appended))
	err := n.wal.Sync()
	took := n.clock.Mono() - appended
	n.writer.synced(took)
	if err != nil {
		return fmt.Errorf("sync the log: %w", err)
	}
	n.steps.Sync.Done(1, took)
	return nil
}

// finishWrites tells raft what has become durable. Loop only.
func (n *Node) finishWrites() error {
	w := &n.writer
	w.mu.Lock()
	err := w.err
	done := w.done
	w.done = nil
	w.mu.Unlock()
	for _, j := range done {
		n.writesOut--
		out := n.rep.Written(j)
		for i := range out {
			n.send(&out[i])
		}
	}
	return err
}

// drainWrites waits until the WAL is idle and tells raft. Loop only.
func (n *Node) drainWrites() error {
	for {
		if err := n.finishWrites(); err != nil {
			return err
		}
		if n.writesOut == 0 {
			return nil
		}
		n.kickWriter()
		if n.cfg.Manual {
			n.WriteStep()
			continue
		}
		<-n.wake
	}
}
