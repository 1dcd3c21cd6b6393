package outcall

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfastdb/holdfast/internal/wait"
)

func TestABreakerOpensAfterAFewFailuresInARow(t *testing.T) {
	o := &Breaker{Failures: 3, First: time.Second, Longest: 5 * time.Second}
	now := time.Unix(1000, 0)
	var b breaker
	for range 10 { // two failures and an answer, again and again
		b.failed(now, false, "gone", o)
		b.failed(now, false, "gone", o)
		b.answered()
	}
	if ok, trial := b.allow(now); !ok || trial || !b.quiet() {
		t.Fatal("answers do not end the row")
	}
	for nth := 1; nth <= 3; nth++ {
		if opened := b.failed(now, false, "gone", o); opened != (nth == 3) {
			t.Fatalf("failure %d in a row: opened %t, want it with the third", nth, opened)
		}
	}
	// From then on the waits double, give or take a fifth, up to the longest.
	for i, wait := range []time.Duration{1, 2, 4, 5, 5, 5} {
		wait *= time.Second
		if ok, _ := b.allow(now.Add(wait * 79 / 100)); ok {
			t.Errorf("trial %d is let through too early", i)
		}
		if b.failed(now, false, "late", o) {
			t.Error("a call from before has opened it again")
		}
		now = now.Add(wait * 121 / 100)
		if ok, trial := b.allow(now); !ok || !trial {
			t.Fatalf("trial %d is not let through after %v", i, wait)
		}
		if ok, _ := b.allow(now); ok {
			t.Errorf("two calls at once try it")
		}
		if i == 2 {
			b.dropped(true) // it was cancelled: the next may try
			if ok, trial := b.allow(now); !ok || !trial {
				t.Error("nobody may try again after a trial that was cancelled")
			}
		}
		if !b.failed(now, true, "gone", o) {
			t.Error("a trial that failed has not opened it again")
		}
	}
	if !b.answered() || b.open {
		t.Error("an answer does not close it")
	}
	if ok, trial := b.allow(now); !ok || trial {
		t.Error("it is not closed")
	}
	b.failed(now, false, "gone", o)
	b.failed(now, false, "gone", o)
	b.failed(now, false, "gone", o)
	if ok, _ := b.allow(now.Add(1210 * time.Millisecond)); !ok {
		t.Error("the wait did not begin anew")
	}
}

// TestWaitsAreSpread: members that gave up a service at one moment do not try it at one moment.
func TestWaitsAreSpread(t *testing.T) {
	now := time.Unix(1000, 0)
	shortest, longest := time.Hour, time.Duration(0)
	for range 2000 {
		var b breaker
		b.failed(now, false, "gone", &Breaker{Failures: 1, First: time.Second, Longest: time.Minute})
		shortest, longest = min(shortest, b.until.Sub(now)), max(longest, b.until.Sub(now))
	}
	if shortest < 800*time.Millisecond || shortest > 850*time.Millisecond || longest < 1150*time.Millisecond || longest > 1200*time.Millisecond {
		t.Errorf("of waits of 1 s the shortest is %v and the longest %v, want from 80 to 120 %%", shortest, longest)
	}
}

func TestAServiceThatIsGoneIsNotCalledForAWhile(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := l.Addr().String()
	l.Close()
	var log bytes.Buffer
	n := newNet(t, Options{Breaker: Breaker{First: 200 * time.Millisecond}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	call := &Request{URL: "http://" + at}
	for range 5 {
		want(t, do(t, n, call), Transient, "connection refused")
	}
	if n.Meter().Dials.Load() != 5 || n.Meter().Open.Load() != 1 {
		t.Fatalf("%d dials, %d breakers open", n.Meter().Dials.Load(), n.Meter().Open.Load())
	}
	want(t, do(t, n, call), Transient, "circuit open")
	want(t, do(t, n, &Request{URL: "http://" + at + "/elsewhere"}), Transient, "connection refused")
	if n.Meter().Dials.Load() != 5 {
		t.Error("it was dialled all the same")
	}
	other := serve(t, func(http.ResponseWriter, *http.Request) {})
	want(t, do(t, n, &Request{URL: other.URL}), OK, "") // another port is another service

	if l, err = net.Listen("tcp", at); err != nil {
		t.Skip("somebody has taken the port:", err)
	}
	s := &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})}
	go s.Serve(l)
	defer s.Close()
	wait.Until(t, "it is called again", func() bool { return do(t, n, call).Outcome == OK })
	if n.Meter().Open.Load() != 0 {
		t.Error("a breaker is open")
	}
	n.Close()
	if text := log.String(); strings.Count(text, "no calls to") != 1 || strings.Count(text, "answers again") != 1 || !strings.Contains(text, at) {
		t.Errorf("the log says:\n%s", text)
	}
}

func TestNoAnswerOpensABreaker(t *testing.T) {
	// A service with any answer is up.
	for _, code := range []int{200, 409, 425, 500, 502, 503, 404, 204, 302} {
		s := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) })
		n := newNet(t, Options{})
		for range 20 {
			if r := do(t, n, &Request{URL: s.URL}); strings.Contains(r.Message, "circuit") {
				t.Errorf("%d: %+v", code, r)
				break
			}
		}
	}
	for _, code := range []codes.Code{codes.Aborted, codes.FailedPrecondition, codes.Internal, codes.Unknown} {
		at := serveGRPC(t, func(context.Context, string, []byte) ([]byte, error) { return nil, status.Error(code, "") })
		n := newNet(t, Options{})
		for range 20 {
			if r := do(t, n, &Request{URL: at + "/pkg.Service/Method", Protocol: GRPC}); strings.Contains(r.Message, "circuit") {
				t.Errorf("%v: %+v", code, r)
				break
			}
		}
	}
}

func TestTimeoutsAndBrokenConnectionsOpenABreaker(t *testing.T) {
	broken := listen(t, func(net.Conn, int) {})
	hanging := serve(t, hang)
	mute := serveGRPC(t, hangGRPC)
	n := newNet(t, Options{Timeout: 100 * time.Millisecond, Breaker: Breaker{First: time.Hour}}) // long enough to connect beside load
	for _, call := range []*Request{{URL: broken.URL()}, {URL: hanging.URL}, {URL: mute + "/pkg.Service/Method", Protocol: GRPC}} {
		for i := range 6 {
			if r := do(t, n, call); (i == 5) != strings.Contains(r.Message, "circuit open") {
				t.Errorf("%s, call %d: %+v", call.URL, i, r)
			}
		}
	}
}

func TestCancelledCallsOpenNoBreaker(t *testing.T) {
	reached := make(chan bool, 20)
	s := serve(t, func(w http.ResponseWriter, r *http.Request) { reached <- true; hang(w, r) })
	n := newNet(t, Options{Timeout: time.Minute})
	for range 10 {
		c := start(n, &Request{URL: s.URL})
		<-reached
		c.cancel()
		want(t, result(t, c), Transient, "cancelled")
	}
}

func TestCallsThatWaitEndWhenABreakerOpens(t *testing.T) {
	var sick atomic.Bool
	sick.Store(true)
	fail := make(chan struct{})
	var reached atomic.Int32
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !sick.Load():
		case reached.Add(1) <= 5: // the first five fail together
			<-fail
			panic(http.ErrAbortHandler)
		default:
			hang(w, r)
		}
	})
	n := newNet(t, Options{PerEndpoint: 5, Timeout: time.Hour, Breaker: Breaker{First: 100 * time.Millisecond}})
	var all []started
	for range 55 {
		all = append(all, start(n, &Request{URL: s.URL, Post: true})) // a POST that was cut off is not sent again
	}
	wait.Until(t, "five are under way", func() bool { return reached.Load() == 5 })
	close(fail)
	wait.Until(t, "nobody waits", func() bool { return n.Meter().Waiting.Load() == 0 })
	for _, c := range all {
		c.cancel() // those that have come to the service meanwhile
	}
	cut := 0
	for i, c := range all {
		r := result(t, c)
		if strings.Contains(r.Message, "circuit open") && !strings.Contains(r.Message, "has not ended") { // at once, and not when they have waited for too long
			cut++
		}
		if r.Outcome != Transient {
			t.Errorf("call %d: %+v", i, r)
		}
	}
	if cut != 46 { // before the fifth failed, the first four had given their places to others
		t.Errorf("%d calls were cut off", cut)
	}
	sick.Store(false)
	wait.Until(t, "it is called again", func() bool { return do(t, n, &Request{URL: s.URL}).Outcome == OK })
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.running != 0 || n.waiting != 0 || n.turns.Len() != 0 {
		t.Errorf("left: %d running, %d waiting, %d turns", n.running, n.waiting, n.turns.Len())
	}
}

// TestCallsWaitForTheOneThatTries: they are made once it has an answer, end when it fails, and one of them tries when it is cancelled.
func TestCallsWaitForTheOneThatTries(t *testing.T) {
	var broken atomic.Bool
	var under peak
	var answer atomic.Pointer[chan bool] // closed: now
	reached := make(chan bool, 100)
	s := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		if broken.Load() {
			panic(http.ErrAbortHandler)
		}
		under.up()
		defer under.down()
		reached <- true
		select {
		case <-*answer.Load():
		case <-r.Context().Done():
		}
	})
	n := newNet(t, Options{Timeout: time.Minute, Breaker: Breaker{First: 20 * time.Millisecond}})
	// tried opens the breaker, waits until it may be tried, and returns the call that does and others that come meanwhile.
	tried := func() (trial started, others []started, release chan bool) {
		t.Helper()
		release = make(chan bool)
		answer.Store(&release)
		broken.Store(true)
		wait.Until(t, "it is open", func() bool { return strings.Contains(do(t, n, &Request{URL: s.URL}).Message, "circuit open") })
		broken.Store(false)
		under.highest.Store(0)
		wait.Until(t, "it may be tried", func() bool {
			trial = start(n, &Request{URL: s.URL})
			select {
			case <-reached:
				return true
			case r := <-trial.results: // too early, or over a connection that the broken server still had to close
				want(t, r, Transient, "")
				return false
			}
		})
		for range 20 {
			others = append(others, start(n, &Request{URL: s.URL}))
		}
		if n.Meter().Waiting.Load() != 20 || under.highest.Load() != 1 {
			t.Fatalf("%d wait, %d are made", n.Meter().Waiting.Load(), under.highest.Load())
		}
		return trial, others, release
	}

	trial, others, release := tried()
	close(release)
	for _, c := range append(others, trial) {
		want(t, result(t, c), OK, "")
	}
	for range 20 {
		<-reached
	}

	trial, others, release = tried()
	trial.cancel()
	want(t, result(t, trial), Transient, "cancelled")
	select {
	case <-reached: // the next one tries
	case <-time.After(wait.Limit(t)):
		t.Fatal("nobody tries after a trial that was cancelled")
	}
	if w := n.Meter().Waiting.Load(); w != 19 {
		t.Errorf("%d wait for the second that tries", w)
	}
	others[5].cancel() // one that only waits
	want(t, result(t, others[5]), Transient, "cancelled")
	close(release)
	for i, c := range others {
		if i != 5 {
			want(t, result(t, c), OK, "")
		}
	}
	for range 18 {
		<-reached
	}

	trial, others, _ = tried()
	broken.Store(true)
	s.CloseClientConnections()
	want(t, result(t, trial), Transient, "")
	for _, c := range others {
		want(t, result(t, c), Transient, "circuit open")
	}
	short := start(n, &Request{URL: s.URL})
	want(t, result(t, short), Transient, "circuit open")
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.running != 0 || n.waiting != 0 || n.turns.Len() != 0 {
		t.Errorf("left: %d running, %d waiting, %d turns", n.running, n.waiting, n.turns.Len())
	}
}
