package advance

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/core/node"
	"github.com/holdfastdb/holdfast/doors/saga/outcall"
	sagapart "github.com/holdfastdb/holdfast/doors/saga/part"
	"github.com/holdfastdb/holdfast/internal/wait"
)

// bank is services that outlive every leader and do each branch once, like those with DTM's barrier. A repeated call changes nothing and
// gets the same answer, and a compensation without its action keeps that from being done later. It notes forbidden events.
type bank struct {
	h *house

	mu       sync.Mutex                  // guards the rest
	first    map[string][]outcall.Result // what the first calls of a name come to; afterwards it is last, or ok
	last     map[string]outcall.Result
	doubtful bool              // what may have been called is undone as well
	onCall   func(name string) // called before a call is served; nil: nothing is
	parallel bool              // calls of one op may go out side by side
	tried    map[string]int
	done     map[string]bool
	heard    map[string]sagapart.Status // what the present leader knows of a place: "gid action 02"
	trouble  []string
}

func newBank(h *house) *bank {
	return &bank{h: h, first: map[string][]outcall.Result{}, last: map[string]outcall.Result{}, tried: map[string]int{}, done: map[string]bool{},
		heard: map[string]sagapart.Status{}}
}

// serve is one call.
func (b *bank) serve(name string, req *outcall.Request) outcall.Result {
	if b.onCall != nil {
		b.onCall(name)
	}
	tx := b.h.find(req.Gid) // what the log says while the call is made
	b.mu.Lock()
	defer b.mu.Unlock()
	wrong := func(format string, args ...any) { b.trouble = append(b.trouble, fmt.Sprintf(format, args...)) }
	if tx.Status.Final() {
		wrong("%s is called although all is over", name)
	}
	for _, br := range tx.Branches {
		key := br.Op + " " + br.ID
		if key == name && br.Status != sagapart.Prepared {
			wrong("%s is called again although the log has what it came to", name)
		}
		if req.Op != sagapart.OpAction && b.heard[key] != 0 && br.Status == sagapart.Prepared && !(b.parallel && req.Op == br.Op) {
			wrong("%s is called although the log does not have %s", name, key)
		}
	}
	if req.Op == sagapart.OpCompensate || req.Op == sagapart.OpCancel || req.Op == sagapart.OpRollback {
		if tx.Status != sagapart.Aborting {
			wrong("%s is called while it is %s", name, tx.Status)
		}
	}
	if req.Op == sagapart.OpCompensate && b.tried["action "+req.BranchID] == 0 && !b.doubtful {
		wrong("%s is called without a call of its action", name)
	}
	b.tried[name]++
	result, known := b.last[name]
	if !known {
		result = ok
	}
	if all := b.first[name]; len(all) > 0 {
		result, b.first[name] = all[0], all[1:]
	}
	if result.Outcome == outcall.OK {
		b.done[name] = true
	}
	return result
}

// hear notes that a leader has an answer.
func (b *bank) hear(name string, r outcall.Result) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch r.Outcome {
	case outcall.OK:
		b.heard[name] = sagapart.Succeed
	case outcall.Failure:
		if strings.HasPrefix(name, "action") {
			b.heard[name] = sagapart.Failed
		}
	}
}

// mortal is a leader's Caller and log, which die at a moment. Each call and each command has two such moments, before it takes effect and
// before its outcome is heard.
type mortal struct {
	b *bank

	mu   sync.Mutex // guards the rest
	left int        // moments to live, below 0: for ever
	seen int
	dead chan struct{}
}

// moment counts one, and reports whether the leader is still alive.
func (m *mortal) moment() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	select {
	case <-m.dead:
		return false
	default:
	}
	m.seen++
	if m.left == 0 {
		close(m.dead)
		return false
	}
	m.left--
	return true
}

// Go implements outcall.Caller.
func (m *mortal) Go(req *outcall.Request, done func(outcall.Result)) (cancel func()) {
	go func() {
		if !m.moment() {
			return
		}
		name := req.Op + " " + req.BranchID
		r := m.b.serve(name, req)
		if m.moment() {
			m.b.hear(name, r)
			done(r)
		}
	}()
	return func() {}
}

func (m *mortal) change(*sagapart.ChangePart) error {
	if !m.moment() {
		return node.ErrStopped
	}
	return nil
}

// plot is one transaction and what becomes of it.
type plot struct {
	name  string
	begin func(h *house)
	bank  func(b *bank)
	ends  string // as it stands at the end, or its status alone where the rest is a matter of moments
}

func registered(mode sagapart.Mode, to sagapart.Status) func(h *house) {
	return func(h *house) {
		pair := ops[mode]
		h.begin("x", mode, sagapart.Prepared, nil)
		h.register("x", "01", pair[0], pair[1])
		h.register("x", "02", pair[0], pair[1])
		h.move("x", sagapart.Prepared, to, "")
	}
}

var plots = []plot{
	{name: "a saga", begin: func(h *house) { h.saga("x", 3) }, ends: "succeed p s p s p s"},
	{name: "a saga that fails", begin: func(h *house) { h.saga("x", 4) }, ends: "failed s s s s s f p p",
		bank: func(b *bank) {
			b.last["action 03"] = failure
			b.first["compensate 02"] = []outcall.Result{transient, ongoing}
		}},
	{name: "a saga that a client aborts", begin: func(h *house) { h.saga("x", 4) }, bank: func(b *bank) {
		var once sync.Once
		b.onCall = func(name string) {
			if name == "action 03" {
				once.Do(func() { b.h.abort("x") })
			}
		}
	}, ends: "failed"},
	{name: "a saga with a time limit", begin: func(h *house) { h.saga("x", 3, timesOut(1e9)) }, ends: "failed s s s s s f",
		bank: func(b *bank) { b.last["action 03"] = failure; b.first["action 02"] = []outcall.Result{ongoing} }},
	{name: "a saga with a retry limit", begin: func(h *house) { h.saga("x", 3, retryLimit(2)) }, ends: "failed s s s p p p",
		bank: func(b *bank) { b.last["action 02"] = transient }},
	{name: "a concurrent saga", begin: func(h *house) { h.saga("x", 4, customData(`{"concurrent":true,"orders":{"1":[0],"2":[0],"3":[1,2]}}`)) },
		ends: "succeed p s p s p s p s"},
	{name: "a concurrent saga that fails", begin: func(h *house) { h.saga("x", 4, customData(`{"concurrent":true,"orders":{"1":[0],"2":[0],"3":[1,2]}}`)) },
		ends: "failed s s s s s s s f", bank: func(b *bank) { b.last["action 04"] = failure; b.parallel = true }},
	{name: "a message", begin: func(h *house) { h.msg("x", sagapart.Submitted, 3) }, ends: "succeed s s s",
		bank: func(b *bank) { b.first["action 02"] = []outcall.Result{failure} }},
	{name: "a message that is asked about", begin: func(h *house) { h.msg("x", sagapart.Prepared, 2) }, ends: "succeed s s",
		bank: func(b *bank) { b.first["msg 00"] = []outcall.Result{transient} }},
	{name: "tcc confirmed", begin: registered(sagapart.TCC, sagapart.Submitted), ends: "succeed p s p s"},
	{name: "tcc cancelled", begin: registered(sagapart.TCC, sagapart.Aborting), ends: "failed s p s p"},
	{name: "xa committed", begin: registered(sagapart.XA, sagapart.Submitted), ends: "succeed p s p s",
		bank: func(b *bank) { b.first["commit 01"] = []outcall.Result{ongoing} }},
	{name: "xa rolled back", begin: registered(sagapart.XA, sagapart.Aborting), ends: "failed s p s p"},
}

// play runs a plot with leaders that die after so many moments each, and one at the end that does not. It returns how many moments the
// first had.
func (p *plot) play(t *testing.T, lives ...int) (moments int) {
	h := newHouse(t)
	b := newBank(h)
	if p.bank != nil {
		p.bank(b)
	}
	b.doubtful = p.ends == sagapart.Failed.String()
	p.begin(h)
	lives = append(lives, -1)
	for term, life := range lives {
		m := &mortal{b: b, left: life, dead: make(chan struct{})}
		h.mu.Lock()
		h.before, h.after = m.change, m.change
		h.mu.Unlock()
		l := h.lead(uint64(term+1), Options{Caller: m})
		h.until(l, m.dead)
		l.Stop()
		eventually(t, "it has stopped", func() bool { return l.w.current() == nil })
		b.mu.Lock()
		clear(b.heard)
		b.mu.Unlock()
		if term == 0 {
			m.mu.Lock()
			moments = m.seen
			m.mu.Unlock()
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	got := h.stands("x")
	if !strings.HasPrefix(got, p.ends) || len(b.trouble) > 0 {
		t.Errorf("%s, leaders that live for %v moments: it ended as %s\n%s", p.name, lives, got, strings.Join(b.trouble, "\n"))
	}
	for _, br := range h.find("x").Branches {
		if br.Op == sagapart.OpCompensate && b.done["action "+br.ID] && b.done["compensate "+br.ID] != strings.HasPrefix(got, "failed") {
			t.Errorf("%s, leaders that live for %v moments: it ended as %s, step %s was undone: %v", p.name, lives, got, br.ID, b.done["compensate "+br.ID])
		}
		if name := br.Op + " " + br.ID; !b.doubtful && b.done[name] != (br.Status == sagapart.Succeed) && br.Status != sagapart.Prepared {
			t.Errorf("%s, leaders that live for %v moments: %s is %s, but the service has done it: %v", p.name, lives, name, br.Status, b.done[name])
		}
	}
	return moments
}

// until lets time pass until the transaction has ended or the leader is dead.
func (h *house) until(l *leader, dead <-chan struct{}) {
	h.t.Helper()
	for end := time.Now().Add(wait.Limit(h.t)); ; time.Sleep(300 * time.Microsecond) {
		select {
		case <-dead:
			return
		default:
		}
		if h.find("x").Status.Final() {
			return
		}
		if c := l.w.Counts(); l.w.current() != nil && c.Running+c.Waiting == 0 {
			l.advance(5_000)
		} else if l.settled() {
			l.advance(100)
		}
		if time.Now().After(end) {
			h.t.Fatalf("it does not end: %s", h.stands("x"))
		}
	}
}

// TestALeaderDiesAtEveryMoment: at any moment, the next one brings the transaction to the end it would have had. No service is called
// against what the log says, nothing is undone that was not begun, and what the log has is not asked again.
func TestALeaderDiesAtEveryMoment(t *testing.T) {
	for i := range plots {
		p := &plots[i]
		t.Run(strings.ReplaceAll(p.name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			n := p.play(t)
			for life := range n {
				p.play(t, life)
				if life%3 == 0 {
					p.play(t, life, (life*7+1)%n)
				}
			}
		})
	}
}

// TestADeposedLeader that has not noticed goes on calling, which cannot be prevented; nothing it hears reaches the log.
func TestADeposedLeader(t *testing.T) {
	h := newHouse(t)
	old := h.leadWith(1, Options{}, newScript(), deaf{h.m})
	old.answer("action 02", hang)
	h.saga("order", 3)
	eventually(t, "the second step is called", old.has(2))
	old.Depose(true)
	next := h.lead(2, Options{})
	next.pass("order")
	h.logged("begin", "succeed 1=succeed 3=succeed 5=succeed")
	old.release(t, "action 02", failure)
	eventually(t, "it has tried to say so", func() bool { return slices.Equal(old.Proposed(), []uint64{1}) })
	eventually(t, "and gave up", func() bool { c := old.w.Counts(); return c.Running+c.Waiting == 0 })
	h.logged()
	h.ends("order", "succeed p s p s p s")
}

// TestAnAnswerOfAnEarlierTerm leads to nothing, on the same member that leads again.
func TestAnAnswerOfAnEarlierTerm(t *testing.T) {
	h := newHouse(t)
	l := h.lead(1, Options{})
	l.stuck = true
	l.answer("action 01", hang, hang)
	h.saga("order", 1)
	eventually(t, "it is called", l.has(1))
	l.Lead(2)
	eventually(t, "it is called again", l.has(2))
	l.release(t, "action 01", failure) // of term 1
	h.saga("next", 1, func(b *sagapart.BeginPart) { b.Branches[1].ID = "09" })
	l.pass("next") // the consequence of the answer was proposed before
	l.release(t, "action 01", ok)
	l.pass("order")
	h.ends("order", "succeed p s")
	if got := l.Proposed(); !slices.Equal(got, []uint64{2, 2}) {
		t.Errorf("proposed in terms %v", got)
	}
}

// TestNewsThatIsNotAboutUs does not begin anything a second time.
func TestNewsThatIsNotAboutUs(t *testing.T) {
	h := newHouse(t)
	l := h.lead(1, Options{})
	l.answer("action 01", hang)
	h.saga("order", 1)
	eventually(t, "it is called", l.has(1))
	for range 10 {
		l.advance(10_000)
	}
	h.move("order", sagapart.Submitted, sagapart.Submitted, "") // its timer set again and again
	l.advance(1)
	h.saga("next", 1, func(b *sagapart.BeginPart) { b.Branches[1].ID = "09" })
	l.pass("next") // so the worker has heard of all before
	l.release(t, "action 01", ok)
	l.pass("order")
	h.ends("order", "succeed p s")
	l.called("action 01", "action 09")
}

// TestCommandsThatDoNotGetThrough: a command that was not taken is proposed again, one with an unknown end is looked for in the log.
func TestCommandsThatDoNotGetThrough(t *testing.T) {
	for _, c := range []struct {
		name          string
		before, after error
		want          []string
	}{
		{"a full lane", node.ErrOverloaded, nil, []string{"begin", "succeed 1=succeed"}},
		{"no leader", node.ErrNoLeader, nil, []string{"begin", "succeed 1=succeed"}},
		{"not in the log, but nobody knows", node.ErrUnknown, nil, []string{"begin", "succeed 1=succeed"}},
		{"in the log, but nobody knows", nil, node.ErrUnknown, []string{"begin"}}, // the rig notes what was answered
		{"an error that is new", errors.New("the moon is full"), nil, []string{"begin", "succeed 1=succeed"}},
	} {
		h := newHouse(t)
		once := func(err error) func(*sagapart.ChangePart) error {
			left := 1
			return func(*sagapart.ChangePart) error {
				if left--; left < 0 {
					return nil
				}
				return err
			}
		}
		h.before, h.after = once(c.before), once(c.after)
		l := h.lead(1, Options{})
		h.saga("order", 1)
		eventually(t, c.name+": tried", func() bool { return len(l.Proposed()) > 0 })
		for i := 0; !h.find("order").Status.Final() && i < 2000; i++ {
			time.Sleep(time.Millisecond)
			l.advance(50)
		}
		l.pass("order")
		l.called("action 01")
		h.ends("order", "succeed p s")
		if got := h.commands(); !slices.Equal(got, c.want) {
			t.Errorf("%s: logged %q", c.name, got)
		}
		l.Stop()
	}
}
