package sim

import (
	"fmt"
	"sort"
	"time"

	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/core/node"
	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
)

// owner is a client that holds one lease after the other, with a key attached to each, and keeps it alive.
type owner struct {
	w     *World
	id    int64 // of the present lease
	count int64
	n     int64 // which owner
	ttl   int64
	// until is the moment before which no member may revoke the lease. It is the time to live after the last acknowledged grant or renewal
	// was requested, as the fastest clock counts it.
	until   time.Duration
	granted bool
	letting bool // it is no longer renewed, and left to run out
}

// leaseBook knows all leases that are protected.
type leaseBook struct {
	owners []*owner
	byID   map[int64]*owner
	seen   map[int64]bool // leases some member has had
}

const ownerCount = 3

// Begin implements Workload.
func (b *leaseBook) Begin(w *World) {
	b.byID, b.seen = map[int64]*owner{}, map[int64]bool{}
	if w.opt.Quiet {
		return
	}
	for i := range int64(ownerCount) {
		o := &owner{w: w, n: i}
		b.owners = append(b.owners, o)
		w.after(Between(w.rClient, 0, time.Second), o.grant)
	}
}

// grant asks for a new lease.
func (o *owner) grant() {
	w, r := o.w, o.w.rClient
	if w.nemesis.over {
		return
	}
	h := w.hosts[r.IntN(len(w.hosts))]
	if h.n == nil {
		w.after(50*time.Millisecond, o.grant)
		return
	}
	o.count++
	o.id, o.ttl, o.granted, o.letting, o.until = (o.n+1)*1000+o.count, 1+r.Int64N(3), false, false, 0
	id, asked := o.id, w.now
	w.leases.byID[id] = o
	w.trace.add(w.now, "o%d → %s lease.grant %d ttl %d", o.n, h.name, id, o.ttl)
	h.syncClock()
	parts, _ := h.permit(entry.Part{Machine: entry.MachineKV, Body: kvpart.Append(nil, &kvpart.Part{Grant: &kvpart.LeaseGrant{ID: id, TTL: o.ttl}})})
	err := h.n.ProposeAsync(node.LaneSystem, 0, parts, func(res *entry.Result, err error) {
		if o.id != id || err != nil || res.Rejection != nil {
			return
		}
		w.trace.add(w.now, "o%d ← %s lease.grant %d", o.n, h.name, id)
		o.granted = true
		o.protect(asked)
		o.attach()
		o.keep(id)
	})
	_ = err
	h.pumpSoon()
	w.after(Between(r, 5*time.Second, 7*time.Second), func() { // a grant that was not answered is forgotten
		if o.id == id && !o.granted {
			o.grant()
		}
	})
}

func (o *owner) protect(asked time.Duration) {
	o.until = max(o.until, asked+time.Duration(float64(o.ttl)*float64(time.Second)/MaxRate)-time.Millisecond)
}

// attach puts a key under the lease.
func (o *owner) attach() {
	w := o.w
	h := w.hosts[w.rClient.IntN(len(w.hosts))]
	if h.n == nil {
		return
	}
	put := &kvpart.Put{Key: fmt.Appendf(nil, "lease/%d", o.n), Value: fmt.Appendf(nil, "L%d", o.id), Lease: o.id}
	parts, _ := h.permit(entry.Part{Machine: entry.MachineKV, Body: kvpart.Append(nil, &kvpart.Part{Put: put})})
	_ = h.n.ProposeAsync(laneKV, 0, parts, func(*entry.Result, error) {})
	h.pumpSoon()
}

// keep renews the lease in time, until its owner loses interest or hears that it is gone.
func (o *owner) keep(id int64) {
	w, r := o.w, o.w.rClient
	if o.id != id || w.nemesis.over {
		return
	}
	if r.IntN(40) == 0 {
		o.letting = true // let it run out and take another one
		w.after(Between(r, time.Second, 8*time.Second), o.grant)
		return
	}
	w.after(time.Duration(o.ttl)*time.Second/5, func() { o.keep(id) })
	h := w.hosts[r.IntN(len(w.hosts))]
	if h.n == nil {
		return
	}
	n, asked := h.n, w.now
	h.tasks.Go(func() {
		ctx, cancel := h.tasks.Timeout(2 * time.Second)
		defer cancel()
		b, err := n.Call(ctx, kvpart.CallLeaseKeepAlive, kvpart.AppendLeaseID(nil, id))
		if err != nil || o.id != id {
			return
		}
		left, err := kvpart.DecodeLeaseTime(b)
		if err != nil {
			w.fail(WrongOutcome, "renewal through %s: %v", h.name, err)
		}
		w.trace.add(w.now, "o%d ← %s lease.renew %d: %d", o.n, h.name, id, left.Remaining)
		switch {
		case left.Remaining > 0:
			w.rep.Renewed++
			o.protect(asked)
		case w.now < o.until:
			w.fail(LeaseLost, "%s says that lease %d is gone; its last renewal holds until %v", h.name, id, o.until)
		default:
			o.granted = true
			w.after(Between(r, 0, time.Second), o.grant)
			o.id = 0
		}
	})
}

// look finds leases that are gone from a member that had them, at the first moment any member shows it.
// Turn implements Workload.
func (b *leaseBook) Turn(h *Member, changed bool) {
	if !changed || len(b.byID) == 0 {
		return
	}
	m := h.kv
	have := map[int64]bool{}
	for _, l := range m.Leases() {
		have[l.ID] = true
		b.seen[l.ID] = true
	}
	// A member that is behind may not have the lease yet, so only a lease that this member had and lost counts as ended.
	if h.leases == nil {
		h.leases = map[int64]bool{}
	}
	var gone []int64
	for id := range h.leases { // any order: sorted below
		if !have[id] {
			gone = append(gone, id)
		}
	}
	sort.Slice(gone, func(i, j int) bool { return gone[i] < gone[j] })
	for _, id := range gone {
		o := b.byID[id]
		if o != nil && o.id == id && h.w.now < o.until {
			h.w.fail(LeaseLost, "lease %d was revoked (seen on %s at revision of index %d); its last acknowledged renewal holds until %v",
				id, h.name, h.appliedAt, o.until)
		}
		h.w.trace.add(h.w.now, "%s lease %d is gone", h.name, id)
	}
	h.leases = have
}

// End implements Workload; owners look at the nemesis.
func (b *leaseBook) End() {}

// Settled implements Workload.
func (b *leaseBook) Settled(h *Member) string {
	if left := len(h.kv.Leases()); left > 0 {
		return fmt.Sprintf("%s has %d leases whose time is up", h.name, left)
	}
	return ""
}

// Check implements Workload: all checks were made on the way.
func (b *leaseBook) Check([]*Member) {}
