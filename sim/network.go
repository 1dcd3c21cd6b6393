package sim

import (
	"fmt"
	"time"

	"github.com/holdfastdb/holdfast/core/peer"
	"github.com/holdfastdb/holdfast/core/raft"
)

// network carries frames between hosts like TCP connections. A lane from one member to another is one connection that keeps order. Frames
// in flight when it breaks are lost, and the sender hears only of the new connection. A cut does not break a connection at once: frames
// wait, and arrive late if the cut is healed before the connection times out.
type network struct {
	w     *World
	links []*link // in order of creation, for a fixed order of everything done to all of them
	by    map[linkKey]*link
	cut   map[[2]int]bool // from, to: nothing passes this way
	slow  time.Duration   // added to each way
	// tap sees each frame that leaves a member, and each that is about to arrive; nil: no calls.
	tap func(from, to *host)
}

type linkKey struct {
	from, to int
	lane     peer.Channel
}

// link is one lane in one direction.
type link struct {
	w        *World
	from, to *host
	lane     peer.Channel
	up       bool
	since    time.Duration // when it came up
	epoch    int           // counts connections
	last     time.Duration // arrival of the newest frame: later ones do not overtake it
	queue    [][]byte      // sent, not arrived
	bytes    int
	stalled  bool // the frame at the head has arrived at the cut, or at a process that does not read
	dialing  bool
}

// linkBytes bounds what a link holds, like the real lane's queue.
const linkBytes = 8 << 20

func (n *network) init(w *World) {
	n.w, n.by, n.cut = w, map[linkKey]*link{}, map[[2]int]bool{}
}

func (n *network) isCut(from, to *host) bool { return n.cut[[2]int{from.at, to.at}] }

// latency is that of one frame: a local network's, sometimes much longer.
func (n *network) latency() time.Duration {
	r := n.w.rNet
	d := 50*time.Microsecond + Around(r, 300*time.Microsecond) + n.slow
	if r.IntN(200) == 0 {
		d += Around(r, 30*time.Millisecond)
	}
	return d
}

func (n *network) link(from, to *host, lane peer.Channel) *link {
	k := linkKey{from.at, to.at, lane}
	l := n.by[k]
	if l == nil {
		l = &link{w: n.w, from: from, to: to, lane: lane}
		n.by[k] = l
		n.links = append(n.links, l)
	}
	return l
}

// dial tries to connect until it works or the sender is gone.
func (l *link) dial() {
	if l.dialing || l.up {
		return
	}
	l.dialing = true
	w, gen := l.w, l.from.gen
	w.after(Between(w.rNet, time.Millisecond, 60*time.Millisecond), func() {
		l.dialing = false
		if !l.from.on || l.up {
			return
		}
		if l.from.n != nil && !l.wanted() {
			return
		}
		// There is no process, no way to it, or it refuses a removed member. It may accept later: a crash can take back that it
		// knew of the removal.
		if l.from.gen != gen || l.from.n == nil || l.to.n == nil || !l.from.net.expects(l.to) || l.to.net.removed[l.from.id] || w.net.isCut(l.from, l.to) || w.net.isCut(l.to, l.from) {
			if l.refused(gen) {
				l.from.n.Expelled(l.to.id)
				l.from.pumpSoon()
			}
			l.dial()
			return
		}
		l.up, l.since, l.stalled, l.last = true, w.now, false, max(l.last, w.now)
		l.epoch++
		l.from.n.Reconnected(l.to.id, l.lane)
		l.from.pumpSoon()
	})
}

// refused reports whether the other side is there and refuses this one as a member that was removed.
func (l *link) refused(gen int) bool {
	return l.lane == peer.ChannelControl && l.from.gen == gen && l.from.n != nil && l.to.n != nil && l.from.net.expects(l.to) &&
		l.to.net.removed[l.from.id] && !l.w.net.isCut(l.from, l.to) && !l.w.net.isCut(l.to, l.from)
}

func (l *link) send(frame []byte) {
	l.tapped()
	l.queue = append(l.queue, frame)
	l.bytes += len(frame)
	if !l.stalled {
		l.plan()
	}
}

func (l *link) tapped() {
	if tap := l.w.net.tap; tap != nil {
		tap(l.from, l.to)
	}
}

// plan schedules the arrival of one more frame.
func (l *link) plan() {
	w, epoch := l.w, l.epoch
	l.last = max(l.last, w.now+w.net.latency())
	w.after(l.last-w.now, func() {
		if l.epoch == epoch && !l.stalled {
			l.deliver()
		}
	})
}

// deliver hands over the frame at the head.
func (l *link) deliver() {
	w := l.w
	if len(l.queue) == 0 {
		return
	}
	if l.to.paused || w.net.isCut(l.from, l.to) {
		l.stalled = true // later frames wait behind it
		return
	}
	l.tapped()
	frame := l.queue[0]
	l.queue[0] = nil
	l.queue = l.queue[1:]
	l.bytes -= len(frame)
	if l.to.n == nil {
		l.drop("nobody there")
		return
	}
	w.trace.add(w.now, "%s → %s %s", l.from.name, l.to.name, describe(l.lane, frame))
	l.to.n.HandleFrame(l.from.id, l.lane, frame)
	l.to.pumpSoon()
}

func describe(lane peer.Channel, frame []byte) string {
	if lane == peer.ChannelForward {
		if len(frame) == 0 {
			return "forward"
		}
		return fmt.Sprintf("forward kind %d, %d bytes", frame[0], len(frame))
	}
	return raft.Describe(frame)
}

// drop breaks the connection and loses what is in flight; the sender dials again.
func (l *link) drop(why string) {
	if !l.up {
		return
	}
	l.w.trace.add(l.w.now, "%s ↛ %s %s: %s, %d frames lost", l.from.name, l.to.name, l.lane, why, len(l.queue))
	l.up, l.stalled, l.queue, l.bytes = false, false, nil, 0
	l.epoch++
	if l.from.n != nil && l.wanted() {
		l.dial()
	}
}

// wanted reports whether the sender has a member at the other end.
func (l *link) wanted() bool {
	for _, h := range l.from.net.peers { // any order: it is asked whether there is one
		if h == l.to {
			return true
		}
	}
	return false
}

// resume lets what piled up before a cut go on.
func (l *link) resume() {
	if !l.up || !l.stalled || l.to.paused || l.w.net.isCut(l.from, l.to) {
		return
	}
	l.stalled = false
	for range l.queue {
		l.plan()
	}
}

// setCut cuts or heals one direction. Connections that stay cut break when TCP would give up.
func (n *network) setCut(from, to *host, cut bool) {
	k := [2]int{from.at, to.at}
	if n.cut[k] == cut {
		return
	}
	if cut {
		n.cut[k] = true
		n.w.trace.add(n.w.now, "cut %s ↛ %s", from.name, to.name)
		for _, l := range n.links {
			if l.from == from && l.to == to || l.from == to && l.to == from {
				epoch := l.epoch
				n.w.after(Between(n.w.rNet, 200*time.Millisecond, 6*time.Second), func() {
					if l.epoch == epoch && (n.isCut(l.from, l.to) || n.isCut(l.to, l.from)) {
						l.drop("timed out")
					}
				})
			}
		}
		return
	}
	delete(n.cut, k)
	n.w.trace.add(n.w.now, "heal %s → %s", from.name, to.name)
	for _, l := range n.links {
		if l.from == from && l.to == to {
			l.resume()
		}
	}
}

// wakes lets a process read what came while it was paused, a little after it runs again.
func (n *network) wakes(h *host) {
	for _, l := range n.links {
		if l.to == h {
			l.resume()
		}
	}
}

// hostGone breaks every connection of a host whose process ended. Frames that it had sent may still arrive.
func (n *network) hostGone(h *host) {
	for _, lost := range h.asks {
		n.w.after(Between(n.w.rNet, time.Millisecond, time.Second), lost)
	}
	h.asks = nil
	for _, l := range n.links {
		switch {
		case l.to == h:
			l.drop("host down")
		case l.from == h && l.up:
			if n.w.rNet.IntN(2) == 0 || l.stalled {
				l.drop("host down")
				continue
			}
			l.drain()
		}
	}
}

// drain closes the sending end: frames on their way arrive unless the receiver goes too.
func (l *link) drain() {
	w, rest := l.w, l.queue
	l.up, l.queue, l.bytes = false, nil, 0
	l.epoch++
	gen := l.to.gen
	for _, frame := range rest {
		at := Between(w.rNet, 10*time.Microsecond, time.Millisecond)
		l.last = max(l.last, w.now) + at
		w.after(l.last-w.now, func() {
			if l.to.n != nil && l.to.gen == gen && !w.net.isCut(l.from, l.to) {
				w.trace.add(w.now, "%s → %s %s (left behind)", l.from.name, l.to.name, describe(l.lane, frame))
				l.to.n.HandleFrame(l.from.id, l.lane, frame)
				l.to.pumpSoon()
			}
		})
	}
}
