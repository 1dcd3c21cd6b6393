package outcall

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/internal/wait"
)

// TestServicesThatHangLeavePlaces: with any time granted by a request, and any number of hanging services, the calls to one that answers go
// through.
func TestServicesThatHangLeavePlaces(t *testing.T) {
	const all = 256
	n := newNet(t, Options{InFlight: all, Timeout: time.Second})
	good := serve(t, func(http.ResponseWriter, *http.Request) {})
	want(t, do(t, n, &Request{URL: good.URL}), OK, "") // it is known
	for range 20 {
		bad := serve(t, hang)
		for range 2 * all / 20 {
			start(n, &Request{URL: bad.URL, Timeout: 10 * 365 * 24 * time.Hour})
		}
	}
	wait.Until(t, "those that hang have what they can have", func() bool { return n.Meter().Running.Load() >= all/4*3 && n.Meter().Waiting.Load() > 0 })
	for range 200 {
		if r := do(t, n, &Request{URL: good.URL, Timeout: time.Minute}); r.Outcome != OK || r.Elapsed > 5*time.Second {
			t.Fatalf("%+v", r)
		}
	}
	if running := n.Meter().Running.Load(); running > all/8*7+20 {
		t.Errorf("%d calls that hang are under way", running)
	}
	if given := n.Meter().GivenUp.Load(); given != 0 {
		t.Errorf("%d calls were given up although there are places", given)
	}
}

// TestStrangersLeavePlaces: however many endpoints were never called and hang, before it is known that they do, the calls to one that answers go through.
func TestStrangersLeavePlaces(t *testing.T) {
	const all = 64
	n := newNet(t, Options{InFlight: all, Timeout: time.Hour})
	good := serve(t, func(http.ResponseWriter, *http.Request) {})
	want(t, do(t, n, &Request{URL: good.URL}), OK, "") // it is known
	for range all + 1 {
		start(n, &Request{URL: serve(t, hang).URL})
	}
	wait.Until(t, "strangers have what they can have", func() bool { return n.Meter().Running.Load()+n.Meter().Waiting.Load() == all+1 })
	for range 20 {
		want(t, do(t, n, &Request{URL: good.URL, Timeout: time.Minute}), OK, "")
	}
	if running := n.Meter().Running.Load(); running > all/16*15 {
		t.Errorf("%d calls that hang are under way", running)
	}
}

// TestAHangingCallMakesRoom: where every place is taken by a first call that hangs, the oldest is given up. It makes room for a service
// that answers, and for one that was never called.
func TestAHangingCallMakesRoom(t *testing.T) {
	const all = 16
	n := newNet(t, Options{InFlight: all, Timeout: 50 * time.Millisecond})
	var bad []started
	for range all {
		s := serve(t, hang)
		bad = append(bad, start(n, &Request{URL: s.URL, Timeout: time.Hour}))
	}
	wait.Until(t, "all places are taken, and for long", func() bool {
		n.mu.Lock()
		defer n.mu.Unlock()
		for _, ep := range n.endpoints {
			if !n.hostHangs(ep, time.Now()) {
				return false
			}
		}
		return n.running == all
	})
	for i := range 5 {
		stranger := serve(t, func(http.ResponseWriter, *http.Request) {})
		for range 3 {
			want(t, do(t, n, &Request{URL: stranger.URL, Timeout: time.Minute}), OK, "")
		}
		if given := n.Meter().GivenUp.Load(); given < 1 || given > uint64(i+1) {
			t.Errorf("%d calls were given up for %d services", given, i+1)
		}
	}
	ended := 0
	for _, s := range bad {
		select {
		case r := <-s.results:
			ended++
			want(t, r, Transient, "services that answer wait for one")
		default:
		}
	}
	if given := n.Meter().GivenUp.Load(); uint64(ended) > given {
		t.Errorf("%d ended, %d were given up", ended, given)
	}
}

// TestNamesThatRefuseAreNotDialledByThemselves: when the last call to one has ended nothing of it is left to dial, and no goroutine.
func TestNamesThatRefuseAreNotDialledByThemselves(t *testing.T) {
	var dials atomic.Int64
	n := newNet(t, Options{Lookup: func(context.Context, string) ([]netip.Addr, error) { dials.Add(1); return nil, errors.New("refused") }})
	before := runtime.NumGoroutine()
	const names = 300
	var all []started
	for i := range names {
		all = append(all, start(n, &Request{URL: fmt.Sprintf("h%d.test:1/a.B/C", i), Protocol: GRPC}))
	}
	for _, s := range all {
		want(t, result(t, s), Transient, "refused")
	}
	wait.Until(t, "nothing is left of the channels", func() bool { return runtime.NumGoroutine() < before+20 })
	n.mu.Lock()
	left := 0
	for _, ep := range n.endpoints {
		if ep.grpc != nil {
			left++
		}
	}
	n.mu.Unlock()
	if left > 0 {
		t.Errorf("%d channels are left", left)
	}
	was := dials.Load()
	want(t, do(t, n, &Request{URL: "h1.test:1/a.B/C", Protocol: GRPC}), Transient, "refused")
	if now := dials.Load(); now != was+1 {
		t.Errorf("one call dialled %d times", now-was)
	}
}

// TestFewChannelsAreKept: of services that answer, those unused for longest lose their channels.
func TestFewChannelsAreKept(t *testing.T) {
	at := serveGRPC(t, func(context.Context, string, []byte) ([]byte, error) { return nil, nil })
	_, port, _ := strings.Cut(at, ":")
	n := newNet(t, Options{Lookup: func(context.Context, string) ([]netip.Addr, error) {
		return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
	}})
	for i := range maxChannels + 20 {
		want(t, do(t, n, &Request{URL: fmt.Sprintf("h%d.test:%s/a.B/C", i, port), Protocol: GRPC, Timeout: time.Minute}), OK, "")
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	left := 0
	for _, ep := range n.endpoints {
		if ep.grpc != nil {
			left++
		}
	}
	if left > maxChannels || left < maxChannels/2 {
		t.Errorf("%d channels are kept", left)
	}
}

// TestAStrangerIsLeftAloneLonger than a service that has answered before.
func TestAStrangerIsLeftAloneLonger(t *testing.T) {
	o := &Breaker{Failures: 1, First: time.Second, Longest: 30 * time.Second}
	longest := func(b *breaker) time.Duration {
		now := time.Unix(0, 0)
		b.failed(now, false, "", o)
		for range 20 {
			now = b.until
			b.allow(now)
			b.failed(now, true, "", o)
		}
		return b.wait
	}
	if known, stranger := longest(&breaker{}), longest(&breaker{stranger: true}); known != 30*time.Second || stranger != 2*time.Minute {
		t.Errorf("a service is left alone for %v, a stranger for %v", known, stranger)
	}
	b := breaker{stranger: true}
	if b.answered(); b.stranger {
		t.Error("one that has answered is a stranger")
	}
}

// pieces is a body that is read in two pieces.
type pieces struct{ all [][]byte }

func (p *pieces) Read(b []byte) (int, error) {
	if len(p.all) == 0 {
		return 0, io.EOF
	}
	n := copy(b, p.all[0])
	if p.all[0] = p.all[0][n:]; len(p.all[0]) == 0 {
		p.all = p.all[1:]
	}
	return n, nil
}

// TestAWordIsFoundWhereverTheAnswerIsCut: reads end where they end, in the part that is kept, behind it, and between the two.
func TestAWordIsFoundWhereverTheAnswerIsCut(t *testing.T) {
	for _, word := range []string{"FAILURE", "ONGOING"} {
		for _, at := range []int{0, 1, 100, keptBody - 8, keptBody - 7, keptBody - 6, keptBody - 3, keptBody - 1, keptBody, keptBody + 1, keptBody + 2041, keptBody + 2048, 2*keptBody + 1} {
			body := append(bytes.Repeat([]byte("F"), at), word...)
			body = append(body, bytes.Repeat([]byte("O"), 5000)...)
			for cut := max(at-2, 1); cut <= at+len(word)+1; cut++ {
				for second := cut; second <= at+len(word)+1; second++ {
					var a answer
					buf := &buffer{b: make([]byte, 0, 512)}
					err := a.read(&pieces{[][]byte{bytes.Clone(body[:cut]), bytes.Clone(body[cut:second]), bytes.Clone(body[second:])}}, buf, keptBody, false, nil)
					if err != nil || a.failure != (word == "FAILURE") || a.ongoing != (word == "ONGOING") || !a.whole {
						t.Fatalf("%s at %d, cut at %d and %d: %+v, %v", word, at, cut, second, a, err)
					}
				}
			}
			// A word that is not whole is none.
			half := append(bytes.Repeat([]byte("F"), at), word[1:]...)
			var a answer
			if err := a.read(bytes.NewReader(half), &buffer{b: make([]byte, 0, 512)}, keptBody, false, nil); err != nil || word == "ONGOING" && a.ongoing || word == "FAILURE" && at == 0 && a.failure {
				t.Fatalf("half of %s at %d: %+v, %v", word, at, a, err)
			}
		}
	}
}
