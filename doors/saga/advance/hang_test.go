package advance

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/holdfastdb/holdfast/doors/saga/outcall"
)

// silent are services that take a call and never answer, until they are told to; all others answer at once. Calls to them end when they are cancelled.
type silent struct {
	outcall.Caller
	hang  func(url string) bool
	under atomic.Int64
}

func (s *silent) Go(req *outcall.Request, done func(outcall.Result)) (cancel func()) {
	if !s.hang(req.URL) {
		go done(ok)
		return func() {}
	}
	s.under.Add(1)
	var over atomic.Bool
	return func() {
		if !over.Swap(true) {
			s.under.Add(-1)
			go done(transient)
		}
	}
}

// TestServicesThatHangLeaveMemory: transactions of hanging services take all memory except the reserve, and those of a service that has
// answered go on.
func TestServicesThatHangLeaveMemory(t *testing.T) {
	const n = 3000
	for name, tc := range map[string]struct{ hosts, knew int }{
		"20 services":                               {hosts: 20},
		"a service for each":                        {hosts: n},
		"20 services that have answered before":     {hosts: 20, knew: 20},
		"a thousand that have, so that all is full": {hosts: 1000, knew: 1000},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t)
			var broken atomic.Bool
			s := &silent{hang: func(url string) bool { return broken.Load() && strings.Contains(url, "bad") }}
			// Some hundred transactions of these are as much as memory takes.
			l := h.lead(1, Options{Caller: s, MaxBytes: 1 << 20})
			h.saga("known", 1, at("good"))
			h.ends("known", "succeed p s")
			for i := range tc.knew {
				gid := fmt.Sprint("knew", i)
				h.saga(gid, 1, at(fmt.Sprint("bad", i)))
				h.ends(gid, "succeed p s")
			}
			broken.Store(true)
			for i := range n {
				h.saga(fmt.Sprint("hangs", i), 1, at(fmt.Sprint("bad", i%tc.hosts)))
			}
			eventually(t, "all that hang are known", func() bool { c := l.w.Counts(); return c.Running+c.Waiting == n && c.Running > 100 })
			if tc.knew > 100 { // they have filled what is kept for those that answer: one is given up for each that waits
				l.advance(3001)
			}
			for i := range 100 {
				gid := fmt.Sprint("good", i)
				h.saga(gid, 1, at("good"))
				eventually(t, gid+" has ended", func() bool {
					if tc.knew > 100 {
						l.advance(relieveMs)
					}
					return h.stands(gid) == "succeed p s"
				})
			}
			if c := l.w.Counts(); c.Running < 100 || s.under.Load() < 100 {
				t.Errorf("%d are in memory, %d calls hang", c.Running, s.under.Load())
			}
		})
	}
}

// TestAStrangerFindsRoom: services that hang take all memory but the reserve. A call to a new service goes through once they have hung for
// as long as calls may take, in any order of arrival.
func TestAStrangerFindsRoom(t *testing.T) {
	const n = 3000
	h := newHouse(t)
	s := &silent{hang: func(url string) bool { return strings.Contains(url, "bad") }}
	l := h.lead(1, Options{Caller: s, MaxBytes: 1 << 20})
	for i := range n {
		h.saga(fmt.Sprint("hangs", i), 1, at(fmt.Sprint("bad", i)))
	}
	eventually(t, "all that hang are known", func() bool { c := l.w.Counts(); return c.Running+c.Waiting == n && c.Running > 100 })
	h.saga("new", 1, at("good"))
	l.advance(3001)
	eventually(t, "it has been called", func() bool {
		l.advance(relieveMs)
		return h.stands("new") == "succeed p s"
	})
}
