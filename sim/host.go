package sim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/holdfastdb/holdfast/core/clock"
	"github.com/holdfastdb/holdfast/core/disk"
	"github.com/holdfastdb/holdfast/core/node"
	"github.com/holdfastdb/holdfast/core/store"
)

// host is a machine: its disk, store and clock outlive the processes that run on it.
type host struct {
	w    *World
	at   int    // in World.hosts
	id   uint64 // of the member whose data lies here; 0: of none yet
	name string
	disk *disk.Mem
	fs   *disk.Faulty // over disk
	mem  *store.Mem   // the content of the directory "store"
	role role         // how it is started

	clock  clock.Manual
	rate   float64       // of the clock against simulated time
	synced time.Duration // simulated time up to which the clock was advanced
	ahead  float64       // the fraction of a nanosecond that the clock has not been advanced by yet

	process      // the present process, or the last one
	gen     int  // counts processes
	removed bool // told to leave for good
	lost    bool // its data directory is gone
	dying   bool // the power goes during one of the next disk operations
	fsync   time.Duration
	promise promise // the last vote that left this machine
	shipped uint64  // the log of this machine is read up to before this index
	shipAt  time.Duration
	given   uint64        // the log of this machine was noted up to before this index
	cutOff  time.Duration // until then it has no route to the object store
}

// role is the command line of a host.
type role struct {
	peers map[string]string // --peers, of those that begin the cluster together
	join  bool              // --join, through any member that runs
	added bool              // and only if a membership call has added it
}

const dataDir = "/srv/holdfast"

func (w *World) newHost() *host {
	h := &host{w: w, at: len(w.hosts), name: fmt.Sprintf("n%d", len(w.hosts)+1),
		rate: 0.97 + 0.06*w.rFault.Float64(), fsync: Between(w.rDisk, 50*time.Microsecond, 2*time.Millisecond)}
	h.newDisk()
	h.clock.Jump(time.Duration(1_800_000_000)*time.Second + Between(w.rFault, 0, time.Minute))
	h.synced = w.now
	w.hosts = append(w.hosts, h)
	return h
}

func (h *host) newDisk() {
	h.disk, h.mem = disk.NewMem(), store.NewMem()
	h.fs = disk.NewFaulty(h.disk)
}

func (h *host) addr() string { return h.name + ":1" }

func (h *host) config() node.Config {
	n := &h.w.nemesis
	cfg := node.Config{Machines: h.machines(), Lanes: h.w.lanes(), Manual: true, Tasks: h.tasks, FS: h.fs, Clock: &h.clock, Dir: dataDir, Break: h.w.opt.Break, Store: h.openStore,
		HealthyAfter: 500 * time.Millisecond, MaxLearners: maxLearners,
		Retain: h.w.ship.retain(), SegmentBytes: n.segment, LogTailBytes: n.logTail, TruncateEvery: n.truncate, Logger: slog.New(&traceLog{h})}
	h.w.archive.configure(&cfg)
	return cfg
}

func (h *host) options() node.StartOptions {
	o := node.StartOptions{Name: h.name, PeerAddr: h.addr(), Peers: h.role.peers, JoinAdded: h.role.added, Transport: h.net,
		Notify: func(what string) { h.w.trace.add(h.w.now, "%s: %s", h.name, what) }}
	if h.role.join {
		o.Join = strings.Join(append(h.w.members.others(h), h.w.hosts[0].addr()), ",")
	}
	return o
}

func (h *host) syncClock() {
	h.ahead += float64(h.w.now-h.synced) * h.rate
	whole := time.Duration(h.ahead)
	h.clock.Advance(whole)
	h.ahead -= float64(whole)
	h.synced = h.w.now
}

// real is how much simulated time passes while this host's clock advances by d.
func (h *host) real(d time.Duration) time.Duration { return time.Duration(float64(d)/h.rate) + 1 }

// openStore opens what lies in the directory dir. Whether there is a store is decided by the names on the disk, because a power
// loss can take them away.
func (h *host) openStore(dir string) (store.Store, error) {
	mark := dir + "/CURRENT"
	if _, err := h.fs.ReadFile(mark); err == nil {
		h.mem = h.mem.Crash() // data not flushed before the process ended is lost, like a memtable
		return &ledger{h.mem, h}, nil
	}
	if err := h.fs.MkdirAll(dir); err != nil {
		return nil, err
	}
	if err := h.fs.WriteFileAtomic(mark, nil); err != nil {
		return nil, err
	}
	h.mem = store.NewMem()
	return &ledger{h.mem, h}, nil
}

var errBadDisk = errors.New("input/output error")

// breakDisk makes syncs, or all writes, fail until the node has stopped over it or a while has passed.
func (h *host) breakDisk(r *rand.Rand) {
	what := "syncs"
	if r.IntN(3) == 0 {
		what = "writes"
		h.fs.FailWrite(nil, errBadDisk)
	} else {
		h.fs.FailSync(nil, errBadDisk)
	}
	h.w.trace.add(h.w.now, "%s disk fails %s", h.name, what)
	gen := h.gen
	h.w.after(Between(r, 100*time.Millisecond, time.Second), func() {
		if h.gen == gen {
			h.repair()
		}
	})
}

func (h *host) repair() {
	h.fs.FailSync(nil, nil)
	h.fs.FailWrite(nil, nil)
}

// retire switches a machine off for good.
func (h *host) retire() {
	h.removed = true
	if h.on {
		h.w.trace.add(h.w.now, "%s is switched off for good", h.name)
		h.end()
	}
}

// traceLog is a slog handler that puts a node's log lines into the trace.
type traceLog struct{ h *host }

func (t *traceLog) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelInfo }
func (t *traceLog) WithAttrs([]slog.Attr) slog.Handler           { return t }
func (t *traceLog) WithGroup(string) slog.Handler                { return t }
func (t *traceLog) Handle(_ context.Context, r slog.Record) error {
	line := r.Message
	r.Attrs(func(a slog.Attr) bool {
		line += " " + a.String()
		return true
	})
	t.h.w.trace.add(t.h.w.now, "%s: %s", t.h.name, line)
	return nil
}
