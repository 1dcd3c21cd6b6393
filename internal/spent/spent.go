// Package spent bounds a server's work for a request of unknown origin: CPU and memory in proportion to the request's size. It is for
// tests, and measures one goroutine, not work handed to others.
package spent

import (
	"flag"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The price: so much CPU for a million bytes, and so many bytes of memory, garbage included, for each byte. Free is the cost of a request
// that fills everything with a bound of its own, such as a thousand branches.
const (
	perMB   = 50 * time.Millisecond
	perByte = 4

	freeCPU   = 5 * time.Millisecond
	freeBytes = 1 << 20
)

// tries is how often the work is repeated before it counts as too dear. The machine is shared, and collecting garbage is charged to an
// allocating goroutine.
const tries = 8

// Within does the work on a request of size bytes, and fails the test if it costs more than the price each time. do may be called several times.
func Within(t testing.TB, what string, size int, do func()) {
	t.Helper()
	if why := over(size, do); why != "" {
		t.Errorf("%s, %d bytes: %s", what, size, why)
	}
}

// over names the excess, "" for none.
func over(size int, do func()) (why string) {
	cpu := freeCPU + perMB*time.Duration(size)/1_000_000
	if fuzzing() {
		cpu *= 6 // the code counts its branches
	}
	memory := uint64(freeBytes + perByte*size)
	for range tries {
		took, allocated := measure(do)
		if took <= cpu && allocated <= memory {
			return ""
		}
		why = fmt.Sprintf("%v of CPU where %v may be, %d bytes of memory where %d may be", took, cpu, allocated, memory)
	}
	return why
}

// measure does something and returns what CPU this thread and what memory the process has taken for it.
func measure(do func()) (time.Duration, uint64) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began := threadTime()
	do()
	took := threadTime() - began
	runtime.ReadMemStats(&after)
	return took, after.TotalAlloc - before.TotalAlloc
}

func threadTime() time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) != nil {
		return 0 // a system that does not say: memory is judged alone
	}
	return time.Duration(t.Nano())
}

func fuzzing() bool {
	f := flag.Lookup("test.fuzz")
	worker := flag.Lookup("test.fuzzworker")
	return f != nil && f.Value.String() != "" || worker != nil && strings.EqualFold(worker.Value.String(), "true")
}
