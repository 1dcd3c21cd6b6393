package server

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/core/node"
	"github.com/holdfastdb/holdfast/internal/wait"
)

// workload has a process use a share of a core for d, looked at every 100 ms, and returns how many processors it wants then.
type workload struct {
	p         processors
	now, used time.Duration
	changes   int
}

func (l *workload) goOn(d time.Duration, share float64, sync time.Duration) int {
	for end := l.now + d; l.now < end; {
		l.now += 100 * time.Millisecond
		l.used += time.Duration(share * float64(100*time.Millisecond))
		if l.p.tick(l.now, l.used, sync) {
			l.changes++
		}
	}
	return l.p.want()
}

func TestOneProcessorForLittleWork(t *testing.T) {
	const fast = 200 * time.Microsecond
	l := &workload{p: processors{all: 4}}
	for _, c := range []struct {
		what  string
		d     time.Duration
		share float64
		sync  time.Duration
		want  int
	}{
		{"just started", 200 * time.Millisecond, 0.1, fast, 4},
		{"little work", 500 * time.Millisecond, 0.1, fast, 1},
		{"more work, and one is still enough", 5 * time.Second, 0.6, fast, 1},
		{"load", 100 * time.Millisecond, 0.9, fast, 4},
		{"load that has become less", 200 * time.Millisecond, 0.1, fast, 4},
		{"a burst", 100 * time.Millisecond, 0.7, fast, 4},
		{"the burst is not long ago", 200 * time.Millisecond, 0.1, fast, 4},
		{"nothing to do", 200 * time.Millisecond, 0, fast, 1},
		{"a slow disk", 100 * time.Millisecond, 0.1, 1100 * time.Microsecond, 4},
		{"a slow disk goes on", 10 * time.Second, 0.1, 1100 * time.Microsecond, 4},
		{"a load between both", 10 * time.Second, 0.6, fast, 4},
	} {
		if got := l.goOn(c.d, c.share, c.sync); got != c.want {
			t.Fatalf("%s: %d processors instead of %d", c.what, got, c.want)
		}
	}
	if l.changes != 4 {
		t.Errorf("%d changes, each of which stops the world, instead of 4", l.changes)
	}
}

// Ticks that come at once after a pause say nothing about the load.
func TestTicksInARowAreNoLoad(t *testing.T) {
	p := processors{all: 2, few: true}
	p.tick(time.Second, 0, 0)
	if p.tick(time.Second+time.Millisecond, time.Millisecond, 0) || p.want() != 1 {
		t.Error("a millisecond of work was taken for load")
	}
}

func TestProcessorsOfTheOperatorStay(t *testing.T) {
	for _, name := range []string{"HOLDFAST_GOMAXPROCS", "GOMAXPROCS"} {
		if ticked, parallel := adaptProcessors(func(n string) string { return map[string]string{name: "3"}[n] }); ticked != nil || parallel != nil {
			t.Errorf("%s is not kept to", name)
		}
	}
}

func TestTheRuntimeGetsThem(t *testing.T) {
	all := runtime.GOMAXPROCS(0)
	defer runtime.GOMAXPROCS(all)
	if all == 1 {
		runtime.GOMAXPROCS(2)
	}
	defer func(was string) { sysmonSetting = was }(sysmonSetting)
	sysmonSetting = filepath.Join(t.TempDir(), "slack")
	tick, parallel := adaptProcessors(func(string) string { return "" })
	await := func(what string, n int, sync time.Duration, slack string) {
		t.Helper()
		set := func() bool {
			b, _ := os.ReadFile(sysmonSetting) // missing at first
			return runtime.GOMAXPROCS(0) == n && string(b) == slack
		}
		for end := time.Now().Add(wait.Limit(t)); !set(); time.Sleep(10 * time.Millisecond) {
			tick(node.Syncs{Mean: sync})
			if time.Now().After(end) {
				t.Fatalf("%s: %d processors instead of %d", what, runtime.GOMAXPROCS(0), n)
			}
		}
	}
	await("nothing to do", 1, 0, sysmonSlackRest)
	waited := time.Duration(0)
	for end := time.Now().Add(wait.Limit(t)); runtime.GOMAXPROCS(0) == 1; time.Sleep(60 * time.Millisecond) {
		waited += 60 * time.Millisecond
		tick(node.Syncs{Total: waited})
		if time.Now().After(end) {
			t.Fatal("one processor, which is always with the thread that waits for the disk")
		}
	}
	await("nothing to do again", 1, 0, sysmonSlackRest)
	parallel()
	for end := time.Now().Add(wait.Limit(t)); runtime.GOMAXPROCS(0) == 1; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("one processor for work that two share")
		}
	}
	await("that is over", 1, 0, sysmonSlackRest)
	await("a slow disk", max(2, all), time.Second, sysmonSlack)
}
