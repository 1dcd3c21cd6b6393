package kv

import (
	"sort"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
)

// The checks below refuse, before anything is proposed, the requests that etcd refuses there, with etcd's errors in etcd's order.

// errBadCompare answers a compare etcd's protocol has no meaning for. etcd lets an unknown result count as true; here it is
// refused, because a condition of unknown meaning must not permit a write.
var errBadCompare = status.Error(codes.InvalidArgument, "etcdserver: compare with an unknown result or target")

func checkRange(r *kvpart.Range) error {
	switch {
	case len(r.Key) == 0:
		return rpctypes.ErrGRPCEmptyKey
	case r.Order == invalidEnum || r.Target == invalidEnum:
		return rpctypes.ErrGRPCInvalidSortOption
	}
	return nil
}

// checkRangeStream adds what a stream cannot do: chunks leave as they are read, so in key order and unfiltered.
func checkRangeStream(r *kvpart.Range) error {
	if err := checkRange(r); err != nil {
		return err
	}
	if r.Order != 0 && (r.Order != 1 || r.Target != 0) {
		return status.Error(codes.Unimplemented, "RangeStream does not support custom sort orders")
	}
	if r.MinMod != 0 || r.MaxMod != 0 || r.MinCreate != 0 || r.MaxCreate != 0 {
		return status.Error(codes.Unimplemented, "RangeStream does not support revision filters")
	}
	return nil
}

func checkPut(p *kvpart.Put) error {
	switch {
	case len(p.Key) == 0:
		return rpctypes.ErrGRPCEmptyKey
	case p.IgnoreValue && len(p.Value) != 0:
		return rpctypes.ErrGRPCValueProvided
	case p.IgnoreLease && p.Lease != 0:
		return rpctypes.ErrGRPCLeaseProvided
	}
	return nil
}

func checkDelete(d *kvpart.DeleteRange) error {
	if len(d.Key) == 0 {
		return rpctypes.ErrGRPCEmptyKey
	}
	return nil
}

// checkTxn judges a Txn as a whole. maxOps bounds the longest of its three lists; each level of nesting has only the operations
// its parent left.
func checkTxn(t *kvpart.Txn, maxOps int) error {
	if err := checkTxnOps(t, maxOps); err != nil {
		return err
	}
	for _, branch := range [2][]kvpart.Op{t.Then, t.Else} {
		if _, _, err := checkOverlap(branch); err != nil {
			return err
		}
	}
	return nil
}

func checkTxnOps(t *kvpart.Txn, maxOps int) error {
	longest := max(len(t.Compare), len(t.Then), len(t.Else))
	if longest > maxOps {
		return rpctypes.ErrGRPCTooManyOps
	}
	for i := range t.Compare {
		if len(t.Compare[i].Key) == 0 {
			return rpctypes.ErrGRPCEmptyKey
		}
	}
	for _, branch := range [2][]kvpart.Op{t.Then, t.Else} {
		for i := range branch {
			if err := checkOp(&branch[i], maxOps-longest); err != nil {
				return err
			}
		}
	}
	for i := range t.Compare {
		if c := &t.Compare[i]; c.Result == invalidEnum || c.Target == invalidEnum {
			return errBadCompare
		}
	}
	return nil
}

func checkOp(op *kvpart.Op, maxOps int) error {
	switch {
	case op.Range != nil:
		return checkRange(op.Range)
	case op.Put != nil:
		return checkPut(op.Put)
	case op.Delete != nil:
		return checkDelete(op.Delete)
	case op.Txn != nil:
		return checkTxnOps(op.Txn, maxOps)
	}
	return rpctypes.ErrGRPCKeyNotFound // etcd's answer to an operation of no kind
}

// span is a key range [from, to); to empty means the single key from.
type span struct{ from, to string }

func (s span) end() string {
	if s.to == "" {
		return s.from + "\x00"
	}
	return s.to
}

// spans is a set of disjoint ranges in order.
type spans []span

// newSpans orders and merges ranges. Those that end before they begin cover nothing. That includes a range end of "\0", although it means
// "to the last key". etcd does not see such a delete here, and its clients rely on transactions that delete everything and put one key. The
// Txn's Apply judges possible conflicts.
func newSpans(all []span) spans {
	var s spans
	for _, m := range all {
		if m.from < m.end() {
			s = append(s, span{m.from, m.end()})
		}
	}
	sort.Slice(s, func(i, j int) bool { return s[i].from < s[j].from })
	return spans(nil).union(s)
}

// union merges two ordered sets of ranges, which may overlap.
func (s spans) union(t spans) spans {
	merged := make(spans, 0, len(s)+len(t))
	for len(s)+len(t) > 0 {
		var m span
		if len(t) == 0 || len(s) > 0 && s[0].from <= t[0].from {
			m, s = s[0], s[1:]
		} else {
			m, t = t[0], t[1:]
		}
		if n := len(merged); n > 0 && m.from <= merged[n-1].to {
			merged[n-1].to = max(merged[n-1].to, m.to)
			continue
		}
		merged = append(merged, m)
	}
	return merged
}

func (s spans) covers(key string) bool {
	i := sort.Search(len(s), func(i int) bool { return s[i].from > key })
	return i > 0 && key < s[i-1].to
}

// checkOverlap refuses a branch that writes a key twice: two puts of a key, or a put of a key a delete covers. The two branches of a nested
// Txn exclude each other, so they may put the same key. It returns the branch's puts and deletes.
//
// Deletes are kept as a merged, sorted set. A request of 1.5 MiB can hold a hundred thousand operations, and comparing each put with each
// delete would take minutes.
func checkOverlap(ops []kvpart.Op) (puts map[string]struct{}, deletes spans, err error) {
	var own []span
	for i := range ops {
		if d := ops[i].Delete; d != nil {
			own = append(own, span{string(d.Key), string(d.End)})
		}
	}
	deletes = newSpans(own)
	puts = make(map[string]struct{})
	for i := range ops {
		inner := ops[i].Txn
		if inner == nil {
			continue
		}
		then, thenDeletes, err := checkOverlap(inner.Then)
		if err != nil {
			return nil, nil, err
		}
		otherwise, elseDeletes, err := checkOverlap(inner.Else)
		if err != nil {
			return nil, nil, err
		}
		for key := range then {
			if _, twice := puts[key]; twice || deletes.covers(key) {
				return nil, nil, rpctypes.ErrGRPCDuplicateKey
			}
		}
		for key := range otherwise {
			if _, twice := puts[key]; twice || deletes.covers(key) {
				return nil, nil, rpctypes.ErrGRPCDuplicateKey
			}
		}
		for key := range then {
			puts[key] = struct{}{}
		}
		for key := range otherwise {
			puts[key] = struct{}{}
		}
		deletes = deletes.union(thenDeletes.union(elseDeletes))
	}
	for i := range ops {
		p := ops[i].Put
		if p == nil {
			continue
		}
		if _, twice := puts[string(p.Key)]; twice || deletes.covers(string(p.Key)) {
			return nil, nil, rpctypes.ErrGRPCDuplicateKey
		}
		puts[string(p.Key)] = struct{}{}
	}
	return puts, deletes, nil
}
