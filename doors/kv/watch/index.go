package watch

import kvmachine "github.com/holdfastdb/holdfast/doors/kv/machine"

// index is a set of watchers by watched key or range. It belongs to the holder of the hub's mutex. A watcher is in one index at most.
type index struct {
	members int
	keys    map[string]*group
	ranges  rangeTree
	touched []*group // scratch of match
}

// group is the watchers of the same key or range. Guarded by hub.mu.
type group struct {
	key, end []byte // as in a watch request; end empty = the one key, "\0" = to the last key
	watchers []*Watcher

	// The events of the revision being matched: evs[from:to] of that revision, or picked once they are not adjacent.
	from, to int
	picked   []kvmachine.Event
}

func newIndex() index { return index{keys: make(map[string]*group)} }

// enter adds w, which is in no index.
func (x *index) enter(w *Watcher) {
	var g *group
	if len(w.End) == 0 {
		if g = x.keys[string(w.Key)]; g == nil {
			g = &group{key: w.Key}
			x.keys[string(w.Key)] = g
		}
	} else {
		g = x.ranges.at(w.Key, w.End)
	}
	w.in, w.group, w.slot = x, g, len(g.watchers)
	g.watchers = append(g.watchers, w)
	x.members++
}

// leave takes w out, which is in x.
func (x *index) leave(w *Watcher) {
	g := w.group
	last := len(g.watchers) - 1
	moved := g.watchers[last]
	g.watchers[w.slot], moved.slot = moved, w.slot
	g.watchers[last] = nil
	g.watchers = g.watchers[:last]
	w.in, w.group = nil, nil
	x.members--
	if last == 0 {
		if len(g.end) == 0 {
			delete(x.keys, string(g.key))
		} else {
			x.ranges.remove(g.key, g.end)
		}
	}
}

// all lists the watchers.
func (x *index) all() []*Watcher {
	all := make([]*Watcher, 0, x.members)
	for _, g := range x.keys { // any order: each is another group
		all = append(all, g.watchers...)
	}
	for _, g := range x.ranges.groups() {
		all = append(all, g.watchers...)
	}
	return all
}

// watches reports whether any of them watches key.
func (x *index) watches(key []byte) bool {
	return x.keys[string(key)] != nil || x.ranges.covers(key)
}

// match finds the groups that the events of one revision concern, and calls push with each and its events.
func (x *index) match(events []kvmachine.Event, push func(*group, []kvmachine.Event)) {
	for i := range events {
		key := events[i].KV.Key
		if g := x.keys[string(key)]; g != nil {
			x.touch(g, events, i)
		}
		x.ranges.stab(key, func(g *group) { x.touch(g, events, i) })
	}
	for _, g := range x.touched {
		hits := g.picked
		if hits == nil {
			hits = events[g.from:g.to:g.to]
		}
		g.from, g.to, g.picked = 0, 0, nil
		push(g, hits)
	}
	clear(x.touched)
	x.touched = x.touched[:0]
}

func (x *index) touch(g *group, events []kvmachine.Event, i int) {
	switch {
	case g.picked != nil:
		g.picked = append(g.picked, events[i])
	case g.to == 0:
		g.from, g.to = i, i+1
		x.touched = append(x.touched, g)
	case g.to == i:
		g.to++
	default:
		g.picked = append(append([]kvmachine.Event(nil), events[g.from:g.to]...), events[i])
	}
}

// ofOneRevision cuts the events of the first revision off.
func ofOneRevision(events []kvmachine.Event) (first, rest []kvmachine.Event) {
	n := 1
	for n < len(events) && events[n].KV.ModRevision == events[0].KV.ModRevision {
		n++
	}
	return events[:n:n], events[n:]
}
