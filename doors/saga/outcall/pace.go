package outcall

import "time"

const (
	// strangersPerSecond is how many calls may begin in a second whose routes have not answered of late. A call without an answer costs a
	// connection made and closed. Thousands of those in one moment take both processors of a small machine, and calls that are answered
	// wait behind them.
	strangersPerSecond = 1000
	// strangersAtOnce of them may begin at once.
	strangersAtOnce = 32
	// paceTime is after how long those that could not begin are looked at again.
	paceTime = 5 * time.Millisecond
)

// pace spreads the calls to strangers over time. Net.mu guards it.
type pace struct {
	begun float64 // calls that have begun and are not made up for by time
	at    time.Time
}

// has reports whether one more call may begin.
func (p *pace) has(now time.Time) bool {
	p.begun = max(p.begun-now.Sub(p.at).Seconds()*strangersPerSecond, 0)
	p.at = now
	return p.begun < strangersAtOnce
}

// paceOf is the pace of calls to an endpoint. A new endpoint does not wait behind the many calls to a few hanging ones. n.mu is held.
func (n *Net) paceOf(ep *endpoint) *pace {
	if ep.running == 0 {
		return &n.firsts
	}
	return &n.others
}

// mayBegin reports whether a call of the route may begin as far as the pace goes. If it may not, it is looked at again soon. n.mu is held.
func (n *Net) mayBegin(r *route, now time.Time) bool {
	if r.known(now) || n.paceOf(r.endpoint).has(now) {
		return true
	}
	if !n.waking && !n.closed {
		n.waking = true
		time.AfterFunc(paceTime, n.beginOthers)
	}
	return false
}

// beginOthers starts what the pace has held up.
func (n *Net) beginOthers() {
	n.mu.Lock()
	n.waking = false
	all := n.ready()
	n.mu.Unlock()
	n.run(all)
}
