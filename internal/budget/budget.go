// Package budget divides --memory, which is a promise about the whole process as the kernel counts it (VmRSS), among those who
// hold much of it. It only computes: each holder keeps to its share by itself.
//
// How the promise is kept, with the default of 256 MiB:
//
//   - The program's own pages are resident too. They are files' pages, which the kernel may drop, but it counts them.
//   - Go's limit is what remains, less a sixteenth that the runtime may be above its limit for moments: it is a soft one.
//     Below the limit the runtime keeps what has been freed, above it it collects and gives back. So the process is always
//     about as large as that limit under load, and what matters is that what is really held stays well below it: the
//     distance is the garbage one collection may leave behind, and the smaller it is, the more often all is marked.
//   - What is held is bounded by shares of Go's limit that come to seven eighths of it at most (Held), an eighth of which only
//     clients with thousands of open calls or watches take. The rest is garbage,
//     goroutines' stacks, the pools of gRPC and Pebble, and everything too small to be named.
//
// A lower limit without the bounds does not help: the runtime then collects without end and stays above it all the same.
package budget

const (
	// program is what the pages of the binary take, measured (28 MiB) with some room to grow.
	program = 32 << 20
	mib     = 1 << 20
)

// Default is the total if none is given, in bytes.
const Default = 256 * mib

// Fixed shares, in bytes: they do not depend on the budget. The packages that hold them have the constants.
const (
	// logTail is the log's newest entries, the buffer a record is put together in and the blocks that are not in the file yet,
	// of 4 MiB each (wal).
	logTail = 12 * mib
	// uncommitted is what raft may have in flight (replica).
	uncommitted = 16 * mib
)

// Shares of a budget, in bytes. All are at least what their holder needs to work at all.
type Shares struct {
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
	// Answer is the largest unary answer. Two are held at a time, each encoded beside its rows.
	Answer int64
	// Keys is for what a put must know about the key before it, Filter for finding that there is no such key.
	Keys, Filter int64
	// Calls bounds calls that are open, with their headers, and watches.
	Calls int64
	// Leases bounds leases: every member has all of them in memory.
	Leases int64
	// Recent is for the newest events, which watchers are served from, Recent2 the same for v2, and Nodes2 for v2's nodes.
	Recent, Recent2, Nodes2 int64
}

// Of divides a total of at least 64 MiB.
func Of(total int64) Shares {
	limit := max(total-program-total/16, total/2)
	return Shares{
		GoLimit:  limit,
		Cache:    limit/4 - limit/32,
		Memtable: min(max(total/32, 4*mib), 8*mib),
		Flight:   max(limit/8, 4*mib),
		Lane:     max(limit/8, 4*mib),
		Answer:   total / 16,
		Keys:     limit / 8,
		Filter:   limit / 32,
		Calls:    limit / 8,
		Leases:   limit / 32,
		Recent:   min(limit/16, 8*mib),
		Recent2:  min(limit/64, 4*mib),
		Nodes2:   min(limit/32, 8*mib),
	}
}

// Connections says how many connections a process may have that has so much memory and may open so many files.
type Connections struct {
	// Doors is for the clients of all doors together, Peers for what other members open, Side for each of the ports that only
	// operators and their programs ask.
	Doors, Peers, Side int
}

const (
	// perConnection is what an idle connection may keep: buffers, as large as its largest frames and records have made them,
	// and stacks of the goroutines that read and write it. Measured over TLS: gRPC 99 KiB after frames of 16 KiB, 40 without;
	// other HTTP/2 73 and 36; HTTP/1.1 74 after a large request, 24 without, and up to 64 more while one is half there.
	perConnection = 100 << 10
	// ownFiles is what the store and the log may have open: tables, segments, and those that take their place.
	ownFiles = 640
)

// ConnectionsOf divides what remains of the files when the log and the store have theirs.
func ConnectionsOf(total int64, files int) Connections {
	all := min(files-min(ownFiles, files/2), int(total/perConnection))
	c := Connections{Peers: min(max(all/16, 32), 128), Side: min(max(all/32, 16), 64)}
	c.Doors = max(all-c.Peers-2*c.Side, 16)
	return c
}

// Held is the most that all holders have at a time.
func (s Shares) Held() int64 {
	return max(s.Cache, 3*s.Memtable) + s.Flight + s.Calls + s.Leases + s.Keys + s.Filter + s.Recent + s.Recent2 + s.Nodes2 + logTail + uncommitted
}
