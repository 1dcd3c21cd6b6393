package node

import (
	"math"
	"time"
)

// samples are entries whose time through a step is being taken. Loop only.
type samples struct {
	packed  sample              // until its commit
	sent    map[uint64]sample   // per member, until it acknowledges
	latency map[uint64]*Latency // per member, the result
}

// Latency is the time a member takes to acknowledge entries. It begins when they are handed to the connection and ends
// when the member answers that they are synced. One entry at a time is timed per member, so that it costs the same at any
// load; an idle cluster takes no samples. The zero value has none.
type Latency struct {
	Count             uint64 // samples
	Failed            uint64 // messages with entries that could not be handed to a connection
	Current, Min, Max time.Duration
	mean, squares     float64 // of nanoseconds; squares is the sum of squared distances from the mean
}

// add takes a sample, by Welford's method: sums of squares would lose the small differences to rounding.
func (l *Latency) add(d time.Duration) {
	l.Count++
	if l.Count == 1 {
		l.Min = d
	}
	l.Current, l.Min, l.Max = d, min(l.Min, d), max(l.Max, d)
	off := float64(d) - l.mean
	l.mean += off / float64(l.Count)
	l.squares += off * (float64(d) - l.mean)
}

// Mean of all samples, 0 without any.
func (l *Latency) Mean() time.Duration { return time.Duration(l.mean) }

// Deviation is the standard deviation of all samples.
func (l *Latency) Deviation() time.Duration {
	if l.Count == 0 {
		return 0
	}
	return time.Duration(math.Sqrt(l.squares / float64(l.Count)))
}

// latencyOf is where a member's samples are kept. Loop only.
func (n *Node) latencyOf(id uint64) *Latency {
	l := n.latency[id]
	if l == nil {
		l = &Latency{}
		n.latency[id] = l
	}
	return l
}
