package lease

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/core/node"
	"github.com/holdfastdb/holdfast/core/worker"
	kvmachine "github.com/holdfastdb/holdfast/doors/kv/machine"
	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
	"github.com/holdfastdb/holdfast/internal/task"
)

const (
	// revokeBatch is how many leases one command revokes.
	revokeBatch = 512
	// retryAfterMs is how long a revocation that was refused for lack of room waits.
	retryAfterMs = 500
	// hearPause is how long changes of leases gather before they are taken in: many grants in a row wake the worker once. Renewals look
	// up leases they do not know, so the pause only makes deadlines start late by as much.
	hearPause = 50 * time.Millisecond
)

// member is the worker's view of its node. *node.Node is the one; tests drive a worker without a log.
type member interface {
	worker.Member
	Handle(service string, fn func(ctx context.Context, req []byte) ([]byte, error))
	LeadsAlone(term uint64) bool
	Tick() int64
	Mono() time.Duration
}

// reader is the worker's view of the kv machine.
type reader interface {
	Lease(id int64) (kvmachine.Lease, bool)
	LeaseChanges(since uint64) (changes []kvmachine.LeaseChange, version uint64, whole bool, changed <-chan struct{})
}

// Worker runs the Lessor of one member whenever that member leads.
type Worker struct {
	node  member
	tasks task.Runner
	kv    reader

	mu     sync.Mutex // guards the rest
	term   uint64     // in which lessor holds, 0 = this member does not lead
	lessor *Lessor
	heard  uint64        // version of the changes that lessor has, 0 = of none
	queued *round        // renewals waiting for the next round, nil = none
	kick   chan struct{} // capacity 1: queued was set
	news   chan struct{} // capacity 1: the next deadline may have changed

	renewed, expired atomic.Uint64 // for people; no mutex
}

// Renewed and Expired count what this process did while it led: renewals answered, and leases whose time was up and that are
// revoked for it.
func (w *Worker) Renewed() uint64 { return w.renewed.Load() }

// Expired is described with Renewed.
func (w *Worker) Expired() uint64 { return w.expired.Load() }

// round is renewals that share one confirmation of leadership.
type round struct {
	ids  []int64
	done chan struct{} // closed once err and times are set
	ttl  []int64       // by position in ids; 0 = no such lease
	err  error
	over bool // at least one of these leases had run out
}

// New makes n's worker, which reads the leases of m, and registers its services; call it before n starts, and Run once it has.
func New(n *node.Node, m *kvmachine.Machine) *Worker { return newWorker(n, m) }

func newWorker(n member, kv reader) *Worker {
	w := &Worker{node: n, tasks: n.Tasks(), kv: kv, kick: make(chan struct{}, 1), news: make(chan struct{}, 1)}
	n.Handle(kvpart.CallLeaseKeepAlive, w.keepAlive)
	n.Handle(kvpart.CallLeaseTTL, w.timeToLive)
	return w
}

// Run works until the node stops. Call it once.
func (w *Worker) Run() {
	confirmed := make(chan struct{})
	w.tasks.Go(func() {
		defer close(confirmed)
		w.confirm()
	})
	worker.Lead(w.node, w.lead, nil)
	w.stepDown()
	w.tasks.Wait(task.Forever, confirmed)
}

// lead keeps the leases of one term until over is closed.
func (w *Worker) lead(term uint64, over <-chan struct{}) {
	w.mu.Lock()
	if w.term != term { // else the news was about something other than our leadership: deadlines stand
		w.term, w.lessor, w.heard = term, NewLessor(), 0
	}
	w.mu.Unlock()
	defer func() {
		if now, _ := w.node.Leadership(); now != term {
			w.stepDown()
		}
	}()
	changed := w.hear()
	var hearAt time.Duration // when changes are taken in, 0: there are none
	for {
		due := w.untilNext()
		wait, news := due, changed
		if hearAt != 0 {
			wait, news = min(due, max(hearAt-w.node.Mono(), 0)), nil
		}
		switch w.tasks.Wait(wait, over, w.node.StoppedC(), w.news, news) {
		case 0, 1:
			return
		case 3:
			hearAt = w.node.Mono() + hearPause
		case -1:
			if hearAt != 0 && w.node.Mono() >= hearAt {
				hearAt = 0
				changed = w.hear()
			}
			if wait == due {
				w.revokeDue(term)
			}
		}
	}
}

func (w *Worker) stepDown() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.term, w.lessor = 0, nil
}

// hear applies the changes since its last call, or all leases at the beginning of a term. The returned channel is closed by the next
// change. Its cost depends on the changes alone, not on the number of leases.
func (w *Worker) hear() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	changes, version, whole, changed := w.kv.LeaseChanges(w.heard)
	w.heard = version
	now := w.node.Tick()
	if whole {
		w.lessor.Sync(changes, now)
		return changed
	}
	for i := range changes {
		w.lessor.Change(changes[i], now)
	}
	return changed
}

// untilNext is the time to the next deadline, at most an hour: the cluster's tick and this timer may part.
func (w *Worker) untilNext() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	next := w.lessor.NextDeadline()
	if next == Never {
		return time.Hour
	}
	return min(time.Duration(max(next-w.node.Tick(), 0))*time.Millisecond, time.Hour)
}

// revokeDue proposes the end of expired leases, under the term in which the expiry was found. If that term is over the command is dead, and
// the next leader gives them their full time.
func (w *Worker) revokeDue(term uint64) {
	w.mu.Lock()
	ids := w.lessor.Due(w.node.Tick(), revokeBatch)
	w.mu.Unlock()
	if len(ids) == 0 {
		return
	}
	body := kvpart.Append(nil, &kvpart.Part{Revoke: &kvpart.LeaseRevoke{IDs: ids, Expired: true}})
	res, err := worker.Propose(w.node, term, entry.Part{Machine: entry.MachineKV, Body: body})
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil || res.Rejection != nil {
		w.lessor.Retry(ids, w.node.Tick()+retryAfterMs)
		return
	}
	w.lessor.Revoked(ids)
	w.expired.Add(uint64(len(ids)))
}

// errNotLeading tells the calling member to look for the leader again.
var errNotLeading = node.ErrNotLeader

// keepAlive answers one renewal. It waits for a round that begins after it came.
func (w *Worker) keepAlive(ctx context.Context, req []byte) ([]byte, error) {
	id, err := kvpart.DecodeLeaseID(req)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	if w.term == 0 {
		w.mu.Unlock()
		return nil, errNotLeading
	}
	if w.queued == nil {
		w.queued = &round{done: make(chan struct{})}
		select {
		case w.kick <- struct{}{}:
		default:
		}
	}
	r, at := w.queued, len(w.queued.ids)
	r.ids = append(r.ids, id)
	w.mu.Unlock()
	switch w.tasks.Wait(task.Forever, r.done, ctx.Done(), w.node.StoppedC()) {
	case 1:
		return nil, ctx.Err()
	case 2:
		return nil, node.ErrStopped
	}
	if r.err != nil {
		return nil, r.err
	}
	return kvpart.AppendLeaseTime(nil, kvpart.LeaseTime{Granted: r.ttl[at], Remaining: r.ttl[at]}), nil
}

// confirm runs the rounds: renewals queued during one round share the next.
func (w *Worker) confirm() {
	for {
		if w.tasks.Wait(task.Forever, w.kick, w.node.StoppedC()) == 1 {
			return
		}
		w.mu.Lock()
		r, term := w.queued, w.term
		w.queued = nil
		w.mu.Unlock()
		r.err = worker.Confirm(w.node, term)
		if r.err == nil {
			r.err = w.renew(r, term)
		}
		if r.err == nil && r.over {
			// Before an owner hears that its lease is gone: this member may have slept since the round, and another leader have
			// renewed the lease. So the leadership is confirmed once more.
			r.err = worker.Confirm(w.node, term)
		}
		close(r.done)
	}
}

// renew gives the leases of a confirmed round their time.
func (w *Worker) renew(r *round, term uint64) error {
	r.ttl = make([]int64, len(r.ids))
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.term != term {
		return errNotLeading
	}
	now := w.node.Tick()
	for i, id := range r.ids {
		var over bool
		r.ttl[i], over = w.renewOne(id, now)
		r.over = r.over || over
	}
	return nil
}

// renewOne gives a lease its time and returns it; 0: there is no such lease, or its time is over, as over says. The caller holds mu.
func (w *Worker) renewOne(id, now int64) (ttl int64, over bool) {
	// It may have been granted, revoked, or both, since the worker has heard of it. Everything acknowledged before the round is applied here.
	if l, ok := w.kv.Lease(id); !ok {
		w.lessor.Revoked([]int64{id})
	} else if w.lessor.Add(l, now) {
		select {
		case w.news <- struct{}{}:
		default:
		}
	}
	ttl, state := w.lessor.Renew(id, now)
	if ttl != 0 {
		w.renewed.Add(1)
	}
	return ttl, state == Expiring
}

// RenewAtOnce renews a lease if that needs no round: this member leads and is alone. ttl is then in seconds, 0 if there is no such lease. ok
// false: nothing has happened, and the lease's owner has to ask by kvpart.CallLeaseKeepAlive. Any goroutine.
func (w *Worker) RenewAtOnce(id int64) (ttl int64, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.term == 0 || !w.node.LeadsAlone(w.term) {
		return 0, false
	}
	ttl, over := w.renewOne(id, w.node.Tick())
	if over && !w.node.LeadsAlone(w.term) { // see confirm
		return 0, false
	}
	return ttl, true
}

// timeToLive answers the remaining time of a lease. No round confirms that: the answer is old by the time it arrives anyway. The absence of
// a lease is confirmed by a round.
func (w *Worker) timeToLive(_ context.Context, req []byte) ([]byte, error) {
	id, err := kvpart.DecodeLeaseID(req)
	if err != nil {
		return nil, err
	}
	if _, ok := w.kv.Lease(id); !ok {
		// The member that answered its grant may have applied it before this one.
		w.mu.Lock()
		term := w.term
		w.mu.Unlock()
		if err := worker.Confirm(w.node, term); err != nil {
			return nil, err
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.term == 0 {
		return nil, errNotLeading
	}
	l, ok := w.kv.Lease(id)
	if !ok {
		return kvpart.AppendLeaseTime(nil, kvpart.LeaseTime{}), nil
	}
	now := w.node.Tick()
	w.lessor.Add(l, now)
	granted, remaining, _ := w.lessor.Remaining(id, now)
	return kvpart.AppendLeaseTime(nil, kvpart.LeaseTime{Granted: granted, Remaining: remaining}), nil
}
