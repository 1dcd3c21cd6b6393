package advance

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/core/machine/machinetest"
	"github.com/holdfastdb/holdfast/core/store"
	"github.com/holdfastdb/holdfast/core/worker/workertest"
	sagamachine "github.com/holdfastdb/holdfast/doors/saga/machine"
	"github.com/holdfastdb/holdfast/doors/saga/outcall"
	sagapart "github.com/holdfastdb/holdfast/doors/saga/part"
	"github.com/holdfastdb/holdfast/internal/wait"
)

// house is the log and the machine of a cluster, which several leaders have one after the other.
type house struct {
	t testing.TB
	m *sagamachine.Machine

	mu     sync.Mutex // guards the rest
	rig    *machinetest.Rig
	log    []string     // every command that was applied
	tick   func() int64 // nil: tick0
	tick0  int64
	before func(part *sagapart.ChangePart) error // called before a Change of the worker is applied; an error is its outcome
	after  func(part *sagapart.ChangePart) error // likewise afterwards
}

func newHouse(t testing.TB) *house { return openHouse(t, store.NewMem()) }

func openHouse(t testing.TB, st store.Store) *house {
	m := sagamachine.New(sagamachine.Options{})
	return &house{t: t, m: m, rig: machinetest.Open(t, st, m), tick0: 1000}
}

// now is the cluster tick.
func (h *house) now() int64 {
	if h.tick != nil {
		return h.tick()
	}
	return atomic.LoadInt64(&h.tick0)
}

// apply puts one command into the log.
func (h *house) apply(parts []entry.Part) (*entry.Result, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var p sagapart.Part
	if err := p.Decode(parts[0].Body); err != nil {
		h.t.Errorf("a part that cannot be read: %v", err)
	}
	if p.Kind == sagapart.Change && p.Change.Worker && h.before != nil {
		if err := h.before(p.Change); err != nil {
			return nil, err
		}
	}
	h.rig.Tick = h.now()
	results, err := h.rig.Try(parts)
	if err != nil {
		h.t.Errorf("apply: %v", err)
		return nil, err
	}
	if p.Kind == sagapart.Change && p.Change.Worker && h.after != nil {
		if err := h.after(p.Change); err != nil {
			return nil, err
		}
	}
	if results[0].Rejection == nil {
		h.log = append(h.log, inWords(&p))
	}
	return results[0], nil
}

// inWords is a command as the tests name it.
func inWords(p *sagapart.Part) string {
	if p.Kind != sagapart.Change {
		return map[sagapart.Kind]string{sagapart.Begin: "begin", sagapart.Register: "register", sagapart.Resume: "resume", sagapart.Elapse: "elapse", sagapart.Retain: "retain"}[p.Kind]
	}
	var out []string
	c := p.Change
	if c.To != 0 {
		out = append(out, c.To.String())
	}
	for _, r := range c.Results {
		out = append(out, fmt.Sprintf("%d=%s", r.Branch, r.Status))
	}
	if c.Timer {
		out = append(out, fmt.Sprintf("due in %d", c.NextMs))
	}
	return strings.Join(out, " ")
}

// commands returns what was applied since the last call of commands.
func (h *house) commands() (all []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	all, h.log = h.log, nil
	return all
}

// do applies a client's part, which must not be rejected.
func (h *house) do(p *sagapart.Part) {
	h.t.Helper()
	if res, err := h.apply(machinetest.Command(sagapart.Machine, sagapart.Append(nil, p))); err != nil || res.Rejection != nil {
		h.t.Fatalf("%s: %v, %v", p, res, err)
	}
}

// find returns a transaction that is there.
func (h *house) find(gid string) *sagamachine.Transaction {
	h.t.Helper()
	tx, err := h.m.Find(gid)
	if err != nil || tx == nil {
		h.t.Fatalf("find %s: %v, %v", gid, tx, err)
	}
	return tx
}

// stands is a transaction's status and those of its branches: "succeed p s p s".
func (h *house) stands(gid string) string {
	h.t.Helper()
	tx := h.find(gid)
	out := []string{tx.Status.String()}
	for _, b := range tx.Branches {
		out = append(out, b.Status.String()[:1])
	}
	return strings.Join(out, " ")
}

// ends waits until a transaction stands as said.
func (h *house) ends(gid, stands string) {
	h.t.Helper()
	wait.Until(h.t, fmt.Sprintf("%s: %s", gid, stands), func() bool { return h.stands(gid) == stands })
}

// script plays the services. A call without a line succeeds at once.
type script struct {
	mu      sync.Mutex // guards the rest
	calls   []string   // every call, in order of beginning: "action 01"
	answers map[string][]outcall.Result
	rest    map[string]outcall.Result
	held    map[string][]*heldCall
	asked   []outcall.Request                                      // the same, whole
	refuse  bool                                                   // no call is noted or ever ends: the process is dead
	stuck   bool                                                   // calls under way do not hear that they are cancelled
	on      func(name string, req *outcall.Request) outcall.Result // replaces answers
}

type heldCall struct {
	done func(outcall.Result)
	once sync.Once
}

func newScript() *script {
	return &script{answers: map[string][]outcall.Result{}, rest: map[string]outcall.Result{}, held: map[string][]*heldCall{}}
}

// Results that services give, by what a script says; hang is none until answer.
var (
	ok        = outcall.Result{Outcome: outcall.OK}
	failure   = outcall.Result{Outcome: outcall.Failure, Message: "not enough money"}
	ongoing   = outcall.Result{Outcome: outcall.Ongoing}
	transient = outcall.Result{Outcome: outcall.Transient, Message: "connection refused"}
	hang      = outcall.Result{}
)

// answer sets the results of the next calls of a name: "action 01", "msg 00".
func (s *script) answer(name string, with ...outcall.Result) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers[name] = append(s.answers[name], with...)
}

// always sets the result of a name's calls without one from answer.
func (s *script) always(name string, r outcall.Result) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rest[name] = r
}

// Go implements outcall.Caller.
func (s *script) Go(req *outcall.Request, done func(outcall.Result)) (cancel func()) {
	name := req.Op + " " + req.BranchID
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refuse {
		return func() {}
	}
	s.calls = append(s.calls, name)
	s.asked = append(s.asked, *req)
	if s.on != nil {
		on := s.on
		go func() { done(on(name, req)) }()
		return func() {}
	}
	result, known := s.rest[name]
	if !known {
		result = ok
	}
	if all := s.answers[name]; len(all) > 0 {
		result, s.answers[name] = all[0], all[1:]
	}
	if result != hang {
		go done(result)
		return func() {}
	}
	h := &heldCall{done: done}
	s.held[name] = append(s.held[name], h)
	return func() {
		s.mu.Lock()
		stuck := s.stuck
		s.mu.Unlock()
		if !stuck {
			go h.once.Do(func() { done(outcall.Result{Outcome: outcall.Transient, Message: "cancelled"}) })
		}
	}
}

// release answers the oldest call that hangs.
func (s *script) release(t *testing.T, name string, with outcall.Result) {
	t.Helper()
	s.mu.Lock()
	all := s.held[name]
	if len(all) == 0 {
		s.mu.Unlock()
		t.Fatalf("no call of %q hangs", name)
	}
	h := all[0]
	s.held[name] = all[1:]
	s.mu.Unlock()
	h.once.Do(func() { h.done(with) })
}

// made returns the calls since the last call of made.
func (s *script) made() (all []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all, s.calls = s.calls, nil
	return all
}

func (s *script) has(n int) func() bool {
	return func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.calls) >= n
	}
}

// leader is one member that leads, with its worker.
type leader struct {
	*workertest.Member
	*script
	h    *house
	w    *Worker
	term uint64

	passes chan string // gids of passes that ended
}

// lead starts a member that leads in a term.
func (h *house) lead(term uint64, opt Options) *leader {
	return h.leadWith(term, opt, newScript(), h.m)
}

// deaf is a machine that does not say when others change a transaction, as that of a member that is cut off.
type deaf struct{ *sagamachine.Machine }

func (deaf) Watch(string, func(sagapart.State, uint32, bool)) (cancel func()) { return func() {} }

// leadWith is lead with services that have their script already, and what the worker reads.
func (h *house) leadWith(term uint64, opt Options, s *script, m reader) *leader {
	h.t.Helper()
	l := &leader{Member: workertest.New(), script: s, h: h, term: term, passes: make(chan string, 100_000)}
	if opt.Caller == nil {
		opt.Caller = l.script
	}
	opt.Ended = func(gid string) { l.passes <- gid }
	l.Member.OnPropose(h.apply)
	l.w = newWorker(&clocked{l.Member, h}, m, opt)
	l.Lead(term)
	l.Run(h.t, l.w.Run)
	return l
}

// clocked is a member whose tick is that of the house.
type clocked struct {
	*workertest.Member
	h *house
}

func (c *clocked) Tick() int64 { return c.h.now() }

// pass waits for the end of a pass over a transaction.
func (l *leader) pass(gid string) {
	l.h.t.Helper()
	select {
	case got := <-l.passes:
		if got != gid {
			l.h.t.Fatalf("a pass over %s ended instead of one over %s", got, gid)
		}
	case <-time.After(wait.Limit(l.h.t)):
		l.h.t.Fatalf("no pass over %s ended; calls %v, log %v", gid, l.made(), l.h.commands())
	}
}

// advance lets time pass for the cluster, and has the worker look.
func (l *leader) advance(ms int64) {
	atomic.AddInt64(&l.h.tick0, ms)
	l.Lead(l.term) // news about who leads: the worker looks again
}

// called fails the test unless the calls since the last look were these.
func (l *leader) called(want ...string) {
	l.h.t.Helper()
	if got := l.made(); !slices.Equal(got, want) {
		l.h.t.Errorf("called %v, want %v", got, want)
	}
}

// logged fails the test unless the commands since the last look were these.
func (h *house) logged(want ...string) {
	h.t.Helper()
	if got := h.commands(); !slices.Equal(got, want) {
		h.t.Errorf("logged %q, want %q", got, want)
	}
}

// Transactions that clients begin.

func (h *house) begin(gid string, mode sagapart.Mode, status sagapart.Status, branches []sagapart.Branch, edits ...func(*sagapart.BeginPart)) {
	h.t.Helper()
	b := &sagapart.BeginPart{Status: status, Branches: branches, IntervalMs: 10_000}
	b.Definition = sagapart.Definition{Gid: gid, Mode: mode, Protocol: outcall.HTTP, QueryPrepared: "http://client/query"}
	if status == sagapart.Prepared {
		b.FirstMs = 10_000
	}
	for _, edit := range edits {
		edit(b)
	}
	h.do(&sagapart.Part{Kind: sagapart.Begin, Begin: b})
}

// saga begins a saga of some steps, submitted.
func (h *house) saga(gid string, steps int, edits ...func(*sagapart.BeginPart)) {
	h.t.Helper()
	var all []sagapart.Branch
	for k := range steps {
		id := fmt.Sprintf("%02d", k+1)
		payload := []byte("{}")
		all = append(all,
			sagapart.Branch{ID: id, Op: sagapart.OpCompensate, URL: "http://s" + id + "/undo", Status: sagapart.Prepared, Payload: payload},
			sagapart.Branch{ID: id, Op: sagapart.OpAction, URL: "http://s" + id + "/do", Status: sagapart.Prepared, Payload: payload})
	}
	h.begin(gid, sagapart.Saga, sagapart.Submitted, all, edits...)
}

// msg begins a message to some services.
func (h *house) msg(gid string, status sagapart.Status, to int, edits ...func(*sagapart.BeginPart)) {
	h.t.Helper()
	var all []sagapart.Branch
	for k := range to {
		id := fmt.Sprintf("%02d", k+1)
		all = append(all, sagapart.Branch{ID: id, Op: sagapart.OpAction, URL: "http://s" + id + "/take", Status: sagapart.Prepared})
	}
	h.begin(gid, sagapart.Msg, status, all, edits...)
}

// register adds a branch of tcc or xa as a client does: two rows.
func (h *house) register(gid, id string, first, second string) {
	h.t.Helper()
	h.do(&sagapart.Part{Kind: sagapart.Register, Register: &sagapart.RegisterPart{Gid: gid, Branches: []sagapart.Branch{
		{ID: id, Op: first, URL: "http://s" + id + "/", Status: sagapart.Prepared},
		{ID: id, Op: second, URL: "http://s" + id + "/", Status: sagapart.Prepared}}}})
}

// move is a client's change of a status.
func (h *house) move(gid string, from, to sagapart.Status, reason string) {
	h.t.Helper()
	h.do(&sagapart.Part{Kind: sagapart.Change, Change: &sagapart.ChangePart{Gid: gid, From: sagapart.Of(from), To: to, Reason: reason, Timer: true, IntervalMs: 10_000}})
}

func customData(json string) func(*sagapart.BeginPart) {
	return func(b *sagapart.BeginPart) { b.CustomData = json }
}
func timesOut(ms int64) func(*sagapart.BeginPart) {
	return func(b *sagapart.BeginPart) { b.Options.TimeoutMs = ms }
}
func retryLimit(n int64) func(*sagapart.BeginPart) {
	return func(b *sagapart.BeginPart) { b.Options.RetryLimit = n }
}

// everything is the end of all timers.
const everything = math.MaxInt64

func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	wait.Until(t, what, ok)
}

func msec(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// restored is the house of a new cluster that was restored from a snapshot of this one.
func (h *house) restored() *house {
	h.t.Helper()
	it, err := h.rig.Store.NewIter(nil, nil)
	if err != nil {
		h.t.Fatal(err)
	}
	defer it.Close()
	st := store.NewMem()
	in, err := st.Incoming()
	if err != nil {
		h.t.Fatal(err)
	}
	for ok := it.First(); ok; ok = it.Next() {
		v, err := it.Value()
		if err != nil {
			h.t.Fatal(err)
		}
		if it.Key()[0] != byte(sagapart.Machine) {
			continue
		}
		row, keep, err := sagamachine.Spec.Restore(it.Key(), v)
		if err != nil {
			h.t.Fatal(err)
		}
		if keep {
			if err := in.Set(it.Key(), row); err != nil {
				h.t.Fatal(err)
			}
		}
	}
	if err := in.Finish(0); err != nil {
		h.t.Fatal(err)
	}
	if err := st.Install(in); err != nil {
		h.t.Fatal(err)
	}
	return openHouse(h.t, st)
}
