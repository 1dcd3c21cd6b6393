package expire

import (
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/core/worker/workertest"
	v2part "github.com/holdfastdb/holdfast/doors/kv/v2/part"
	"github.com/holdfastdb/holdfast/internal/wait"
)

// timed is a member whose tick is real time, and its machine, which is a list of deadlines.
type timed struct {
	*workertest.Member

	mu        sync.Mutex // guards the rest
	sooner    chan struct{}
	deadlines []int64
	batches   []int
}

// remove carries out what the worker proposes.
func (m *timed) remove(parts []entry.Part) (*entry.Result, error) {
	var p v2part.Part
	if err := p.Decode(parts[0].Body); err != nil || p.Kind != v2part.Expire {
		return nil, fmt.Errorf("a worker proposed %+v, %v", p, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
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
	return &entry.Result{Bodies: []entry.Body{{Machine: entry.MachineEtcd2, Value: n}}}, nil
}

func (m *timed) NextDeadline() (int64, <-chan struct{}, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	next := int64(math.MaxInt64)
	for _, d := range m.deadlines {
		next = min(next, d)
	}
	return next, m.sooner, nil
}

// add gives n nodes a deadline and tells the worker.
func (m *timed) add(n int, at int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for range n {
		m.deadlines = append(m.deadlines, at)
	}
	close(m.sooner)
	m.sooner = make(chan struct{})
}

func (m *timed) left() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.deadlines)
}

// start runs a worker until the test ends.
func start(t *testing.T) *timed {
	t.Helper()
	m := &timed{Member: workertest.New(), sooner: make(chan struct{})}
	m.RunTick()
	m.OnPropose(m.remove)
	m.Run(t, (&Worker{node: m, nodes: m}).Run)
	return m
}

func TestRemovesInBatchesWhenTimeIsUp(t *testing.T) {
	m := start(t)
	m.Lead(1)
	m.add(3, 60_000)
	at := m.Tick() + 300
	m.add(1000, at)
	wait.Until(t, "1,000 nodes removed", func() bool { return m.left() == 3 })
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
	m.Depose(true)
	m.Lead(1)
	time.Sleep(50 * time.Millisecond)
	if m.left() != 5 {
		t.Fatal("a deposed leader removed nodes")
	}
	m.Depose(false)
	m.Lead(2)
	wait.Until(t, "the new leader removes them", func() bool { return m.left() == 0 })
}
