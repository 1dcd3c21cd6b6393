package meter

import (
	"sync/atomic"
	"time"
)

// Counter counts up from zero.
type Counter struct{ n atomic.Uint64 }

// Add adds n. Inc adds one. Load returns the total so far.
func (c *Counter) Add(n uint64) { c.n.Add(n) }
func (c *Counter) Inc()         { c.n.Add(1) }
func (c *Counter) Load() uint64 { return c.n.Load() }

// Gauge is a level that goes up and down.
type Gauge struct{ n atomic.Int64 }

// Add moves the level by n. Set replaces it. Load returns it.
func (g *Gauge) Add(n int64) { g.n.Add(n) }
func (g *Gauge) Set(n int64) { g.n.Store(n) }
func (g *Gauge) Load() int64 { return g.n.Load() }

// Step is one verb in the life of a write. One event of a step may carry many items (a sync that hardens forty entries). Total counts
// items, Seconds has one event each, so Total divided by the number of events is the size of a group.
type Step struct {
	Total   Counter
	Seconds Histogram
}

// Done records one event that carried n items and took d.
func (s *Step) Done(n int, d time.Duration) {
	s.Total.Add(uint64(n))
	s.Seconds.Record(d)
}

// Record is Done for an event that carried one item. Add counts items whose time is recorded elsewhere or not at all.
func (s *Step) Record(d time.Duration) { s.Done(1, d) }
func (s *Step) Add(n int64)            { s.Total.Add(uint64(n)) }

// Since is Done with the time that passed since start.
func (s *Step) Since(n int, start time.Time) { s.Done(n, time.Since(start)) }

// Begin counts one item and returns its start time. It returns the zero time for seven of eight, which are not timed. In a step of a
// microsecond, reading the clock twice would be a good part of it. End records what Begin timed.
func (s *Step) Begin() time.Time {
	if s.Total.n.Add(1)%8 != 1 {
		return time.Time{}
	}
	return time.Now()
}

// End is the other half of Begin.
func (s *Step) End(began time.Time) {
	if !began.IsZero() {
		s.Seconds.Record(time.Since(began))
	}
}

// Steps has the eight steps of a write under the names used in code, docs, metrics and traces. One value belongs to one server;
// a caller without one makes its own with new(Steps).
type Steps struct {
	Decode    Step // commands; a door turns the request into parts
	Propose   Step // commands; from Propose to its answer, the queue included
	Append    Step // log entries; the write to the log file, without its sync
	Sync      Step // log entries; one fdatasync
	Replicate Step // log entries; from sending to a member to its acknowledgement, on the leader
	Commit    Step // log entries; from proposing an entry to knowing that it is committed, on the leader
	Apply     Step // commands; one entry through the machines and into the store
	Reply     Step // commands; a door turns the result into an answer and sends it
}

// Each calls fn for every step in the order a write meets them. Names are lower case and never change: dashboards and
// alerts are written against them.
func (s *Steps) Each(fn func(name string, step *Step)) {
	fn("decode", &s.Decode)
	fn("propose", &s.Propose)
	fn("append", &s.Append)
	fn("sync", &s.Sync)
	fn("replicate", &s.Replicate)
	fn("commit", &s.Commit)
	fn("apply", &s.Apply)
	fn("reply", &s.Reply)
}
