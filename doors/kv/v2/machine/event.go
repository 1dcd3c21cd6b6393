package machine

import "slices"

// Action is the change to a node, or Get for a read. The numbers are in history rows: never renumber.
type Action uint8

// The actions, in etcd's words.
const (
	Get Action = iota
	Set
	Create
	Update
	CompareAndSwap
	Delete
	CompareAndDelete
	Expire
)

var actionNames = [...]string{"get", "set", "create", "update", "compareAndSwap", "delete", "compareAndDelete", "expire"}

// String is the word in etcd's JSON.
func (a Action) String() string {
	if int(a) < len(actionNames) {
		return actionNames[a]
	}
	return "unknown"
}

// Node is what others see of a node. Its memory is shared: do not modify.
type Node struct {
	Path  []byte
	Value []byte // of a key
	Dir   bool
	// Expiration is Unix time in ns, 0 = the node stays; TTL how many seconds it had left, rounded up.
	Expiration, TTL   int64
	Created, Modified uint64
}

// Event is one change of the tree. It is immutable and may be kept.
type Event struct {
	Action Action
	// Refresh: only the TTL changed; no watcher is told.
	Refresh bool
	HasPrev bool
	Node    Node
	Prev    Node // the node before; its Path is the same
	// Gone are the paths below a directory that was removed, in order of bytes: watches on them are told. AllGone: there were
	// too many to list, or the event was read from the store; then any path below may have been one.
	Gone    []string
	AllGone bool
}

// maxGone is how many paths an event lists.
const maxGone = 1024

// Index is the place of the event in the order of changes.
func (e *Event) Index() uint64 { return e.Node.Modified }

// eventOverhead is an event's memory beside its bytes.
const eventOverhead = 240

func (e *Event) bytes() int {
	n := eventOverhead + len(e.Node.Path) + len(e.Node.Value) + len(e.Prev.Value)
	for _, p := range e.Gone {
		n += 16 + len(p)
	}
	return n
}

// gone notes a path below a directory that is removed.
func (e *Event) gone(path []byte) {
	if len(e.Gone) == maxGone {
		e.Gone, e.AllGone = nil, true
	}
	if !e.AllGone {
		e.Gone = append(e.Gone, string(path))
	}
}

// Removed reports whether the event removed what was at path, which lies below its node.
func (e *Event) Removed(path string) bool {
	_, found := slices.BinarySearch(e.Gone, path)
	return found || e.AllGone
}

// view is what others see of a node at the given tick.
func (n *node) view(path []byte, tick int64) Node {
	v := Node{Path: path, Value: n.value, Dir: n.dir, Created: n.created, Modified: n.modified}
	if n.deadline != 0 {
		v.Expiration, v.TTL = n.expiration, SecondsLeft(n.deadline, tick)
	}
	return v
}

// SecondsLeft is the time from tick to deadline in seconds, rounded as etcd rounds. A remaining fraction counts as one; a deadline that has
// passed counts as zero until a whole second is over.
func SecondsLeft(deadline, tick int64) int64 {
	left := deadline - tick
	s := left / 1000
	if left%1000 > 0 {
		s++
	}
	return s
}
