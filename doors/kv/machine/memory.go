package machine

import "github.com/holdfastdb/holdfast/internal/budget"

const mib = 1 << 20

var claims = []budget.Claim{
	{Name: "leases", Weight: 5, Floor: 1 * mib},
	{Name: "keys", Weight: 28, Floor: 2 * mib}, // 100,000 keys of 64 bytes fit at the default
	{Name: "filter", Weight: 6, Floor: mib / 2},
	// At 2 GiB some thousand values of 10 KB. Those that do not fit are read from the store, which makes a get of one a third dearer.
	{Name: "hot", Weight: 4, Floor: mib / 16, Ceiling: 64 * mib},
	// Of five million keys 2.8 MiB; with less they are counted in larger blocks (Refine).
	{Name: "blocks", Weight: 4, Floor: mib / 16, Ceiling: 64 * mib},
	{Name: "past", Weight: 5, Floor: mib / 16, Ceiling: 4 * mib},
	{Name: "recent", Weight: 7, Floor: 1 * mib, Ceiling: 8 * mib},
}

// Claims returns the claims of the machine. A member where the door is off has the machine too, and keeps the floors.
func Claims(on bool) []budget.Claim {
	if !on {
		return budget.Floors(claims)
	}
	return claims
}

// OptionsOf returns the options of a machine that keeps to its shares. The bound of leases is the door's to hold: LeaseBytes.
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

// LeaseBytes returns the share of leases, all of which every member has in memory.
func LeaseBytes(share budget.Shares) int64 { return share.Of("leases") }
