package machine

import "github.com/holdfastdb/holdfast/internal/budget"

var claims = []budget.Claim{
	{Name: "recent2", Weight: 3, Floor: 512 << 10, Ceiling: 4 << 20},
	{Name: "nodes2", Weight: 5, Floor: 1 << 20, Ceiling: 8 << 20, Kind: budget.Cache},
}

// Claims returns the claims of the machine. A member where the door is off has the machine too, and keeps the floors.
func Claims(on bool) []budget.Claim {
	if !on {
		return budget.Floors(claims)
	}
	return claims
}

// Within returns a machine that keeps to its shares, and enters it in their ledger.
func Within(share budget.Shares) *Machine {
	m := New(OptionsOf(share))
	share.Ledger.Hold("nodes2", budget.Holder{Held: m.cacheHeld.Load, Bound: m.cacheMost.Store})
	return m
}

// OptionsOf returns the options of a machine that keeps to its shares.
func OptionsOf(share budget.Shares) Options {
	return Options{CacheBytes: int(share.Of("nodes2")), RecentBytes: int(share.Of("recent2"))}
}
