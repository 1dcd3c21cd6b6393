package outcall

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/internal/wait"
)

// Every recovery is tried a second time: what the first one leaves behind shows only then.

// moody is a service that cuts connections while it is down, hangs while it hangs, and else answers.
type moody struct {
	url         string
	down, hangs atomic.Bool
	asked       atomic.Int64
	mu          sync.Mutex
	release     chan struct{} // guarded by mu: closed to end what hangs
}

func newMoody(t testing.TB) *moody {
	m := &moody{release: make(chan struct{})}
	m.url = serve(t, func(w http.ResponseWriter, r *http.Request) {
		m.asked.Add(1)
		if m.down.Load() {
			panic(http.ErrAbortHandler)
		}
		m.mu.Lock()
		release := m.release
		m.mu.Unlock()
		if m.hangs.Load() {
			select {
			case <-release:
			case <-r.Context().Done():
			}
		}
	}).URL
	return m
}

// letGo answers all that hangs.
func (m *moody) letGo() {
	m.hangs.Store(false)
	m.mu.Lock()
	defer m.mu.Unlock()
	close(m.release)
	m.release = make(chan struct{})
}

// routeOf is m's only route, nil if it is not known. n.mu is held.
func (m *moody) routeOf(n *Net) (r *route) {
	if ep := n.endpoints[m.url]; ep != nil {
		for _, r = range ep.routes {
		}
	}
	return r
}

// breakerOf is a copy of the breaker of m's route.
func (m *moody) breakerOf(n *Net) breaker {
	n.mu.Lock()
	defer n.mu.Unlock()
	if r := m.routeOf(n); r != nil {
		return r.breaker
	}
	return breaker{}
}

// giveUp makes so many calls fail, after which the endpoint of m is given up.
func (m *moody) giveUp(t testing.TB, n *Net, failures int) {
	t.Helper()
	m.down.Store(true)
	for i := range failures {
		if b := m.breakerOf(n); b.open {
			t.Fatalf("it is given up after %d failures", i)
		}
		want(t, do(t, n, &Request{URL: m.url, Post: true}), Transient, "")
	}
	m.down.Store(false)
	if b := m.breakerOf(n); !b.open || b.trying {
		t.Fatalf("it is not given up: %+v", b)
	}
}

// due waits until the endpoint may be tried, and returns for how long it was to be left alone.
func (m *moody) due(t testing.TB, n *Net) time.Duration {
	t.Helper()
	b := m.breakerOf(n)
	wait.Until(t, "it may be tried", func() bool { return time.Now().After(b.until) })
	return b.wait
}

// TestAnEndpointIsGivenUpAgain: the second time it takes as many failures as the first. The wait begins small again, the queue is cut
// again, and the meter counts one.
func TestAnEndpointIsGivenUpAgain(t *testing.T) {
	t.Parallel()
	const first = 60 * time.Millisecond
	n := newNet(t, Options{PerEndpoint: 2, Breaker: Breaker{Failures: 3, First: first, Longest: 10 * time.Second}, Timeout: time.Minute})
	m := newMoody(t)
	for round := range 3 {
		if open := n.Meter().Open.Load(); open != 0 {
			t.Fatalf("round %d: %d breakers are open", round, open)
		}
		// Two failures and an answer leave it closed, after any earlier rounds.
		m.down.Store(true)
		for range 2 {
			do(t, n, &Request{URL: m.url, Post: true})
		}
		m.down.Store(false)
		want(t, do(t, n, &Request{URL: m.url, Post: true}), OK, "")
		m.giveUp(t, n, 3)
		if open := n.Meter().Open.Load(); open != 1 {
			t.Fatalf("round %d: %d breakers are open", round, open)
		}
		if wait := m.due(t, n); wait != first {
			t.Errorf("round %d: the first wait is %v", round, wait)
		}
		// The one that tries it fails: the wait doubles. The next has success, and all go on.
		m.down.Store(true)
		want(t, do(t, n, &Request{URL: m.url, Post: true}), Transient, "")
		m.down.Store(false)
		if wait := m.due(t, n); wait != 2*first {
			t.Errorf("round %d: the second wait is %v", round, wait)
		}
		if open := n.Meter().Open.Load(); open != 1 {
			t.Fatalf("round %d: %d breakers are open after a trial that failed", round, open)
		}
		before := m.asked.Load()
		var all []started
		for range 5 {
			all = append(all, start(n, &Request{URL: m.url, Post: true}))
		}
		for _, s := range all {
			want(t, result(t, s), OK, "")
		}
		if asked := m.asked.Load() - before; asked != 5 {
			t.Errorf("round %d: the service was asked %d times for 5 calls", round, asked)
		}
	}
}

// TestATrialThatIsTurnedAway: a call that was to try an endpoint, and found the queue full, leaves the next one to try it.
func TestATrialThatIsTurnedAway(t *testing.T) {
	t.Parallel()
	const first = 40 * time.Millisecond
	n := newNet(t, Options{InFlight: 1, Waiting: 1, Breaker: Breaker{Failures: 2, First: first}, Timeout: time.Minute})
	m, busy := newMoody(t), newMoody(t)
	for round := range 2 {
		m.giveUp(t, n, 2)
		m.due(t, n)
		busy.hangs.Store(true)
		runs := start(n, &Request{URL: busy.url})
		wait.Until(t, "it is under way", func() bool { return n.Meter().Running.Load() == 1 })
		waits := start(n, &Request{URL: busy.url})
		wait.Until(t, "one waits", func() bool { return n.Meter().Waiting.Load() == 1 })
		for range 3 {
			want(t, do(t, n, &Request{URL: m.url, Post: true}), Transient, "1 calls wait for a place already")
		}
		busy.letGo()
		want(t, result(t, runs), OK, "")
		want(t, result(t, waits), OK, "")
		if r := do(t, n, &Request{URL: m.url, Post: true, Timeout: time.Minute}); r.Outcome != OK {
			t.Fatalf("round %d: nobody tries it: %+v", round, r)
		}
	}
}

// TestATrialGoesFirst: the trial of an endpoint waits in front of the calls that wait for its result. Otherwise none of them would ever
// have its turn.
func TestATrialGoesFirst(t *testing.T) {
	t.Parallel()
	const first = 40 * time.Millisecond
	n := newNet(t, Options{PerEndpoint: 1, Breaker: Breaker{Failures: 2, First: first}, Timeout: time.Minute})
	m := newMoody(t)
	for round := range 2 {
		// One from before hangs while the breaker opens, so that the one that tries has to wait for its place.
		m.giveUp(t, n, 2)
		m.due(t, n)
		n.mu.Lock()
		ep := n.endpoints[m.url]
		ep.running++ // as one from before
		n.mu.Unlock()
		trial := start(n, &Request{URL: m.url, Post: true})
		behind := start(n, &Request{URL: m.url, Post: true})
		wait.Until(t, "both wait", func() bool { return n.Meter().Waiting.Load() == 2 })
		trial.cancel()
		want(t, result(t, trial), Transient, "cancelled")
		again := start(n, &Request{URL: m.url, Post: true})
		wait.Until(t, "both wait", func() bool { return n.Meter().Waiting.Load() == 2 })
		n.mu.Lock()
		ep.running--
		n.offer(m.routeOf(n))
		c := n.next()
		n.mu.Unlock()
		if c == nil {
			t.Fatalf("round %d: none of two calls that wait has its turn", round)
		}
		go n.work(c)
		for _, s := range []started{behind, again} {
			want(t, result(t, s), OK, "")
		}
	}
}

// TestAFullQueueIsFullAgain: the second time as many find room as the first, of places and of bytes.
func TestAFullQueueIsFullAgain(t *testing.T) {
	t.Parallel()
	n := newNet(t, Options{PerEndpoint: 2, Waiting: 3, Bytes: 100, Timeout: time.Minute})
	m := newMoody(t)
	for round := range 3 {
		m.hangs.Store(true)
		var in []started
		for range 5 {
			in = append(in, start(n, &Request{URL: m.url, Post: true}))
		}
		wait.Until(t, "they run and wait", func() bool { return n.Meter().Running.Load() == 2 && n.Meter().Waiting.Load() == 3 })
		for range 3 {
			want(t, do(t, n, &Request{URL: m.url, Post: true}), Transient, "3 calls wait for a place already")
		}
		m.letGo()
		for _, s := range in {
			want(t, result(t, s), OK, "")
		}
		m.hangs.Store(true)
		in = nil
		for range 2 {
			in = append(in, start(n, &Request{URL: m.url, Payload: make([]byte, 50)}))
		}
		wait.Until(t, "they run", func() bool { return n.Meter().Running.Load() == 2 })
		want(t, do(t, n, &Request{URL: m.url, Payload: []byte("x")}), Transient, "no room for the payload")
		m.letGo()
		for _, s := range in {
			want(t, result(t, s), OK, "")
		}
		wait.Until(t, fmt.Sprintf("round %d: all is given back", round), func() bool { return n.Owed() == "" })
	}
}

// TestATrialThatComesTooLate: a trial that waited for its place as long as it may leaves the next one to try.
func TestATrialThatComesTooLate(t *testing.T) {
	t.Parallel()
	const first = 40 * time.Millisecond
	n := newNet(t, Options{InFlight: 1, Breaker: Breaker{Failures: 2, First: first}, Timeout: time.Minute})
	m, busy := newMoody(t), newMoody(t)
	for range 2 {
		m.giveUp(t, n, 2)
		m.due(t, n)
		busy.hangs.Store(true)
		runs := start(n, &Request{URL: busy.url})
		wait.Until(t, "it is under way", func() bool { return n.Meter().Running.Load() == 1 })
		for range 2 {
			want(t, do(t, n, &Request{URL: m.url, Post: true, Timeout: 30 * time.Millisecond}), Transient, "no place in 30ms")
		}
		busy.letGo()
		want(t, result(t, runs), OK, "")
		want(t, do(t, n, &Request{URL: m.url, Post: true, Timeout: time.Minute}), OK, "")
	}
}

// TestAServiceOverGRPCComesBackTwice: a channel whose service has gone is made anew each time.
func TestAServiceOverGRPCComesBackTwice(t *testing.T) {
	t.Parallel()
	const first = 20 * time.Millisecond
	n := newNet(t, Options{Breaker: Breaker{Failures: 2, First: first, Longest: first}, Timeout: time.Minute})
	echo := func(_ context.Context, _ string, in []byte) ([]byte, error) { return in, nil }
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	call := &Request{URL: l.Addr().String() + "/pkg.Service/Method", Protocol: GRPC}
	for round := range 3 {
		if round > 0 {
			if l, err = net.Listen("tcp", l.Addr().String()); err != nil {
				t.Skip("somebody has taken the port:", err)
			}
		}
		s := grpcServer(echo)
		go s.Serve(l)
		wait.Until(t, fmt.Sprintf("round %d: it is called", round), func() bool { return do(t, n, call).Outcome == OK })
		s.Stop()
		wait.Until(t, fmt.Sprintf("round %d: it is given up", round), func() bool { return strings.Contains(do(t, n, call).Message, "circuit open") })
		if open := n.Meter().Open.Load(); open != 1 {
			t.Errorf("round %d: %d breakers are open", round, open)
		}
	}
}

// TestEndpointsAreForgottenAgain: what is idle goes each time, and is made anew for the next call.
func TestEndpointsAreForgottenAgain(t *testing.T) {
	t.Parallel()
	n := newNet(t, Options{Idle: 40 * time.Millisecond, Timeout: time.Minute})
	m := newMoody(t)
	for round := range 3 {
		want(t, do(t, n, &Request{URL: m.url, Post: true}), OK, "")
		wait.Until(t, fmt.Sprintf("round %d: all is forgotten", round), func() bool {
			n.mu.Lock()
			defer n.mu.Unlock()
			return len(n.endpoints) == 0 && n.idle == 0 && n.sweep == nil
		})
	}
}
