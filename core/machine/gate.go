package machine

import (
	"sync"
	"sync/atomic"
)

// Gate keeps readers from seeing half an entry: it is closed while a batch becomes visible, and no read can begin meanwhile. All machines
// of one applier share it, so everything read under it, of several machines too, is of one applied index. A reader of several rows takes
// them, and a View if it needs one, under RLock. One that looks at a single row takes no lock: it asks Version before and is right if the
// version is still the Same afterwards. The rejected design was a plain RWMutex for all: a read of one row from disk would then hold up
// Apply.
//
// Close and Open are called by the apply goroutine alone, the other methods by any. A machine publishes only while the gate is closed, or
// under Lock. The zero Gate is open.
type Gate struct {
	sync.RWMutex
	version atomic.Uint64 // odd while the gate is closed
	closed  bool          // apply goroutine only: it holds the lock
}

// Close waits for readers under the lock and admits no others. Closing a closed gate does nothing, nor does opening an open
// one, so that a caller after a failure need not know which it is.
func (g *Gate) Close() {
	if g.closed {
		return
	}
	g.Lock()
	g.version.Add(1)
	g.closed = true
}

// Open lets readers in again.
func (g *Gate) Open() {
	if !g.closed {
		return
	}
	g.closed = false
	g.version.Add(1)
	g.Unlock()
}

// Version returns what changes with each Close and Open, and whether the gate is open.
func (g *Gate) Version() (v uint64, open bool) {
	v = g.version.Load()
	return v, v&1 == 0
}

// Same reports whether the gate was neither closed nor opened since Version returned v.
func (g *Gate) Same(v uint64) bool { return g.version.Load() == v }

// Await returns once the gate is open.
func (g *Gate) Await() {
	g.RLock()
	defer g.RUnlock()
}
