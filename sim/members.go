package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/holdfastdb/holdfast/core/node"
)

// membership is the cluster's operator. It adds, promotes and removes members by a real operator's calls to some member, one at a time, and
// repeats calls with an unknown outcome.
type membership struct {
	w     *World
	r     *rand.Rand
	busy  bool
	after time.Duration // when the next thing may be done
	// spared gets no calls; nil: every member may.
	spared *host
	// most is how many members there may be at once.
	most int
}

// maxLearners is how many of them may be learners.
const maxLearners = 3

func (m *membership) start(w *World) {
	m.w, m.r = w, rand.New(rand.NewPCG(w.opt.Seed, 7))
	learners := w.opt.Learners
	if learners == 0 && w.opt.Faults == nil {
		learners = m.r.IntN(3)
	}
	m.most = w.opt.Nodes + 1 + max(learners, 0)
	for range learners {
		h := w.newHost()
		w.after(Between(m.r, 500*time.Millisecond, 3*time.Second), func() { m.add(h, true) })
	}
}

// call asks a member that runs, in a task of its process: the process may end before it has answered. done gets the outcome,
// errUnheard if it is not known.
func (m *membership) call(what string, ask func(ctx context.Context, n *node.Node) error, done func(error)) {
	w := m.w
	up := w.nemesis.running()
	if len(up) == 0 {
		w.after(100*time.Millisecond, func() { done(errUnheard) })
		return
	}
	h := up[m.r.IntN(len(up))]
	for h == m.spared && len(up) > 1 {
		h = up[m.r.IntN(len(up))]
	}
	n, told := h.n, false
	tell := func(err error) {
		if !told {
			told = true
			w.trace.add(w.now, "operator ← %s %s: %v", h.name, what, err)
			w.after(0, func() { done(err) })
		}
	}
	w.trace.add(w.now, "operator → %s %s", h.name, what)
	w.after(8*time.Second, func() { tell(errUnheard) })
	h.tasks.Go(func() {
		ctx, cancel := h.tasks.Timeout(6 * time.Second)
		defer cancel()
		err := ask(ctx, n)
		if ctx.Err() != nil || errors.Is(err, node.ErrUnknown) || errors.Is(err, node.ErrSuperseded) || errors.Is(err, node.ErrNoLeader) {
			err = errUnheard
		}
		tell(err)
	})
}

var errUnheard = errors.New("nothing was heard")

// step does one thing.
func (m *membership) step() {
	w, r := m.w, m.r
	if m.busy || w.now < m.after || w.nemesis.over {
		return
	}
	m.after = w.now + Between(r, 300*time.Millisecond, 2*time.Second)
	seen := m.seen()
	if len(seen) == 0 {
		return
	}
	var learners []node.Member
	for _, o := range seen {
		if o.Learner {
			learners = append(learners, o)
		}
	}
	k := r.IntN(10)
	switch {
	case len(seen) < m.most && (k < 4 || len(seen)-len(learners) == 1 && k < 7):
		h := w.newHost()
		switch k % 3 {
		case 0:
			m.add(h, true)
		case 1:
			m.add(h, false)
		default:
			w.trace.add(w.now, "%s is started to join", h.name)
			h.role = role{join: true}
			h.start()
		}
	case len(learners) > 0 && (k < 8 || r.IntN(2) == 0):
		m.promote(learners[r.IntN(len(learners))].ID)
	default:
		m.remove(seen[r.IntN(len(seen))].ID, r.IntN(2) == 0)
	}
}

// seen returns the leader's member list; none without a leader.
func (m *membership) seen() []node.Member {
	if lead := m.w.leader(); lead != nil {
		return lead.n.Members()
	}
	return nil
}

// others returns the addresses of the members that h may join through. The list is that of the member that has applied most: a member that
// does not know of its removal would be no help.
func (m *membership) others(h *host) (addrs []string) {
	var best *host
	up := m.w.nemesis.running()
	for _, o := range up {
		if best == nil || o.n.Status().Applied > best.n.Status().Applied {
			best = o
		}
	}
	for _, o := range up {
		if o != h && slices.ContainsFunc(best.n.Members(), func(x node.Member) bool { return x.ID == o.id }) {
			addrs = append(addrs, o.addr())
		}
	}
	return addrs
}

// add adds a member by a call and then starts it.
func (m *membership) add(h *host, learner bool) {
	m.busy = true
	m.call(fmt.Sprintf("add %s, learner %v", h.name, learner), func(ctx context.Context, n *node.Node) error {
		_, err := n.AddMember(ctx, []string{"http://" + h.addr()}, learner)
		return err
	}, func(err error) {
		m.busy = false
		switch {
		case err == nil:
			h.role = role{join: true, added: true}
		case errors.Is(err, errUnheard), errors.Is(err, node.ErrPeerAddrExists): // if it was not added, it joins by itself
			h.role = role{join: true}
		case !m.w.nemesis.over:
			m.w.after(Between(m.r, 100*time.Millisecond, time.Second), func() { m.add(h, learner) })
			return
		default:
			h.removed = true
			return
		}
		m.w.after(Between(m.r, 0, 500*time.Millisecond), h.start)
	})
}

func (m *membership) promote(id uint64) {
	m.busy = true
	m.call(fmt.Sprintf("promote %x", id), func(ctx context.Context, n *node.Node) error { return n.PromoteMember(ctx, id) }, func(err error) {
		m.busy = false
		if err == nil {
			m.w.rep.Promoted++
		}
	})
}

// remove takes a member out. If off is set, its machine is taken away as soon as that is acknowledged: nothing may depend on it any more.
func (m *membership) remove(id uint64, off bool) {
	w := m.w
	gone := w.byID[id]
	if gone == nil {
		return // added, and not started yet
	}
	m.busy = true
	m.call(fmt.Sprintf("remove %s", gone.name), func(ctx context.Context, n *node.Node) error { return n.RemoveMember(ctx, id) }, func(err error) {
		m.busy = false
		if err != nil {
			return
		}
		w.rep.Removed++
		if off {
			gone.retire()
			if lead := w.leader(); lead != nil && w.nemesis.has(PowerLoss) && m.r.IntN(2) == 0 {
				lead.crash(true)
			}
		}
	})
}

// lose takes the data directory of a machine away. The member may not vote as if it still had its data. The operator removes it, and the
// machine joins as a new member or is given up.
func (m *membership) lose(h *host) {
	w := m.w
	voters := 0
	for _, o := range m.seen() {
		if at := w.byID[o.ID]; !o.Learner && at != nil && at.n != nil && !at.paused {
			voters++
		}
	}
	if m.busy || h.n == nil || !h.n.Announced() || voters < 3 || w.nemesis.over {
		return
	}
	m.busy = true
	w.rep.Lost++
	w.trace.add(w.now, "%s loses its data directory", h.name)
	h.lost = true
	if h.role.added = false; h.role.peers == nil { // started once more as it was, one that began alone would begin another cluster
		h.role.join = true
	}
	h.crash(true)
	h.newDisk()
	w.after(Between(m.r, 500*time.Millisecond, 3*time.Second), func() { m.replace(h, h.id) })
}

func (m *membership) replace(h *host, id uint64) {
	w := m.w
	m.call(fmt.Sprintf("remove %s, which lost its disk", h.name), func(ctx context.Context, n *node.Node) error { return n.RemoveMember(ctx, id) }, func(err error) {
		if err != nil && !errors.Is(err, node.ErrMemberNotFound) {
			w.after(Between(m.r, 100*time.Millisecond, time.Second), func() { m.replace(h, id) })
			return
		}
		m.busy = false
		w.rep.Removed++
		if !h.role.join {
			h.retire()
		}
	})
}

// full reports whether there are as many learners as there may be.
func (m *membership) full() bool {
	learners := 0
	for _, o := range m.seen() {
		if o.Learner {
			learners++
		}
	}
	return learners >= maxLearners
}

// unfinished names the operator's open action, "" for none.
func (m *membership) unfinished() string {
	if m.busy {
		return "a membership call is not answered"
	}
	for _, h := range m.w.hosts {
		switch {
		case h.removed:
		case h.n == nil:
			return h.name + " is down"
		case h.lost:
			return h.name + " has lost its data directory and is still a member"
		}
	}
	return ""
}
