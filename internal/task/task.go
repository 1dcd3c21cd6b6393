// Package task is the seam to goroutines: it starts parallel work and waits for it. A server uses goroutines. The simulation runs the same
// code as tasks of one goroutine that take turns, in the order its seed decides. So code that waits in the middle of a decision (workers,
// membership changes, a joining member) is part of a repeatable run. Code that uses it must wait in Wait and nowhere else. A select of its
// own, a channel of results or time.After would stop the one goroutine for good.
package task

import (
	"context"
	"time"
)

// Runner runs tasks.
type Runner interface {
	// Go runs f beside the caller.
	Go(f func())
	// Wait returns the position of a channel that can be received from, having done so, or -1 after d; below zero, d is for
	// ever. At most MaxWait channels; a nil one never is.
	Wait(d time.Duration, on ...<-chan struct{}) int
	// Timeout is context.WithTimeout of the background. Contexts derived from it in other ways may need goroutines.
	Timeout(d time.Duration) (context.Context, context.CancelFunc)
	// Yield is a point at which another task may run. Goroutines can be preempted anywhere, so for them it does nothing.
	Yield()
}

// Forever is the d of a Wait that only a channel ends.
const Forever = time.Duration(-1)

// MaxWait is how many channels one Wait takes.
const MaxWait = 6

// Goroutines is the Runner of a server.
type Goroutines struct{}

var _ Runner = Goroutines{}

// Go implements Runner.
func (Goroutines) Go(f func()) { go f() }

// Timeout implements Runner.
func (Goroutines) Timeout(d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), d)
}

// Yield implements Runner.
func (Goroutines) Yield() {}

// Wait implements Runner.
func (Goroutines) Wait(d time.Duration, on ...<-chan struct{}) int {
	var over <-chan time.Time
	if d >= 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		over = t.C
	}
	var c [MaxWait]<-chan struct{}
	if copy(c[:], on) < len(on) {
		panic("task: too many channels in one Wait")
	}
	select {
	case <-c[0]:
		return 0
	case <-c[1]:
		return 1
	case <-c[2]:
		return 2
	case <-c[3]:
		return 3
	case <-c[4]:
		return 4
	case <-c[5]:
		return 5
	case <-over:
		return -1
	}
}
