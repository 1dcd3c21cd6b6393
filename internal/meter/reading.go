package meter

import (
	"math"
	"time"
)

// Reading is the content of a Histogram at one moment, or the difference of two. It is a plain value: copy it freely,
// one goroutine at a time.
type Reading struct {
	Count   uint64
	Sum     time.Duration
	Buckets [NumBuckets]uint64
}

// Since returns what was recorded between the reading old and this one of the same histogram.
func (r *Reading) Since(old *Reading) Reading {
	d := Reading{Count: r.Count - old.Count, Sum: r.Sum - old.Sum}
	for i := range d.Buckets {
		d.Buckets[i] = r.Buckets[i] - old.Buckets[i]
	}
	return d
}

// Quantile returns the duration that the fraction q (0 to 1) of all events did not exceed. It is the middle of its bucket, or 0 without
// events.
func (r *Reading) Quantile(q float64) time.Duration {
	if r.Count == 0 {
		return 0
	}
	rank := uint64(math.Ceil(min(max(q, 0), 1) * float64(r.Count)))
	rank = max(rank, 1)
	var seen uint64
	for i, n := range r.Buckets {
		if seen += n; seen < rank {
			continue
		}
		if i == 0 {
			return Bound(0) / 2
		}
		if i == NumBuckets-1 {
			return Bound(i - 1) // open above: its lower end is all that is known
		}
		return (Bound(i-1) + Bound(i)) / 2
	}
	return Bound(NumBuckets - 2) // not reached: the buckets add up to Count
}

// Mean returns the exact average duration, 0 if nothing was recorded.
func (r *Reading) Mean() time.Duration {
	if r.Count == 0 {
		return 0
	}
	return r.Sum / time.Duration(r.Count)
}
