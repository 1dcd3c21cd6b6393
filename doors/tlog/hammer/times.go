package hammer

import (
	"math"
	"math/bits"
	"sync"
	"time"
)

// times counts durations up to two minutes in buckets that are at most 1/64 wide. Every request counts, and the memory is the same for ten
// and for ten million.
type times struct {
	mu     sync.Mutex // guards what follows
	counts [32 * 64]uint64
	n      uint64
	sum    time.Duration
	least  time.Duration
	most   time.Duration
}

// longest is what longer ones are counted as. Requests give up well before.
const longest = 1<<37 - 1 // nanoseconds

// bucket of a duration: its seven leading bits, and how far they are shifted.
func bucket(d time.Duration) int {
	v := uint64(min(max(d, 0), longest))
	shift := max(bits.Len64(v)-7, 0)
	return shift*64 + int(v>>shift)
}

// bound is the longest duration in a bucket.
func bound(i int) time.Duration {
	shift := max(i/64-1, 0)
	return time.Duration((uint64(i-shift*64)+1)<<shift - 1)
}

func (t *times) add(d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.n == 0 || d < t.least {
		t.least = d
	}
	t.most = max(t.most, d)
	t.counts[bucket(d)]++
	t.n++
	t.sum += d
}

// Spread is the statistics of many durations, in milliseconds. Percentiles are of single requests and at most 1.6 % too high; the rest is
// exact. All are 0 if Count is.
type Spread struct {
	Count uint64  `json:"count"`
	Min   float64 `json:"min_ms"`
	Avg   float64 `json:"avg_ms"`
	P50   float64 `json:"p50_ms"`
	P90   float64 `json:"p90_ms"`
	P99   float64 `json:"p99_ms"`
	P999  float64 `json:"p999_ms"`
	Max   float64 `json:"max_ms"`
}

func (t *times) spread() Spread {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.n == 0 {
		return Spread{}
	}
	return Spread{
		Count: t.n, Min: millis(t.least), Avg: millis(t.sum / time.Duration(t.n)), Max: millis(t.most),
		P50: millis(t.percentile(0.5)), P90: millis(t.percentile(0.9)), P99: millis(t.percentile(0.99)), P999: millis(t.percentile(0.999)),
	}
}

// percentile is the least bound that a share of all durations is not above. The caller holds mu.
func (t *times) percentile(share float64) time.Duration {
	want := uint64(math.Ceil(share * float64(t.n)))
	var seen uint64
	for i, n := range &t.counts {
		if seen += n; n > 0 && seen >= want {
			return min(bound(i), t.most)
		}
	}
	return t.most
}

// millis is d in milliseconds, to the microsecond.
func millis(d time.Duration) float64 { return math.Round(float64(d)/1e3) / 1e3 }
