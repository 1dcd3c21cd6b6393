package machine

import (
	"slices"
)

// Lease is what readers see of one lease: its id, granted TTL in seconds.
type Lease struct {
	ID, TTL int64
	// Grant tells leases with one ID apart, of which one was revoked and the other granted afterwards. It means nothing to another
	// process, nor after a Load.
	Grant uint64
}

// Leases lists all leases by id.
func (m *Machine) Leases() []Lease {
	m.gate.RLock()
	all := make([]Lease, 0, len(m.leases))
	for id, l := range m.leases { // any order: sorted below
		all = append(all, Lease{id, l.ttl, l.grant})
	}
	m.gate.RUnlock()
	slices.SortFunc(all, func(a, b Lease) int {
		if a.ID < b.ID {
			return -1
		}
		return 1
	})
	return all
}

// LeaseCount returns how many leases there are.
func (m *Machine) LeaseCount() int {
	m.gate.RLock()
	defer m.gate.RUnlock()
	return len(m.leases)
}

// Lease returns one lease.
func (m *Machine) Lease(id int64) (Lease, bool) {
	m.gate.RLock()
	defer m.gate.RUnlock()
	l, ok := m.leases[id]
	return Lease{id, l.ttl, l.grant}, ok
}

// LeaseKeys returns the keys attached to a lease in order; none if it does not exist or the store cannot be read.
func (m *Machine) LeaseKeys(id int64) [][]byte {
	p := m.pin()
	defer p.view.Close()
	keys, err := attachedKeys(p.view, id)
	if err != nil {
		return nil
	}
	return keys
}

// EachLeaseKey calls fn with the keys attached to a lease in order until it returns false. The key is valid during the call.
func (m *Machine) EachLeaseKey(id int64, fn func(key []byte) bool) error {
	p := m.pin()
	defer p.view.Close()
	keys, err := attachedKeys(p.view, id)
	if err != nil {
		return err
	}
	for _, k := range keys {
		if !fn(k) {
			break
		}
	}
	return nil
}
