package sim

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/holdfastdb/holdfast/peer"
	"github.com/holdfastdb/holdfast/replica"
)

// network carries frames between hosts the way TCP connections do: a lane from one member to another is one connection
// that keeps order; what is in flight when it breaks is lost and the sender is told only that a new one was made. A cut
// does not break a connection at once: frames pile up and arrive late if the cut is healed before the connection times out.
type network struct {
	w     *World
	links []*link // in order of creation, for a fixed order of everything done to all of them
	by    map[linkKey]*link
	cut   map[[2]int]bool // from, to: nothing passes this way
	slow  time.Duration   // added to each way
}

type linkKey struct {
	from, to int
	lane     peer.Lane
}

// link is one lane in one direction.
type link struct {
	w        *World
	from, to *host
	lane     peer.Lane
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

// hostNet is a host's end of the network; it implements peer.Network.
type hostNet struct {
	h       *host
	peers   map[uint64]bool
	removed map[uint64]bool
}

func (n *hostNet) SetPeer(id uint64, _ string) {
	if n.peers[id] {
		return
	}
	n.peers[id] = true
	to := n.h.w.byID[id]
	if to == nil {
		return // announced by the log before the simulation knows the host; it knows all of them
	}
	for lane := peer.LaneControl; lane <= peer.LaneForward; lane++ {
		n.h.w.net.link(n.h, to, lane).dial()
	}
}

func (n *hostNet) RemovePeer(id uint64) {
	delete(n.peers, id)
	n.removed[id] = true
	w := n.h.w
	for _, l := range w.net.links {
		if l.from == n.h && l.to.id == id || l.to == n.h && l.from.id == id {
			l.drop("peer removed")
		}
	}
}

func (n *hostNet) Send(to uint64, lane peer.Lane, frame []byte) bool {
	h := n.h.w.byID[to]
	if h == nil || !n.peers[to] {
		return false
	}
	l := n.h.w.net.link(n.h, h, lane)
	if !l.up || l.bytes+len(frame) > linkBytes {
		return false
	}
	l.send(frame)
	return true
}

func (n *hostNet) ConnectedFor(id uint64) int64 {
	w := n.h.w
	h := w.byID[id]
	if h == nil {
		return 0
	}
	out, in := w.net.link(n.h, h, peer.LaneControl), w.net.link(h, n.h, peer.LaneControl)
	if !out.up || !in.up {
		return 0
	}
	return int64(w.now - max(out.since, in.since))
}

// Traffic implements peer.Network: nothing here looks at graphs.
func (n *hostNet) Traffic(uint64) *peer.Traffic { return nil }

func (n *hostNet) Close() error { return nil }

// SendStream takes the whole stream at once, as it would leave over time, and delivers it as a whole, cut short, or not at all.
func (n *hostNet) SendStream(to uint64, write func(io.Writer) error, done func(error)) {
	w, from, gen := n.h.w, n.h, n.h.gen
	var buf bytes.Buffer
	if err := write(&buf); err != nil {
		done(err)
		return
	}
	finish := func(err error) {
		if from.gen == gen && from.n != nil {
			done(err)
			from.pumpSoon()
		}
	}
	target := w.byID[to]
	if target == nil {
		done(fmt.Errorf("stream to %x: unknown member", to))
		return
	}
	w.trace.add(w.now, "%s → %s snapshot stream of %d bytes", from.name, target.name, buf.Len())
	tgen := target.gen
	w.after(between(w.rNet, time.Millisecond, 80*time.Millisecond), func() {
		if target.n == nil || target.gen != tgen || w.net.isCut(from, target) || w.net.isCut(target, from) {
			w.after(between(w.rNet, time.Millisecond, time.Second), func() { finish(errors.New("connection lost")) })
			return
		}
		b := buf.Bytes()
		if w.rNet.IntN(10) == 0 {
			b = b[:w.rNet.IntN(len(b))]
		}
		err := target.n.HandleStream(from.id, bytes.NewReader(b))
		w.trace.add(w.now, "%s took snapshot stream from %s: %v", target.name, from.name, err)
		target.pumpSoon()
		w.after(w.net.latency(), func() { finish(err) })
	})
}

func (n *network) isCut(from, to *host) bool { return n.cut[[2]int{from.at, to.at}] }

// latency of one frame: a local network, now and then a hiccup.
func (n *network) latency() time.Duration {
	r := n.w.rNet
	d := 50*time.Microsecond + around(r, 300*time.Microsecond) + n.slow
	if r.IntN(200) == 0 {
		d += around(r, 30*time.Millisecond)
	}
	return d
}

func (n *network) link(from, to *host, lane peer.Lane) *link {
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
	w.after(between(w.rNet, time.Millisecond, 60*time.Millisecond), func() {
		l.dialing = false
		if l.from.n == nil || l.up {
			return
		}
		if !l.from.net.peers[l.to.id] {
			return
		}
		// Nobody there, no way, or refused as removed: a process that lost that memory in a crash may let it in later.
		if l.from.gen != gen || l.to.n == nil || l.to.net.removed[l.from.id] || w.net.isCut(l.from, l.to) || w.net.isCut(l.to, l.from) {
			l.dial()
			return
		}
		l.up, l.since, l.stalled, l.last = true, w.now, false, max(l.last, w.now)
		l.epoch++
		l.from.n.Reconnected(l.to.id, l.lane)
		l.from.pumpSoon()
	})
}

func (l *link) send(frame []byte) {
	l.queue = append(l.queue, frame)
	l.bytes += len(frame)
	if !l.stalled {
		l.plan()
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
		l.stalled = true // what follows waits behind it
		return
	}
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

func describe(lane peer.Lane, frame []byte) string {
	if lane == peer.LaneForward {
		if len(frame) == 0 {
			return "forward"
		}
		return fmt.Sprintf("forward kind %d, %d bytes", frame[0], len(frame))
	}
	return replica.Describe(frame)
}

// drop breaks the connection and loses what is in flight; the sender dials again.
func (l *link) drop(why string) {
	if !l.up {
		return
	}
	l.w.trace.add(l.w.now, "%s ↛ %s %s: %s, %d frames lost", l.from.name, l.to.name, l.lane, why, len(l.queue))
	l.up, l.stalled, l.queue, l.bytes = false, false, nil, 0
	l.epoch++
	if l.from.n != nil && l.from.net.peers[l.to.id] {
		l.dial()
	}
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
				n.w.after(between(n.w.rNet, 200*time.Millisecond, 6*time.Second), func() {
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

// hostGone breaks every connection of a host whose process ended. What it had sent may still arrive.
func (n *network) hostGone(h *host) {
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
		at := between(w.rNet, 10*time.Microsecond, time.Millisecond)
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
