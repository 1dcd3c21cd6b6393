package program

import (
	"slices"

	kvmachine "github.com/holdfastdb/holdfast/doors/kv/machine"
	v2machine "github.com/holdfastdb/holdfast/doors/kv/v2/machine"
	"github.com/holdfastdb/holdfast/internal/budget"
)

// The door's own claims, beside those of its machines.
const (
	claimCalls   = "calls"   // calls that are open, with their headers, and watches
	claimPins    = "pins"    // events that slow watchers keep in memory after the machine's ring of recent events has moved on
	claimPins2   = "pins2"   // the same of v2
	claimAnswers = "answers" // answers that are being made or that clients have not taken yet; the largest may have two thirds of it
)

func claims(on bool) []budget.Claim {
	all := slices.Concat(kvmachine.Claims(on), v2machine.Claims(on))
	if !on {
		return all
	}
	return append(all,
		// With lent memory, 256 MiB with every door on hold 1,000 streams of ten watches each, 1,000 streams of one, and 100,000 leases.
		// The streams then take three quarters of it (docs/adr/0026-open-calls.md). The ceiling is for 15,000 streams.
		budget.Claim{Name: claimCalls, Weight: 28, Floor: 2 << 20, Ceiling: 256 << 20, Kind: budget.Open},
		// One batch may be above it in either: a watcher without anything queued is given what has come (doors/kv/watch, doors/kv/v2).
		budget.Claim{Name: claimPins, Weight: 5, Floor: 256 << 10, Ceiling: 16 << 20},
		budget.Claim{Name: claimPins2, Weight: 1, Floor: 256 << 10, Ceiling: 16 << 20},
		// An answer is drawn from before it is made until a client has taken it (doors/kv).
		budget.Claim{Name: claimAnswers, Weight: 42, Floor: 6 << 20})
}
