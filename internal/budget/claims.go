package budget

// Claim is what one holder of memory asks for. Everybody gets its floor; what is left goes by weight, up to each one's ceiling.
type Claim struct {
	// Name is one word that no other claim has.
	Name   string
	Weight int64 // the store's cache has 28, and so has the cache of keys
	// Floor is the least that the holder works with, Ceiling the most that it has a use for, in bytes; Ceiling 0: there is none.
	Floor, Ceiling int64
}

// claims lists those of a server with these doors.
func claims(on Doors) []Claim {
	all := []Claim{
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
	machines := []Claim{
		{"leases", 5, 1 * mib, 0},
		{"keys", 28, 2 * mib, 0}, // 100,000 keys of 64 bytes fit at the default
		{"filter", 6, mib / 2, 0},
		// At 2 GiB some thousand values of 10 KB. Those that do not fit are read from the store, which makes a get of one a third dearer.
		{"hot", 4, mib / 16, 64 * mib},
		// Of five million keys 2.8 MiB; with less they are counted in larger blocks (doors/kv/machine, Refine).
		{"blocks", 4, mib / 16, 64 * mib},
		{"past", 5, mib / 16, 4 * mib}, // what has changed since, for reads in the past
		{"recent", 7, 1 * mib, 8 * mib},
		{"recent2", 3, mib / 2, 4 * mib},
		{"nodes2", 5, 1 * mib, 8 * mib},
	}
	if !on.KV { // the machines are there all the same: other members may have the door
		for i := range machines {
			machines[i].Weight = 0
		}
	}
	all = append(all, machines...)
	if on.KV {
		all = append(all,
			Claim{"calls", 10, 2 * mib, 0},
			// One batch may be above it in either: a watcher without anything queued is given what has come (doors/kv/watch, doors/kv/v2).
			Claim{"pins", 5, mib / 4, 16 * mib},
			Claim{"pins2", 1, mib / 4, 16 * mib},
			// An answer is drawn from before it is made until a client has taken it (doors/kv).
			Claim{"answers", 42, 6 * mib, 0})
	}
	trees := Claim{"trees", 16, 1 * mib, 64 * mib} // at the default a thousand logs of 12 KiB (doors/tlog/machine, LogBytes)
	if !on.Tlog {
		trees.Weight = 0
	}
	return append(append(all, trees), on.More...)
}

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
