package sim

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/holdfastdb/holdfast/core/entry"
	v2machine "github.com/holdfastdb/holdfast/doors/kv/v2/machine"
	v2part "github.com/holdfastdb/holdfast/doors/kv/v2/part"
)

// nodeBook checks v2 nodes that have a TTL: none is removed before it has passed, and at the end of the run all are
// gone.
type nodeBook struct {
	keepers []*keeper
	lookup  v2machine.Lookup
}

// keeper sets one node again and again, each time for a while.
type keeper struct {
	w *World
	n int
	// ends are the cluster ticks at which its values expire, in the order in which they were set; 0: not known.
	ends []int64
}

const keeperCount = 2

// Begin implements Workload.
func (b *nodeBook) Begin(w *World) {
	if w.opt.Quiet {
		return
	}
	for i := range keeperCount {
		k := &keeper{w: w, n: i}
		b.keepers = append(b.keepers, k)
		w.after(Between(w.rClient, 0, time.Second), k.set)
	}
}

func (k *keeper) path() []byte { return fmt.Appendf(nil, "/node/%d", k.n) }

// set gives the node a new value and a new time.
func (k *keeper) set() {
	w, r := k.w, k.w.rClient
	if w.nemesis.over {
		return
	}
	w.after(Between(r, 300*time.Millisecond, 6*time.Second), k.set)
	h := w.hosts[r.IntN(len(w.hosts))]
	if h.n == nil {
		return
	}
	n, ttl, at := h.n, Between(r, time.Second, 4*time.Second), len(k.ends)
	k.ends = append(k.ends, 0)
	part := &v2part.Part{Kind: v2part.Set, Path: k.path(), Value: strconv.AppendInt(nil, int64(at), 10), HasTTL: true, TTL: int64(ttl)}
	w.trace.add(w.now, "k%d → %s %s", k.n, h.name, part)
	h.tasks.Go(func() {
		ctx, cancel := h.tasks.Timeout(3 * time.Second)
		defer cancel()
		parts, _ := h.permit(entry.Part{Machine: entry.MachineEtcd2, Body: v2part.Append(nil, part)})
		res, err := n.Propose(ctx, laneKV, parts...)
		if err == nil {
			w.trace.add(w.now, "k%d ← %s %s@%d %s: %v", k.n, h.name, res.Pos, res.Term, part, res.Rejection)
		}
		if err == nil && res.Rejection == nil {
			k.ends[at] = w.states.at[res.Pos.Index].tick + ttl.Milliseconds()
		}
	})
}

// look finds nodes that are gone from a member that showed them.
// Turn implements Workload.
func (b *nodeBook) Turn(h *Member, changed bool) {
	if !changed {
		return
	}
	for _, k := range b.keepers {
		node, _, ok, err := h.etcd2.Key(&b.lookup, k.path(), h.n.Tick)
		if err != nil {
			h.w.fail(Stopped, "%s reads %s: %v", h.name, k.path(), err)
		}
		was := h.nodes[k.n]
		h.nodes[k.n] = string(node.Value)
		if ok || was == "" {
			continue
		}
		h.w.trace.add(h.w.now, "%s value %s of %s is gone at tick %d", h.name, was, k.path(), h.last.tick)
		h.w.rep.Expired++
		at, _ := strconv.Atoi(was)
		// A value set later may have been shown and expired between two looks.
		if !slices.ContainsFunc(k.ends[at:], func(end int64) bool { return end <= h.last.tick }) {
			h.w.fail(NodeLost, "%s has lost the value %s of %s at tick %d; its time is up at %d", h.name, was, k.path(), h.last.tick, k.ends[at])
		}
	}
}

// End implements Workload; keepers look at the nemesis.
func (b *nodeBook) End() {}

// Settled implements Workload.
func (b *nodeBook) Settled(h *Member) string {
	if next, _, err := h.etcd2.NextDeadline(); err != nil || next != math.MaxInt64 {
		return fmt.Sprintf("%s has nodes whose time is up at tick %d (%v)", h.name, next, err)
	}
	return ""
}

// Check implements Workload: all checks were made on the way.
func (b *nodeBook) Check([]*Member) {}
