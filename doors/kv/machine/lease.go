package machine

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/core/store"
	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
	"github.com/holdfastdb/holdfast/internal/wire"
)

// leaseWrite is a grant or a revoke of the entry being applied.
type leaseWrite struct {
	id, ttl int64
	revoked bool
}

// granted is a lease for readers. grant is its number in the order in which this process learned of leases.
type granted struct {
	ttl   int64 // seconds
	grant uint64
}

// leaseTTL looks a lease up as this entry left it. Apply goroutine only.
func (m *Machine) leaseTTL(id int64) (ttl int64, ok bool) {
	if i, changed := m.leaseNow[id]; changed {
		w := &m.leaseLog[i]
		return w.ttl, !w.revoked
	}
	l, ok := m.leases[id]
	return l.ttl, ok
}

// logLease records a grant or revoke. Apply goroutine only.
func (m *Machine) logLease(w leaseWrite) {
	if m.leaseNow == nil {
		m.leaseNow = map[int64]int{}
	}
	m.leaseNow[w.id] = len(m.leaseLog)
	m.leaseLog = append(m.leaseLog, w)
}

// judgeRevoke deletes the keys of each lease in a revision of its own, in key order.
func (m *Machine) judgeRevoke(p *plan, r *kvpart.LeaseRevoke) (*entry.Rejection, error) {
	seen := make(map[int64]struct{}, len(r.IDs))
	for _, id := range r.IDs {
		_, again := seen[id]
		if _, ok := m.leaseTTL(id); !ok || again {
			if r.Expired {
				continue
			}
			return reject(kvpart.LeaseNotFound, fmt.Sprintf("lease %x", uint64(id))), nil
		}
		seen[id] = struct{}{}
		p.revoked = append(p.revoked, id)
		first := len(m.entry.writes)
		if err := m.deleteAttached(id, p.rev+1, first); err != nil {
			return nil, err
		}
		if len(m.entry.writes) > first {
			p.rev++
		}
	}
	return nil, nil
}

// deleteAttached deletes the keys attached to a lease.
func (m *Machine) deleteAttached(id, rev int64, first int) error {
	keys, err := m.maybeAttached(id)
	if err != nil {
		return err
	}
	for _, k := range keys {
		s, err := m.slot(k)
		if err != nil {
			return err
		}
		if s.lease == id {
			m.deleteSlot(s, rev, first)
		}
	}
	return nil
}

// maybeAttached lists in order the keys that may be attached to a lease: those the store lists plus those this entry attached.
// Some of them this entry may have detached; their slots show that.
func (m *Machine) maybeAttached(id int64) ([][]byte, error) {
	keys, err := attachedKeys(m.st, id)
	if err != nil {
		return nil, err
	}
	for _, i := range m.entry.leased {
		if w := &m.entry.writes[i]; w.new.lease == id {
			keys = append(keys, w.slot.key)
		}
	}
	slices.SortFunc(keys, slices.Compare)
	return slices.CompactFunc(keys, slices.Equal), nil
}

// attachedKeys lists the keys attached to a lease in order, as the store has them.
func attachedKeys(r store.Reader, id int64) ([][]byte, error) {
	lower := appendAttachKey(nil, id, nil)
	it, err := r.NewIter(lower, prefixEnd(lower))
	if err != nil {
		return nil, fmt.Errorf("read keys of lease: %w", err)
	}
	defer it.Close()
	var keys [][]byte
	var mem arena
	for ok := it.First(); ok; ok = it.Next() {
		keys = append(keys, mem.copy(it.Key()[len(lower):]))
	}
	if err := it.Error(); err != nil {
		return nil, fmt.Errorf("read keys of lease: %w", err)
	}
	return keys, nil
}

// prefixEnd returns the least key above all that begin with p; p does not consist of ff only.
func prefixEnd(p []byte) []byte {
	end := slices.Clone(p)
	for i := len(end) - 1; ; i-- {
		if end[i]++; end[i] != 0 {
			return end[:i+1]
		}
	}
}

// writeLeases writes the entry's grants and revokes. The attached keys are written with the keys (writeRows).
func (m *Machine) writeLeases(b store.Batch) {
	for i := range m.leaseLog {
		w := &m.leaseLog[i]
		m.key = appendLeaseKey(m.key[:0], w.id)
		if w.revoked {
			b.Delete(m.key)
		} else {
			m.row = binary.AppendVarint(m.row[:0], w.ttl)
			b.Set(m.key, m.row)
		}
	}
}

// publishLeases shows them to readers; the gate is closed.
func (m *Machine) publishLeases() {
	for i := range m.leaseLog {
		w := &m.leaseLog[i]
		l := granted{w.ttl, m.grants + 1}
		if w.revoked {
			l = m.leases[w.id]
			delete(m.leases, w.id)
		} else {
			m.grants++
			m.leases[w.id] = l
		}
		m.leaseNews.add(LeaseChange{Lease: Lease{w.id, l.ttl, l.grant}, Gone: w.revoked})
	}
	m.leaseLog, m.leaseNow = m.leaseLog[:0], nil
	m.wake(&m.leaseChanged)
}

// loadLeases reads them all. grants goes on counting, so that every lease gets a new number. After a load, a lease cannot be recognised as
// the same one.
func loadLeases(st store.Reader, grants *uint64) (map[int64]granted, error) {
	leases := map[int64]granted{}
	err := eachLease(st, func(l Lease) error {
		*grants++
		leases[l.ID] = granted{l.TTL, *grants}
		return nil
	})
	return leases, err
}

// eachLease hands over the leases of r by id.
func eachLease(r store.Reader, fn func(Lease) error) error {
	it, err := r.NewIter(spaceBounds(spaceLease))
	if err != nil {
		return fmt.Errorf("load leases: %w", err)
	}
	defer it.Close()
	for ok := it.First(); ok; ok = it.Next() {
		row, err := it.Value()
		if err != nil {
			return fmt.Errorf("load leases: %w", err)
		}
		rd := wire.NewReader(row)
		l := Lease{TTL: rd.Varint()}
		k := it.Key()
		if len(k) != 10 || rd.End() != nil {
			return fmt.Errorf("lease row %x: %w", clip(k), errCorrupt)
		}
		l.ID = leaseOf(k[2:])
		if err := fn(l); err != nil {
			return err
		}
	}
	return it.Error()
}
