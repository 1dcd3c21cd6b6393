// Package budget divides --memory, a promise about the whole process as the kernel counts it (VmRSS), among its large holders of memory. It
// computes, and tells caches how much they may have (Ledger): each holder keeps to its bound by itself.
//
// How the promise is kept, with 256 MiB:
//
//   - The program's own pages are resident too. They are files' pages, which the kernel may drop, but it counts them.
//   - Go's limit is what remains, less a sixteenth that the runtime may be above its limit for moments: it is a soft one. Below the limit
//     the runtime keeps what has been freed, above it it collects and gives back. So under load the process is always about as large as
//     that limit, and the held memory must stay well below it. The distance is the garbage that one collection may leave behind: the
//     smaller it is, the more often all is marked. Claims (claims.go, and those of the doors) bound the held memory. Together they are at
//     most fifteen sixteenths of Go's limit, if all are full at once. Only clients with thousands of open calls, watches, leases and users
//     fill some of them.
//   - The rest is garbage, goroutines' stacks, the pools of gRPC and Pebble, and everything too small to be named.
//   - Logged state that cannot be dropped (Kept: leases, users, logs) borrows from caches once its own share is full (ledger.go). So a
//     share that is never used costs an honest client nothing, and the sum of all stays the same.
//   - A door that is off claims what its machines cannot do without, and the others get the rest of its part. A total that does not give
//     every holder the least it works with is refused, with the figure.
//
// A lower limit without the bounds does not help: the runtime then collects without end and stays above it all the same.
package budget

import "fmt"

const (
	// program is the size of the binary's resident pages, measured with some room to grow: 35 MiB of files at rest. That includes the
	// engine of the sql door, with its tables of collations and functions, used or not.
	program = 44 << 20
	mib     = 1 << 20
)

// Small and Large bound the total that a server has where none is given, in bytes. Small is also what tests, the simulation, restores and
// benchmarks name, so that what they show does not depend on the machine.
const (
	Small = 256 * mib
	Large = 4 << 30
)

// DefaultOf is the total of a server where none is given: a quarter of the memory there is, in whole MiB, between Small and Large.
func DefaultOf(memory int64) int64 { return min(max(memory/4/mib*mib, Small), Large) }

// Shares of a budget, in bytes: those of the core by field, those of other claims by name (Of).
type Shares struct {
	// Total is the divided total.
	Total int64
	// GoLimit is for debug.SetMemoryLimit.
	GoLimit int64
	// Cache is the store's: blocks of tables, and the memtables, which Pebble takes out of it.
	Cache int64
	// Memtable is one memtable. There are two, and a third while both are being written.
	Memtable int64
	// Flight bounds large requests from their first bytes to their answer. A follower's requests are in flight at its leader too.
	Flight int64
	// Lane bounds what queues before the log, per lane. Requests in a lane are in flight as well.
	Lane int64
	// Uncommitted is the bound on raft's data in flight.
	Uncommitted int64
	// Idents is for users and roles, all of which every member has in memory.
	Idents int64

	// Ledger has the present bytes of the holders of these shares. Copies of Shares have the same one.
	Ledger *Ledger

	claimed map[string]int64
	held    int64
}

// identFold is how many times as much users, roles and accounts take in memory as their rows do.
const identFold = 2

// RoomOfIdents is how many bytes the rows of users, roles and accounts may have on the member with the least room. Any goroutine.
func (s Shares) RoomOfIdents() int64 { return s.Ledger.Room("idents") / identFold }

// HoldIdents enters who keeps users, roles and accounts; rows returns how many bytes their rows have.
func (s Shares) HoldIdents(rows func() int64) {
	s.Ledger.Hold("idents", Holder{Held: func() int64 { return identFold * rows() }})
}

// Of returns the share of the claim with that name; 0: nothing brought such a claim.
func (s Shares) Of(claim string) int64 { return s.claimed[claim] }

// Of divides a total among the core and these claims. Less than Least gives each the least it works with, and does not hold.
func Of(total int64, claims ...Claim) Shares { return divide(total, claims) }

// For is Of for a server. The error names the least total that the claims fit in.
func For(total int64, claims ...Claim) (Shares, error) {
	if least := Least(claims...); total < least {
		return Shares{}, fmt.Errorf("too little for the doors that are on; give at least %dMiB", (least+mib-1)/mib)
	}
	return divide(total, claims), nil
}

// Least is the smallest total that gives the core and each of these claims the least it works with.
func Least(claims ...Claim) int64 {
	floors := int64(0)
	for _, c := range withCore(claims) {
		floors += c.Floor
	}
	least := int64(program)
	for ; holdable(goLimit(least)) < floors; least += mib / 4 {
	}
	return least
}

// goLimit is the runtime's limit for a total.
func goLimit(total int64) int64 { return max(total-program-total/16, total/2) }

// holdable is how much of Go's limit may be held.
func holdable(limit int64) int64 { return limit - limit/16 }

func divide(total int64, claims []Claim) Shares {
	limit := goLimit(total)
	all := withCore(claims)
	share := fill(holdable(limit), all)
	s := Shares{
		Total:   total,
		GoLimit: limit,
		// Three of them fit into the cache, and the store can lend a quarter of it.
		Memtable:    min(max(total/32, 4*mib), 8*mib, max(share["cache"]/4, 4*mib)),
		Cache:       share["cache"],
		Flight:      share["flight"],
		Lane:        max(share["flight"], 4*mib),
		Uncommitted: share["uncommitted"],
		Idents:      share["idents"],
		claimed:     share,
	}
	for i := range all {
		if all[i].Name == "cache" {
			all[i].Floor = max(all[i].Floor, 3*s.Memtable) // memtables are not lent: they stay as large as they began
		}
	}
	s.Ledger = newLedger(all, share)
	for _, bytes := range share { // any order: a sum
		s.held += bytes
	}
	return s
}

// Connections says how many connections a process may have that has so much memory and may open so many files.
type Connections struct {
	// Doors is for the clients of all doors together, Peers for connections of other members. Side is for each of the ports that only
	// operators and their programs use.
	Doors, Peers, Side int
}

const (
	// perConnection is the memory an idle connection may keep. It has buffers as large as its largest frames and records, and the stacks of
	// its reading and writing goroutines. Measured over TLS: gRPC 99 KiB after frames of 16 KiB, 40 without. Other HTTP/2 took 73 and 36;
	// HTTP/1.1 74 after a large request, 24 without, and up to 64 more with half a request.
	perConnection = 100 << 10
	// ownFiles is the open files of the store and the log: tables, segments, and their replacements.
	ownFiles = 640
)

// ConnectionsOf divides what remains of the files when the log and the store have theirs.
func ConnectionsOf(total int64, files int) Connections {
	all := min(files-min(ownFiles, files/2), int(total/perConnection))
	c := Connections{Peers: min(max(all/16, 32), 128), Side: min(max(all/32, 16), 64)}
	c.Doors = max(all-c.Peers-2*c.Side, 16)
	return c
}

// Held is the most that all holders have at a time. With a total of at least Least it is below GoLimit.
func (s Shares) Held() int64 { return s.held }
