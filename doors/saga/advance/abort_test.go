package advance

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	sagamachine "github.com/holdfastdb/holdfast/doors/saga/machine"
	sagapart "github.com/holdfastdb/holdfast/doors/saga/part"
)

// abort is what a client says that does not want a submitted saga any more.
func (h *house) abort(gid string) {
	h.t.Helper()
	h.move(gid, sagapart.Submitted, sagapart.Aborting, "no longer wanted")
}

// TestASagaIsAbortedInTheMiddleOfACall: what the call comes to is heard, and then all is undone.
func TestASagaIsAbortedInTheMiddleOfACall(t *testing.T) {
	h := newHouse(t)
	l := h.lead(1, Options{})
	l.ownTime()
	l.answer("action 02", hang)
	h.saga("order", 4)
	eventually(t, "the second step is called", l.has(2))
	h.abort("order")
	l.settle()
	l.release(t, "action 02", ok)
	l.pass("order")
	l.called("action 01", "action 02", "compensate 02", "compensate 01")
	h.ends("order", "failed s s s s s p s p")
	if got := h.find("order").Reason; got != "no longer wanted" {
		t.Errorf("reason %q", got)
	}
}

// ownTime lets time pass until a new saga cannot be an earlier leader's.
func (l *leader) ownTime() {
	l.h.t.Helper()
	eventually(l.h.t, "the term has begun", func() bool { return l.w.current() != nil })
	l.advance(inheritedSlackMs + 1)
}

// settle waits until the worker has looked at what was asked for.
func (l *leader) settle() {
	l.h.t.Helper()
	eventually(l.h.t, "the worker has looked", func() bool {
		t := l.w.current()
		t.mu.Lock()
		defer t.mu.Unlock()
		for _, k := range t.known {
			if k.pass == nil {
				return false
			}
			k.pass.mu.Lock()
			seen := !k.pass.busy && k.pass.tx().Reason != ""
			k.pass.mu.Unlock()
			if !seen {
				return false
			}
		}
		return true
	})
}

// TestASagaIsAbortedWhileItWaits for its next try: at once, and without a further try.
func TestASagaIsAbortedWhileItWaits(t *testing.T) {
	h := newHouse(t)
	l := h.lead(1, Options{})
	l.ownTime()
	l.answer("action 02", transient)
	h.saga("order", 3)
	l.pass("order")
	h.abort("order")
	l.pass("order")
	l.called("action 01", "action 02", "compensate 02", "compensate 01")
	h.ends("order", "failed s s s f s p")
}

// TestASagaIsAbortedBeforeItBegins: nothing is called at all.
func TestASagaIsAbortedBeforeItBegins(t *testing.T) {
	h := newHouse(t)
	l := h.lead(1, Options{})
	l.ownTime()
	h.saga("order", 2, func(b *sagapart.BeginPart) { b.FirstMs = 60_000 })
	h.abort("order")
	l.pass("order")
	l.called()
	h.ends("order", "failed p p p p")
}

// TestASagaIsAbortedAcrossLeaders: the next leader does not know how far the other had come without the log, so it undoes all that may have
// been done.
func TestASagaIsAbortedAcrossLeaders(t *testing.T) {
	h := newHouse(t)
	old := h.lead(1, Options{})
	old.answer("action 03", hang)
	h.saga("order", 4)
	eventually(t, "the third step is called", old.has(3))
	old.Depose(true)
	h.abort("order")
	next := h.lead(2, Options{})
	next.pass("order")
	next.called("compensate 04", "compensate 03", "compensate 02", "compensate 01")
	h.ends("order", "failed s f s f s f s f")
}

// late is a machine whose timers are read late: the member that leads is busy, or has many.
type late struct {
	*sagamachine.Machine
	open chan struct{}
}

func (l late) Due(after sagamachine.Timer, until int64, limit int) ([]sagamachine.Timer, error) {
	<-l.open
	return l.Machine.Due(after, until, limit)
}

// TestASagaIsAbortedBeforeTheNextLeaderLooks: its timer says that it is due since the abort, and the leader before had come to its third step all
// the same. Before, the steps that were done stayed done.
func TestASagaIsAbortedBeforeTheNextLeaderLooks(t *testing.T) {
	h := newHouse(t)
	old := h.lead(1, Options{})
	old.answer("action 03", hang)
	h.saga("order", 4)
	eventually(t, "the third step is called", old.has(3))
	old.Depose(true)
	slow := late{h.m, make(chan struct{})}
	next := h.leadWith(2, Options{}, newScript(), slow)
	eventually(t, "the term has begun", func() bool { return next.w.current() != nil })
	atomic.AddInt64(&h.tick0, 5*inheritedSlackMs)
	h.abort("order")
	close(slow.open)
	next.pass("order")
	next.called("compensate 04", "compensate 03", "compensate 02", "compensate 01")
	h.ends("order", "failed s f s f s f s f")
}

// TestASagaThatItsOwnLeaderHasPassed in part is known to it: what was not called is not undone, although the saga is older than the term.
func TestASagaThatItsOwnLeaderHasPassed(t *testing.T) {
	h := newHouse(t)
	old := h.lead(1, Options{})
	old.answer("action 01", hang)
	h.saga("order", 3)
	eventually(t, "the first step is called", old.has(1))
	old.Depose(true)
	services := newScript() // before the worker runs: it may call the second step at once
	services.answer("action 02", transient)
	next := h.leadWith(2, Options{}, services, h.m)
	next.pass("order")
	atomic.AddInt64(&h.tick0, 5*inheritedSlackMs)
	h.abort("order")
	next.pass("order")
	next.called("action 01", "action 02", "compensate 02", "compensate 01")
}

// TestASagaThatIsStoppedByForce is left as it is.
func TestASagaThatIsStoppedByForce(t *testing.T) {
	h := newHouse(t)
	l := h.lead(1, Options{})
	l.answer("action 02", hang)
	h.saga("order", 3)
	eventually(t, "the second step is called", l.has(2))
	h.move("order", sagapart.Submitted, sagapart.Failed, "by force")
	l.settle()
	l.release(t, "action 02", ok)
	l.pass("order")
	l.called("action 01", "action 02")
	h.ends("order", "failed p p p p p p")
}

// TestASagaThatWaitsForAnEndpoint is aborted all the same.
func TestASagaThatWaitsForAnEndpoint(t *testing.T) {
	h := newHouse(t)
	l := h.lead(1, Options{PerEndpoint: 1})
	l.ownTime()
	l.answer("action 02", hang)
	for i := range 3 {
		h.saga(fmt.Sprint("s", i), 2, stepAt(0, fmt.Sprint("fine", i)), stepAt(1, "dead"))
		eventually(t, "it is known", func() bool { c := l.w.Counts(); return c.Running == 1 && c.Waiting == i })
	}
	h.abort("s1")
	l.pass("s1")
	h.ends("s1", "failed s s s p")
	l.release(t, "action 02", ok)
	l.pass("s0")
	l.pass("s2")
	h.ends("s2", "succeed p s p s")
}

// TestByHand: a due pass begins by itself, a later one waits for Once.
func TestByHand(t *testing.T) {
	h := newHouse(t)
	l := h.lead(1, Options{ByHand: true})
	l.ownTime()
	l.answer("action 01", ongoing)
	h.saga("order", 1)
	eventually(t, "it is called", l.has(1))
	l.pass("order")
	l.advance(20_000)
	if gid, err := l.w.Once(0); gid != "order" || err != nil {
		t.Errorf("%q, %v", gid, err)
	}
	h.ends("order", "succeed p s")
	h.saga("later", 1, func(b *sagapart.BeginPart) { b.FirstMs = 10_000 })
	for _, c := range []struct {
		ahead int64
		want  string
	}{{9_000, ""}, {10_000, "later"}, {1e9, ""}} {
		if gid, err := l.w.Once(msec(c.ahead)); gid != c.want || err != nil {
			t.Errorf("within %d ms: %q, %v", c.ahead, gid, err)
		}
	}
	l.Lead(0)
	eventually(t, "it follows", func() bool { return l.w.current() == nil })
	if _, err := l.w.Once(0); err == nil {
		t.Error("a follower runs something")
	}
}

// TestByHandOnePassAtATime: a caller that asks for a pass during one over that transaction gets the next one, after its end.
func TestByHandOnePassAtATime(t *testing.T) {
	h := newHouse(t)
	l := h.lead(1, Options{ByHand: true})
	l.ownTime()
	l.always("action 01", hang)
	h.saga("order", 1)
	eventually(t, "it is called", l.has(1))
	began, ran := make(chan struct{}), make(chan string, 1)
	go func() {
		close(began)
		gid, err := l.w.Once(time.Hour)
		ran <- fmt.Sprint(gid, " ", err)
	}()
	<-began
	eventually(t, "it is waited for", func() bool {
		term := l.w.current()
		term.mu.Lock()
		defer term.mu.Unlock()
		for _, k := range term.known { // any order: there is one
			return k.ended != nil
		}
		return false
	})
	l.release(t, "action 01", ongoing)
	l.pass("order")
	eventually(t, "it is called again", l.has(2))
	l.release(t, "action 01", ok)
	if got := <-ran; got != "order <nil>" {
		t.Error(got)
	}
	h.ends("order", "succeed p s")
}
