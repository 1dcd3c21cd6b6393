package sim

import (
	"fmt"
	"runtime/debug"
	"time"
)

// beat pumps at the rate of the real loop's ticker.
func (h *host) beat(gen int) {
	if h.gen != gen {
		return
	}
	h.pumpSoon()
	if h.n == nil {
		h.tasks.turn()
	}
	h.w.after(Between(h.w.rFault, 45*time.Millisecond, 55*time.Millisecond), func() { h.beat(gen) })
}

// guard turns a panic into an error, as the node's own loop does.
func guard(f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			switch r.(type) {
			case *Violation, killed:
				panic(r)
			}
			err = fmt.Errorf("broken invariant: %v\n%s", r, debug.Stack())
		}
	}()
	return f()
}

// pumpSoon plans a turn of the node's loop.
func (h *host) pumpSoon() {
	if h.pumping || h.n == nil {
		return
	}
	h.pumping = true
	gen := h.gen
	h.w.after(Around(h.w.rNet, 30*time.Microsecond), func() {
		if h.gen != gen {
			return
		}
		h.pumping = false
		h.pump()
	})
}

func (h *host) pump() {
	w := h.w
	if h.n == nil || h.paused || h.midway > w.now {
		return
	}
	h.syncClock()
	h.midway = 0
	h.tasks.resume(h.loop)
	switch {
	case h.loop.err != nil:
		h.fatal(h.loop.err)
		return
	case h.midway != 0: // the loop is overtaken: its process's other tasks go on
		gen := h.gen
		w.after(h.midway-w.now, func() {
			if h.gen == gen {
				h.pump()
			}
		})
	default:
		h.observe()
	}
	h.writeSoon()
	h.tasks.turn()
}

// writeSoon plans the disk write of the loop's queue.
func (h *host) writeSoon() {
	if h.writing || !h.n.WritesQueued() {
		return
	}
	h.writing = true
	gen := h.gen
	d := h.fsync/2 + Around(h.w.rDisk, h.fsync/2)
	if h.w.rDisk.IntN(300) == 0 {
		d += Around(h.w.rDisk, 50*time.Millisecond)
	}
	h.w.after(d, func() {
		if h.gen != gen {
			return
		}
		if h.paused {
			h.w.after(time.Millisecond, func() { // the write had begun, so the kernel finishes it although the process has ended
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
