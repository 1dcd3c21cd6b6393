package sim

import "time"

// Faults that happen at a certain moment, or take more than one step.

// voted, elected and installed are moments at which a member has just promised something.
func (n *nemesis) voted(h *host) { n.moment(h, "a vote") }

func (n *nemesis) elected(h *host) { n.moment(h, "an election") }

func (n *nemesis) installed(h *host) { n.moment(h, "a snapshot") }

// incoming cuts the power of a host while it receives a snapshot.
func (n *nemesis) incoming(h *host) {
	if !n.over && n.moments > 0 && !h.dying && n.w.rFault.IntN(n.moments) == 0 {
		n.tear(h)
	}
}

// moment cuts, by chance, the power of h very soon after what it has just promised, and sometimes that of all others with it.
func (n *nemesis) moment(h *host, what string) {
	w, r := n.w, n.w.rFault
	if n.over || n.moments == 0 || r.IntN(n.moments) > 0 {
		return
	}
	gen, all := h.gen, r.IntN(4) == 0
	w.trace.add(w.now, "%s after %s: power will go", h.name, what)
	w.after(Around(r, time.Millisecond), func() {
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

// away cuts a host off for long, while the others flush their stores and truncate their logs, so that it needs a snapshot
// afterwards.
func (n *nemesis) away(h, lead *host) {
	w, r := n.w, n.w.rFault
	if h == lead && r.IntN(3) > 0 {
		return
	}
	d := Between(r, 1500*time.Millisecond, 4*time.Second)
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

// tear cuts the power in the middle of one of the next disk operations, or soon.
func (n *nemesis) tear(h *host) {
	w, r := n.w, n.w.rFault
	h.dying = true
	h.disk.PowerOffAfter(r.IntN(6))
	gen := h.gen
	w.after(Between(r, 200*time.Millisecond, 2*time.Second), func() {
		if h.gen == gen {
			h.crash(true)
		}
	})
}
