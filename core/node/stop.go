package node

import (
	"errors"
	"github.com/holdfastdb/holdfast/core/disk"
	"sync"
	"sync/atomic"

	"github.com/holdfastdb/holdfast/core/store"
)

// life is how a node ends. Any goroutine.
type life struct {
	lock disk.Unlocker
	dead chan struct{} // closed when the loop has ended
	stop chan struct{} // closed to end the loop
	once sync.Once
	wg   sync.WaitGroup
	// failure is why the node died; set before dead is closed.
	failure  atomic.Pointer[error]
	stopping atomic.Bool
	closeNet Transport // the network Start made; closed with the node
}

// Stop ends the node without waiting for commands in flight. Idempotent.
func (n *Node) Stop() {
	n.stopping.Store(true)
	n.once.Do(func() { close(n.stop) })
	if n.cfg.Manual {
		n.die(nil) // its driver ends its tasks
	} else {
		n.wg.Wait()
	}
	if n.closeNet != nil {
		n.closeNet.Close()
	}
	n.closeFiles()
}

func (n *Node) closeFiles() {
	n.views.close()
	if n.store != nil {
		if err := n.store.Close(); err != nil && !errors.Is(err, store.ErrReplaced) {
			n.log.Warn("close store", "err", err)
		}
		n.store = nil
	}
	if n.wal != nil {
		n.wal.Close()
		n.wal = nil
	}
	if n.lock != nil {
		n.lock.Unlock()
		n.lock = nil
	}
}

// StoppedC is closed when the node has stopped. Failure then returns the reason, nil after Stop.
func (n *Node) StoppedC() <-chan struct{} { return n.dead }

// Failure is the reason of a fatal stop.
func (n *Node) Failure() error {
	if p := n.failure.Load(); p != nil {
		return *p
	}
	return nil
}

// die ends the loop's service: nothing is answered from here on.
func (n *Node) die(err error) {
	select {
	case <-n.dead:
		return
	default:
	}
	n.stopping.Store(true)
	if err != nil {
		n.failure.Store(&err)
		n.log.Error("stopped", "err", err)
	}
	close(n.dead)
	n.pubChange.notify()
	if err != nil && n.cfg.OnFatal != nil {
		n.cfg.OnFatal(err)
	}
}
