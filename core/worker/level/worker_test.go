package level

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/core/entry"
	emember "github.com/holdfastdb/holdfast/core/entry/member"
	"github.com/holdfastdb/holdfast/core/node"
	"github.com/holdfastdb/holdfast/core/worker/workertest"
	"github.com/holdfastdb/holdfast/internal/wait"
)

// house is a member 2 of a cluster whose members and levels are set by the test.
type house struct {
	*workertest.Member
	members []node.Member
	known   uint16
	level   atomic.Uint32
}

func (h *house) Members() []node.Member { return h.members }
func (h *house) ClusterLevel() uint16   { return uint16(h.level.Load()) }
func (h *house) KnownLevel() uint16     { return h.known }

const brief = 20 * time.Millisecond

// newHouse is a leader of members 2, 3 and 4, of which 4 is a learner, that knows level 5. Its proposals take effect.
func newHouse(t *testing.T) *house {
	h := &house{Member: workertest.New(), known: 5,
		members: []node.Member{{ID: 2, Name: "n2"}, {ID: 3, Name: "n3"}, {ID: 4, Name: "n4", Learner: true}}}
	h.OnPropose(func(parts []entry.Part) (*entry.Result, error) {
		p, err := emember.DecodePart(parts[0].Body)
		if err != nil || p.RaiseLevel == nil || !slices.Equal(p.RaiseLevel.Members, []uint64{2, 3, 4}) {
			t.Errorf("proposed %s, %v", emember.Describe(parts[0].Body), err)
			return &entry.Result{}, err
		}
		h.level.Store(uint32(p.RaiseLevel.Level))
		return &entry.Result{}, nil
	})
	return h
}

// say lets another member announce what it knows, as its own worker would.
func (h *house) say(t *testing.T, id uint64, known uint16, hold bool) {
	t.Helper()
	other := &Worker{node: &speaker{h, id, known}, opt: Options{Hold: hold}}
	if _, err := h.Service(announceService)(context.Background(), other.announcement()); err != nil {
		t.Fatal(err)
	}
}

type speaker struct {
	*house
	id    uint64
	known uint16
}

func (s *speaker) IDs() (cluster, member uint64) { return 1, s.id }
func (s *speaker) KnownLevel() uint16            { return s.known }

// saying repeats announcements until the test ends.
func (h *house) saying(t *testing.T, id uint64, known uint16, hold bool) (stop func()) {
	h.say(t, id, known, hold)
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-done:
				return
			case <-time.After(brief / 4):
				h.say(t, id, known, hold)
			}
		}
	}()
	stop = func() {
		select {
		case <-done:
		default:
			close(done)
		}
		<-ended
	}
	t.Cleanup(stop)
	return stop
}

// The level goes to the lowest that all know, learners included, and no sooner than all have said so.
func TestTheLevelIsRaisedToWhatAllKnow(t *testing.T) {
	h := newHouse(t)
	h.Lead(7)
	w := newWorker(h, Options{Interval: brief, Settle: 2 * brief})
	h.Run(t, w.Run)
	h.saying(t, 3, 3, false)
	wait.Until(t, "it says who is silent", func() bool { return strings.Contains(w.Waits(), "n4 did not say") })
	time.Sleep(5 * brief)
	if h.ClusterLevel() != 0 {
		t.Fatal("raised without the learner")
	}
	stop := h.saying(t, 4, 0, false)
	wait.Until(t, "it says who is lower", func() bool { return strings.Contains(w.Waits(), "n4 runs a build that knows no higher one") })
	stop()
	h.saying(t, 4, 4, false)
	wait.Until(t, "level 3", func() bool { return h.ClusterLevel() == 3 })
}

// A cluster that begins has little to settle, and does not wait for the next time the leader looks.
func TestAClusterThatBeginsDoesNotWait(t *testing.T) {
	h := newHouse(t)
	h.Lead(7)
	w := newWorker(h, Options{Interval: time.Hour, Settle: 2 * brief})
	h.say(t, 3, 5, false)
	h.say(t, 4, 5, false)
	h.Run(t, w.Run)
	wait.Until(t, "the level is raised", func() bool { return h.ClusterLevel() == 5 })
}

// A member that holds the level holds it for all, until an operator asks.
func TestHoldLevel(t *testing.T) {
	h := newHouse(t)
	h.Lead(7)
	w := newWorker(h, Options{Interval: brief, Settle: 2 * brief})
	h.OnCall(func(service string, req []byte) ([]byte, error) { return h.Service(service)(context.Background(), req) })
	h.Run(t, w.Run)
	h.saying(t, 3, 5, true)
	h.saying(t, 4, 5, false)
	wait.Until(t, "it says who holds", func() bool { return strings.Contains(w.Waits(), "n3 was started with --hold-level") })
	time.Sleep(5 * brief)
	if h.ClusterLevel() != 0 {
		t.Fatal("raised although a member holds it")
	}
	if err := w.Raise(t.Context()); err != nil || h.ClusterLevel() != 5 {
		t.Fatalf("asked for: %v, level %d", err, h.ClusterLevel())
	}
}

// An announcement does not hold for ever. A member that came back with a build before levels sends none, and a new leadership begins
// without any.
func TestWordsGrowOld(t *testing.T) {
	h := newHouse(t)
	h.Lead(7)
	w := newWorker(h, Options{Interval: brief, Settle: time.Hour})
	h.Run(t, w.Run)
	h.saying(t, 3, 5, false)
	stop := h.saying(t, 4, 5, false)
	wait.Until(t, "all have spoken", func() bool { return strings.Contains(w.Waits(), "some seconds more") })
	stop()
	wait.Until(t, "n4 is silent", func() bool { return strings.Contains(w.Waits(), "n4 did not say") })
	h.saying(t, 4, 5, false)
	wait.Until(t, "all have spoken again", func() bool { return strings.Contains(w.Waits(), "some seconds more") })
	if _, _, err := w.agreed(8, true); err == nil || !strings.Contains(err.Error(), "did not say") {
		t.Errorf("what was said to the leader of another term counts: %v", err)
	}
}

// A follower tells the leader which level it knows, and stops once the cluster is there.
func TestAFollowerAnnounces(t *testing.T) {
	h := newHouse(t)
	var said atomic.Pointer[string]
	h.OnCall(func(service string, req []byte) ([]byte, error) {
		text := fmt.Sprintf("%s %x", service, req)
		said.Store(&text)
		return nil, nil
	})
	w, ended := newWorker(h, Options{Interval: brief, Hold: true}), make(chan struct{})
	h.Run(t, func() { defer close(ended); w.Run() })
	wait.Until(t, "an announcement", func() bool { return said.Load() != nil })
	if want := "level.announce 02000000000000000501"; *said.Load() != want {
		t.Errorf("it said %q, want %q", *said.Load(), want)
	}
	h.level.Store(5)
	select {
	case <-ended:
	case <-time.After(wait.Limit(t)):
		t.Error("it goes on although the level is reached")
	}
	for _, req := range [][]byte{nil, {1}, append(make([]byte, 8), 1, 2), append(make([]byte, 8), 1, 0, 0)} {
		if _, err := w.handleAnnounce(t.Context(), req); err == nil {
			t.Errorf("%x was taken", req)
		}
	}
}
