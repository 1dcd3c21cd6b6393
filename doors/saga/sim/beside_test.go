package sim

import (
	"testing"
	"time"

	sagapart "github.com/holdfastdb/holdfast/doors/saga/part"
	"github.com/holdfastdb/holdfast/sim"
)

// A change of keys and a saga in one command. A fault comes at every step on its way: of a disk, or of the network. With any fault, every
// member has both or neither, at every moment (sagaBook.Turn) and after each restart, and acknowledged transactions are there.

// strike is a fault that happens at the n-th step from now on. It calls done once it has happened, and returns what takes it back if it
// has not.
type strike func(w *sim.World, n int, done func()) (disarm func())

// atDisk cuts the power in the middle of a disk operation of one member, and that of all others with it if all is set. Then only data
// synced on a majority is left.
func atDisk(victim func(w *sim.World) *sim.Member, all bool) strike {
	return func(w *sim.World, n int, done func()) func() {
		h := victim(w)
		process := h.Process()
		h.PowerOffAfter(n)
		var look func()
		look = func() {
			switch {
			case h.Process() == process && h.Dying():
				w.After(50*time.Microsecond, look)
			case h.Process() != process:
				for _, o := range w.Members() {
					if all && o != h {
						o.Crash(true)
					}
				}
				done()
			}
		}
		look()
		return func() {
			h.PowerOffAfter(-1)
		}
	}
}

// atFrame does something when the n-th frame between two members has left its sender, or is about to arrive.
func atFrame(do func(w *sim.World, from, to *sim.Member)) strike {
	return func(w *sim.World, n int, done func()) func() {
		armed := true
		w.Tap(func(from, to *sim.Member) {
			if n--; n < 0 {
				w.Tap(nil)
				w.After(0, func() { // not in the middle of the member's own turn
					if armed {
						do(w, from, to)
						done()
					}
				})
			}
		})
		return func() {
			armed = false
			w.Tap(nil)
		}
	}
}

func leading(w *sim.World) *sim.Member { return w.Leader() }

func following(w *sim.World) *sim.Member {
	for _, h := range w.Members() {
		if h != w.Leader() {
			return h
		}
	}
	return w.Members()[0]
}

// atEveryStep sends command after command, each struck one step later than its predecessor, until one is through before its step comes. It
// returns how many were struck.
func atEveryStep(w *sim.World, through func(w *sim.World) *sim.Member, hit strike, most int) int {
	b := bookOf(w)
	for n := range most {
		b.rest()
		// The store may be ahead of what the log has to bring back, or behind.
		if n%3 == 0 {
			w.Members()[w.Chance().IntN(len(w.Members()))].Flush()
		}
		struck, waiting := false, 2
		heard := func() { waiting-- }
		disarm := hit(w, n, func() { struck = true })
		o, lie := b.small(withPut), b.small(withLie)
		b.submit(through(w), o, 4*time.Second, heard)
		b.submit(through(w), lie, 4*time.Second, heard) // most often in the same entry
		w.Wait("it is struck, or through", func() bool { return waiting == 0 && (struck || w.AtRest()) })
		if !struck {
			disarm()
			return n
		}
		b.rest()
		b.both(o)
	}
	return most
}

// small is an order that is soon through.
func (b *sagaBook) small(with besides) *order {
	o := b.draw(with)
	*o = order{gid: o.gid, mode: sagapart.Saga, fails: -1, with: with, steps: make([]deed, 1)}
	return o
}

// rest waits until all members are up and have the same state, with every saga ended.
func (b *sagaBook) rest() {
	b.w.Wait("all is at rest", func() bool { return b.w.AtRest() })
}

// both checks a command after its fault: all members have it if its client has heard so. A client that has not heard sends it once more;
// then all have it, and it was done once.
func (b *sagaBook) both(o *order) {
	w := b.w
	if !o.there {
		b.submit(w.Leader(), o, 10*time.Second, func() {})
		w.Wait("the repeated submit is answered", func() bool { return o.there })
		b.rest()
	}
	for _, h := range w.Members() {
		if !b.whole(h, o) {
			w.Fail(SagaLost, "%s was acknowledged, and %s does not have it", o, h.Name())
		}
	}
}

// TestBesideAtEveryStep is what the saga door offers beyond DTM's: a change of keys and a saga, both or neither.
func TestBesideAtEveryStep(t *testing.T) {
	seeds, steps := uint64(2), 1000
	if testing.Short() {
		seeds, steps = 1, 4
	}
	for _, c := range []struct {
		name    string
		nodes   int
		through func(*sim.World) *sim.Member
		hit     strike
	}{
		{"disk of the only member", 1, leading, atDisk(leading, false)},
		{"disk of the leader", 3, leading, atDisk(leading, false)},
		{"disk of the leader and all lose power", 3, following, atDisk(leading, true)},
		{"disk of a follower that was asked", 3, following, atDisk(following, false)},
		{"leader cut off", 3, following, atFrame(func(w *sim.World, _, _ *sim.Member) {
			if h := w.Leader(); h != nil {
				w.CutOff(h, 3*time.Second) // longer than an election takes
			}
		})},
		{"sender killed", 3, following, atFrame(func(_ *sim.World, from, _ *sim.Member) { from.Crash(false) })},
		{"receiver loses power", 3, leading, atFrame(func(_ *sim.World, _, to *sim.Member) { to.Crash(true) })},
		{"connections break", 3, following, atFrame(func(w *sim.World, _, _ *sim.Member) {
			w.Disconnect()
		})},
	} {
		struck := 0
		scene(t, seeds, sim.Options{Nodes: c.nodes, Learners: -1, Doors: true, Quiet: true, Faults: []sim.Fault{}}, func(w *sim.World) {
			bookOf(w).calm = true
			w.Up(c.nodes)
			w.Wait("sagas may begin", func() bool { return w.Leader() != nil && w.Leader().Node().ClusterLevel() >= sagapart.Level })
			struck += atEveryStep(w, c.through, c.hit, steps)
		})
		t.Logf("%s: struck at %d steps", c.name, struck)
		if struck < 4 || struck >= 1000 {
			t.Errorf("%s: struck at %d steps", c.name, struck)
		}
	}
}
