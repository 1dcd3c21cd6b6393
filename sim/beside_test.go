package sim

import (
	"testing"
	"time"

	sagapart "github.com/holdfastdb/holdfast/doors/saga/part"
)

// A change of keys and a saga in one command, with a fault at every step on its way: of a disk, or of the network. Whatever the fault,
// every member has both or neither, at every moment (sagaBook.Turn) and after each restart, and what was acknowledged is there.

// strike is a fault that happens at the n-th step from now on. It calls done once it has happened, and returns what takes it back if it
// has not.
type strike func(w *World, n int, done func()) (disarm func())

// atDisk cuts the power in the middle of a disk operation of one member, and that of all others with it if all is set: then only what was
// synced on a majority is left.
func atDisk(victim func(w *World) *host, all bool) strike {
	return func(w *World, n int, done func()) func() {
		h := victim(w)
		gen := h.gen
		h.dying = true
		h.disk.PowerOffAfter(n)
		var look func()
		look = func() {
			switch {
			case h.gen == gen && h.dying:
				w.after(50*time.Microsecond, look)
			case h.gen != gen:
				for _, o := range w.hosts {
					if all && o != h {
						o.crash(true)
					}
				}
				done()
			}
		}
		look()
		return func() {
			h.dying = false
			h.disk.PowerOffAfter(-1)
		}
	}
}

// atFrame does something when the n-th frame between two members has left its sender, or is about to arrive.
func atFrame(do func(w *World, from, to *host)) strike {
	return func(w *World, n int, done func()) func() {
		armed := true
		w.net.tap = func(from, to *host) {
			if n--; n < 0 {
				w.net.tap = nil
				w.after(0, func() { // not in the middle of the member's own turn
					if armed {
						do(w, from, to)
						done()
					}
				})
			}
		}
		return func() { armed, w.net.tap = false, nil }
	}
}

func leading(w *World) *host { return w.leader() }

func following(w *World) *host {
	for _, h := range w.hosts {
		if h != w.leader() {
			return h
		}
	}
	return w.hosts[0]
}

// cutOff cuts a member off from all others, for longer than it takes them to elect another leader.
func cutOff(w *World, h *host) {
	for _, o := range w.hosts {
		if o != h {
			w.nemesis.cutFor(o, h, 3*time.Second)
			w.nemesis.cutFor(h, o, 3*time.Second)
		}
	}
}

// atEveryStep sends command after command, each struck one step later than the one before, until one is through before its step
// comes. It returns how many were struck.
func atEveryStep(w *World, through func(w *World) *host, hit strike, most int) int {
	b := &w.sagas
	for n := range most {
		b.rest()
		// The store may be ahead of what the log has to bring back, or behind.
		if n%3 == 0 {
			_ = w.hosts[w.rDisk.IntN(len(w.hosts))].mem.Flush()
		}
		struck, waiting := false, 2
		heard := func() { waiting-- }
		disarm := hit(w, n, func() { struck = true })
		o, lie := b.small(withPut), b.small(withLie)
		b.submit(through(w), o, 4*time.Second, heard)
		b.submit(through(w), lie, 4*time.Second, heard) // most often in the same entry
		w.wait("it is struck, or through", func() bool { return waiting == 0 && (struck || w.unequal() == "") })
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
	b.w.wait("all is at rest", func() bool { return b.w.unequal() == "" })
}

// both checks a command after its fault: all members have it if its client has heard so. A client that has not heard sends it once more;
// then all have it, and it was done once.
func (b *sagaBook) both(o *order) {
	w := b.w
	if !o.there {
		b.submit(w.leader(), o, 10*time.Second, func() {})
		w.wait("the repeated submit is answered", func() bool { return o.there })
		b.rest()
	}
	for _, h := range w.hosts {
		if !b.whole(h, o) {
			w.fail(SagaLost, "%s was acknowledged, and %s does not have it", o, h.name)
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
		through func(*World) *host
		hit     strike
	}{
		{"disk of the only member", 1, leading, atDisk(leading, false)},
		{"disk of the leader", 3, leading, atDisk(leading, false)},
		{"disk of the leader and all lose power", 3, following, atDisk(leading, true)},
		{"disk of a follower that was asked", 3, following, atDisk(following, false)},
		{"leader cut off", 3, following, atFrame(func(w *World, _, _ *host) {
			if h := w.leader(); h != nil {
				cutOff(w, h)
			}
		})},
		{"sender killed", 3, following, atFrame(func(_ *World, from, _ *host) { from.crash(false) })},
		{"receiver loses power", 3, leading, atFrame(func(_ *World, _, to *host) { to.crash(true) })},
		{"connections break", 3, following, atFrame(func(w *World, _, _ *host) {
			for _, l := range w.net.links {
				l.drop("broken")
			}
		})},
	} {
		struck := 0
		scene(t, seeds, Options{Nodes: c.nodes, Learners: -1, Sagas: true, Quiet: true, Faults: []Fault{}}, func(w *World) {
			w.sagas.calm = true
			w.up(c.nodes)
			w.wait("sagas may begin", func() bool { return w.leader() != nil && w.leader().n.ClusterLevel() >= sagapart.Level })
			struck += atEveryStep(w, c.through, c.hit, steps)
		})
		t.Logf("%s: struck at %d steps", c.name, struck)
		if struck < 4 || struck >= 1000 {
			t.Errorf("%s: struck at %d steps", c.name, struck)
		}
	}
}
