package node

import (
	"maps"
	"slices"
	"sync"
)

// logRetention is the default of Config.LogRetention.
const logRetention = 1 << 30

// retention is the part of the log kept for readers that have yet to read it (Committed). It is in memory only: after a start the names in
// Config.Retain hold all there is until they have said what they want. Any goroutine.
type retention struct {
	mu   sync.Mutex
	held map[string]hold // by name; guarded by mu
}

type hold struct {
	from uint64 // the first index that is wanted; 0: not said yet
	lost bool   // a part of that is gone
}

// Retained is one reader that the log is kept for, by its call of Retain.
type Retained struct {
	Name string
	// From is the first index that is wanted, 0 if that was not said since the start.
	From uint64
	// Lost: the log begins after From, because it had reached Config.LogRetention, or because this member was given a snapshot.
	Lost bool
}

// Retain keeps the log from the index from on, for the reader of that name. The reader calls it again with a higher index to release the
// rest. The log never grows beyond Config.LogRetention for it: then the oldest entries go, with one warning in this member's log, and
// Committed answers ErrTruncated. Entries that are gone do not come back. Safe for concurrent use; it waits for nothing.
func (n *Node) Retain(name string, from uint64) {
	n.retention.mu.Lock()
	defer n.retention.mu.Unlock()
	n.retention.set(name, from)
}

// Release keeps nothing for that name any more.
func (n *Node) Release(name string) {
	n.retention.mu.Lock()
	defer n.retention.mu.Unlock()
	delete(n.retention.held, name)
}

// Retained lists what the log is kept for, by name. Safe for concurrent use.
func (n *Node) Retained() []Retained {
	n.retention.mu.Lock()
	defer n.retention.mu.Unlock()
	var all []Retained
	for _, name := range slices.Sorted(maps.Keys(n.retention.held)) {
		h := n.retention.held[name]
		all = append(all, Retained{Name: name, From: h.from, Lost: h.lost})
	}
	return all
}

// set notes what a name wants; the caller holds mu, or is alone.
func (r *retention) set(name string, from uint64) {
	if r.held == nil {
		r.held = map[string]hold{}
	}
	r.held[name] = hold{from: from}
}

// upTo returns the index up to which the log may be truncated: to, or a lower one that a reader still needs. It is never below must, which
// is at most to.
func (r *retention) upTo(to, must uint64) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	may := to
	for _, h := range r.held { // any order: the lowest counts
		may = min(may, max(h.from, 1)-1)
	}
	return min(to, max(may, must))
}

// cut notes that the log is truncated up to the index to. It returns the readers that lose entries and were not told yet, by name.
func (r *retention) cut(to uint64) (lose []Retained) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(r.held)) {
		if h := r.held[name]; h.from <= to && !h.lost {
			h.lost = true
			r.held[name] = h
			lose = append(lose, Retained{Name: name, From: h.from, Lost: true})
		}
	}
	return lose
}

// letGo logs that the log is truncated up to the index to, even where readers still need entries. Loop only.
func (n *Node) letGo(to uint64, why string) {
	for _, l := range n.retention.cut(to) {
		n.log.Warn("the log goes before it was read", "by", l.Name, "wanted", l.From, "goes", to, "why", why)
	}
}
