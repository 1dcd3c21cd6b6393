package sim

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/holdfastdb/holdfast/core/node"
	kvmachine "github.com/holdfastdb/holdfast/doors/kv/machine"
	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
)

// observe looks at a host after each turn of its loop: at its state hash, its watch feed, its leases.
func (h *host) observe() {
	w := h.w
	s := h.n.Status()
	if s.Leader != h.leader {
		h.leader = s.Leader
		if s.Leader == h.id {
			w.rep.Leaders++
			w.nemesis.elected(h)
		}
	}
	if s.Leader == h.id {
		w.leads(h, s.Term)
	}
	if !w.opt.Outside {
		h.logged.look(h)
	}
	changed := s.Applied != h.appliedAt
	if changed {
		h.appliedAt = s.Applied
		w.rep.Applied = max(w.rep.Applied, s.Applied)
		w.trace.add(w.now, "%s applied %d commit %d term %d", h.name, s.Applied, s.Commit, s.Term)
		if got := h.n.Counters().SnapshotsInstalled; got != h.snapshots {
			w.rep.Snapshots += int(got - h.snapshots)
			h.snapshots = got
			w.nemesis.installed(h)
		}
		w.feed.read(h)
	}
	for _, wl := range w.workloads {
		wl.Turn(h, changed)
	}
}

// feedCheck holds the watch feeds of all members against each other: each revision comes once, in order, and is the same
// everywhere.
type feedCheck struct {
	events    map[int64][]kvmachine.Event // of each revision, as first seen
	compacted int64
}

// read takes the new events of h's feed, from memory if it reaches back, else from the history, as a watch does.
func (f *feedCheck) read(h *host) {
	if f.events == nil {
		f.events = map[int64][]kvmachine.Event{}
	}
	m, w := h.kv, h.w
	for {
		current, compacted := m.Revision()
		f.compacted = max(f.compacted, compacted)
		if h.feedAt >= current {
			return
		}
		evs, upTo, ok, _ := m.Recent(h.feedAt)
		if !ok {
			var next int64
			var err error
			from := h.feedAt + 1
			evs, next, err = m.History([]byte{0}, []byte{0}, from, current, 1<<20)
			if errors.Is(err, kvmachine.ErrCompacted) {
				h.feedAt = max(compacted-1, h.feedAt) // the watch is cancelled as compacted, and a new one begins at the compacted revision
				if h.feedAt+1 == from {
					w.fail(Revisions, "%s: history from %d is compacted, but the compacted revision is %d", h.name, from, compacted)
				}
				continue
			}
			if err != nil {
				w.fail(Stopped, "%s history: %v", h.name, err)
			}
			upTo = next - 1
		}
		if upTo <= h.feedAt {
			w.fail(Revisions, "%s: the feed stands still at revision %d of %d", h.name, h.feedAt, current)
		}
		f.take(h, evs, upTo)
	}
}

func (f *feedCheck) take(h *host, evs []kvmachine.Event, upTo int64) {
	for len(evs) > 0 {
		rev := evs[0].KV.ModRevision
		k := 1
		for k < len(evs) && evs[k].KV.ModRevision == rev {
			k++
		}
		if rev != h.feedAt+1 {
			// A gap is allowed only up to the compacted revision: compaction removes events that later ones replace.
			if rev <= h.feedAt || rev > f.compacted+1 {
				h.w.fail(Revisions, "%s: the feed goes from revision %d to %d", h.name, h.feedAt, rev)
			}
		}
		if seen, ok := f.events[rev]; !ok {
			f.events[rev] = evs[:k]
		} else if rev > f.compacted && !sameEvents(seen, evs[:k]) {
			h.w.fail(Revisions, "%s: revision %d has events %v, another member's has %v", h.name, rev, evs[:k], seen)
		}
		h.feedAt = rev
		evs = evs[k:]
	}
	if h.feedAt < upTo {
		if upTo > f.compacted {
			h.w.fail(Revisions, "%s: the feed ends at revision %d and says it is at %d", h.name, h.feedAt, upTo)
		}
		h.feedAt = upTo
	}
}

func sameEvents(a, b []kvmachine.Event) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		x, y := &a[i], &b[i]
		if x.Type != y.Type || !bytes.Equal(x.KV.Key, y.KV.Key) || !bytes.Equal(x.KV.Value, y.KV.Value) ||
			x.KV.ModRevision != y.KV.ModRevision || x.KV.CreateRevision != y.KV.CreateRevision || x.KV.Version != y.KV.Version ||
			x.KV.Lease != y.KV.Lease {
			return false
		}
	}
	return true
}

// recovery is how long a healed cluster may take until it answers again and all members have the same state.
const recovery = 40 * time.Second

// settle waits until every member has started, has applied the same, and answers a write and a read.
func (w *World) settle() {
	end := w.now + recovery
	why := ""
	equal := func() bool {
		why = w.unequal()
		return why == ""
	}
	next := w.now
	if !w.runUntil(end, func() bool {
		if w.now < next {
			return false
		}
		next = w.now + 20*time.Millisecond
		return equal()
	}) {
		w.fail(Stuck, "%v after the last fault: %s", recovery, why)
	}
	for _, h := range w.belong() {
		c := &client{w: w, id: 100 + h.at, known: map[string]int64{}, done: true}
		for i, kind := range []opKind{opPut, opRead} {
			o := &op{client: c.id, n: i, kind: kind, key: "k0", value: fmt.Sprintf("%d.%d", c.id, i), host: h}
			c.invoke(o, func() {})
			if !w.runUntil(w.now+10*time.Second, func() bool { return o.answered }) {
				w.fail(Stuck, "after recovery %s did not answer %s within 10 s", h.name, o)
			}
		}
	}
	next = w.now
	if !w.runUntil(w.now+10*time.Second, func() bool {
		if w.now < next {
			return false
		}
		next = w.now + 20*time.Millisecond
		return equal()
	}) {
		w.fail(Stuck, "10 s after the last write: %s", why)
	}
}

// belong returns the hosts that are members at the end of the run, by the leader's member list.
func (w *World) belong() []*host {
	lead := w.leader()
	if lead == nil {
		return nil
	}
	var out []*host
	for _, m := range lead.n.Members() {
		out = append(out, w.named(node.HostPort(m.PeerURLs[0])))
	}
	return out
}

// unequal names the reason why the members are not at rest in one state, "" if they are.
func (w *World) unequal() string {
	if why := w.members.unfinished(); why != "" {
		return why
	}
	lead := w.leader()
	if lead == nil {
		return "there is no leader"
	}
	s := lead.n.Status()
	if !s.Ready || s.Applied != s.Commit {
		return fmt.Sprintf("leader %s has applied %d of %d in term %d", lead.name, s.Applied, s.Commit, s.Term)
	}
	is := map[uint64]bool{}
	for _, m := range lead.n.Members() {
		is[m.ID] = m.Learner
	}
	for _, h := range w.belong() {
		if h.n == nil {
			return h.name + " is down"
		}
		learner, known := is[h.id]
		switch {
		case !known:
			return fmt.Sprintf("%s is member %x, of which the leader does not know", h.name, h.id)
		case h.n.Status().Learner != learner:
			return fmt.Sprintf("%s takes itself for a learner: %v, and the leader for one: %v", h.name, !learner, learner)
		}
		if o := h.n.Status(); o.Applied != s.Applied || o.Leader != s.Leader {
			return fmt.Sprintf("%s has applied %d of %d and follows %x in term %d", h.name, o.Applied, s.Applied, o.Leader, o.Term)
		}
		for _, wl := range w.workloads {
			if why := wl.Settled(h); why != "" {
				return why
			}
		}
		if o, l := h.n.ClusterLevel(), lead.n.ClusterLevel(); w.levels() && (o != l || l != h.n.KnownLevel()) {
			return fmt.Sprintf("%s is at level %d, the leader at %d", h.name, o, l)
		}
	}
	return ""
}

// levels reports whether the cluster's level goes up in this run. A broken build does not raise it. The raise is flushed, and a store ahead
// of a log that lied about its syncs fails another check than the intended one.
func (w *World) levels() bool { return w.opt.Break == node.Break{} }

// checkAll judges the whole run.
func (w *World) checkAll() {
	all := w.belong()
	first := all[0]
	hash, rev, _, current, err := first.kv.HashKV(0)
	if err != nil {
		w.fail(Stopped, "%s hash: %v", first.name, err)
	}
	w.rep.Revision = current
	state := dump(first)
	for _, h := range all[1:] {
		if o, orev, _, _, err := h.kv.HashKV(0); err != nil || o != hash || orev != rev {
			w.fail(Diverged, "at rest the hash is %08x at revision %d on %s and %08x at %d on %s (%v)", hash, rev, first.name, o, orev, h.name, err)
		}
		if d := dump(h); d != state {
			w.fail(Diverged, "at rest %s holds %s and %s holds %s", first.name, state, h.name, d)
		}
	}
	final := map[string]int64{}
	for r := int64(2); r <= current; r++ {
		evs, ok := w.feed.events[r]
		if !ok {
			w.fail(Revisions, "no member ever showed revision %d of %d", r, current)
		}
		for _, e := range evs {
			if e.Type == kvmachine.EventPut {
				final[string(e.KV.Value)] = r
			}
		}
	}
	for r := range w.feed.events { // any order: each is checked by itself
		if r > current {
			w.fail(LostWrite, "revision %d was shown by a member, and the final history ends at %d", r, current)
		}
	}
	for _, o := range w.history.ops {
		if !o.answered && !o.refused && o.kind != opRead {
			w.rep.Unknown++
		}
	}
	w.rep.Compared = w.states.times
	for _, wl := range w.workloads {
		wl.Check(all)
	}
	w.history.check(w, final)
}

// dump is all of a member's keys as text.
func dump(h *host) string {
	res, rev, err := h.kv.Range(&kvpart.Range{Key: []byte{0}, End: []byte{0}}, 0)
	if err != nil {
		h.w.fail(Stopped, "%s range: %v", h.name, err)
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "revision %d:", rev)
	for _, kv := range res.KVs {
		fmt.Fprintf(&b, " %s=%s %d/%d/%d/%x", kv.Key, kv.Value, kv.CreateRevision, kv.ModRevision, kv.Version, kv.Lease)
	}
	return b.String()
}
