package advance

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/core/node"
	"github.com/holdfastdb/holdfast/doors/saga/outcall"
	sagapart "github.com/holdfastdb/holdfast/doors/saga/part"
)

// Every recovery is tried a second time: what the first one leaves behind shows only then.

// givenBack waits until the worker holds nothing of any transaction.
func (l *leader) givenBack() {
	l.h.t.Helper()
	eventually(l.h.t, "nothing is left in memory", l.idle)
}

// TestALeaderDiesTwiceAtOneMoment: the second death comes where the first one did, so what the first left half done is left so again.
func TestALeaderDiesTwiceAtOneMoment(t *testing.T) {
	for i := range plots {
		p := &plots[i]
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			n := p.play(t)
			for life := range n {
				p.play(t, life, life)
			}
			p.play(t, 1, 2, 3, 2, 1)
		})
	}
}

// TestAMemberLeadsAgainAndAgain: it is deposed in the middle of a call each time, and the next term makes the call anew.
func TestAMemberLeadsAgainAndAgain(t *testing.T) {
	h := newHouse(t)
	l := h.lead(1, Options{})
	for round := range 3 {
		gid := fmt.Sprint("order", round)
		l.answer("action 02", hang)
		h.saga(gid, 2)
		eventually(t, "the second step is called", l.has(2))
		l.Lead(0)
		eventually(t, "it leads no more", func() bool { return l.w.current() == nil })
		l.called("action 01", "action 02")
		l.term++
		l.Lead(l.term)
		l.pass(gid)
		l.called("action 01", "action 02") // the first one's answer was not in the log yet
		h.ends(gid, "succeed p s p s")
		l.givenBack()
	}
	if got := l.Proposed(); !slices.Equal(got, []uint64{2, 3, 4}) {
		t.Errorf("proposed in terms %v", got)
	}
}

// TestCommandsThatDoNotGetThroughTwice: a command fails twice in a row, and so does that of the next transaction.
func TestCommandsThatDoNotGetThroughTwice(t *testing.T) {
	for name, err := range map[string]error{"a full lane": node.ErrOverloaded, "no leader": node.ErrNoLeader, "nobody knows": node.ErrUnknown} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t)
			left := 0 // guarded by h.mu
			h.before = func(*sagapart.ChangePart) error {
				if left--; left < 0 {
					return nil
				}
				return err
			}
			l := h.lead(1, Options{})
			for round := range 2 {
				gid := fmt.Sprint("order", round)
				h.mu.Lock()
				left = 2
				h.mu.Unlock()
				h.saga(gid, 1)
				for end := 0; !h.find(gid).Status.Final() && end < 10_000; end++ {
					time.Sleep(time.Millisecond)
					l.advance(50)
				}
				l.pass(gid)
				l.called("action 01")
				h.ends(gid, "succeed p s")
				l.givenBack()
			}
		})
	}
}

// TestMemoryIsBoundedAgain: as many transactions are due as memory has no room for, and when they have ended as many again.
func TestMemoryIsBoundedAgain(t *testing.T) {
	h := newHouse(t)
	const n, running, bytes = 300, 4, 40 << 10
	l := h.lead(1, Options{MaxRunning: running, MaxBytes: bytes})
	most := make(chan Counts, 3*n)
	l.on = func(string, *outcall.Request) outcall.Result {
		most <- l.w.Counts()
		return ok
	}
	for round := range 3 {
		for i := range n {
			h.saga(fmt.Sprintf("s%d-%d", round, i), 1, at(fmt.Sprint("host", i%7)), func(b *sagapart.BeginPart) {
				payload := make([]byte, 4<<10)
				b.Branches[0].Payload, b.Branches[1].Payload = payload, payload
			})
		}
		eventually(t, "all have ended", func() bool { return l.w.Counts().Succeed == uint64((round+1)*n) })
		l.givenBack()
	}
	close(most)
	const each = 4<<10 + 8<<10 // a payload, and what goes with it
	for c := range most {
		if c.Running > running || c.Running+c.Waiting > 16*running || c.Bytes > bytes+maxLoads*each {
			t.Fatalf("in memory: %+v", c)
		}
	}
}

// TestHeldAfterASecondRestore: a copy that was resumed, and is restored once more, waits again.
func TestHeldAfterASecondRestore(t *testing.T) {
	h := newHouse(t)
	h.saga("s0", 1)
	for round := range 2 {
		h = h.restored()
		l := h.lead(1, Options{})
		h.saga(fmt.Sprint("s", round+1), 1)
		time.Sleep(20 * time.Millisecond) // there is nothing that could be waited for
		l.called()
		h.do(&sagapart.Part{Kind: sagapart.Resume})
		eventually(t, "what was held has ended", func() bool { return h.find(fmt.Sprint("s", round+1)).Status.Final() && h.find("s0").Status.Final() })
		l.givenBack()
		h.saga(fmt.Sprint("held", round), 1)
		eventually(t, "nothing is held any more", func() bool { return h.find(fmt.Sprint("held", round)).Status.Final() })
		l.Stop()
		eventually(t, "it has stopped", func() bool { return l.w.current() == nil })
	}
}

// TestTheRingOverrunsTwice: what was missed is found among the rows the second time as well.
func TestTheRingOverrunsTwice(t *testing.T) {
	h := newHouse(t)
	const n = 20_000
	l := h.lead(1, Options{ByHand: true}) // ByHand reads no rows
	eventually(t, "the term has begun", func() bool { return l.w.current() != nil })
	l.Stop()
	eventually(t, "it has stopped", func() bool { return l.w.current() == nil })
	term := newTerm(l.w, 2)
	term.listen()
	for round := range 2 {
		for i := range n {
			h.msg(fmt.Sprintf("m%d-%d", round, i), sagapart.Submitted, 1, func(b *sagapart.BeginPart) { b.FirstMs = 1000 })
		}
		term.listen()
		if term.timers.all || len(term.timers.soon) > ahead {
			t.Errorf("round %d: %d timers in memory, all: %v", round, len(term.timers.soon), term.timers.all)
		}
		if err := term.scan(h.now()); err != nil || len(term.timers.soon) != ahead {
			t.Errorf("round %d: %d timers were read, %v", round, len(term.timers.soon), err)
		}
	}
}
