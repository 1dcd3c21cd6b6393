package advance

import (
	"fmt"
	"testing"
	"time"

	sagapart "github.com/holdfastdb/holdfast/doors/saga/part"
)

// TestNoCallTakesLongerThanTheCeiling, also if its transaction asks for more; its own value stays in the log.
func TestNoCallTakesLongerThanTheCeiling(t *testing.T) {
	h := newHouse(t)
	l := h.lead(1, Options{MaxRequestTimeoutMs: 60_000})
	const years = 10 * 366 * 24 * 3600 * 1000
	for gid, ms := range map[string]int64{"long": years, "short": 5000, "none": 0} {
		h.saga(gid, 1, func(b *sagapart.BeginPart) { b.Options.RequestTimeoutMs = ms })
	}
	eventually(t, "all are done", func() bool { return l.w.Counts().Succeed == 3 })
	granted := map[string]time.Duration{}
	for _, r := range l.asked {
		granted[r.Gid] = r.Timeout
	}
	if got := fmt.Sprint(granted); got != "map[long:1m0s none:3s short:5s]" {
		t.Error(got)
	}
	tx, err := h.m.Find("long")
	if err != nil || tx.Options.RequestTimeoutMs != years {
		t.Errorf("the log has %+v, %v", tx, err)
	}
	if w := newWorker(l.w.node, h.m, Options{Caller: l.w.opt.Caller}); w.timing.maxRequestTimeoutMs != 600_000 {
		t.Errorf("the ceiling is %d ms", w.timing.maxRequestTimeoutMs)
	}
}

// TestManyThatHangLeaveRoom: however many services hang, transactions of one that has answered are read and called. First calls to those
// that hang may take all but the last sixteenth of memory. The clock stands still here, so that none is given up.
func TestManyThatHangLeaveRoom(t *testing.T) {
	h := newHouse(t)
	const room, bad, each, good = 256, 40, 20, 30
	s := newScript()
	s.always("action 02", hang)
	l := h.leadWith(1, Options{MaxRunning: room}, s, h.m)
	h.msg("known", sagapart.Submitted, 1)
	eventually(t, "the service has answered", func() bool { return l.w.Counts().Succeed == 1 })
	for i := range bad * each {
		h.saga(fmt.Sprint("stuck", i), 2, stepAt(0, fmt.Sprint("fine", i)), stepAt(1, fmt.Sprintf("dead%d:80", i%bad)))
	}
	eventually(t, "they wait", func() bool { c := l.w.Counts(); return c.Running+c.Waiting == bad*each && c.Running < room })
	for i := range good {
		h.msg(fmt.Sprint("good", i), sagapart.Submitted, 1)
	}
	eventually(t, "the others are done", func() bool { return l.w.Counts().Succeed == 1+good })
	for range bad * each {
		eventually(t, "one is called", func() bool {
			l.mu.Lock()
			defer l.mu.Unlock()
			return len(l.held["action 02"]) > 0
		})
		l.release(t, "action 02", ok)
	}
	eventually(t, "all have ended", func() bool { return l.w.Counts().Succeed == 1+good+bad*each })
	eventually(t, "nothing is left in memory", l.idle)
}

// TestAPlaceThatWasGivenIsGivenBack: a transaction ends while it is read again for a place that it was given; the next one gets that place.
func TestAPlaceThatWasGivenIsGivenBack(t *testing.T) {
	h := newHouse(t)
	l := h.lead(1, Options{PerEndpoint: 1})
	for round := range 3 {
		gids := []string{fmt.Sprint("a", round), fmt.Sprint("b", round), fmt.Sprint("c", round)}
		for range gids {
			l.answer("action 01", hang)
		}
		for i, gid := range gids {
			h.saga(gid, 1, at("one:80"))
			eventually(t, "it is called or waits", func() bool { c := l.w.Counts(); return c.Running == 1 && c.Waiting == i })
		}
		// The second one waits for the place. It ends before its turn comes, and is still in the queue then.
		h.move(gids[1], sagapart.Submitted, sagapart.Failed, "by hand")
		l.release(t, "action 01", ok)
		eventually(t, "the third one is called", func() bool {
			l.mu.Lock()
			defer l.mu.Unlock()
			return len(l.held["action 01"]) == 1
		})
		l.release(t, "action 01", ok)
		eventually(t, "nothing is left", l.idle)
	}
}
