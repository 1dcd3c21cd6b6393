package ship

import (
	"sync"
	"time"
)

// requests counts what the store is asked in a calendar month (UTC), by this process. Any goroutine.
type requests struct {
	wall   func() time.Time
	budget int64

	mu    sync.Mutex
	month time.Time // its first moment; guarded by mu
	count int64     // guarded by mu
	total uint64    // since the start; guarded by mu
}

// longest is for how long entries are gathered at most when requests run out.
const longest = time.Minute

// add counts n of them.
func (r *requests) add(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.turn()
	r.count += int64(n)
	r.total += uint64(n)
}

// turn begins a new month when it is time; the caller holds mu.
func (r *requests) turn() time.Time {
	now := r.wall().UTC()
	if m := time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC); !m.Equal(r.month) {
		r.month, r.count = m, 0
	}
	return now
}

// made is how many there were this month, and since the start.
func (r *requests) made() (month int64, total uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.turn()
	return r.count, r.total
}

// interval stretches the gathering time once three quarters of the month's requests are made. The remaining requests are then spread over
// the rest of the month.
func (r *requests) interval(least time.Duration) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.turn()
	left := r.budget - r.count
	if left > r.budget/4 {
		return least
	}
	if left <= 0 {
		return max(least, longest)
	}
	return min(max(least, r.month.AddDate(0, 1, 0).Sub(now)/time.Duration(left)), max(least, longest))
}
