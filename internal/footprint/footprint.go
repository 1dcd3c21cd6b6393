// Package footprint makes a process small again when its work is over, and sets the garbage collector's target by the live heap meanwhile.
// It does not bound the memory held: that is internal/budget, whose limit stays a ceiling.
//
// Go collects when the heap has grown by a part of what lives, and gives freed pages back to the kernel slowly. A server that has done a
// second of work was four times as large as before for hours. A process at rest has no timer of this package: the end of a collection wakes
// it. Without work there is only the collection that the runtime makes every two minutes.
package footprint

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/holdfastdb/holdfast/internal/startpages"
)

// Options of Keep.
type Options struct {
	// Periods of quiet; zero: Usual.
	Periods Periods
	// Aim: GOGC is set as well. Leave it out where the operator has set it.
	Aim bool
	// Rest, if not nil, is called when the process has come to rest: it frees memory that only speeds up later work. It may take its time,
	// and the freed memory is given back afterwards.
	Rest func()
}

// keeper belongs to the one goroutine of Keep.
type keeper struct {
	opt     Options
	policy  policy
	begun   time.Time
	percent int
	metrics []metrics.Sample
}

// Keep does this until the process ends or stop is called. There is one at a time.
func Keep(opt Options) (stop func()) {
	if opt.Periods == (Periods{}) {
		opt.Periods = Usual
	}
	k := &keeper{opt: opt, policy: policy{periods: opt.Periods}, begun: time.Now(), percent: -1}
	for _, name := range []string{allocated, "/gc/heap/live:bytes", "/gc/scan/stack:bytes", "/gc/scan/globals:bytes", "/gc/scan/heap:bytes"} {
		k.metrics = append(k.metrics, metrics.Sample{Name: name})
	}
	quit, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		k.run(quit)
	}()
	return func() {
		close(quit)
		<-ended
	}
}

const allocated = "/gc/heap/allocs:bytes"

func (k *keeper) run(quit chan struct{}) {
	collected := make(chan struct{}, 1)
	hear(collected, quit)
	look := time.NewTimer(k.opt.Periods.look()) // a start is work
	defer look.Stop()
	for looking := true; ; {
		select {
		case <-quit:
			return
		case <-collected:
			k.aim()
		case <-look.C:
			looking = false
		}
		now, bytes := time.Since(k.begun), k.allocated()
		k.policy.sample(now, bytes)
		if s := k.policy.due(now); s != nothing {
			k.give(s)
			k.policy.settle(s, time.Since(k.begun), k.allocated())
			k.aim()
		}
		if !k.policy.atRest() && !looking {
			look.Reset(k.opt.Periods.look())
			looking = true
		}
	}
}

// hear has collected hear of every collection until quit is closed: the runtime calls a finalizer when one has found its object unreachable.
func hear(collected, quit chan struct{}) {
	type object struct{ _ *byte } // with a pointer: objects without share their place with others
	var again func(o *object)
	again = func(o *object) {
		select {
		case <-quit:
			return
		case collected <- struct{}{}:
		default:
		}
		runtime.SetFinalizer(o, again)
	}
	runtime.SetFinalizer(new(object), again)
}

func (k *keeper) allocated() uint64 {
	s := k.metrics[:1]
	metrics.Read(s)
	return s[0].Value.Uint64()
}

// aim sets GOGC by the result of the last collection.
func (k *keeper) aim() {
	if !k.opt.Aim {
		return
	}
	metrics.Read(k.metrics)
	n := func(i int) uint64 { return k.metrics[i].Value.Uint64() }
	h := heap{live: n(1), roots: n(2) + n(3), scanned: n(2) + n(3) + n(4)}
	to := h.percent(k.policy.done != nothing)
	if d := to - k.percent; k.percent >= 0 && d*d*64 <= k.percent*k.percent { // setting it stops the world for a moment, and an eighth is as good
		return
	}
	debug.SetGCPercent(to)
	k.percent = to
}

func (k *keeper) give(s step) {
	if s == giveCaches && k.opt.Rest != nil {
		k.opt.Rest()
	}
	GiveBack()
}

// GiveBack gives the kernel every page that is not in use, after a collection.
func GiveBack() {
	debug.FreeOSMemory()
	startpages.Forget()
}
