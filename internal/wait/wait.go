// Package wait is how tests wait for another goroutine or process: they look again and again until the condition holds. Never for luck, by
// a sleep that is hoped to be long enough. Time fails no test: a wait ends when the run does (`go test -timeout`), with a word on the
// awaited condition.
package wait

import (
	"context"
	"math"
	"os"
	"testing"
	"time"
)

const (
	// margin is the time that a failed wait leaves of its run for its message, before `go test -timeout` ends the process. Of a short run
	// it leaves a tenth.
	margin = 5 * time.Second
	// unbounded is the limit of a run without -timeout, of a benchmark, and of a bubble.
	unbounded = time.Hour
	// sayAfter is when a wait names what it waits for, for who watches a run.
	sayAfter = 20 * time.Second
)

// most bounds each wait by the environment variable WAIT_MOST, such as 20s; 0: it does not. It is for programs that break code on purpose, whose
// tests wait in vain by the hundred (scripts/gremlins.sh).
var most, _ = time.ParseDuration(os.Getenv("WAIT_MOST"))

// Limit returns how long the test may wait for one thing: until shortly before the run is ended by -timeout, or for most. In a bubble of testing/synctest, whose
// clock is its own, it is unbounded.
func Limit(t testing.TB) time.Duration {
	end, ok := runEnds(t)
	if !ok {
		return unbounded
	}
	left := time.Until(end)
	left = max(left-min(margin, left/10), 0)
	if most > 0 {
		left = min(left, most)
	}
	return left
}

// runEnds returns when -timeout ends the run of a test, and whether it does.
func runEnds(t testing.TB) (end time.Time, ok bool) {
	defer func() {
		if recover() != nil { // Deadline panics in a bubble, and nothing else says that this is one
			ok = false
		}
	}()
	if t, timed := t.(interface{ Deadline() (time.Time, bool) }); timed {
		return t.Deadline()
	}
	return time.Time{}, false
}

// Context returns a context for calls that the test expects to end by themselves. It is done with the test, or at its Limit.
func Context(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Limit(t))
	t.Cleanup(cancel)
	return ctx
}

// Until returns once ok does, and ends the test at its Limit. what names the awaited condition.
func Until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	began := time.Now()
	said := false
	for end := began.Add(Limit(t)); !ok(); time.Sleep(time.Millisecond) {
		now := time.Now()
		if now.After(end) {
			t.Fatalf("not within %v: %s", now.Sub(began).Round(time.Second), what)
		}
		if !said && now.Sub(began) > sayAfter {
			t.Logf("still waiting: %s", what)
			said = true
		}
	}
}

// For returns the next value of c, the zero value if c is closed, and ends the test at its Limit. what names the awaited condition.
func For[T any](t testing.TB, what string, c <-chan T) T {
	t.Helper()
	limit := Limit(t)
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case v := <-c:
		return v
	case <-timer.C:
		t.Fatalf("not within %v: %s", limit.Round(time.Second), what)
		panic("not reached")
	}
}

// quickTries is how often Quickly looks.
const quickTries = 200

// Quickly fails the test unless one of many runs of do takes at most d. A machine that is busy makes a run slow now and then. A program that is slow
// by itself is slow each time. do can run many times, and says itself what else is wrong.
func Quickly(t testing.TB, what string, d time.Duration, do func()) {
	t.Helper()
	least := time.Duration(math.MaxInt64)
	end := time.Now().Add(Limit(t))
	for try := 0; try < quickTries && time.Now().Before(end); try++ {
		began := time.Now()
		do()
		if least = min(least, time.Since(began)); least <= d || t.Failed() {
			return
		}
	}
	t.Errorf("%s: %v at least, want %v at most", what, least, d)
}
