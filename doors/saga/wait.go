package saga

import (
	"net/http"
	"strings"
	"sync"
	"time"

	sagamachine "github.com/holdfastdb/holdfast/doors/saga/machine"
	sagapart "github.com/holdfastdb/holdfast/doors/saga/part"
)

// waiter collects what becomes of a gid from some moment on.
type waiter struct {
	cancel func()
	news   chan struct{} // holds one token while there is something in events

	mu     sync.Mutex
	events []event // guarded by mu
}

// event is one change of a transaction.
type event struct {
	sagapart.State
	ended bool // a pass over it has ended
}

// maxEvents bounds the events of a slow waiter. A transaction has five statuses, and ends of passes over one that stays where it is are one
// event.
const maxEvents = 16

// wait begins to watch a gid. The caller calls cancel, once.
func (d *Door) wait(gid string) *waiter {
	w := &waiter{news: make(chan struct{}, 1)}
	cancel := d.machine.Watch(gid, func(s sagapart.State, _ uint32, ended bool) { w.add(event{s, ended}) })
	d.waiting.Add(1)
	w.cancel = func() {
		cancel()
		d.waiting.Add(-1)
	}
	return w
}

// add is called while readers wait: it does as little as it can.
func (w *waiter) add(e event) {
	w.mu.Lock()
	if n := len(w.events); n > 0 && w.events[n-1].Number == e.Number && w.events[n-1].Status == e.Status {
		w.events[n-1].ended = w.events[n-1].ended || e.ended
	} else {
		if n == maxEvents { // the newest says the most
			w.events = w.events[:n-1]
		}
		w.events = append(w.events, e)
	}
	w.mu.Unlock()
	select {
	case w.news <- struct{}{}:
	default:
	}
}

// take returns what has come since the last call.
func (w *waiter) take() (events []event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	events, w.events = w.events, nil
	return events
}

// patience is how long a request waits before it is worth watching whether its client is still there.
const patience = 100 * time.Millisecond

// outcome waits until the submitted transaction has ended, or a pass over it has, and returns the result: nil is success. It shows nothing
// before the recording command is applied here: its events are published ones.
func (d *Door) outcome(q *ask, w *waiter, st *sagapart.State) error {
	q.saw = true
	late := time.NewTimer(d.opts.WaitTimeout)
	defer late.Stop()
	look := time.NewTimer(patience)
	defer look.Stop()
	var gone <-chan struct{}
	if st.Was == st.Status { // it may have ended before the watch began, or since it was last looked at
		t, err := d.machine.BriefNumber(st.Number)
		if err != nil {
			return err
		}
		if t == nil || t.Status.Final() {
			return outcomeOf(t)
		}
	}
	for {
		for _, e := range w.take() {
			if e.Number == st.Number && rank[e.Status] >= rank[st.Status] && (e.ended || e.Status.Final()) { // others are of before the command
				return d.heard(e)
			}
		}
		select {
		case <-w.news:
		case <-look.C:
			if q.gone != nil {
				gone = q.gone()
			}
		case <-gone:
			return notYet()
		case <-late.C:
			return notYet()
		case <-d.stopping:
			return refuse(http.StatusInternalServerError, "the transaction is submitted, and this member stops before its outcome is known; look at /query")
		case <-d.node.StoppedC():
			return refuse(http.StatusInternalServerError, "the transaction is submitted, and this member stopped before its outcome is known; look at /query")
		}
	}
}

// notYet is the answer to a client that waited for a success that has not come: the transaction goes on. DTM says FAILURE here, and its clients
// undo by hand what may yet succeed.
func notYet() error {
	return refuse(http.StatusTooEarly, "wait result not return success: the transaction is still going on; ask GET /api/dtmsvr/query for its outcome, "+
		"or submit it again with the same gid to wait once more %s", wordOngoing)
}

// heard is the answer to the waiting client, by the event that ended the waiting.
func (d *Door) heard(e event) error {
	if e.Status == sagapart.Succeed {
		return nil
	}
	t, err := d.machine.BriefNumber(e.Number)
	if err != nil {
		return err
	}
	return outcomeOf(t)
}

// outcomeOf is the answer to a client that waited for a transaction that stands as t says; nil: it is forgotten.
func outcomeOf(t *sagamachine.Transaction) error {
	switch {
	case t == nil:
		return notYet()
	case t.Status == sagapart.Succeed:
		return nil
	case t.Status != sagapart.Failed && t.Status != sagapart.Aborting:
		return notYet()
	case t.Reason == "":
		return failed("the transaction has failed, status '%s'", t.Status)
	}
	return failed("%s", strings.TrimSuffix(t.Reason, " "+wordFailure))
}
