package machine

import (
	"bytes"
	"fmt"
	"sort"

	"github.com/holdfastdb/holdfast/core/entry"
	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
)

// judgeWithin checks the leases that a part ends, or attaches keys to in any branch, against the part's limits. The taken branch of a Txn
// does not matter: as in etcd, a request may not name an operation that is not permitted.
func (m *Machine) judgeWithin(p *kvpart.Part) (*entry.Rejection, error) {
	var leases []int64
	switch {
	case p.Put != nil:
		leases = []int64{p.Put.Lease}
	case p.Revoke != nil:
		leases = p.Revoke.IDs
	case p.Txn != nil:
		leases = putLeases(nil, p.Txn)
	}
	seen := make(map[int64]struct{}, len(leases))
	for _, id := range leases {
		if _, again := seen[id]; again || id == 0 {
			continue
		}
		seen[id] = struct{}{}
		keys, err := m.maybeAttached(id)
		if err != nil {
			return nil, err
		}
		for _, k := range keys {
			s, err := m.slot(k)
			if err != nil {
				return nil, err
			}
			if s.lease == id && !inSpans(p.Within.Spans, k) {
				return reject(kvpart.LeaseDenied, fmt.Sprintf("lease %x", uint64(id))), nil
			}
		}
	}
	return nil, nil
}

// putLeases appends the leases of all puts of a Txn, nested ones included.
func putLeases(leases []int64, t *kvpart.Txn) []int64 {
	for _, branch := range [2][]kvpart.Op{t.Then, t.Else} {
		for i := range branch {
			switch op := &branch[i]; {
			case op.Put != nil:
				leases = append(leases, op.Put.Lease)
			case op.Txn != nil:
				leases = putLeases(leases, op.Txn)
			}
		}
	}
	return leases
}

func inSpans(spans []kvpart.Span, key []byte) bool {
	i := sort.Search(len(spans), func(i int) bool { return bytes.Compare(spans[i].From, key) > 0 })
	return i > 0 && (len(spans[i-1].To) == 0 || bytes.Compare(key, spans[i-1].To) < 0)
}
