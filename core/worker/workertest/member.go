// Package workertest is a member without a log, for tests of workers. The test sets its leadership, its clock and the outcome of commands.
// It replaces node.Node only towards workers and is no model of one: nothing is replicated or kept.
package workertest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/core/node"
	"github.com/holdfastdb/holdfast/internal/task"
)

// Service is a function that a worker registers with Handle.
type Service = func(ctx context.Context, req []byte) ([]byte, error)

// Member is a worker.Member with the other calls that workers make on their node. It begins as a follower at tick 0, is member 2 of cluster
// 1, and carries out no command until OnPropose says how. Its methods may be called from any goroutine. Functions given by a test are
// called without its lock, so that they may call its methods.
type Member struct {
	mu        sync.Mutex // guards what follows, up to the blank line
	term      uint64     // in which it leads, 0 = it follows
	changed   chan struct{}
	deposed   bool
	alone     bool
	tick      func() int64
	rounds    int
	proposed  []uint64
	handed    []uint64
	services  map[string]Service
	onPropose func(parts []entry.Part) (*entry.Result, error)
	onRound   func() error
	onCall    func(service string, req []byte) ([]byte, error)

	log      sync.Mutex // commands take effect one at a time
	stopped  chan struct{}
	stopOnce sync.Once
}

// New returns a member that follows.
func New() *Member {
	return &Member{changed: make(chan struct{}), tick: func() int64 { return 0 }, services: map[string]Service{}, stopped: make(chan struct{})}
}

// Run runs a worker of m until the test ends, or m is stopped.
func (m *Member) Run(t testing.TB, work func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); work() }()
	t.Cleanup(func() {
		m.Stop()
		<-done
	})
}

// Lead makes m lead in a term, or follow if that is 0.
func (m *Member) Lead(term uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.term = term
	close(m.changed)
	m.changed = make(chan struct{})
}

// Depose makes m a deposed leader that has not noticed. It believes that it leads, but can neither confirm it nor get a command through.
// Depose(false) ends that.
func (m *Member) Depose(deposed bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.deposed = deposed
}

// Alone makes m the only voter of its cluster, so that it needs no round to be sure that it leads, or one of several.
func (m *Member) Alone(alone bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.alone = alone
}

// Stop stops the member; a second call does nothing.
func (m *Member) Stop() { m.stopOnce.Do(func() { close(m.stopped) }) }

// SetTick sets the cluster tick, which then stands still.
func (m *Member) SetTick(ms int64) { m.setTick(func() int64 { return ms }) }

// RunTick lets the tick run with real time, from 0.
func (m *Member) RunTick() {
	began := time.Now()
	m.setTick(func() int64 { return time.Since(began).Milliseconds() })
}

func (m *Member) setTick(tick func() int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tick = tick
}

// OnPropose decides the outcome of a command of the present term.
func (m *Member) OnPropose(f func(parts []entry.Part) (*entry.Result, error)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.onPropose = f
}

// OnRound is called when a round has confirmed leadership, or that what was acknowledged is here; its error becomes that of the round.
// Nil: nothing happens.
func (m *Member) OnRound(f func() error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.onRound = f
}

// OnCall answers calls to the leader; nil: they get an empty answer.
func (m *Member) OnCall(f func(service string, req []byte) ([]byte, error)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.onCall = f
}

// Rounds counts the rounds that were asked for.
func (m *Member) Rounds() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.rounds
}

// Proposed lists the terms under which commands were proposed since the last call of Proposed, in order.
func (m *Member) Proposed() (terms []uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	terms, m.proposed = m.proposed, nil
	return terms
}

// Handed lists the members that leadership was handed to since the last call of Handed, in order.
func (m *Member) Handed() (members []uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	members, m.handed = m.handed, nil
	return members
}

// Service is the function registered last under a name.
func (m *Member) Service(name string) Service {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.services[name]
}

// Leadership is Node.Leadership.
func (m *Member) Leadership() (uint64, <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.term, m.changed
}

// ProposeInTerm is Node.ProposeInTerm.
func (m *Member) ProposeInTerm(_ context.Context, term uint64, _ node.Lane, parts ...entry.Part) (*entry.Result, error) {
	m.log.Lock()
	defer m.log.Unlock()
	m.mu.Lock()
	m.proposed = append(m.proposed, term)
	dead, do := m.deposed || term != m.term, m.onPropose
	m.mu.Unlock()
	if dead {
		return nil, node.ErrSuperseded
	}
	if do == nil {
		return nil, node.ErrStopped
	}
	return do(parts)
}

// LeadsAlone is Node.LeadsAlone.
func (m *Member) LeadsAlone(term uint64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.alone && !m.deposed && term != 0 && term == m.term
}

// LinearizeInTerm is Node.LinearizeInTerm.
func (m *Member) LinearizeInTerm(_ context.Context, term uint64) error {
	m.mu.Lock()
	m.rounds++
	dead, do := m.deposed || term != m.term, m.onRound
	m.mu.Unlock()
	if dead {
		return node.ErrSuperseded
	}
	if do == nil {
		return nil
	}
	return do()
}

// Linearize is Node.Linearize.
func (m *Member) Linearize(ctx context.Context) error {
	m.mu.Lock()
	do := m.onRound
	m.mu.Unlock()
	if do == nil {
		return nil
	}
	return do()
}

// Call is Node.Call.
func (m *Member) Call(_ context.Context, service string, req []byte) ([]byte, error) {
	m.mu.Lock()
	do := m.onCall
	m.mu.Unlock()
	if do == nil {
		return nil, nil
	}
	return do(service, req)
}

// Handle is Node.Handle.
func (m *Member) Handle(service string, fn func(context.Context, []byte) ([]byte, error)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.services[service] = fn
}

// TransferLeader is Node.TransferLeader; m goes on leading.
func (m *Member) TransferLeader(_ context.Context, to uint64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.handed = append(m.handed, to)
	return nil
}

// Tick is Node.Tick.
func (m *Member) Tick() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.tick()
}

// Mono is Node.Mono, in real time, independent of the tick.
func (m *Member) Mono() time.Duration { return time.Duration(time.Now().UnixNano()) }

// Tasks is Node.Tasks: goroutines.
func (m *Member) Tasks() task.Runner { return task.Goroutines{} }

// StoppedC is Node.StoppedC.
func (m *Member) StoppedC() <-chan struct{} { return m.stopped }

// IDs is Node.IDs.
func (m *Member) IDs() (cluster, member uint64) { return 1, 2 }

// Status is Node.Status of a member that is ready.
func (m *Member) Status() node.Status { return node.Status{Ready: true} }
