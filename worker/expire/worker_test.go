package expire

import (
	"context"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/entry"
	e2 "github.com/holdfastdb/holdfast/entry/etcd2"
	"github.com/holdfastdb/holdfast/internal/task"
	"github.com/holdfastdb/holdfast/node"
)

// fakeMember is a member without a log, whose tick is real time and whose tree is a list of deadlines.
type fakeMember struct {
	mu        sync.Mutex
	term      uint64
	changed   chan struct{}
	sooner    chan struct{}
	deadlines []int64
	began     time.Time
	batches   []int
	deposed   bool
	stopped   chan struct{}
}

func (m *fakeMember) Leadership() (uint64, <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.term, m.changed
}

func (m *fakeMember) setTerm(term uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.term = term
	close(m.changed)
	m.changed = make(chan struct{})
}

func (m *fakeMember) ProposeInTerm(_ context.Context, term uint64, _ node.Lane, parts ...entry.Part) (*entry.Result, error) {
	var p e2.Part
	if err := p.Decode(parts[0].Body); err != nil || p.Kind != e2.Expire {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.deposed || term != m.term {
		return nil, node.ErrSuperseded
	}
	var left []int64
	n := 0
	for _, d := range m.deadlines {
		if d <= m.Tick() && n < int(p.Limit) {
			n++
		} else {
			left = append(left, d)
		}
	}
	m.deadlines = left
	m.batches = append(m.batches, n)
	return &entry.Result{Bodies: []any{n}}, nil
}

func (m *fakeMember) Tick() int64               { return time.Since(m.began).Milliseconds() }
func (m *fakeMember) Tasks() task.Runner        { return task.Goroutines{} }
func (m *fakeMember) StoppedC() <-chan struct{} { return m.stopped }

func (m *fakeMember) NextDeadline() (int64, <-chan struct{}, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	next := int64(math.MaxInt64)
	for _, d := range m.deadlines {
		next = min(next, d)
	}
	return next, m.sooner, nil
}

// add gives n nodes a deadline and tells the worker.
func (m *fakeMember) add(n int, at int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for range n {
		m.deadlines = append(m.deadlines, at)
	}
	close(m.sooner)
	m.sooner = make(chan struct{})
}

func (m *fakeMember) left() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.deadlines)
}

func start(t *testing.T) *fakeMember {
	m := &fakeMember{changed: make(chan struct{}), sooner: make(chan struct{}), began: time.Now(), stopped: make(chan struct{})}
	w := &Worker{node: m, tree: m}
	done := make(chan struct{})
	go func() { defer close(done); w.Run() }()
	t.Cleanup(func() {
		close(m.stopped)
		<-done
	})
	return m
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for range 500 {
		if ok() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("not within 5 s: %s", what)
}

func TestRemovesInBatchesWhenTimeIsUp(t *testing.T) {
	m := start(t)
	m.setTerm(1)
	m.add(3, 60_000)
	at := m.Tick() + 300
	m.add(1000, at)
	eventually(t, "1,000 nodes removed", func() bool { return m.left() == 3 })
	if m.Tick() < at {
		t.Error("removed before their time")
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.batches) < 4 {
		t.Errorf("removed in batches of %v", m.batches)
	}
	for _, n := range m.batches {
		if n > batch {
			t.Errorf("one command removed %d", n)
		}
	}
}

func TestOnlyTheLeaderRemoves(t *testing.T) {
	m := start(t)
	m.add(5, 0)
	time.Sleep(50 * time.Millisecond)
	if m.left() != 5 {
		t.Fatal("a follower removed nodes")
	}
	m.mu.Lock()
	m.deposed = true
	m.mu.Unlock()
	m.setTerm(1)
	time.Sleep(50 * time.Millisecond)
	if m.left() != 5 {
		t.Fatal("a deposed leader removed nodes")
	}
	m.mu.Lock()
	m.deposed = false
	m.mu.Unlock()
	m.setTerm(2)
	eventually(t, "the new leader removes them", func() bool { return m.left() == 0 })
}
