package sim

import "time"

// step does one thing and plans the next.
func (n *nemesis) step() {
	if n.over {
		return
	}
	n.w.after(Around(n.w.rFault, n.mean), n.step)
	if len(n.allowed) > 0 {
		n.w.rep.FaultCount++
		n.do(n.allowed[n.w.rFault.IntN(len(n.allowed))])
	}
}

func (n *nemesis) running() []*host {
	var out []*host
	for _, h := range n.w.hosts {
		if h.n != nil {
			out = append(out, h)
		}
	}
	return out
}

// leader is the running host that leads in the highest term.
func (w *World) leader() *host {
	var best *host
	for _, h := range w.hosts {
		if h.n == nil {
			continue
		}
		if s := h.n.Status(); s.Leader == h.id && (best == nil || s.Term > best.n.Status().Term) {
			best = h
		}
	}
	return best
}

func (n *nemesis) do(f Fault) {
	w, r := n.w, n.w.rFault
	up := n.running()
	if len(up) == 0 {
		return
	}
	h := up[r.IntN(len(up))]
	lead := w.leader()
	if lead == nil {
		lead = h
	}
	switch f {
	case Kill, PowerLoss, TornWrite, BadDisk, Blackout, Pause, SlowDisk, Flush, SmallLog:
		n.harm(f, h, lead, up)
	case Partition, OneWay, Isolate, SlowNet, Break, Away:
		n.disturb(f, h, lead)
	case WallJump:
		d := Between(r, -2*time.Hour, 2*time.Hour)
		h.clock.Jump(d)
		w.trace.add(w.now, "%s wall clock jumps %v", h.name, d)
	case ClockRate:
		h.syncClock()
		h.rate = minRate + (MaxRate-minRate)*r.Float64()
		w.trace.add(w.now, "%s clock rate %.3f", h.name, h.rate)
	case Transfer:
		n.transfer(lead, h)
	case Members:
		w.members.step()
	case LoseDir:
		w.members.lose(h)
	case Stall, Moments: // these happen elsewhere: in the loop's turns and at the moments of moments.go
	case Compact:
		w.compact(h)
	}
}

// short is how long most faults last.
func (n *nemesis) short() time.Duration {
	return Between(n.w.rFault, 100*time.Millisecond, 3500*time.Millisecond)
}

// harm does what befalls a process, its disk or all of them: h, or the leader, of those that are up.
func (n *nemesis) harm(f Fault, h, lead *host, up []*host) {
	w, r := n.w, n.w.rFault
	switch f {
	case Kill:
		if r.IntN(2) == 0 {
			h = lead
		}
		h.crash(false)
	case PowerLoss:
		if r.IntN(2) == 0 {
			h = lead
		}
		h.crash(true)
	case TornWrite:
		if h.dying {
			return
		}
		n.tear(h)
	case BadDisk:
		h.breakDisk(r)
	case Blackout:
		for _, h := range up {
			h.crash(true)
		}
	case Pause:
		if r.IntN(3) > 0 {
			h = lead
		}
		h.pause(Between(r, 50*time.Millisecond, 5*time.Second))
	case SlowDisk:
		was := h.fsync
		h.fsync = Between(r, 5*time.Millisecond, 200*time.Millisecond)
		w.trace.add(w.now, "%s slow disk %v", h.name, h.fsync)
		w.after(n.short(), func() { h.fsync = was })
	case Flush:
		if h.paused {
			return
		}
		if err := h.mem.Flush(); err != nil {
			w.fail(Stopped, "%s flush: %v", h.name, err)
		}
		w.trace.add(w.now, "%s flushes", h.name)
	case SmallLog:
		for _, h := range up { // truncated entries must be durable in the store first
			if !h.paused {
				_ = h.mem.Flush()
			}
		}
	}
}

// disturb does what befalls the network around a process.
func (n *nemesis) disturb(f Fault, h, lead *host) {
	w, r := n.w, n.w.rFault
	switch f {
	case Partition:
		side := make([]bool, len(w.hosts))
		for i := range side {
			side[i] = r.IntN(2) == 0
		}
		d := n.short()
		for _, a := range w.hosts {
			for _, b := range w.hosts {
				if side[a.at] != side[b.at] {
					n.cutFor(a, b, d)
				}
			}
		}
	case OneWay:
		o := w.hosts[r.IntN(len(w.hosts))]
		if o != h {
			n.cutFor(h, o, n.short())
		}
	case Isolate:
		d := n.short()
		both := r.IntN(3)
		for _, o := range w.hosts {
			if o == lead {
				continue
			}
			if both != 1 {
				n.cutFor(lead, o, d)
			}
			if both != 2 {
				n.cutFor(o, lead, d)
			}
		}
	case SlowNet:
		w.net.slow = Between(r, time.Millisecond, 100*time.Millisecond)
		w.trace.add(w.now, "slow network %v", w.net.slow)
		w.after(n.short(), func() { w.net.slow = 0 })
	case Break:
		for _, l := range w.net.links {
			if (l.from == h || l.to == h) && r.IntN(2) == 0 {
				l.drop("broken")
			}
		}
	case Away:
		n.away(h, lead)
	}
}

func (n *nemesis) cutFor(from, to *host, d time.Duration) {
	if n.w.net.isCut(from, to) {
		return
	}
	n.w.net.setCut(from, to, true)
	n.w.after(d, func() { n.w.net.setCut(from, to, false) })
}

// heal ends all faults for good.
func (n *nemesis) heal() {
	w := n.w
	n.over = true
	w.trace.add(w.now, "healed")
	w.net.slow = 0
	for _, a := range w.hosts {
		a.syncClock()
		a.fsync = time.Millisecond
		a.repair() // a disk that went bad just before would still stop its node, and the last check would not be answered
		for _, b := range w.hosts {
			w.net.setCut(a, b, false)
		}
		if a.paused && a.on {
			a.wake()
		}
		if a.on && a.n == nil && a.role.join && !a.role.added && w.members.full() {
			a.retire() // it waits for a learner to become a voter, which will not happen any more
		}
		if a.on && a.n == nil && a.role.join { // the members it was told to join through may be members no more
			a.end()
			w.after(time.Second, a.start)
		}
		if a.dying && a.on {
			a.crash(true)
		}
	}
}
