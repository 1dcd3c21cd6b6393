package sim

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	archiveship "github.com/holdfastdb/holdfast/archive/ship"
	"github.com/holdfastdb/holdfast/core/disk"
	mident "github.com/holdfastdb/holdfast/core/machine/ident"
	"github.com/holdfastdb/holdfast/core/node"
	"github.com/holdfastdb/holdfast/core/worker/level"
	"github.com/holdfastdb/holdfast/doors/kv/compact"
	"github.com/holdfastdb/holdfast/doors/kv/lease"
	"github.com/holdfastdb/holdfast/doors/kv/v2/expire"
)

// process is one life of a member.
type process struct {
	on    bool // there is a process; it may still be waiting to become a member
	n     *node.Node
	house // its machines
	net   *hostNet
	tasks *tasks
	// loop runs the node's Pump, once per turn. midway is the moment until which it stands still in the middle of a turn; 0: it
	// does not.
	loop    *coroutine
	midway  time.Duration
	pumping bool // a pump is planned
	writing bool // a disk write is planned
	paused  bool // the process exists and is not scheduled

	asks []func() // cancel what others have asked this process, when it ends

	feedAt    int64 // revision up to which this process's watch feed was read
	appliedAt uint64
	leader    uint64
	snapshots int64
	leases    map[int64]bool      // that this process has shown
	nodes     [keeperCount]string // likewise, as last shown
	catalogue *mident.State       // likewise, last
	logged    logged
	last      stateSeen           // the newest state of its store
	shipper   *archiveship.Worker // nil: the run has no archive
}

// start runs a new process.
func (h *host) start() {
	if h.on || h.removed {
		return
	}
	if h.role.join && (h.id == 0 || h.lost) && len(h.w.members.others(h)) == 0 { // there is no member to join through
		h.w.after(200*time.Millisecond, h.start)
		return
	}
	h.syncClock()
	h.gen++
	h.dying = false
	h.process = process{on: true}
	h.net = &hostNet{h: h, peers: map[uint64]*host{}, removed: map[uint64]bool{}}
	h.tasks = &tasks{h: h, gen: h.gen}
	h.w.trace.add(h.w.now, "%s starts", h.name)
	gen := h.gen
	h.tasks.Go(func() {
		h.house = h.w.newHouse()
		n, err := node.Start(context.Background(), h.config(), h.options())
		if err == nil {
			h.opened(n)
			return
		}
		h.w.after(0, func() { // later, because a task cannot end the process it belongs to
			if h.gen == gen {
				h.notStarted(err)
			}
		})
	})
	h.beat(gen)
}

// opened begins what runs beside the loop of a member: its workers.
func (h *host) opened(n *node.Node) {
	w := h.w
	_, id := n.IDs()
	w.trace.add(w.now, "%s is member %x", h.name, id)
	switch {
	case h.lost && (id == h.id || !h.role.join):
		w.fail(VoteTaken, "%s lost its data directory, and is member %x again", h.name, id)
	case h.id != 0 && id != h.id && !h.lost:
		w.fail(Stopped, "%s was member %x and is member %x", h.name, h.id, id)
	case h.lost:
		h.promise = promise{}
	}
	if h.id != id && h.role.join {
		w.rep.Joined++
	}
	h.n, h.id, h.lost = n, id, false
	w.byID[id] = h
	h.promise.kept(h)
	h.feedAt, _ = h.kv.Revision() // a watch begins at the log's present revision; older ones were seen before
	h.appliedAt = n.Status().Applied
	h.loop = newCoroutine(func() error {
		for {
			if err := n.Pump(); err != nil {
				return err
			}
			h.loop.park()
		}
	})
	h.tasks.Go(lease.New(n, h.kv).Run)
	h.tasks.Go(expire.New(n, h.etcd2).Run)
	for _, p := range w.parts {
		if p.Work != nil {
			h.tasks.Go(func() { p.Work(h) })
		}
	}
	if w.levels() {
		h.tasks.Go(level.New(n, level.Options{Interval: 300 * time.Millisecond, Settle: time.Second}).Run)
	}
	if w.nemesis.policy.On() {
		h.tasks.Go(func() { compact.Run(n, h.kv, w.nemesis.policy, slog.New(&traceLog{h})) })
	}
	w.archive.ship(h)
	h.pumpSoon()
}

// notStarted takes a refusal to start.
func (h *host) notStarted(err error) {
	switch {
	case h.dying || errors.Is(err, errBadDisk):
		h.fatal(err)
	case h.lost, h.role.join && h.id == 0:
		// The cluster does not admit it, or not yet; the operator tries again.
		h.w.trace.add(h.w.now, "%s does not start: %v", h.name, err)
		h.end()
		h.w.after(Between(h.w.rFault, 200*time.Millisecond, time.Second), h.start)
	case strings.Contains(err.Error(), "was removed from the cluster"):
		h.fatal(err)
	default:
		h.w.fail(Stopped, "start %s: %v", h.name, err)
	}
}

// fatal takes an error that has stopped the node. It is a violation unless the power was cut, the disk failed or the member was
// removed.
func (h *host) fatal(err error) {
	switch {
	case h.dying && (errors.Is(err, disk.ErrPowerOff) || strings.Contains(err.Error(), disk.ErrPowerOff.Error())): // raft panics with the text of a failed read, and a stack
		h.w.trace.add(h.w.now, "%s stops: %v", h.name, disk.ErrPowerOff)
		h.crash(true)
	case errors.Is(err, errBadDisk):
		// After a failed sync what was to become durable may be lost although it can still be read: the kernel marks such pages
		// clean.
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

// crash ends the process; with power, the disk's unsynced data is lost or torn.
func (h *host) crash(power bool) {
	if !h.on {
		return
	}
	h.w.rep.Crashes++
	h.repair()
	if power || h.dying {
		h.w.trace.add(h.w.now, "%s loses power", h.name)
		h.disk.Crash(h.w.rDisk)
	} else {
		h.w.trace.add(h.w.now, "%s is killed", h.name)
		h.refuse()
	}
	h.end()
	longest := 2 * time.Second
	if h.w.rFault.IntN(4) == 0 && !h.w.nemesis.over {
		longest = 12 * time.Second // long enough for the others to truncate the log
	}
	h.w.after(Between(h.w.rFault, 20*time.Millisecond, longest), h.start)
}

// refuse has the other members hear that this process has ended, as their kernels report it, except those cut off from it. A machine
// without power reports nothing.
func (h *host) refuse() {
	id, gen := h.id, h.gen
	for _, o := range h.w.hosts {
		if o == h || id == 0 || h.w.rGone.IntN(8) == 0 {
			continue
		}
		h.w.after(Between(h.w.rGone, time.Millisecond, 40*time.Millisecond), func() {
			if o.on && o.n != nil && (!h.on || h.gen != gen) && !h.w.net.isCut(o, h) && !h.w.net.isCut(h, o) {
				o.n.Refused(id)
			}
		})
	}
}

// end takes the process away. Calls that wait for it stay without an answer.
func (h *host) end() {
	n := h.n
	h.stop()
	if n != nil {
		n.Stop()
	}
	h.w.net.hostGone(h)
}

// stop ends what runs, where it is.
func (h *host) stop() {
	h.on, h.n = false, nil
	h.gen++
	h.tasks.kill()
	if h.loop != nil {
		h.loop.stop()
	}
}

func (h *host) shut() {
	if h.on {
		n := h.n
		h.stop()
		_ = guard(func() error {
			if n != nil {
				n.Stop()
			}
			return nil
		})
	}
}

// pause takes the process off the processor for a while; its clock runs on and its incoming frames wait.
func (h *host) pause(d time.Duration) {
	if !h.on || h.paused {
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
		h.tasks.turn() // a worker's timer may fire before the loop has read what came in meanwhile
	}
	h.pumpSoon()
	h.w.net.wakes(h)
}
