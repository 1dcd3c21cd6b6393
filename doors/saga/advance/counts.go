package advance

import (
	"sync/atomic"

	"github.com/holdfastdb/holdfast/doors/saga/outcall"
	sagapart "github.com/holdfastdb/holdfast/doors/saga/part"
)

// counters count what this process did while it led.
type counters struct {
	passes, succeed, failed atomic.Uint64
	calls                   [outcall.Refused + 1]atomic.Uint64 // by outcome
}

func (c *counters) called(o outcall.Outcome) {
	if int(o) < len(c.calls) {
		c.calls[o].Add(1)
	}
}

func (c *counters) ended(s sagapart.Status) {
	c.passes.Add(1)
	switch s {
	case sagapart.Succeed:
		c.succeed.Add(1)
	case sagapart.Failed:
		c.failed.Add(1)
	}
}

// Counts counts a worker's actions while its member led, and the transactions it has in memory now.
type Counts struct {
	// Passes that ended, and the transactions that ended with one of them.
	Passes, Succeed, Failed uint64
	// Calls that ended, by outcall.Outcome.
	Calls [outcall.Refused + 1]uint64
	// Running is how many transactions are in memory, Waiting how many are due and wait for room or for an endpoint.
	Running, Waiting int
	// Bytes is about what those that are in memory hold.
	Bytes int64
}

// Counts returns them. Any goroutine.
func (w *Worker) Counts() (c Counts) {
	c.Passes, c.Succeed, c.Failed = w.counts.passes.Load(), w.counts.succeed.Load(), w.counts.failed.Load()
	for i := range c.Calls {
		c.Calls[i] = w.counts.calls[i].Load()
	}
	if t := w.current(); t != nil {
		t.mu.Lock()
		c.Running, c.Waiting, c.Bytes = t.loaded, len(t.known)-t.loaded, t.bytes
		t.mu.Unlock()
	}
	return c
}
