package lock

// circle looks whether the request of an owner that has begun to wait closes a circle, and returns the owner that is to give up. Nil: there is no
// circle. The lightest of the circle gives up; of several the one that has closed the circle, if it is among them.
func (t *Table) circle(o *Owner) *Owner {
	if o.waits == nil || o.blocked == 0 { // nobody waits for it
		return nil
	}
	t.round++
	var path []*Owner
	if !t.follow(o, o, &path) {
		return nil
	}
	victim := o
	for _, other := range path {
		if other.weight < victim.weight {
			victim = other
		}
	}
	return victim
}

// follow looks for a way from an owner to the target along those that each one waits for. It appends the owners of the way, the last one first.
func (t *Table) follow(from, target *Owner, path *[]*Owner) bool {
	r := from.waits
	if r == nil || from.round == t.round {
		return false
	}
	from.round = t.round
	visit := func(next *Owner) bool {
		if next == target || t.follow(next, target, path) {
			*path = append(*path, from)
			return true
		}
		return false
	}
	for i := range r.on.holds {
		if h := &r.on.holds[i]; h.owner != from && h.modes&conflicts[r.mode] != 0 && visit(h.owner) {
			return true
		}
	}
	// Of the requests before its own the nearest Exclusive one stands for all before it, because it waits for them itself.
	at := 0
	for at < len(r.on.queue) && r.on.queue[at] != r {
		at++
	}
	for at--; at >= 0; at-- {
		before := r.on.queue[at]
		if conflicts[r.mode]&(1<<before.mode) == 0 {
			continue
		}
		if visit(before.owner) {
			return true
		}
		if before.mode == Exclusive {
			break
		}
	}
	return false
}
