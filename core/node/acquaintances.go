package node

import (
	"errors"
	"fmt"
	"sync"

	"github.com/holdfastdb/holdfast/core/entry"
)

// acquaintances are members that the log here does not name yet. This member heard of them from the member that admitted
// it, or from themselves over an accepted connection.
type acquaintances struct {
	mu  sync.Mutex
	ids map[uint64]struct{} // guarded by mu
}

func (a *acquaintances) add(id uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ids == nil {
		a.ids = map[uint64]struct{}{}
	}
	a.ids[id] = struct{}{}
}

func (a *acquaintances) has(id uint64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, ok := a.ids[id]
	return ok
}

// maxAcquaintances bounds those that have introduced themselves. More members than that were never away at once.
const maxAcquaintances = 64

func (a *acquaintances) full() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.ids) >= maxAcquaintances
}

// knows reports whether id is another member, or is about to be: only those are heard. Safe for concurrent use.
func (n *Node) knows(id uint64) bool {
	if id == n.id {
		return false
	}
	if _, ok := n.members.Get(id); ok {
		return true
	}
	return n.pending.has(id) && !n.members.Removed(id)
}

// errStranger refuses everything from a sender that is not in the member list.
var errStranger = errors.New("it is no member of this cluster")

// readable returns the fault of an entry's data that another member wants appended, nil for none. At Apply it would stop this process, and
// again at each of its restarts. Loop only.
func (n *Node) readable(data []byte) error {
	_, rest, err := entry.DecodeHeader(data)
	for err == nil && len(rest) > 0 {
		var cmd []byte
		if cmd, rest, err = entry.Next(rest); err != nil {
			break
		}
		if err = n.arrived.Decode(cmd); err == nil {
			err = n.applier.Applicable(n.arrived.Parts)
		}
	}
	if err != nil {
		return fmt.Errorf("its commands cannot be applied: %w", err)
	}
	return nil
}
