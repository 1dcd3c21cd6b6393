package server

import (
	"os"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"
)

// How much of one core the process uses decides how many processors the Go runtime has. Between the two shares it stays as it is.
const (
	fewBelow = 0.35
	allAbove = 0.5
	// fewAfter is how long it must have been below fewBelow.
	fewAfter = 500 * time.Millisecond
	// fewSync is how long the log's syncs may take: for that long the one processor may be with the thread that waits for the disk.
	fewSync = 500 * time.Microsecond
	// leastSpan is the shortest time that says something about the load.
	leastSpan = 50 * time.Millisecond
)

// processors has a server with little to do run on one of the runtime's processors. A put passes from goroutine to goroutine six times, and with an
// idle processor beside the busy one each time wakes a thread that looks for work: of 500 puts a second, one at a time, that was a quarter of the CPU,
// and each took a fifth longer. Under load both have work and nobody is woken.
//
// Changes are rare, since each stops the world for a moment. Nothing of it is a timer: it is told of raft's ticks, which an idle member has anyway.
// Owned by the goroutine that calls tick, but for busy.
type processors struct {
	all  int
	few  bool
	busy atomic.Bool // a change is under way

	at, used time.Duration // of the last look, and the CPU used by then
	loadedAt time.Duration // when there was load last
}

// adaptProcessors returns what is to be told of ticks, nil if the operator has said how many processors there are.
func adaptProcessors(getenv func(string) string) func(sync time.Duration) {
	if getenv("HOLDFAST_GOMAXPROCS") != "" || getenv("GOMAXPROCS") != "" {
		return nil
	}
	p, begun := &processors{all: runtime.GOMAXPROCS(0)}, time.Now()
	return func(sync time.Duration) {
		if p.busy.Load() {
			return // the next tick is soon enough
		}
		used, ok := processCPU()
		if !ok || !p.tick(time.Since(begun), used, sync) {
			return
		}
		n := p.want()
		p.busy.Store(true)
		// Apart from the caller, which is raft's: the call waits for the end of a collection that is under way.
		go func() {
			defer p.busy.Store(false)
			runtime.GOMAXPROCS(n)
		}()
	}
}

// tick takes in that the process has used so much CPU by now and how long syncs of the log take. It reports whether want has changed.
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
func (su *Setup) fitProcessors() { su.Node.Ticked = adaptProcessors(os.Getenv) }
