package lock

// circle looks whether the request of a party that has begun to wait closes a circle, and returns the party that is to give up. Nil: there is no
// circle. The lightest of the circle gives up; of several the one that has closed the circle, if it is among them.
func (t *Table) circle(p *party) *party {
	if p.waits == nil || p.blocked == 0 { // nobody waits for it
		return nil
	}
	t.round++
	var path []*party
	if !t.follow(p, p, &path) {
		return nil
	}
	victim := p
	for _, other := range path {
		if other.weight < victim.weight {
			victim = other
		}
	}
	return victim
}

// follow looks for a way from a party to the target along those that each one waits for. It appends the parties of the way, the last one first.
func (t *Table) follow(from, target *party, path *[]*party) bool {
	r := from.waits
	if r == nil || from.round == t.round {
		return false
	}
	from.round = t.round
	visit := func(next *party) bool {
		if next == target || t.follow(next, target, path) {
			*path = append(*path, from)
			return true
		}
		return false
	}
	for i := range r.on.holds {
		if h := &r.on.holds[i]; h.modes&conflicts[r.mode] != 0 && h.owner.party != from && visit(h.owner.party) {
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
		if visit(before.owner.party) {
			return true
		}
		if before.mode == Exclusive {
			break
		}
	}
	return false
}
