package sim

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"time"

	archiveship "github.com/holdfastdb/holdfast/archive/ship"
	"github.com/holdfastdb/holdfast/core/node"
	"github.com/holdfastdb/holdfast/objstore"
)

// archiveBook is everything about the archive of one run. The leader's shipper (archive/ship) puts the log and snapshots into a store that
// fails. Clients wait until their writes and reads are archived (holder.go). At some moments, and at the end, all disks are taken for lost
// and the store is read back (restored.go). It must have everything that a client was told is archived, nothing uncommitted, and the
// members' states.
type archiveBook struct {
	w      *World
	on     bool
	r      *rand.Rand
	opt    archiveship.Options
	done   bool          // no more clients, and a store that is well
	uplink time.Duration // a put takes up to so long to leave its machine; a question does not
	// still: the story of a scene says how the store is.
	still bool

	retention int64 // of the log, for the archive; 0: more than a run has
	bucket    *bucket
	store     *objstore.Faulty // over bucket
	calm      objstore.Faults  // between two storms

	entries map[uint64]node.Entry // committed, as some member gave them
	states  []node.Content        // of random members at random moments
	holders []*holder
	waits   []*wait
	held    map[string]bool // keys of which a client was told that they are archived
	upTo    uint64          // all of them are there at this index
}

// Begin implements Workload.
func (b *archiveBook) Begin(w *World) {
	if !b.on {
		return
	}
	r := b.r
	for _, d := range []int{0, 1, 2} {
		at := Between(r, time.Second, w.opt.Chaos)
		if d > 0 || r.IntN(2) == 0 {
			w.after(at, b.disaster)
		}
	}
	w.after(Between(r, 0, time.Second), b.storm)
	if !w.opt.Quiet {
		for i := range 3 {
			h := &holder{b: b, id: i, pause: Between(r, 20*time.Millisecond, 500*time.Millisecond)}
			b.holders = append(b.holders, h)
			w.after(Between(r, 0, 200*time.Millisecond), h.next)
		}
	}
}

// init draws what members have to know when they start.
func (b *archiveBook) init(w *World) {
	*b = archiveBook{w: w, r: rand.New(rand.NewPCG(w.opt.Seed, 12)), entries: map[uint64]node.Entry{}, held: map[string]bool{}}
	r := b.r
	// A run with chosen faults has no archive unless it asks for it, so that its seeds go on meaning the same.
	if b.on = w.opt.Archive || w.opt.Faults == nil && !w.opt.Ship && r.IntN(4) == 0; !b.on {
		return
	}
	b.opt = archiveship.Options{
		Interval:      []time.Duration{20 * time.Millisecond, 200 * time.Millisecond, time.Second}[r.IntN(3)],
		SnapshotBytes: []int64{4 << 10, 32 << 10, 64 << 20}[r.IntN(3)],
		KeepAge:       []time.Duration{-1, 2 * time.Second, 0}[r.IntN(3)],
		KeepCount:     1 + r.IntN(2),
	}
	b.retention = []int64{0, 8 << 10, 64 << 10}[r.IntN(3)]
	b.bucket = newBucket(b, r.IntN(8) == 0)
	b.calm = objstore.Faults{Delay: Between(r, time.Millisecond, 300*time.Millisecond)}
	b.store = objstore.NewFaulty(b.bucket, w.opt.Seed, w.newWires(), b.calm)
}

// configure adds what a member with an archive has.
func (b *archiveBook) configure(cfg *node.Config) {
	if b.on {
		cfg.Archive, cfg.LogRetention = true, b.retention
		cfg.Retain = append(cfg.Retain, archiveship.RetainName)
	}
}

// ship starts the worker of a process.
func (b *archiveBook) ship(h *host) {
	if !b.on {
		return
	}
	opt := b.opt
	opt.Logger, opt.Wall = slog.New(&traceLog{h}), h.clock.Wall
	opt.URL, opt.FS, opt.Dir = "sim", h.fs, dataDir
	h.shipper = archiveship.New(&shipping{h.n, h}, &outlet{b.store, h}, opt)
	h.tasks.Go(h.shipper.Run)
}

// shipping is a member as its shipper sees it.
type shipping struct {
	*node.Node
	h *host
}

var _ archiveship.Member = (*shipping)(nil)

// SetArchived judges what the shipper says before the node hears of it.
func (m *shipping) SetArchived(index uint64) {
	w := m.h.w
	if index > m.ArchivedIndex() {
		w.trace.add(w.now, "%s: archived up to %d", m.h.name, index)
	}
	if !w.archive.bucket.covers(index) {
		w.fail(NotArchived, "%s says that entries up to %d are archived, and the archive has them up to %d", m.h.name, index, w.archive.bucket.reach)
	}
	m.Node.SetArchived(index)
}

// TakeSnapshot implements archiveship.Member. It is written at once.
func (m *shipping) TakeSnapshot(ctx context.Context) (*node.SnapshotInfo, io.ReadCloser, error) {
	v, info, err := m.SnapshotView(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer v.Close()
	head := *info
	var stream bytes.Buffer
	if err := node.WriteSnapshot(ctx, &stream, v, &head); err != nil {
		return nil, nil, err
	}
	return info, io.NopCloser(&stream), nil
}

// storm changes how the store is, and plans the next change.
func (b *archiveBook) storm() {
	if b.done || b.still {
		return
	}
	w, r := b.w, b.r
	next := Around(r, 1500*time.Millisecond)
	b.uplink = 0
	f := b.calm
	switch r.IntN(12) {
	case 0, 1: // it is well
	case 2:
		f = objstore.Faults{Refused: 0.1, Before: 0.1, After: 0.2, Repeated: 0.2, Half: 0.1, Delay: f.Delay}
	case 3:
		f.After = 0.9
	case 4:
		f.Repeated = 0.9
	case 5:
		f = objstore.Faults{Before: 1}
		next = Between(r, 500*time.Millisecond, 7*time.Second)
	case 6:
		f.Delay = Between(r, time.Second, 6*time.Second)
	case 7, 8:
		f.Delay = Between(r, time.Second, 6*time.Second)
		w.after(Between(r, 100*time.Millisecond, time.Second), b.takeover)
	case 9, 10:
		b.bucket.stuck, b.bucket.stuckUntil = "", w.now+Between(r, time.Second, 8*time.Second)
		w.trace.add(w.now, "store: one name will fail")
	case 11:
		h := w.hosts[r.IntN(len(w.hosts))]
		d := Between(r, 200*time.Millisecond, 5*time.Second)
		h.cutOff = w.now + d
		w.trace.add(w.now, "%s has no route to the store for %v", h.name, d)
	}
	w.trace.add(w.now, "store: %+v", f)
	b.store.Set(f)
	w.after(next, b.storm)
}

// takeover has another member lead while uploads are on their way: by a transfer, or by what befalls the leader.
func (b *archiveBook) takeover() {
	w, lead := b.w, b.w.leader()
	if lead == nil || b.done {
		return
	}
	if b.r.IntN(4) > 0 { // the next upload overtakes those in flight
		b.store.Set(objstore.Faults{Delay: 20 * time.Millisecond})
		b.uplink = time.Second
	}
	switch f := []Fault{Transfer, Transfer, Pause, Isolate, Kill}[b.r.IntN(5)]; {
	case !w.nemesis.has(f) && f != Transfer:
	case f == Transfer:
		w.nemesis.transfer(lead, w.hosts[b.r.IntN(len(w.hosts))])
	case f == Pause:
		lead.pause(Between(b.r, 500*time.Millisecond, 5*time.Second))
	case f == Isolate:
		w.nemesis.disturb(f, lead, lead)
	case f == Kill:
		lead.crash(false)
	}
}

// Turn implements Workload.
func (b *archiveBook) Turn(h *Member, changed bool) {
	if !b.on || !changed {
		return
	}
	b.take(h)
	if len(b.states) < 2 && h.mem.Applied() > 1 && b.r.IntN(500) == 0 {
		v := h.mem.NewView()
		b.states = append(b.states, b.w.content(h, v))
		v.Close()
	}
	if s := h.shipper.Status(); s.Alarm != "" && len(b.bucket.half) == 0 {
		b.w.fail(BadArchive, "%s ships no more: %s", h.name, s.Alarm)
	}
}

// take notes what a member has applied.
func (b *archiveBook) take(h *host) {
	h.given = max(h.given, 2)
	for applied := h.n.Status().Applied; h.given <= applied; {
		es, err := h.n.Committed(context.Background(), h.given, 1<<20)
		if errors.Is(err, node.ErrTruncated) {
			h.given = applied + 1 // it was given a snapshot, or has come back from a crash
			return
		}
		if err != nil {
			return // the node stops, and is judged for it
		}
		for _, e := range es {
			if _, ok := b.entries[e.Index]; !ok {
				e.Data = bytes.Clone(e.Data) // it lies in a buffer with others
				b.entries[e.Index] = e
			}
			h.given = e.Index + 1
		}
	}
}

// End implements Workload.
func (b *archiveBook) End() {
	if b.done = true; b.on {
		b.store.Set(objstore.Faults{})
		b.uplink, b.bucket.stuckUntil = 0, 0
		for _, h := range b.w.hosts {
			h.cutOff = 0
		}
	}
}

// Settled implements Workload. Half an object that a store has left ends the archive, and with it what can be waited for.
func (b *archiveBook) Settled(h *Member) string {
	if !b.on || len(b.bucket.half) > 0 {
		return ""
	}
	return b.unheld(h)
}
