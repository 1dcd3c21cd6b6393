// Package meter counts and times the steps of the hot path, without a lock, an allocation or a third party: recording costs two atomic
// additions. It is not a metrics system. Names, labels and the wire form live in serve/admin, which exports these numbers to Prometheus. No
// number here ever changes the server's behaviour.
//
// Every type is ready as its zero value, safe for concurrent use, and must not be copied after first use.
package meter

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// Buckets are log-linear. Every power of two of nanoseconds from 2^minExp to 2^maxExp is cut into 2^subBits equal parts. So a quantile is
// off by at most half a part, 3.2 %. A fixed list of bounds, as Prometheus clients use it, would not do. It would be too coarse around the
// 100 µs of an fdatasync, or too long to search on every write.
const (
	subBits = 4
	minExp  = 8  // below 256 ns everything is one bucket: reading the clock twice takes longer
	maxExp  = 36 // from 69 s on everything is one bucket: longer than any deadline
	parts   = 1 << subBits

	// NumBuckets is the number of buckets of every Histogram.
	NumBuckets = (maxExp-minExp)*parts + 2
)

// Histogram collects durations. Record is wait-free; readers see each event at most once but may miss events being recorded.
type Histogram struct {
	sum     atomic.Int64 // nanoseconds
	buckets [NumBuckets]atomic.Uint64
}

// Record adds one event that took d. A negative d counts as zero.
func (h *Histogram) Record(d time.Duration) {
	if d < 0 {
		d = 0
	}
	h.buckets[bucketOf(d)].Add(1)
	h.sum.Add(int64(d))
}

// Since records the time from start to now and returns it.
func (h *Histogram) Since(start time.Time) time.Duration {
	d := time.Since(start)
	h.Record(d)
	return d
}

// Read adds the histogram's present content to s, which may be the zero Reading.
func (h *Histogram) Read(s *Reading) {
	s.Sum += time.Duration(h.sum.Load())
	for i := range h.buckets {
		n := h.buckets[i].Load()
		s.Buckets[i] += n
		s.Count += n
	}
}

// bucketOf maps a duration ≥ 0 to its bucket: 0 is "below 2^minExp", the last one "from 2^maxExp on".
func bucketOf(d time.Duration) int {
	v := uint64(d)
	exp := bits.Len64(v) - 1 // 2^exp <= v
	switch {
	case exp < minExp: // includes v = 0
		return 0
	case exp >= maxExp:
		return NumBuckets - 1
	}
	part := int(v>>(exp-subBits)) & (parts - 1)
	return 1 + (exp-minExp)*parts + part
}

// Bound returns the first duration that no longer belongs to bucket i; the last bucket has none and answers 1<<62.
func Bound(i int) time.Duration {
	switch {
	case i <= 0:
		return 1 << minExp
	case i >= NumBuckets-1:
		return 1 << 62
	}
	exp, part := minExp+(i-1)/parts, (i-1)%parts
	return time.Duration(parts+part+1) << (exp - subBits)
}
