package machine

import "github.com/holdfastdb/holdfast/internal/budget"

const mib = 1 << 20

// LeaseClaim is the claim of leases, all of which every member has in memory.
const LeaseClaim = "leases"

var claims = []budget.Claim{
	{Name: LeaseClaim, Weight: 5, Floor: 1 * mib, Kind: budget.Kept},
	{Name: "keys", Weight: 28, Floor: 2 * mib, Kind: budget.Cache}, // at 256 MiB 100,000 keys of 64 bytes fit
	{Name: "filter", Weight: 6, Floor: mib / 2},
	// At 2 GiB some thousand values of 10 KB. Those that do not fit are read from the store, which makes a get of one a third dearer.
	{Name: "hot", Weight: 4, Floor: mib / 16, Ceiling: 64 * mib, Kind: budget.Cache},
	// Of five million keys 2.8 MiB; with less they are counted in larger blocks (Refine).
	{Name: "blocks", Weight: 4, Floor: mib / 16, Ceiling: 64 * mib},
	{Name: "past", Weight: 5, Floor: mib / 16, Ceiling: 4 * mib},
	{Name: "recent", Weight: 7, Floor: 1 * mib, Ceiling: 8 * mib, Kind: budget.Cache},
}

// Claims returns the claims of the machine. A member where the door is off has the machine too, and keeps the floors.
func Claims(on bool) []budget.Claim {
	if !on {
		return budget.Floors(claims)
	}
	return claims
}

// LeaseBytes estimates a lease's memory on every member. It has a row in the machine and in the leader's list by time, each in a table that
// may be half empty. It also has a place in an answer that lists all leases.
const LeaseBytes = 128

// Within returns a machine that keeps to its shares, and enters it in their ledger. The bound of leases is the door's to hold.
func Within(share budget.Shares) *Machine {
	m := New(OptionsOf(share))
	share.Ledger.Hold(LeaseClaim, budget.Holder{Held: func() int64 { return int64(m.LeaseCount()) * LeaseBytes }})
	share.Ledger.Hold("keys", budget.Holder{Held: m.cacheHeld.Load, Bound: m.boundCache})
	share.Ledger.Hold("hot", budget.Holder{Held: m.hotHeld, Bound: m.boundHot})
	share.Ledger.Hold("recent", budget.Holder{Held: m.recentHeld, Bound: m.recentMost.Store})
	return m
}

// boundCache sets how many bytes of keys seen lately are kept from the next entry on. Any goroutine.
func (m *Machine) boundCache(bytes int64) {
	m.cacheMost.Store(max(bytes-bytes/latestPart, 1))
	m.latestMost.Store(bytes / latestPart)
}

// boundHot sets how many bytes of rows are kept for readers. Any goroutine.
func (m *Machine) boundHot(bytes int64) {
	m.hotMost.Store(bytes)
	if h := m.hot.Load(); h != nil { // else Load makes it
		h.bound(bytes)
	}
}

// hotHeld returns what rows for readers take. Any goroutine.
func (m *Machine) hotHeld() int64 {
	if h := m.hot.Load(); h != nil {
		return h.held.Load()
	}
	return 0
}

// renewHot begins the rows for readers anew. Apply goroutine only.
func (m *Machine) renewHot() {
	m.hot.Store(newHotRows(m.opt.HotBytes))
	m.hot.Load().bound(m.hotMost.Load()) // after the Store: boundHot finds the new rows or has set what is read here
}

// recentHeld returns what the ring of recent events takes. Any goroutine.
func (m *Machine) recentHeld() int64 {
	m.gate.RLock()
	defer m.gate.RUnlock()
	return int64(m.feed.bytes)
}

// OptionsOf returns the options of a machine that keeps to its shares.
func OptionsOf(share budget.Shares) Options {
	return Options{
		CacheBytes:  int(share.Of("keys")),
		FilterBytes: int(share.Of("filter")),
		HotBytes:    int(share.Of("hot")),
		BlockBytes:  int(min(share.Of("blocks"), share.Total/64)),
		PastBytes:   int(share.Of("past")),
		RecentBytes: int(share.Of("recent")),
	}
}
