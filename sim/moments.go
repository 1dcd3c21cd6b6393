package sim

import "time"

// Troubles that take a certain moment, or more than one step.

// voted, elected and installed are moments at which a member has just promised something.
func (n *nemesis) voted(h *host) { n.moment(h, "a vote") }

func (n *nemesis) elected(h *host) { n.moment(h, "an election") }

func (n *nemesis) installed(h *host) { n.moment(h, "a snapshot") }

// incoming lets the power of a host that gets a snapshot go while it takes it in.
func (n *nemesis) incoming(h *host) {
	if !n.over && n.moments > 0 && !h.dying && n.w.rFault.IntN(n.moments) == 0 {
		n.tear(h)
	}
}

// moment lets the power of h go very soon, or hurries its flush, as chance has it.
func (n *nemesis) moment(h *host, what string) {
	w, r := n.w, n.w.rFault
	if n.over || n.moments == 0 || r.IntN(n.moments) > 0 {
		return
	}
	gen, all := h.gen, r.IntN(4) == 0
	w.trace.add(w.now, "%s after %s: power will go", h.name, what)
	w.after(around(r, time.Millisecond), func() {
		if h.gen != gen {
			return
		}
		for _, o := range n.running() {
			if all && o != h {
				o.crash(true)
			}
		}
		h.crash(true)
	})
}

// transfer asks for another leader, as an operator does.
func (n *nemesis) transfer(lead, to *host) {
	w, at, id := n.w, lead.n, to.id
	w.trace.add(w.now, "%s → %s transfer asked for", lead.name, to.name)
	lead.tasks.Go(func() {
		ctx, cancel := lead.tasks.Timeout(5 * time.Second)
		defer cancel()
		err := at.TransferLeader(ctx, id)
		w.trace.add(w.now, "%s → %s transfer: %v", lead.name, to.name, err)
	})
}

// away cuts a host off from all others for long, while they make their state durable and so let go of their log.
func (n *nemesis) away(h, lead *host) {
	w, r := n.w, n.w.rFault
	if h == lead && r.IntN(3) > 0 {
		return
	}
	d := between(r, 1500*time.Millisecond, 4*time.Second)
	w.trace.add(w.now, "%s is away for %v", h.name, d)
	for _, o := range w.hosts {
		if o != h {
			n.cutFor(o, h, d)
			n.cutFor(h, o, d)
		}
	}
	for at := 300 * time.Millisecond; at < d; at += 300 * time.Millisecond {
		w.after(at, func() {
			for _, o := range n.running() {
				if o != h && !o.paused {
					_ = o.mem.Flush()
				}
			}
		})
	}
}

// tear lets the power go in the middle of one of the next disk operations, or soon.
func (n *nemesis) tear(h *host) {
	w, r := n.w, n.w.rFault
	h.dying = true
	h.disk.PowerOffAfter(r.IntN(6))
	gen := h.gen
	w.after(between(r, 200*time.Millisecond, 2*time.Second), func() {
		if h.gen == gen {
			h.crash(true)
		}
	})
}
