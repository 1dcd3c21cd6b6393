package footprint

import "time"

// Periods are how long a process must have been quiet.
type Periods struct {
	// Garbage: then what was freed goes back to the kernel. It costs a collection, and the first work afterwards touches new pages.
	Garbage time.Duration
	// Caches: then Options.Rest is called, once.
	Caches time.Duration
}

// Usual is well below the minute in which a server is to be as small again as it was.
var Usual = Periods{Garbage: 10 * time.Second, Caches: 40 * time.Second}

// look is how often a process that is not at rest is looked at.
func (p Periods) look() time.Duration { return p.Garbage / 5 }

// busyRate is the allocation rate, in bytes a second, of a process with work. burst is an amount that counts as work at any rate. Ticks,
// heartbeats and scrapes of metrics come to a tenth of it; a single client that puts in turn to ten times as much.
const (
	busyRate = 512 << 10 // a second
	burst    = 1 << 20
)

// step is the next action.
type step int

const (
	nothing step = iota
	giveGarbage
	giveCaches
)

// policy decides from the allocated bytes when a process has come to rest. Allocation makes it large, and is known without asking any part
// of it. Time is since some moment; it is handed in.
type policy struct {
	periods Periods
	done    step          // since there was work last
	busyAt  time.Duration // when that was
	at      time.Duration // of the last look, and the bytes allocated by then
	bytes   uint64
}

// sample takes in how many bytes have been allocated ever.
func (p *policy) sample(now time.Duration, bytes uint64) {
	since, more := now-p.at, bytes-p.bytes
	busy := more >= burst && float64(more) > busyRate*since.Seconds()
	if busy {
		p.busyAt, p.done = now, nothing
	}
	if busy || since >= p.periods.look() {
		p.at, p.bytes = now, bytes
	}
}

// due is what to do now; the caller does it, and calls settle.
func (p *policy) due(now time.Duration) step {
	switch quiet := now - p.busyAt; {
	case p.done < giveCaches && quiet >= p.periods.Caches:
		return giveCaches
	case p.done < giveGarbage && quiet >= p.periods.Garbage:
		return giveGarbage
	}
	return nothing
}

// settle notes that s was done. Its own allocations are no work.
func (p *policy) settle(s step, now time.Duration, bytes uint64) {
	p.done, p.at, p.bytes = s, now, bytes
}

// atRest reports whether nothing is left to do until there is work again. Then no look is needed: new work runs the collector first.
func (p *policy) atRest() bool { return p.done == giveCaches }

// heap is the collector's result of the last mark, in bytes.
type heap struct {
	live    uint64 // on the heap
	roots   uint64 // stacks and globals, which the collector's goal counts like the heap
	scanned uint64 // of both, the part that may hold pointers: marking costs by this
}

const (
	// mostPercent is the largest GOGC, the one used when the room followed everything that lives.
	mostPercent = 400
	// leastRoom is room for garbage under load even if little is marked: below it collections come so often that they cost.
	leastRoom = 64 << 20
	// restRoom is the same at rest. A burst of less than two of them is not seen as work, and leaves that much.
	restRoom = 4 << 20
)

// percent is the value for GOGC: how much garbage may gather beside the live heap. A collection costs by the bytes it marks, so the room is
// four times those. Memtables and blocks of tables hold no pointers and cost nearly nothing to mark. When the room followed them as much,
// three members with 10,000 keys had 140 MB of garbage each beside 45 MB alive.
//
// But they are found and swept one by one, so a third of all that lives is the least. With 64 MiB beside 450 that lived there were eight
// collections a second, a seventh of the CPU.
func (h heap) percent(resting bool) int {
	base := h.live + h.roots
	if base == 0 {
		return mostPercent
	}
	room := max(leastRoom, 4*h.scanned, base/3)
	if resting {
		room = max(restRoom, base/8)
	}
	return int(min(max(room*100/base, 1), mostPercent))
}
