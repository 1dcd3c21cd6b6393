package lock

// Shown is a lock that an owner has, or waits for, as others may see it.
type Shown struct {
	Key string // of what is locked; of a range that of the lock on its table
	// From and To are of a range: its first key, and the first behind its last.
	From, To string
	Range    bool
	Mode     Mode
	// Holder is the owner that has the lock; of one that is waited for, the first that is in the way. Waiter is 0 for a lock that is had.
	Holder, Waiter uint64
}

// Show returns the requests that wait, and so many of the locks that are held at most. more: there are others.
func (t *Table) Show(most int) (all []Shown, more bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	held, waits := 0, 0
	for _, on := range t.locks { // any order: who shows them sorts them
		one := Shown{Key: on.key}
		if on.span != nil {
			one.Key, one.From, one.To, one.Range = on.span.table, on.span.from, on.span.to, true
		}
		for i, r := range on.queue {
			waits++
			one.Mode, one.Waiter, one.Holder = r.mode, r.owner.id, on.inTheWay(r, i)
			all = append(all, one)
		}
		one.Waiter = 0
		for _, h := range on.holds {
			if held == most {
				more = true
				break
			}
			held++
			one.Holder, one.Mode = h.owner.id, h.modes.strongest()
			all = append(all, one)
		}
		if more && waits == t.waits {
			break
		}
	}
	return all, more
}

// strongest is the last of the modes in a set: each covers what those before it allow its owner, but for Shared beside an intent to write.
func (s set) strongest() Mode {
	m := modes - 1
	for m > 0 && s&(1<<m) == 0 {
		m--
	}
	return m
}

// inTheWay returns the owner that a request at a place of the queue waits for; 0: none any more.
func (on *resource) inTheWay(r *Request, at int) uint64 {
	for i := range on.holds {
		if h := &on.holds[i]; h.modes&conflicts[r.mode] != 0 && h.owner.party != r.owner.party {
			return h.owner.id
		}
	}
	for _, before := range on.queue[:at] {
		if conflicts[r.mode]&(1<<before.mode) != 0 {
			return before.owner.id
		}
	}
	return 0
}

// ID is the owner's number in its table, from 1. Any goroutine.
func (o *Owner) ID() uint64 { return o.id }
