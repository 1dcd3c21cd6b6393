package sql

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfastdb/holdfast/doors/sql/engine"
)

// mostDigests bounds the digests that are counted apart, by account. What comes later is counted together.
const mostDigests = 1000

// statements counts what ran, by digest. The zero value has counted nothing. Any goroutine.
type statements struct {
	mu  sync.RWMutex
	all map[digestKey]*digestSums // guarded by mu
}

// digestKey is an account and what its statements have in common. Both empty: those for which there was no room.
type digestKey struct{ account, text string }

// digestSums are engine.DigestCounts while they grow.
type digestSums struct {
	calls, errors, rows atomic.Uint64
	total, most         atomic.Int64 // nanoseconds
}

// add counts a statement that has ended.
func (s *statements) add(account, text string, took time.Duration, rows uint64, failed bool) {
	sums := s.of(digestKey{account, text})
	sums.calls.Add(1)
	if failed {
		sums.errors.Add(1)
	}
	sums.rows.Add(rows)
	sums.total.Add(int64(took))
	for {
		most := sums.most.Load()
		if int64(took) <= most || sums.most.CompareAndSwap(most, int64(took)) {
			return
		}
	}
}

func (s *statements) of(key digestKey) *digestSums {
	s.mu.RLock()
	sums := s.all[key]
	s.mu.RUnlock()
	if sums != nil {
		return sums
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = map[digestKey]*digestSums{}
	}
	if s.all[key] == nil && len(s.all) >= mostDigests {
		key = digestKey{}
	}
	if s.all[key] == nil {
		s.all[key] = &digestSums{}
	}
	return s.all[key]
}

// digests returns what was counted of the statements that a session may see: those of its account, or all.
func (d *Door) digests(by *engine.Session) (all []engine.Digest) {
	d.statements.mu.RLock()
	defer d.statements.mu.RUnlock()
	for key, sums := range d.statements.all { // any order: the list is sorted when it is shown
		if !by.SeesAll() && key.account != by.Account() {
			continue
		}
		all = append(all, engine.Digest{User: key.account, Text: key.text, DigestCounts: engine.DigestCounts{Calls: sums.calls.Load(), Errors: sums.errors.Load(),
			Rows: sums.rows.Load(), Total: time.Duration(sums.total.Load()), Most: time.Duration(sums.most.Load())}})
	}
	return all
}
