package footprint

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/internal/wait"
)

// kept is where the test's garbage goes, so that it lies on the heap.
var kept [][]byte

// TestKeep works in this process and has it come to rest: Rest is called once, and the memory it frees is not resident afterwards.
func TestKeep(t *testing.T) {
	const held = 64 << 20
	rests := make(chan int64, 8)
	stop := Keep(Options{
		Periods: Periods{Garbage: 200 * time.Millisecond, Caches: 400 * time.Millisecond},
		Aim:     true,
		Rest: func() {
			kept = nil
			rests <- resident(t)
		},
	})
	defer stop()
	for range held >> 20 {
		b := make([]byte, 1<<20)
		for i := 0; i < len(b); i += 4096 {
			b[i] = 1
		}
		kept = append(kept, b)
	}
	var before int64
	select {
	case before = <-rests:
	case <-time.After(wait.Limit(t)):
		t.Fatal("it did not come to rest")
	}
	wait.Until(t, "what was let go of is given back", func() bool { return before-resident(t) > held/2 })
	for range 3 { // collections alone are no work
		runtime.GC()
	}
	select {
	case <-rests:
		t.Error("at rest it was called again")
	case <-time.After(time.Second):
	}
}

// resident is the anonymous memory of this process. Any goroutine.
func resident(t *testing.T) int64 {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Error(err)
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "RssAnon:"); ok {
			n, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			if err != nil {
				t.Error(err)
			}
			return n << 10
		}
	}
	t.Error("the kernel does not say what is resident")
	return 0
}
