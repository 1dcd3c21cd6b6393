package watch

import (
	"bytes"
	"math/rand/v2"
)

// rangeTree finds the watched ranges that contain a key. It is a treap ordered by the ranges' starts in which every node knows the furthest
// end below it. So a search skips ranges that end too early. Thousands of watchers of one range are one node. It is owned by the holder of
// the hub's mutex.
type rangeTree struct{ root *rangeNode }

type rangeNode struct {
	group       *group
	priority    uint64
	left, right *rangeNode
	furthest    []byte // of the ends in this subtree
}

// compareEnds orders ends, of which "\0" is the furthest.
func compareEnds(a, b []byte) int {
	switch la, lb := isToLast(a), isToLast(b); {
	case la && lb:
		return 0
	case la:
		return 1
	case lb:
		return -1
	}
	return bytes.Compare(a, b)
}

func compareRanges(key, end []byte, n *rangeNode) int {
	if c := bytes.Compare(key, n.group.key); c != 0 {
		return c
	}
	return compareEnds(end, n.group.end)
}

func (n *rangeNode) update() {
	n.furthest = n.group.end
	for _, child := range [2]*rangeNode{n.left, n.right} {
		if child != nil && compareEnds(child.furthest, n.furthest) > 0 {
			n.furthest = child.furthest
		}
	}
}

// at returns the group of a range, made if there was none.
func (t *rangeTree) at(key, end []byte) *group {
	for n := t.root; n != nil; {
		switch c := compareRanges(key, end, n); {
		case c == 0:
			return n.group
		case c < 0:
			n = n.left
		default:
			n = n.right
		}
	}
	g := &group{key: key, end: end}
	n := &rangeNode{group: g, priority: rand.Uint64()}
	n.update()
	before, after := split(t.root, key, end)
	t.root = merge(merge(before, n), after)
	return g
}

// remove takes out the group of a range.
func (t *rangeTree) remove(key, end []byte) { t.root = remove(t.root, key, end) }

func remove(n *rangeNode, key, end []byte) *rangeNode {
	if n == nil {
		return nil
	}
	switch c := compareRanges(key, end, n); {
	case c == 0:
		return merge(n.left, n.right)
	case c < 0:
		n.left = remove(n.left, key, end)
	default:
		n.right = remove(n.right, key, end)
	}
	n.update()
	return n
}

// split parts n into the ranges before (key, end) and those after.
func split(n *rangeNode, key, end []byte) (before, after *rangeNode) {
	if n == nil {
		return nil, nil
	}
	if compareRanges(key, end, n) > 0 {
		n.right, after = split(n.right, key, end)
		n.update()
		return n, after
	}
	before, n.left = split(n.left, key, end)
	n.update()
	return before, n
}

// merge joins two trees of which a is before b.
func merge(a, b *rangeNode) *rangeNode {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	case a.priority > b.priority:
		a.right = merge(a.right, b)
		a.update()
		return a
	}
	b.left = merge(a, b.left)
	b.update()
	return b
}

// stab calls fn for every range that contains key.
func (t *rangeTree) stab(key []byte, fn func(*group)) { stab(t.root, key, fn) }

func stab(n *rangeNode, key []byte, fn func(*group)) {
	for n != nil && (isToLast(n.furthest) || bytes.Compare(key, n.furthest) < 0) {
		stab(n.left, key, fn)
		if bytes.Compare(key, n.group.key) < 0 {
			return // so does everything to the right
		}
		if isToLast(n.group.end) || bytes.Compare(key, n.group.end) < 0 {
			fn(n.group)
		}
		n = n.right
	}
}

// covers reports whether any range contains key.
func (t *rangeTree) covers(key []byte) bool { return covers(t.root, key) }

func covers(n *rangeNode, key []byte) bool {
	for n != nil && (isToLast(n.furthest) || bytes.Compare(key, n.furthest) < 0) {
		if covers(n.left, key) {
			return true
		}
		if bytes.Compare(key, n.group.key) < 0 {
			return false // so does everything to the right
		}
		if isToLast(n.group.end) || bytes.Compare(key, n.group.end) < 0 {
			return true
		}
		n = n.right
	}
	return false
}

// groups lists all groups in order.
func (t *rangeTree) groups() []*group { return collect(t.root, nil) }

func collect(n *rangeNode, into []*group) []*group {
	if n == nil {
		return into
	}
	into = append(collect(n.left, into), n.group)
	return collect(n.right, into)
}
