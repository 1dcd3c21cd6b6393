package budget

import "slices"

// Claim is what one holder of memory asks for. Everybody gets its floor; what is left goes by weight, up to each one's ceiling.
type Claim struct {
	// Name is one word that no other claim has.
	Name   string
	Weight int64 // the store's cache has 28; 0: the floor is all it gets
	// Floor is the least that the holder works with, Ceiling the most that it has a use for, in bytes; Ceiling 0: there is none.
	Floor, Ceiling int64
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
	{"cache", 28, 12 * mib, 0},
	// The log's newest entries, the buffer a record is put together in and the blocks that are not in the file yet, of 4 MiB each.
	{"log", 0, 12 * mib, 12 * mib},
	// One entry of 9 MiB has to fit.
	{"uncommitted", 7, 9 * mib, 16 * mib},
	{"flight", 15, 4 * mib, 0},
	// The machine takes no more than the ceiling, on any member (core/machine/ident).
	{"idents", 2, 1 * mib, 64 * mib},
}

func withCore(claims []Claim) []Claim { return append(slices.Clip(core), claims...) }

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
