package outcall

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/internal/wait"
)

// ingress is one address with several services behind it: /stuck/… hangs, /slow/… answers when it is let, everything else answers at once.
func ingress(t testing.TB) (url string, let chan struct{}) {
	let = make(chan struct{})
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasPrefix(r.URL.Path, "/stuck"), strings.HasPrefix(r.URL.Path, "/api/stuck"):
			hang(w, r)
		case strings.HasPrefix(r.URL.Path, "/slow"):
			<-let
		}
	})
	return s.URL, let
}

// TestAPathThatHangsClosesNoOther: behind an ingress all services have one host and port. The path that hangs is left alone, and no other.
func TestAPathThatHangsClosesNoOther(t *testing.T) {
	url, _ := ingress(t)
	n := newNet(t, Options{Timeout: 20 * time.Millisecond, Breaker: Breaker{First: time.Hour}})
	good := &Request{URL: url + "/api/orders/1", Timeout: time.Minute}
	for range 6 {
		want(t, do(t, n, &Request{URL: url + "/api/stuck/17"}), Transient, "")
		want(t, do(t, n, good), OK, "") // an answer of another path says nothing about this one
	}
	want(t, do(t, n, &Request{URL: url + "/api/stuck/18"}), Transient, "circuit open")
	for range 20 {
		want(t, do(t, n, good), OK, "")
	}
	if open := n.Meter().Open.Load(); open != 1 {
		t.Errorf("%d circuits are open", open)
	}
	// Another method of the path is another thing to be done.
	if r := do(t, n, &Request{URL: url + "/api/stuck/18", Post: true}); strings.Contains(r.Message, "circuit open") {
		t.Errorf("%+v", r)
	}

	at := serveGRPC(t, func(ctx context.Context, method string, b []byte) ([]byte, error) {
		if method == "/pkg.Service/Stuck" {
			return hangGRPC(ctx, method, b)
		}
		return nil, nil
	})
	for range 5 {
		want(t, do(t, n, &Request{URL: at + "/pkg.Service/Stuck", Protocol: GRPC}), Transient, "no answer in time")
	}
	want(t, do(t, n, &Request{URL: at + "/pkg.Service/Stuck", Protocol: GRPC}), Transient, "circuit open")
	want(t, do(t, n, &Request{URL: at + "/pkg.Service/Good", Protocol: GRPC, Timeout: time.Minute}), OK, "")
}

// TestAPathThatHangsLeavesPlaces: the calls that hang do not take all places that there are for their host.
func TestAPathThatHangsLeavesPlaces(t *testing.T) {
	url, _ := ingress(t)
	n := newNet(t, Options{PerEndpoint: 32, Timeout: 100 * time.Millisecond})
	want(t, do(t, n, &Request{URL: url + "/good", Timeout: time.Minute}), OK, "")
	for i := range 200 {
		start(n, &Request{URL: fmt.Sprintf("%s/stuck/%d/pay", url, i%4), Timeout: time.Hour})
	}
	for range 50 {
		if r := do(t, n, &Request{URL: url + "/good", Timeout: time.Minute}); r.Outcome != OK {
			t.Fatalf("%+v", r)
		}
	}
	// One that was never called is heard as well.
	want(t, do(t, n, &Request{URL: url + "/new", Timeout: time.Minute}), OK, "")
}

// TestOneCallTriesAPath: a path that was given up is tried by one call, and its answer lets the others through.
func TestOneCallTriesAPath(t *testing.T) {
	var sick atomic.Bool
	var reached atomic.Int32
	let := make(chan struct{})
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/sick/x" {
			return
		}
		if sick.Load() {
			hang(w, r)
			return
		}
		reached.Add(1)
		<-let
	})
	sick.Store(true)
	n := newNet(t, Options{Timeout: 20 * time.Millisecond, Breaker: Breaker{First: 50 * time.Millisecond}})
	call := &Request{URL: s.URL + "/sick/x", Timeout: time.Minute}
	short := &Request{URL: s.URL + "/sick/x"}
	wait.Until(t, "it is given up", func() bool { return strings.Contains(do(t, n, short).Message, "circuit open") })
	sick.Store(false)
	var all []started
	wait.Until(t, "one tries", func() bool {
		all = append(all, start(n, call))
		return reached.Load() == 1
	})
	for range 10 {
		all = append(all, start(n, call))
		want(t, do(t, n, &Request{URL: s.URL + "/well", Timeout: time.Minute}), OK, "") // which is not kept waiting by that
	}
	if r := reached.Load(); r != 1 {
		t.Errorf("%d calls try it", r)
	}
	close(let)
	done := 0
	for _, c := range all {
		if r := result(t, c); r.Outcome == OK {
			done++
		} else {
			want(t, r, Transient, "circuit open")
		}
	}
	if done < 11 {
		t.Errorf("%d calls were made", done)
	}
}

// TestAnAnswerMeanwhileCounts: a path that has answered since a call began does not hang, for any outcome of that call.
func TestAnAnswerMeanwhileCounts(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("gid") == "stuck" {
			hang(w, r)
		}
	})
	n := newNet(t, Options{Breaker: Breaker{First: time.Hour}})
	var stuck []started
	for range 20 {
		stuck = append(stuck, start(n, &Request{URL: s.URL + "/a/b", Gid: "stuck", Timeout: 200 * time.Millisecond}))
	}
	want(t, do(t, n, &Request{URL: s.URL + "/a/b", Gid: "good", Timeout: time.Minute}), OK, "")
	for _, c := range stuck {
		want(t, result(t, c), Transient, "no answer in time")
	}
	want(t, do(t, n, &Request{URL: s.URL + "/a/b", Gid: "good", Timeout: time.Minute}), OK, "")
}

// TestALateAnswerCounts: a service that answers when its time is over is slow and not dead.
func TestALateAnswerCounts(t *testing.T) {
	let := make(chan struct{})
	s := serve(t, func(w http.ResponseWriter, r *http.Request) { <-let })
	n := newNet(t, Options{Timeout: 20 * time.Millisecond, Breaker: Breaker{First: time.Hour}})
	for range 5 {
		want(t, do(t, n, &Request{URL: s.URL + "/slow"}), Transient, "no answer in time")
	}
	want(t, do(t, n, &Request{URL: s.URL + "/slow"}), Transient, "circuit open")
	close(let)
	wait.Until(t, "the answers that came too late have closed the circuit", func() bool {
		return do(t, n, &Request{URL: s.URL + "/slow", Timeout: time.Minute}).Outcome == OK
	})
}

// TestWhoIsLateIsBounded: few calls are listened to when their time is over, and none when the Net is closed.
func TestWhoIsLateIsBounded(t *testing.T) {
	var open atomic.Int64
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		open.Add(1)
		defer open.Add(-1)
		hang(w, r)
	})
	n := newNet(t, Options{Timeout: 20 * time.Millisecond, Breaker: Breaker{Failures: 1000}})
	for range 5 {
		var all []started
		for range 20 {
			all = append(all, start(n, &Request{URL: s.URL + "/stuck"}))
		}
		for _, c := range all {
			result(t, c)
		}
	}
	wait.Until(t, "those beyond the bound are closed", func() bool { return open.Load() <= maxLateOfRoute })
	n.Close()
	wait.Until(t, "all are closed", func() bool { return open.Load() == 0 })
}

// TestAHostThatIsGoneIsOneCircuit: where no connection can be made, no path is called.
func TestAHostThatIsGoneIsOneCircuit(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := l.Addr().String()
	l.Close()
	n := newNet(t, Options{Breaker: Breaker{First: time.Hour}})
	for i := range 5 {
		want(t, do(t, n, &Request{URL: fmt.Sprintf("http://%s/path%d", at, i)}), Transient, "connection refused")
	}
	want(t, do(t, n, &Request{URL: "http://" + at + "/another"}), Transient, "circuit open")
	if dials := n.Meter().Dials.Load(); dials != 5 {
		t.Errorf("%d dials", dials)
	}
}

// TestPathsThatClientsNameAreBounded: beyond the bound those of one host share what they have.
func TestPathsThatClientsNameAreBounded(t *testing.T) {
	url, _ := ingress(t)
	n := newNet(t, Options{})
	for i := range 3 * maxRoutes {
		want(t, do(t, n, &Request{URL: fmt.Sprintf("%s/path%d", url, i), Timeout: time.Minute}), OK, "")
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, ep := range n.endpoints {
		if len(ep.routes) > maxRoutes+1 {
			t.Errorf("%d paths are remembered", len(ep.routes))
		}
	}
}

func TestWhatAPathIsCalled(t *testing.T) {
	for path, want := range map[string]string{
		"/": "GET /", "/a": "GET /a", "/a/": "GET /a/", "/a/b": "GET /a/b", "/a/b/": "GET /a/b", "/a/b/c?x=/y/z": "GET /a/b", "/a?b/c": "GET /a", "//a/b": "GET //a",
	} {
		c := &call{method: "GET", target: target{scheme: "http", path: path}, req: &Request{}}
		if got := c.routeKey(); got != want {
			t.Errorf("%s is %s, want %s", path, got, want)
		}
	}
	c := &call{method: "POST", jsonRPC: true, target: target{scheme: "http", path: "/rpc?x=1&method=pay&y=2"}, req: &Request{}}
	if got := c.routeKey(); got != "POST /rpc?method=pay" {
		t.Errorf("JSON-RPC is %s", got)
	}
	c = &call{target: target{scheme: "grpc", path: "/pkg.Service/Method"}, req: &Request{}}
	if got := c.routeKey(); got != "/pkg.Service/Method" {
		t.Errorf("gRPC is %s", got)
	}
}
