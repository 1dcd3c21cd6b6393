package agent

import (
	"sync"
	"time"

	"github.com/holdfastdb/holdfast/core/clock"
)

// requests counts what the stores are asked in a calendar month (UTC), by this process. Any goroutine.
type requests struct {
	budget int64
	clock  clock.Clock

	mu    sync.Mutex
	month time.Time // its first moment; guarded by mu
	count int64     // guarded by mu
}

// longest is for how long commits are gathered at most when requests run out.
const longest = 10 * time.Second

func (r *requests) add() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.turn()
	r.count++
}

// turn begins a new month when it is time; the caller holds mu.
func (r *requests) turn() time.Time {
	now := r.clock.Wall().UTC()
	if m := time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC); !m.Equal(r.month) {
		r.month, r.count = m, 0
	}
	return now
}

// gather stretches the gathering time of commits once three quarters of the month's requests are made. The remaining requests are then
// spread over the rest of the month.
func (r *requests) gather(least time.Duration) time.Duration {
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
