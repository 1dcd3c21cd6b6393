package server

import (
	"os"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/holdfastdb/holdfast/core/node"
)

// For how much of the time one processor would be in use decides how many the Go runtime has. Between the two shares it stays as it is.
const (
	fewBelow = 0.5
	allAbove = 0.65
	// fewAfter is how long it must have been below fewBelow.
	fewAfter = 300 * time.Millisecond
	// fewSync is the longest mean sync for one processor: while it lasts, the thread that waits for the disk may hold that processor.
	fewSync = time.Millisecond
	// leastSpan is the shortest time that says something about the load.
	leastSpan = 50 * time.Millisecond
)

// processors has a server with little to do run on one of the runtime's processors. A put passes from goroutine to goroutine six times.
// With an idle processor beside the busy one, each time wakes a thread that looks for work. At 500 puts a second, one at a time, that was a
// quarter of the CPU, and each put took a fifth longer. Under load both processors have work and no thread is woken.
//
// Changes are rare, since each stops the world for a moment. It has no timer. It is told of raft's ticks, which an idle member has anyway,
// and of work for two processors, which would end before the next tick. Owned by the node's loop, which applies entries as well.
type processors struct {
	all int
	few bool

	at, used time.Duration // of the last look, and for how long processors had been in use by then
	loadedAt time.Duration // when there was load last
}

// runtimeProcessors sets the runtime's processors, on a goroutine of its own: the call waits for the end of a running collection.
type runtimeProcessors struct {
	want atomic.Int32
	busy atomic.Bool // the goroutine runs
}

func (r *runtimeProcessors) set(n int) {
	r.want.Store(int32(n))
	if r.busy.CompareAndSwap(false, true) {
		go r.follow()
	}
}

func (r *runtimeProcessors) follow() {
	for {
		n := r.want.Load()
		slack := sysmonSlack
		if n == 1 {
			slack = sysmonSlackRest
		}
		runtime.GOMAXPROCS(int(n))
		slackSysmon(slack)
		if r.want.Load() != n {
			continue
		}
		r.busy.Store(false)
		if r.want.Load() == n || !r.busy.CompareAndSwap(false, true) {
			return
		}
	}
}

// adaptProcessors returns the receivers of ticks and of work for more than one processor; nil if the operator has set the number of
// processors.
func adaptProcessors(getenv func(string) string) (ticked func(node.Syncs), parallel func()) {
	if getenv("HOLDFAST_GOMAXPROCS") != "" || getenv("GOMAXPROCS") != "" {
		return nil, nil
	}
	p, r, begun := &processors{all: runtime.GOMAXPROCS(0)}, new(runtimeProcessors), time.Now()
	ticked = func(s node.Syncs) {
		if used, ok := processCPU(); ok && p.tick(time.Since(begun), used+s.Total, s.Mean) {
			r.set(p.want())
		}
	}
	parallel = func() {
		if p.demand(time.Since(begun)) {
			// Here and not apart, where the goroutine would get the one processor when a part of the work is done.
			r.want.Store(int32(p.want()))
			runtime.GOMAXPROCS(p.want())
			r.set(p.want())
		}
	}
	return ticked, parallel
}

// demand takes in that there is work for more than one processor now, and reports whether want has changed.
func (p *processors) demand(now time.Duration) bool {
	changed := p.few
	p.few, p.loadedAt = false, now
	return changed
}

// tick records how long processors have been in use by now, for work or by a thread that syncs the log. It also records the duration of a
// sync. It reports whether want has changed.
func (p *processors) tick(now, used, sync time.Duration) bool {
	span := now - p.at
	if span < leastSpan {
		return false
	}
	share := float64(used-p.used) / float64(span)
	p.at, p.used = now, used
	few := p.few
	switch {
	case share > allAbove || sync > fewSync:
		few, p.loadedAt = false, now
	case share > fewBelow && !few:
		p.loadedAt = now
	case now-p.loadedAt >= fewAfter:
		few = true
	}
	changed := few != p.few
	p.few = few
	return changed
}

// want is how many processors the runtime should have.
func (p *processors) want() int {
	if p.few {
		return 1
	}
	return p.all
}

// processCPU is the CPU that this process has used.
func processCPU() (time.Duration, bool) {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return 0, false // then the number stays what it is
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano()), true
}

// fitProcessors has the process adapt to its load. For a process that is this server and nothing else.
func (su *Setup) fitProcessors() { su.Node.Ticked, su.Node.Parallel = adaptProcessors(os.Getenv) }
