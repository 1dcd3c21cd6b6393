package outcall

import (
	"bytes"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/internal/wait"
)

// peak is a level and the highest it has had.
type peak struct{ now, highest atomic.Int64 }

func (p *peak) up() {
	n := p.now.Add(1)
	for {
		if h := p.highest.Load(); n <= h || p.highest.CompareAndSwap(h, n) {
			return
		}
	}
}

func (p *peak) down() { p.now.Add(-1) }

func TestThousandsAtOnceStayWithinTheLimits(t *testing.T) {
	const perEndpoint, inFlight, services, calls = 30, 100, 5, 4000
	var all peak
	each := make([]peak, services)
	var urls []string
	for i := range services {
		urls = append(urls, serve(t, func(http.ResponseWriter, *http.Request) {
			all.up()
			each[i].up()
			runtime.Gosched()
			each[i].down()
			all.down()
		}).URL)
	}
	n := newNet(t, Options{PerEndpoint: perEndpoint, InFlight: inFlight, Timeout: time.Minute})
	before := runtime.NumGoroutine()
	var ok atomic.Int64
	var wg sync.WaitGroup
	wg.Add(calls)
	for i := range calls {
		n.Go(&Request{URL: urls[i%services]}, func(r Result) {
			if r.Outcome == OK {
				ok.Add(1)
			}
			wg.Done()
		})
		if running := n.Meter().Running.Load(); running > inFlight {
			t.Fatalf("%d calls under way", running)
		}
	}
	if more := runtime.NumGoroutine() - before; more > 20*inFlight { // those of the services among them
		t.Errorf("%d goroutines for %d calls", more, calls)
	}
	wg.Wait()
	if ok.Load() != calls {
		t.Errorf("%d of %d calls were done", ok.Load(), calls)
	}
	if h := all.highest.Load(); h > inFlight {
		t.Errorf("%d calls at once, the limit is %d", h, inFlight)
	}
	for i := range each {
		if h := each[i].highest.Load(); h > perEndpoint {
			t.Errorf("%d calls at once to one service, the limit is %d", h, perEndpoint)
		}
	}
	if dials := n.Meter().Dials.Load(); dials > calls/4 {
		t.Errorf("%d connections for %d calls", dials, calls)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.running != 0 || n.waiting != 0 || n.turns.Len() != 0 || n.idle > inFlight {
		t.Errorf("left: %d running, %d waiting, %d turns, %d connections", n.running, n.waiting, n.turns.Len(), n.idle)
	}
}

func TestOneThatHangsDelaysNoOther(t *testing.T) {
	a := serve(t, hang)
	b := serve(t, func(http.ResponseWriter, *http.Request) {})
	n := newNet(t, Options{Timeout: time.Minute})
	for range 2000 { // 256 are under way, the others wait
		start(n, &Request{URL: a.URL})
	}
	wait.Until(t, "the limit of the one that hangs is used up", func() bool { return n.Meter().Running.Load() == 256 && n.Meter().Waiting.Load() == 2000-256 })
	for range 100 {
		if r := do(t, n, &Request{URL: b.URL}); r.Outcome != OK {
			t.Fatalf("%+v", r)
		}
	}
}

func TestEndpointsTakeTurns(t *testing.T) {
	// One place in all, taken; then ten calls wait for each of two services, those for a first.
	release := make(chan bool)
	var mu sync.Mutex
	var order []string
	service := func(name string) string {
		return serve(t, func(http.ResponseWriter, *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			order = append(order, name)
		}).URL
	}
	first := serve(t, func(http.ResponseWriter, *http.Request) { <-release })
	n := newNet(t, Options{InFlight: 1, Timeout: time.Minute})
	all := []started{start(n, &Request{URL: first.URL})}
	wait.Until(t, "the place is taken", func() bool { return n.Meter().Running.Load() == 1 })
	a, b := service("a"), service("b")
	for _, url := range []string{a, b} {
		for range 10 {
			all = append(all, start(n, &Request{URL: url}))
		}
	}
	close(release)
	for _, s := range all {
		want(t, result(t, s), OK, "")
	}
	if got := strings.Join(order, ""); got != strings.Repeat("ab", 10) {
		t.Errorf("served in the order %s", got)
	}
}

func TestCallsOfOneEndpointAreServedAsTheyCame(t *testing.T) {
	release := make(chan bool)
	var mu sync.Mutex
	var order []string
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		<-release
		mu.Lock()
		defer mu.Unlock()
		order = append(order, r.URL.Query().Get("gid"))
	})
	n := newNet(t, Options{PerEndpoint: 1, Timeout: time.Minute})
	var all []started
	var sent []string
	for i := range 20 {
		gid := fmt.Sprint(i)
		sent = append(sent, gid)
		all = append(all, start(n, &Request{URL: s.URL, Gid: gid}))
	}
	close(release)
	for _, c := range all {
		want(t, result(t, c), OK, "")
	}
	if !slices.Equal(order, sent) {
		t.Errorf("served in the order %v", order)
	}
}

func TestWaitingForAPlaceEnds(t *testing.T) {
	s := serve(t, hang)
	n := newNet(t, Options{PerEndpoint: 1, Timeout: time.Minute})
	first := start(n, &Request{URL: s.URL})
	r := do(t, n, &Request{URL: s.URL, Timeout: 30 * time.Millisecond})
	want(t, r, Transient, "no place in 30ms")
	if r.Elapsed < 30*time.Millisecond {
		t.Errorf("it took %v", r.Elapsed)
	}
	first.cancel()
	want(t, result(t, first), Transient, "cancelled")
}

func TestWhatWaitsIsBounded(t *testing.T) {
	s := serve(t, hang)
	n := newNet(t, Options{PerEndpoint: 1, Waiting: 3, Bytes: 1000, Timeout: time.Minute})
	call := &Request{URL: s.URL, Payload: bytes.Repeat([]byte("x"), 100)}
	for range 4 { // one under way, three wait
		start(n, call)
	}
	want(t, do(t, n, call), Transient, "3 calls wait for a place already")
	other := serve(t, func(http.ResponseWriter, *http.Request) {})
	want(t, do(t, n, &Request{URL: other.URL, Payload: make([]byte, 601)}), Transient, "no room for the payload")
	want(t, do(t, n, &Request{URL: other.URL, Payload: make([]byte, 600)}), OK, "")
	want(t, do(t, n, &Request{URL: other.URL, Payload: make([]byte, 600)}), OK, "") // the room was given back
	if full := n.Meter().Full.Load(); full != 2 {
		t.Errorf("%d calls found no room", full)
	}
	want(t, do(t, newNet(t, Options{Bytes: 1000}), &Request{URL: other.URL, Payload: make([]byte, 5000)}), OK, "") // alone there is always room
}

func TestIdleConnectionsAndEndpointsAreForgotten(t *testing.T) {
	s := serve(t, func(http.ResponseWriter, *http.Request) {})
	at := serveGRPC(t, hangGRPC)
	n := newNet(t, Options{Idle: 40 * time.Millisecond})
	want(t, do(t, n, &Request{URL: s.URL}), OK, "")
	do(t, n, &Request{URL: at + "/pkg.Service/Method", Protocol: GRPC, Timeout: 10 * time.Millisecond})
	wait.Until(t, "all is forgotten", func() bool {
		n.mu.Lock()
		defer n.mu.Unlock()
		return len(n.endpoints) == 0 && n.idle == 0 && n.sweep == nil
	})
	want(t, do(t, n, &Request{URL: s.URL}), OK, "")
}

func TestEndpointsThatClientsNameAreBounded(t *testing.T) {
	n := newNet(t, Options{Lookup: names(nil)})
	for i := range maxEndpoints + 500 {
		do(t, n, &Request{URL: fmt.Sprintf("http://h%d.test/", i)})
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.endpoints) > maxEndpoints {
		t.Errorf("%d endpoints are remembered", len(n.endpoints))
	}
}

// TestWhoAnswersIsNotForgottenForStrangers: thousands of endpoints with a call under way leave that few unused which answer, and these are remembered.
func TestWhoAnswersIsNotForgottenForStrangers(t *testing.T) {
	n := newNet(t, Options{})
	n.mu.Lock()
	defer n.mu.Unlock()
	good := n.endpointOf(&target{scheme: "http", host: "good", port: 80})
	good.heard = time.Now()
	for i := range 2*maxEndpoints + 500 {
		n.endpointOf(&target{scheme: "http", host: fmt.Sprint("bad", i), port: 80}).running = 1
	}
	if n.endpoints[good.key] != good {
		t.Error("the endpoint that answers is forgotten")
	}
	for _, ep := range n.endpoints { // the calls of these never were
		ep.running = 0
	}
}
