package outcall

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/internal/wait"
)

// TestThePaceIsMadeUpForByTime: some may begin at once, and then one for each part of a second.
func TestThePaceIsMadeUpForByTime(t *testing.T) {
	var p pace
	now := time.Now()
	begin := func() (n int) {
		for p.has(now) {
			p.begun++
			n++
		}
		return n
	}
	for _, c := range []struct {
		passed time.Duration
		begin  int
	}{{0, strangersAtOnce}, {0, 0}, {10 * time.Millisecond, strangersPerSecond / 100}, {10 * time.Millisecond, strangersPerSecond / 100}, {time.Hour, strangersAtOnce}} {
		now = now.Add(c.passed)
		if got := begin(); got != c.begin {
			t.Errorf("after %v more %d begin, and not %d", c.passed, got, c.begin)
		}
	}
}

// TestStrangersBeginOneAfterAnother: hundreds of services that were never called before are called in the end, but not all at once. A
// service that has answered does not wait for them.
func TestStrangersBeginOneAfterAnother(t *testing.T) {
	good := serve(t, func(http.ResponseWriter, *http.Request) {})
	strange := serve(t, hang)
	n := newNet(t, Options{Timeout: time.Minute})
	var ended atomic.Int32
	call := func(url string) (cancel func()) {
		return n.Go(&Request{URL: url}, func(Result) { ended.Add(1) })
	}
	call(good.URL)
	wait.Until(t, "the service has answered", func() bool { return ended.Load() == 1 })
	n.mu.Lock()
	n.firsts = pace{begun: strangersAtOnce, at: time.Now().Add(time.Hour)} // nothing is made up for
	n.others = n.firsts
	n.mu.Unlock()
	var cancels []func()
	for i := range 300 {
		cancels = append(cancels, call(fmt.Sprintf("%s/%d/x", strange.URL, i)))
	}
	late := make(chan Result, 1)
	n.Go(&Request{URL: strange.URL + "/late/x", Timeout: time.Millisecond}, func(r Result) { late <- r })
	if r := <-late; r.Outcome != Transient || !strings.Contains(r.Message, "no turn in 1ms: calls to services that have not answered of late begin at 1000 a second") {
		t.Errorf("a call whose turn does not come: %+v", r)
	}
	call(good.URL)
	wait.Until(t, "the service has answered again", func() bool { return ended.Load() == 2 })
	if under := n.Meter().Running.Load(); under != 0 {
		t.Errorf("%d strangers are called", under)
	}
	n.mu.Lock()
	n.firsts, n.others = pace{}, pace{}
	n.mu.Unlock()
	wait.Until(t, "strangers are called", func() bool { return n.Meter().Running.Load() > 2*strangersAtOnce })
	for _, c := range cancels {
		c()
	}
}
