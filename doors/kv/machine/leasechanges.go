package machine

// LeaseChange is a grant or the end of a lease.
type LeaseChange struct {
	Lease
	Gone bool
}

// leaseChanges are the newest changes of leases in order, bounded, so that who follows them need not look at all leases again.
// Guarded by Machine.gate.
type leaseChanges struct {
	newest  []LeaseChange
	version uint64 // counts changes; the last of newest made it
}

// keptLeaseChanges is how many are kept at least once there were so many. A follower reads them many times a second. A reader further
// behind reads all leases, which is little for each change by then.
const keptLeaseChanges = 4096

func (c *leaseChanges) add(l LeaseChange) {
	if len(c.newest) == 2*keptLeaseChanges {
		c.newest = c.newest[:copy(c.newest, c.newest[keptLeaseChanges:])]
	}
	c.newest = append(c.newest, l)
	c.version++
}

// reset forgets them: after a Load the changes are unknown.
func (c *leaseChanges) reset() { *c = leaseChanges{version: c.version + 1} }

// since returns the changes after a version, in memory of their own; false if they are not all there.
func (c *leaseChanges) since(version uint64) ([]LeaseChange, bool) {
	if version > c.version || c.version-version > uint64(len(c.newest)) {
		return nil, false
	}
	return append([]LeaseChange(nil), c.newest[len(c.newest)-int(c.version-version):]...), true
}

// LeaseChanges returns the changes of leases after a version that it returned earlier, in order. It also returns the version after them,
// and a channel closed on the next change. If some changes are forgotten, as after version 0, whole is set. The changes are then a grant of
// each existing lease, in any order.
func (m *Machine) LeaseChanges(since uint64) (changes []LeaseChange, version uint64, whole bool, changed <-chan struct{}) {
	m.gate.Lock()
	defer m.gate.Unlock()
	if m.leaseChanged == nil {
		m.leaseChanged = make(chan struct{})
	}
	changes, ok := m.leaseNews.since(since)
	if !ok {
		changes = make([]LeaseChange, 0, len(m.leases))
		for id, l := range m.leases { // any order: so it is said
			changes = append(changes, LeaseChange{Lease: Lease{id, l.ttl, l.grant}})
		}
	}
	return changes, m.leaseNews.version, !ok, m.leaseChanged
}
