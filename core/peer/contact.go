package peer

import (
	"time"
)

// SilentAfter is for how long a member may be silent before it counts as unreachable. A member that runs and can be reached answers a probe
// each second (probeInterval).
const SilentAfter = 2 * time.Second

// silentEarlier is the same for a connection made by a member that probes every five seconds, as earlier builds do.
const silentEarlier = 7 * time.Second

// Contact is the state of a member's way to another one.
type Contact struct {
	// Heard is how long ago the other one was heard last. If it never was, Ever is false, and Heard counts from when this member was told of it.
	Heard time.Duration
	Ever  bool
	// Down is for how long no connection to the other one is up, 0 if one is. Unanswered is for how long a probe on it has had no answer, 0 if
	// none waits.
	Down, Unanswered time.Duration
	// Incoming is how long ago something came on a connection that the other one made; answers come on this member's own. It counts from when
	// this member was told of the other one if nothing ever came.
	Incoming time.Duration
	// Addr is the address that was dialled last, "" before the first dial has ended. Err is why that made no connection, nil if it did.
	Addr string
	Err  error
	// seldom: the other one is of a build that probes every five seconds, so Incoming is longer without a reason.
	seldom bool
}

// Lost returns how long the other member has been unreachable, 0 if it is reachable. Unreachable means that no frame comes from it, or none
// can be sent to it. resumed is the time since this process started, or since it ran again after a pause: the silence of the pause does not
// count.
func (c *Contact) Lost(resumed time.Duration) time.Duration {
	var lost time.Duration
	for _, d := range []time.Duration{c.Heard, c.Down, c.Unanswered} {
		if min(d, resumed) >= SilentAfter {
			lost = max(lost, d)
		}
	}
	noneAfter := SilentAfter
	if c.seldom {
		noneAfter = silentEarlier
	}
	if min(c.Incoming, resumed) >= noneAfter {
		lost = max(lost, c.Incoming)
	}
	return lost
}

// began is when this process began, for times that go by the monotonic clock.
var began = time.Now()

// spoke notes that the member was heard, and returns when.
func (c *Traffic) spoke() (now int64) {
	now = int64(time.Since(began)) + 1
	if last := c.heardAt.Swap(now); last == 0 || now-last >= int64(SilentAfter) {
		c.hearingFrom.Store(now)
	}
	return now
}

// probed notes that the member has sent a probe. Two that follow each other soon are of a build that sends one a second.
func (c *Traffic) probed() {
	if c == nil {
		return
	}
	now := int64(time.Since(began)) + 1
	if last := c.probedAt.Swap(now); last != 0 && now-last < int64(2*probeInterval) {
		c.probes.Store(true)
	}
}

// silentFor is how long ago the member was heard; ever is false if it never was.
func (c *Traffic) silentFor() (ago time.Duration, ever bool) {
	at := c.heardAt.Load()
	return time.Since(began) - time.Duration(at), at != 0
}

// hearing returns for how long the member has been heard without a break of SilentAfter, and whether it is silent now.
func (c *Traffic) hearing() (since time.Duration, silent bool) {
	if ago, ever := c.silentFor(); !ever || ago >= SilentAfter {
		return 0, true
	}
	return time.Since(began) - time.Duration(c.hearingFrom.Load()), false
}

// failed notes what came of a dial.
func (l *tcpChannel) failed(addr string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dialled, l.refusal = addr, err
}

// Contact implements Network.
func (t *TCP) Contact(id uint64) (Contact, bool) {
	t.mu.Lock()
	p := t.peers[id]
	t.mu.Unlock()
	if p == nil {
		return Contact{}, false
	}
	var c Contact
	if c.Heard, c.Ever = p.traffic.silentFor(); !c.Ever {
		c.Heard = time.Since(p.told)
	}
	c.Incoming = time.Since(p.told)
	if at := p.traffic.cameAt.Load(); at != 0 {
		c.Incoming = time.Since(began) - time.Duration(at)
	}
	c.seldom = !p.traffic.probes.Load()
	l := p.channels[ChannelControl]
	l.mu.Lock()
	defer l.mu.Unlock()
	c.Addr, c.Err = l.dialled, l.refusal
	switch {
	case l.up && !l.probed.IsZero():
		c.Unanswered = time.Since(l.probed)
	case l.up:
	case l.since.IsZero():
		c.Down = time.Since(p.told)
	default:
		c.Down = time.Since(l.since)
	}
	return c, true
}
