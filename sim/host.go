package sim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"strings"
	"time"

	"github.com/holdfastdb/holdfast/clock"
	"github.com/holdfastdb/holdfast/disk"
	em "github.com/holdfastdb/holdfast/entry/member"
	mident "github.com/holdfastdb/holdfast/machine/ident"
	"github.com/holdfastdb/holdfast/machine/tree"
	"github.com/holdfastdb/holdfast/node"
	"github.com/holdfastdb/holdfast/store"
)

// host is a machine: its disk, store and clock outlive the node that runs on it.
type host struct {
	w    *World
	at   int // in World.hosts
	id   uint64
	name string
	disk *disk.Mem
	fs   *disk.Faulty // over disk
	mem  *store.Mem
	net  *hostNet

	clock  clock.Manual
	rate   float64       // of the clock against simulated time
	synced time.Duration // simulated time up to which the clock was advanced

	n       *node.Node // nil: no process
	gen     int        // counts processes
	paused  bool       // the process exists and is not scheduled
	pumping bool       // a pump is planned
	writing bool       // a disk write is planned
	dying   bool       // the power goes during one of the next disk operations
	removed bool       // told to leave for good
	fsync   time.Duration

	feedAt    int64 // revision up to which this process's watch feed was read
	hashAt    uint64
	appliedAt uint64
	leader    uint64
	lessor    lessor
	leases    map[int64]bool // that this process has shown
	catalogue *mident.State  // likewise, last
	signer    *signer        // nil: does not lead
	shown     [2]*tree.Checkpoint
}

const dataDir = "/data"

func (w *World) newHost() *host {
	h := &host{w: w, at: len(w.hosts), name: fmt.Sprintf("n%d", len(w.hosts)+1), disk: disk.NewMem(), mem: store.NewMem(),
		rate: 0.97 + 0.06*w.rFault.Float64(), fsync: between(w.rDisk, 50*time.Microsecond, 2*time.Millisecond)}
	h.fs = disk.NewFaulty(h.disk)
	h.id = w.rFault.Uint64()>>2 | 1
	h.clock.Jump(time.Duration(1_800_000_000)*time.Second + between(w.rFault, 0, time.Minute))
	h.synced = w.now
	w.hosts = append(w.hosts, h)
	w.byID[h.id] = h
	return h
}

func (h *host) config() node.Config {
	return node.Config{Manual: true, FS: h.fs, Clock: &h.clock, Net: h.net, Dir: dataDir, Break: h.w.opt.Break,
		Store: func(string) (store.Store, error) {
			h.mem = h.mem.Crash() // whatever was not flushed before the process ended is gone, like a memtable
			return h.mem, nil
		},
		SegmentBytes: h.w.nemesis.segment, LogTailBytes: h.w.nemesis.logTail, Logger: slog.New(&traceLog{h})}
}

// initialise makes the data directory. A crash in it is the business of package node's own tests.
func (h *host) initialise(members []em.Member, peers map[uint64]string) {
	h.net = &hostNet{h: h, peers: map[uint64]bool{}, removed: map[uint64]bool{}}
	ident := node.Identity{Name: h.name, Member: h.id, Nonce: h.id, PeerAddr: h.name + ":1", Peers: peers}
	if err := node.Initialise(h.config(), ident, h.w.cluster, members); err != nil {
		h.w.fail(Stopped, "initialise %s: %v", h.name, err)
	}
}

// start runs a new process.
func (h *host) start() {
	if h.n != nil || h.removed {
		return
	}
	h.syncClock()
	h.gen++
	h.net = &hostNet{h: h, peers: map[uint64]bool{}, removed: map[uint64]bool{}}
	h.pumping, h.writing, h.paused, h.dying = false, false, false, false
	h.feedAt, h.hashAt, h.appliedAt, h.leader, h.lessor, h.leases, h.catalogue = 0, 0, 0, 0, lessor{}, nil, nil
	h.signer, h.shown = nil, [2]*tree.Checkpoint{}
	h.w.trace.add(h.w.now, "%s starts", h.name)
	var n *node.Node
	err := guard(func() (err error) {
		n, err = node.Open(h.config())
		return err
	})
	if err != nil {
		h.w.fail(Stopped, "start %s: %v", h.name, err)
	}
	h.n = n
	h.feedAt, _ = n.KV().Revision() // a watch begins at what the log holds; older revisions were seen before
	h.appliedAt = n.Status().Applied
	h.pumpSoon()
	h.beat(h.gen)
}

// beat pumps at the rate of the real loop's ticker.
func (h *host) beat(gen int) {
	if h.gen != gen {
		return
	}
	h.pumpSoon()
	h.w.after(between(h.w.rFault, 45*time.Millisecond, 55*time.Millisecond), func() { h.beat(gen) })
}

// guard turns a panic into an error, as the node's own loop does.
func guard(f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			if v, ok := r.(*Violation); ok {
				panic(v)
			}
			err = fmt.Errorf("broken invariant: %v\n%s", r, debug.Stack())
		}
	}()
	return f()
}

func (h *host) syncClock() {
	h.clock.Advance(time.Duration(float64(h.w.now-h.synced) * h.rate))
	h.synced = h.w.now
}

// pumpSoon plans a turn of the node's loop.
func (h *host) pumpSoon() {
	if h.pumping || h.n == nil {
		return
	}
	h.pumping = true
	gen := h.gen
	h.w.after(around(h.w.rNet, 30*time.Microsecond), func() {
		if h.gen != gen {
			return
		}
		h.pumping = false
		h.pump()
	})
}

func (h *host) pump() {
	if h.n == nil || h.paused {
		return
	}
	h.syncClock()
	if err := guard(h.n.Pump); err != nil {
		h.fatal(err)
		return
	}
	h.observe()
	h.writeSoon()
}

// writeSoon plans the disk write for what the loop has queued.
func (h *host) writeSoon() {
	if h.writing || !h.n.WritesQueued() {
		return
	}
	h.writing = true
	gen := h.gen
	d := h.fsync/2 + around(h.w.rDisk, h.fsync/2)
	if h.w.rDisk.IntN(300) == 0 {
		d += around(h.w.rDisk, 50*time.Millisecond)
	}
	h.w.after(d, func() {
		if h.gen != gen {
			return
		}
		if h.paused {
			h.w.after(time.Millisecond, func() { // the write was under way and is finished by the kernel
				if h.gen == gen {
					h.write()
				}
			})
			return
		}
		h.write()
	})
}

func (h *host) write() {
	h.writing = false
	h.syncClock()
	if err := guard(func() error { h.n.WriteStep(); return nil }); err != nil {
		h.fatal(err)
		return
	}
	h.pumpSoon()
}

// fatal is an error that stops the node. It is a violation unless somebody pulled the plug or took the member out.
func (h *host) fatal(err error) {
	switch {
	case h.dying && (errors.Is(err, disk.ErrPowerOff) || strings.Contains(err.Error(), disk.ErrPowerOff.Error())): // raft panics with the text of a failed read, and a stack
		h.w.trace.add(h.w.now, "%s stops: %v", h.name, disk.ErrPowerOff)
		h.crash(true)
	case errors.Is(err, errBadDisk):
		// What a failed sync was to make durable may be gone although it can still be read: the kernel drops such pages.
		h.w.trace.add(h.w.now, "%s stops: %v", h.name, err)
		h.crash(h.w.rDisk.IntN(2) == 0)
	case strings.Contains(err.Error(), "was removed from the cluster"):
		h.w.trace.add(h.w.now, "%s stops: %v", h.name, err)
		h.removed = true
		h.end()
	case strings.Contains(err.Error(), "state differs"):
		h.w.fail(Diverged, "%s: %v", h.name, err)
	default:
		h.w.fail(Stopped, "%s: %v", h.name, err)
	}
}

// crash ends the process; with power, what the disk had not synced is lost or torn.
func (h *host) crash(power bool) {
	if h.n == nil {
		return
	}
	h.w.rep.Crashes++
	h.repair()
	if power || h.dying {
		h.w.trace.add(h.w.now, "%s loses power", h.name)
		h.disk.Crash(h.w.rDisk)
	} else {
		h.w.trace.add(h.w.now, "%s is killed", h.name)
	}
	h.end()
	longest := 2 * time.Second
	if h.w.rFault.IntN(4) == 0 && !h.w.nemesis.over {
		longest = 12 * time.Second // long enough for the others to let go of the log
	}
	h.w.after(between(h.w.rFault, 20*time.Millisecond, longest), h.start)
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
	h.w.after(between(r, 100*time.Millisecond, time.Second), func() {
		if h.gen == gen {
			h.repair()
		}
	})
}

func (h *host) repair() {
	h.fs.FailSync(nil, nil)
	h.fs.FailWrite(nil, nil)
}

// end takes the process away. Nobody who waits for it is answered.
func (h *host) end() {
	n := h.n
	h.n = nil
	h.gen++
	n.Stop()
	h.w.net.hostGone(h)
}

func (h *host) shut() {
	if h.n != nil {
		n := h.n
		h.n = nil
		h.gen++
		_ = guard(func() error { n.Stop(); return nil })
	}
}

// pause takes the process off the processor for a while; its clock runs on and what is sent to it waits.
func (h *host) pause(d time.Duration) {
	if h.n == nil || h.paused {
		return
	}
	h.w.trace.add(h.w.now, "%s pauses for %v", h.name, d)
	h.paused = true
	gen := h.gen
	h.w.after(d, func() {
		if h.gen != gen || !h.paused {
			return
		}
		h.wake()
	})
}

func (h *host) wake() {
	h.paused = false
	h.w.trace.add(h.w.now, "%s wakes", h.name)
	h.syncClock()
	if h.w.rFault.IntN(2) == 0 {
		h.expireLeases() // a worker's timer may fire before the loop has read what came in meanwhile
	}
	h.pumpSoon()
	h.w.net.wakes(h)
}

// retire switches a machine off for good.
func (h *host) retire() {
	h.removed = true
	if h.n != nil {
		h.w.trace.add(h.w.now, "%s is switched off for good", h.name)
		h.end()
	}
}

// traceLog puts a node's own log lines into the trace.
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
