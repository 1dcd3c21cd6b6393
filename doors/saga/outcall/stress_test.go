package outcall

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfastdb/holdfast/internal/wait"
)

// TestEveryCallEndsOnceAndGivesBackWhatItHad: services answer, fail, hang, break off, redirect and are missing. Calls over every protocol
// time out and are cancelled, more than there is place for; and in the end nothing is left of them.
func TestEveryCallEndsOnceAndGivesBackWhatItHad(t *testing.T) {
	good := serve(t, func(w http.ResponseWriter, r *http.Request) {})
	odd := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch rand.IntN(6) {
		case 0:
			w.WriteHeader(409)
		case 1:
			w.WriteHeader(500)
		case 2:
			hang(w, r)
		case 3:
			http.Redirect(w, r, good.URL, http.StatusTemporaryRedirect)
		case 4:
			c, _, _ := w.(http.Hijacker).Hijack()
			c.Close()
		case 5:
			time.Sleep(time.Millisecond)
		}
	})
	at := serveGRPC(t, func(ctx context.Context, m string, in []byte) ([]byte, error) {
		switch rand.IntN(4) {
		case 0:
			return nil, status.Error(codes.Aborted, "")
		case 1:
			return hangGRPC(ctx, m, in)
		}
		return in, nil
	})
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone := free.Addr().String()
	free.Close()

	n := newNet(t, Options{PerEndpoint: 8, InFlight: 20, Waiting: 200, Bytes: 100_000, Idle: 5 * time.Millisecond, Timeout: 20 * time.Millisecond,
		Breaker: Breaker{Failures: 4, First: 5 * time.Millisecond, Longest: 20 * time.Millisecond}})
	const calls = 5000
	var ended [calls]atomic.Int32
	for i := range calls {
		r := &Request{Gid: fmt.Sprint(i), Payload: make([]byte, rand.IntN(2000))}
		switch rand.IntN(8) {
		case 0, 1:
			r.URL = good.URL
		case 2, 3:
			r.URL = odd.URL
		case 4:
			r.URL, r.Protocol = at+"/pkg.Service/Method", GRPC
		case 5:
			r.URL = "http://" + gone
		case 6:
			r.URL, r.Protocol = gone+"/pkg.Service/Method", GRPC
		case 7:
			r.URL = "http://169.254.169.254/"
		}
		if rand.IntN(4) == 0 {
			r.Timeout = time.Duration(1+rand.IntN(30)) * time.Millisecond
		}
		cancel := n.Go(r, func(r Result) {
			if r.Outcome < OK || r.Outcome > Refused {
				t.Errorf("%+v", r)
			}
			ended[i].Add(1)
		})
		switch rand.IntN(8) {
		case 0:
			cancel()
		case 1:
			time.AfterFunc(time.Duration(rand.IntN(10))*time.Millisecond, cancel)
		}
		if i%500 < 400 { // the others come faster than there is place for
			wait.Until(t, "few calls wait", func() bool { return n.Meter().Waiting.Load() < 20 })
		}
	}
	wait.Until(t, "every call has ended", func() bool {
		n.mu.Lock()
		defer n.mu.Unlock()
		return len(n.calls) == 0
	})
	n.mu.Lock()
	if n.running != 0 || n.waiting != 0 || n.bytes != 0 || n.turns.Len() != 0 {
		t.Errorf("left: %d running, %d waiting, %d bytes, %d turns", n.running, n.waiting, n.bytes, n.turns.Len())
	}
	n.mu.Unlock()
	m := n.Meter()
	total, byOutcome := uint64(0), [Refused + 1]uint64{}
	for o := range m.Ended {
		byOutcome[o] = m.Ended[o].Load()
		total += byOutcome[o]
	}
	if total != calls || m.Running.Load() != 0 || m.Waiting.Load() != 0 {
		t.Errorf("of %d calls %d have ended, %d run and %d wait", calls, total, m.Running.Load(), m.Waiting.Load())
	}
	for o, least := range []uint64{0, 100, 1, 0, 100, 100} {
		if byOutcome[o] < least {
			t.Errorf("%d calls were %v: this test tries nothing", byOutcome[o], Outcome(o))
		}
	}
	wait.Until(t, "all connections are closed", func() bool {
		n.mu.Lock()
		defer n.mu.Unlock()
		return n.idle == 0
	})
	for i := range ended {
		if c := ended[i].Load(); c != 1 {
			t.Errorf("call %d ended %d times", i, c)
		}
	}
	n.Close()
	if m.Open.Load() != 0 {
		t.Errorf("%d breakers are open although all are forgotten", m.Open.Load())
	}
}
