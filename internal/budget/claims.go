package budget

import "slices"

// Kind is how a holder can release its memory.
type Kind uint8

const (
	// Passing is held for as long as a request, a connection or a piece of work takes. The holder refuses what is beyond its share, or lets it wait.
	// It may lend as a Cache does, if it works with its floor.
	Passing Kind = iota
	// Cache only makes the next work faster. The holder can release it, down to its floor, and so lends it.
	Cache
	// Kept is state that the log has and every member needs in memory. It cannot be dropped. Its holder borrows from caches
	// and other lenders once its own share is full.
	Kept
	// Open is held for as long as clients stay, on this member alone. Its holder borrows from caches as Kept does, and gives back.
	Open
)

// Claim is what one holder of memory asks for. Every claim gets its floor; the rest goes by weight, up to each one's ceiling.
type Claim struct {
	// Name is one word that no other claim has.
	Name   string
	Weight int64 // the store's cache has 28; 0: the floor is all it gets
	// Floor is the least that the holder works with, Ceiling the most that it has a use for, in bytes; Ceiling 0: there is none.
	Floor, Ceiling int64
	Kind           Kind
}

// Floors returns the claims without their weights: each gets its floor alone.
func Floors(claims []Claim) []Claim {
	floors := slices.Clone(claims)
	for i := range floors {
		floors[i].Weight = 0
	}
	return floors
}

// core lists the claims that every node has.
var core = []Claim{
	// The store's blocks and, out of them, two memtables and a third while both are being written.
	{Name: "cache", Weight: 28, Floor: 12 * mib, Kind: Cache},
	// The log's newest entries, the buffer a record is assembled in, and the blocks not yet in the file: 4 MiB each.
	{Name: "log", Floor: 12 * mib, Ceiling: 12 * mib},
	// One entry of 9 MiB has to fit.
	{Name: "uncommitted", Weight: 7, Floor: 9 * mib, Ceiling: 16 * mib},
	{Name: "flight", Weight: 15, Floor: 4 * mib},
	// The machine takes no more than the ceiling, on any member (core/machine/ident).
	{Name: "idents", Weight: 2, Floor: 1 * mib, Ceiling: 64 * mib, Kind: Kept},
}

// withCore returns a list of its own: the caller may change it.
func withCore(claims []Claim) []Claim { return slices.Concat(core, claims) }

// fill divides bytes among claims: floors first, then what is left by weight, and again what ceilings have left over.
func fill(bytes int64, all []Claim) map[string]int64 {
	share := map[string]int64{}
	for _, c := range all {
		share[c.Name] = c.Floor
		bytes -= c.Floor
	}
	for bytes > 0 {
		weights := int64(0)
		open := func(c Claim) bool { return c.Weight > 0 && (c.Ceiling == 0 || share[c.Name] < c.Ceiling) }
		for _, c := range all {
			if open(c) {
				weights += c.Weight
			}
		}
		if weights == 0 {
			break
		}
		left := bytes
		for _, c := range all {
			if !open(c) {
				continue
			}
			more := left * c.Weight / weights
			if c.Ceiling > 0 {
				more = min(more, c.Ceiling-share[c.Name])
			}
			share[c.Name] += more
			bytes -= more
		}
		if left-bytes < int64(len(all)) { // rounding
			break
		}
	}
	return share
}
