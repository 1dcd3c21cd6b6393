package store

import (
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// askAgain is how soon a refused compaction is tried again, as in Pebble's own scheduler. The number allowed grows with the work to
// compact, and only flushes report that.
const askAgain = 100 * time.Millisecond

// scheduler lets one DB run as many compactions at a time as its options allow. It is Pebble's own scheduler with another clock. Pebble's
// looks ten times a second for as long as the process lives, a third of an idle process's work. This one looks only while a compaction
// waits.
//
// It knows of every waiting DB: one waits from a refusal by TrySchedule or the limit until its GetWaitingCompaction returns none. Its lock
// comes after the DB's, which is held when the DB calls TrySchedule and UpdateGetAllowedWithoutPermission.
type scheduler struct {
	db pebble.DBForCompaction // set before any other call

	mu       sync.Mutex
	idle     sync.Cond // granting has become false
	running  int
	waiting  bool // a compaction was refused, and may still want to run
	granting bool // a goroutine asks the DB, which it does without mu
	closed   bool
	timer    *time.Timer // calls grant; nil until something had to wait
}

var (
	_ pebble.CompactionScheduler   = (*scheduler)(nil)
	_ pebble.CompactionGrantHandle = (*scheduler)(nil)
)

func newScheduler() *scheduler {
	s := &scheduler{}
	s.idle.L = &s.mu
	return s
}

// Register implements pebble.CompactionScheduler.
func (s *scheduler) Register(_ int, db pebble.DBForCompaction) { s.db = db }

// Unregister implements pebble.CompactionScheduler: nothing is granted afterwards.
func (s *scheduler) Unregister() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.timer != nil {
		s.timer.Stop() // a timer that has fired already finds it closed
	}
	for s.granting {
		s.idle.Wait()
	}
}

// TrySchedule implements pebble.CompactionScheduler.
func (s *scheduler) TrySchedule() (bool, pebble.CompactionGrantHandle) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false, nil
	}
	if s.db.GetAllowedWithoutPermission() > s.running {
		s.running++
		return true, s
	}
	s.waiting = true
	s.grantIn(askAgain)
	return false, nil
}

// UpdateGetAllowedWithoutPermission implements pebble.CompactionScheduler.
func (s *scheduler) UpdateGetAllowedWithoutPermission() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting && !s.closed && s.db.GetAllowedWithoutPermission() > s.running {
		s.grantIn(0) // not here: the DB's lock is held
	}
}

// grantIn has grant called. The caller holds mu.
func (s *scheduler) grantIn(d time.Duration) {
	if s.timer == nil {
		s.timer = time.AfterFunc(d, s.grant)
	} else {
		s.timer.Reset(d)
	}
}

// grant starts what waits, as far as that is allowed. No lock of the DB may be held.
func (s *scheduler) grant() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.granting {
		s.idle.Wait()
	}
	if s.closed {
		return
	}
	s.granting = true
	for !s.closed && s.db.GetAllowedWithoutPermission() > s.running {
		s.waiting = false // TrySchedule may refuse another while the DB is asked
		s.mu.Unlock()
		waits, _ := s.db.GetWaitingCompaction()
		runs := waits && s.db.Schedule(s)
		s.mu.Lock()
		s.waiting = s.waiting || waits
		if !runs {
			break
		}
		s.running++
	}
	s.granting = false
	s.idle.Broadcast()
	switch {
	case s.waiting && !s.closed:
		s.grantIn(askAgain)
	case s.timer != nil:
		s.timer.Stop()
	}
}

// Done implements pebble.CompactionGrantHandle.
func (s *scheduler) Done() {
	s.mu.Lock()
	s.running--
	s.mu.Unlock()
	s.grant()
}

// Started implements pebble.CompactionGrantHandle.
func (*scheduler) Started() {}

// MeasureCPU implements pebble.CompactionGrantHandle.
func (*scheduler) MeasureCPU(pebble.CompactionGoroutineKind) {}

// CumulativeStats implements pebble.CompactionGrantHandle: compactions are not paced.
func (*scheduler) CumulativeStats(pebble.CompactionGrantHandleStats) {}
