package store

import (
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2"

	"github.com/holdfastdb/holdfast/internal/wait"
)

// compacting is a DB with compactions that want to run.
type compacting struct {
	mu      sync.Mutex
	allowed int
	waiting int // of them, those that were refused
	started int // by Schedule
}

func (c *compacting) set(allowed int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.allowed = allowed
}

func (c *compacting) runs() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.started
}

func (c *compacting) GetAllowedWithoutPermission() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.allowed
}

func (c *compacting) GetWaitingCompaction() (bool, pebble.WaitingCompaction) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.waiting > 0, pebble.WaitingCompaction{}
}

func (c *compacting) Schedule(pebble.CompactionGrantHandle) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting--
	c.started++
	return true
}

// want has one more compaction want to run, and reports whether it does at once.
func (c *compacting) want(s *scheduler) bool {
	runs, _ := s.TrySchedule()
	if !runs {
		c.mu.Lock()
		c.waiting++
		c.mu.Unlock()
	}
	return runs
}

// TestRefusedCompactionsRun: when another ends, when the DB says that more may run, and when more may without a word.
func TestRefusedCompactionsRun(t *testing.T) {
	c := &compacting{allowed: 1}
	s := newScheduler()
	s.Register(2, c)
	if !c.want(s) || c.want(s) || c.want(s) || c.want(s) {
		t.Fatal("not one of four runs at once")
	}
	s.Done()
	if n := c.runs(); n != 1 {
		t.Fatalf("%d run in the place of one that ended", n)
	}
	c.set(2)
	s.UpdateGetAllowedWithoutPermission()
	wait.Until(t, "a second runs beside it", func() bool { return c.runs() == 2 })
	c.set(3)
	wait.Until(t, "a third runs beside them", func() bool { return c.runs() == 3 })
	for range 3 {
		s.Done()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running != 0 || s.waiting {
		t.Errorf("%d run, and waiting is %v, after the end of all", s.running, s.waiting)
	}
	if s.timer.Stop() {
		t.Error("it goes on looking although nothing waits")
	}
}

// TestNoClockWithoutWaiting: an idle store does not wake its process.
func TestNoClockWithoutWaiting(t *testing.T) {
	s := newScheduler()
	c := &compacting{allowed: 1}
	s.Register(2, c)
	for range 3 {
		if !c.want(s) {
			t.Fatal("it does not run")
		}
		s.UpdateGetAllowedWithoutPermission()
		s.Done()
	}
	if s.timer != nil {
		t.Error("it looks although nothing waits")
	}
}

// TestNothingIsGrantedAfterTheEnd: the DB is closed then.
func TestNothingIsGrantedAfterTheEnd(t *testing.T) {
	s := newScheduler()
	c := &compacting{allowed: 1}
	s.Register(2, c)
	if !c.want(s) || c.want(s) {
		t.Fatal("not one of two runs at once")
	}
	s.Unregister()
	s.Done()
	s.UpdateGetAllowedWithoutPermission()
	if c.want(s) || c.runs() != 0 {
		t.Error("one was granted")
	}
}
