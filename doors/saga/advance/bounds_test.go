package advance

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/doors/saga/outcall"
	sagapart "github.com/holdfastdb/holdfast/doors/saga/part"
)

// at has all steps of a saga at one host.
func at(host string) func(*sagapart.BeginPart) {
	return func(b *sagapart.BeginPart) {
		for i := range b.Branches {
			b.Branches[i].URL = fmt.Sprintf("http://%s/%d", host, i)
		}
	}
}

// stepAt has one action at a host.
func stepAt(k int, host string) func(*sagapart.BeginPart) {
	return func(b *sagapart.BeginPart) { b.Branches[2*k+1].URL = "http://" + host + "/" }
}

// TestEverythingDueBeginsAtOnce when a member begins to lead: 10,000 transactions have a call under way within seconds.
func TestEverythingDueBeginsAtOnce(t *testing.T) {
	h := newHouse(t)
	const n = 10_000
	for i := range n {
		h.saga(fmt.Sprint("s", i), 1, at(fmt.Sprintf("host%d", i%50)))
	}
	began := time.Now()
	s := newScript()
	s.always("action 01", hang)
	l := h.leadWith(1, Options{}, s, h.m)
	eventually(t, "all are called", l.has(n))
	t.Logf("%d calls under way after %v", n, time.Since(began))
	for range n {
		l.release(t, "action 01", ok)
	}
	eventually(t, "all have ended", func() bool { return l.w.Counts().Succeed == n })
	eventually(t, "nothing is left in memory", l.idle)
}

// idle reports whether nothing is left of any transaction.
func (l *leader) idle() bool {
	c, t := l.w.Counts(), l.w.current()
	t.mu.Lock()
	defer t.mu.Unlock()
	return c.Running+c.Waiting == 0 && c.Bytes == 0 && len(t.endpoints) == 0 && len(t.hosts) == 0 && len(t.known) == 0 && t.given == 0 && t.givenBytes == 0
}

// TestOneThatHangsDelaysNobodyElse: transactions with a call to a service that does not answer fill its share, and wait beyond it by their
// number alone. Those of other services pass by, and a place that becomes free goes to the one that has waited longest.
func TestOneThatHangsDelaysNobodyElse(t *testing.T) {
	h := newHouse(t)
	const share, stuck, good = 4, 100, 100
	l := h.lead(1, Options{PerEndpoint: share, MaxRunning: 16})
	for range stuck {
		l.answer("action 02", hang)
	}
	for i := range stuck {
		h.saga(fmt.Sprint("stuck", i), 2, stepAt(0, fmt.Sprint("fine", i)), stepAt(1, "dead:80"))
	}
	eventually(t, "they wait", func() bool { c := l.w.Counts(); return c.Running == share && c.Waiting == stuck-share })
	for i := range good {
		h.msg(fmt.Sprint("good", i), sagapart.Submitted, 1)
	}
	eventually(t, "the others are done", func() bool { return l.w.Counts().Succeed == good })
	underway := func() int {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.held["action 02"])
	}
	// The first step's result is in the log before a saga leaves memory. Some waited for room before they had begun, and count as waiting
	// too.
	eventually(t, "the last one waits with its first step in the log", func() bool { return h.stands(fmt.Sprint("stuck", stuck-1)) == "submitted p s p p" })
	for done := range stuck {
		want := min(share, stuck-done)
		eventually(t, "the next is called", func() bool { return underway() == want })
		l.release(t, "action 02", ok)
	}
	eventually(t, "all have ended", func() bool { return l.w.Counts().Succeed == good+stuck })
	var order []string
	for _, r := range l.asked {
		if r.Op == "action" && r.URL == "http://dead:80/" {
			order = append(order, r.Gid)
		}
	}
	if len(order) != stuck {
		t.Errorf("%d calls to it, want %d", len(order), stuck)
	}
	counts := map[string]int{}
	for _, r := range l.asked {
		counts[r.Gid+" "+r.BranchID]++
	}
	for name, n := range counts {
		if n != 1 {
			t.Errorf("%s was called %d times", name, n)
		}
	}
	eventually(t, "nothing is left in memory", l.idle)
}

// TestAPathThatHangsDelaysNoOtherOfItsHost: behind an ingress all services have one host. Paths beyond the bound share what one has.
func TestAPathThatHangsDelaysNoOtherOfItsHost(t *testing.T) {
	h := newHouse(t)
	const share, paths, each, good = 8, 20, 3, 50
	let := make(chan struct{})
	var once sync.Once
	answer := func() { once.Do(func() { close(let) }) }
	defer answer()
	script := newScript()
	script.on = func(_ string, r *outcall.Request) outcall.Result {
		if strings.Contains(r.URL, "stuck") {
			<-let
		}
		return ok
	}
	l := h.leadWith(1, Options{PerEndpoint: share}, script, h.m)
	for i := range 100 {
		h.saga(fmt.Sprint("a", i), 1, stepAt(0, "ingress/api/stuck/"+fmt.Sprint(i)))
	}
	for i := range paths * each {
		h.saga(fmt.Sprint("b", i), 1, stepAt(0, fmt.Sprintf("ingress/stuck%d/x", i%paths)))
	}
	eventually(t, "they wait", func() bool { c := l.w.Counts(); return c.Running > 0 && c.Running+c.Waiting == 100+paths*each })
	for i := range good {
		h.saga(fmt.Sprint("good", i), 1, stepAt(0, "ingress/api/orders/"+fmt.Sprint(i)))
	}
	eventually(t, "the others are done", func() bool { return l.w.Counts().Succeed == good })
	c := l.w.Counts()
	if c.Running > share+paths*leastShare {
		t.Errorf("%d are in memory", c.Running)
	}
	answer()
	eventually(t, "all have ended", func() bool { return l.w.Counts().Succeed == 100+paths*each+good })
	eventually(t, "nothing is left in memory", l.idle)
}

func TestWhatAnEndpointIs(t *testing.T) {
	for url, want := range map[string]string{"http://h:1": "h:1/", "http://h:1/": "h:1/", "https://h/a": "h/a", "http://h/a/b/c?x=/y": "h/a/b", "http://h?a/b": "h/",
		"h:2/pkg.Service/Method": "h:2/pkg.Service/Method", "http://h/a/": "h/a/"} {
		if got, _ := endpointOf(url); got != want {
			t.Errorf("%s is called at %s, want %s", url, got, want)
		}
	}
}

// TestWhoWaitsLongestIsNext at an endpoint that is full.
func TestWhoWaitsLongestIsNext(t *testing.T) {
	h := newHouse(t)
	l := h.lead(1, Options{PerEndpoint: 1})
	var want []string
	for i := range 20 {
		l.answer("action 01", hang)
		gid := fmt.Sprint("s", i)
		want = append(want, gid)
		h.saga(gid, 1)
		eventually(t, gid+" is known", func() bool { c := l.w.Counts(); return c.Running == 1 && c.Waiting == i })
	}
	for range want {
		eventually(t, "one is called", func() bool { return l.held1("action 01") })
		l.release(t, "action 01", ok)
	}
	eventually(t, "all have ended", func() bool { return l.w.Counts().Succeed == 20 })
	var got []string
	for _, r := range l.asked {
		got = append(got, r.Gid)
	}
	if !slices.Equal(got, want) {
		t.Errorf("called in the order %v", got)
	}
}

func (s *script) held1(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.held[name]) == 1
}

// TestMemoryIsBounded in transactions and bytes, however many are due; all of them end.
func TestMemoryIsBounded(t *testing.T) {
	h := newHouse(t)
	const n, running, bytes = 1_000, 8, 40 << 10
	for i := range n {
		h.saga(fmt.Sprint("s", i), 1, at(fmt.Sprint("host", i%7)), func(b *sagapart.BeginPart) {
			payload := make([]byte, 4<<10)
			b.Branches[0].Payload, b.Branches[1].Payload = payload, payload
		})
	}
	l := h.lead(1, Options{MaxRunning: running, MaxBytes: bytes})
	most := make(chan Counts, n)
	l.on = func(string, *outcall.Request) outcall.Result {
		most <- l.w.Counts()
		return ok
	}
	eventually(t, "all have ended", func() bool { return l.w.Counts().Succeed == n })
	close(most)
	const each = 4<<10 + 8<<10 // a payload, and what goes with it
	for c := range most {
		if c.Running > running || c.Running+c.Waiting > 16*running || c.Bytes > bytes+maxLoads*each {
			t.Fatalf("in memory: %+v", c)
		}
	}
}

// TestTheWorkerTakesABound: with less memory than was set fewer transactions are carried on, and none is given up. Those that wait begin as
// soon as there is more.
func TestTheWorkerTakesABound(t *testing.T) {
	h := newHouse(t)
	const n, each = 100, 4 << 10
	l := h.lead(1, Options{MaxBytes: 1 << 20})
	l.w.Bound(4 * each)
	l.always("action 01", hang)
	for i := range n {
		h.saga(fmt.Sprint("s", i), 1, at(fmt.Sprint("host", i)), func(b *sagapart.BeginPart) { b.Branches[0].Payload = make([]byte, each) })
	}
	held := func() int {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.held["action 01"])
	}
	settled := func() bool {
		c := l.w.Counts()
		return c.Bytes >= 4*each && held() == c.Running && c.Running+c.Waiting == n
	}
	eventually(t, "some are carried on", settled)
	if got := held(); got > 4+maxLoads {
		t.Errorf("%d are carried on with memory for 4", got)
	}
	l.w.Bound(1 << 20)
	eventually(t, "all are carried on", func() bool { return held() == n })
	l.w.Bound(1) // what is carried on goes on
	for range n {
		l.release(t, "action 01", ok)
	}
	eventually(t, "all have ended", func() bool { return l.w.Counts().Succeed == n })
}

// TestHeldAfterARestore: no call goes out before an operator says so.
func TestHeldAfterARestore(t *testing.T) {
	old := newHouse(t)
	for i := range 10 {
		old.saga(fmt.Sprint("s", i), 1)
	}
	h := old.restored()
	l := h.lead(1, Options{})
	h.saga("new", 1)
	time.Sleep(20 * time.Millisecond) // there is nothing that could be waited for
	if l.called(); h.commands()[0] != "begin" {
		t.Error("the copy does something")
	}
	if gid, err := l.w.Once(time.Hour); gid != "" || err != nil {
		t.Errorf("by hand: %q, %v", gid, err)
	}
	h.do(&sagapart.Part{Kind: sagapart.Resume})
	eventually(t, "all have ended", func() bool { return l.w.Counts().Succeed == 11 })
}

// TestTheRingOverruns: what was missed is found among the rows.
func TestTheRingOverruns(t *testing.T) {
	h := newHouse(t)
	const n = 20_000
	l := h.lead(1, Options{ByHand: true}) // ByHand reads no rows
	eventually(t, "the term has begun", func() bool { return l.w.current() != nil })
	l.Stop()
	eventually(t, "it has stopped", func() bool { return l.w.current() == nil })
	term := newTerm(l.w, 2)
	term.listen()
	for i := range n {
		h.msg(fmt.Sprint("m", i), sagapart.Submitted, 1, func(b *sagapart.BeginPart) { b.FirstMs = 1000 })
	}
	term.listen()
	if term.timers.all || len(term.timers.soon) > ahead {
		t.Errorf("%d timers in memory, all: %v", len(term.timers.soon), term.timers.all)
	}
	if err := term.scan(h.now()); err != nil || len(term.timers.soon) != ahead {
		t.Errorf("%d timers were read, %v", len(term.timers.soon), err)
	}
}
