package meter

import (
	"math/bits"
	"sync"
	"sync/atomic"
)

// Tlog has the counters and times of the tlog door and its workers, for all logs together and for each. One value belongs to one server; a
// caller without one makes its own with new(Tlog).
type Tlog struct {
	Batch Sizes     // entries of a command
	Sign  Histogram // deriving frontier and right edge from each other, and signing
	Show  Histogram // from signing a checkpoint to its being applied, from when on all members show it

	mu     sync.Mutex
	logs   map[string]*TlogLog        // guarded by mu
	places map[TlogPlace]*TlogPublish // guarded by mu
}

// TlogLog is counted for one log.
type TlogLog struct {
	Added   Counter // entries that were acknowledged with an index
	Refused Counter // adds that are provably not in the log
	Unknown Counter // adds that may be in the log: their outcome was not heard

	// Of the scrub that runs, else of the last one: how far it is in a log of how many entries.
	ScrubDone, ScrubAll Gauge
	// ScrubEnded is when the last scrub that came to a verdict ended, in seconds since 1970, 0 if none has.
	ScrubEnded Gauge
	// ScrubBad counts scrubs that found damage, ScrubFailed those that could not go on.
	ScrubBad, ScrubFailed Counter
}

// TlogPlace is a place a log is published to.
type TlogPlace struct{ Log, To string }

// TlogPublish is counted for one of them. Only the leader publishes: elsewhere Size is 0.
type TlogPublish struct {
	Size   Gauge   // of the checkpoint that is published
	Failed Counter // publications that ended with an error
	Bad    Gauge   // objects that the last scrub there found missing or altered
}

// Log is where one log is counted. The number of logs is bounded by their machine, so the number of these is.
func (t *Tlog) Log(name string) *TlogLog {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.logs[name]
	if l == nil {
		if t.logs == nil {
			t.logs = map[string]*TlogLog{}
		}
		l = new(TlogLog)
		t.logs[name] = l
	}
	return l
}

// Place is where publications of a log to a place are counted.
func (t *Tlog) Place(log, to string) *TlogPublish {
	t.mu.Lock()
	defer t.mu.Unlock()
	at := TlogPlace{log, to}
	p := t.places[at]
	if p == nil {
		if t.places == nil {
			t.places = map[TlogPlace]*TlogPublish{}
		}
		p = new(TlogPublish)
		t.places[at] = p
	}
	return p
}

// EachPlace calls fn for every place, in no order.
func (t *Tlog) EachPlace(fn func(at TlogPlace, p *TlogPublish)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for at, p := range t.places {
		fn(at, p)
	}
}

// sizeBuckets are powers of two from 1 to 4096, and one for larger sizes.
const sizeBuckets = 14

// Sizes collects how large groups are. Record is wait-free.
type Sizes struct {
	sum     atomic.Int64
	buckets [sizeBuckets]atomic.Uint64
}

// Record adds one group of n.
func (s *Sizes) Record(n int) {
	s.buckets[min(bits.Len(uint(max(n, 1)-1)), sizeBuckets-1)].Add(1)
	s.sum.Add(int64(n))
}

// Read returns how many groups there were, their sum, and how many had at most 1, 2, 4, … 4096.
func (s *Sizes) Read() (count uint64, sum int64, atMost map[float64]uint64) {
	atMost = make(map[float64]uint64, sizeBuckets)
	for i := range s.buckets {
		count += s.buckets[i].Load()
		if i < sizeBuckets-1 {
			atMost[float64(uint(1)<<i)] = count
		}
	}
	return count, s.sum.Load(), atMost
}
