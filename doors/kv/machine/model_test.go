package machine

import (
	"bytes"
	"slices"
	"sort"

	"github.com/holdfastdb/holdfast/core/entry"
	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
)

// model is a naive key-value store with the meaning etcd gives requests. Every version of every key is in one list, and every question is
// answered by walking it. It shares no code with the machine and is slow on purpose.
type model struct {
	rev, compacted int64
	log            []modelEvent // every change in order
	leases         map[int64]int64

	cached    []kvpart.KeyValue // what state answered last
	cachedFor [2]int64          // for which revision and length of log
}

type modelEvent struct {
	del bool
	kv  kvpart.KeyValue
}

func newModel() *model {
	return &model{rev: 1, compacted: -1, leases: map[int64]int64{}}
}

// state returns the keys that exist at a revision, in order.
func (m *model) state(rev int64) []kvpart.KeyValue {
	if q := [2]int64{rev, int64(len(m.log))}; q == m.cachedFor {
		return m.cached
	} else {
		m.cachedFor = q
	}
	at := map[string]kvpart.KeyValue{}
	for _, e := range m.log {
		if e.kv.ModRevision > rev {
			break
		}
		if e.del {
			delete(at, string(e.kv.Key))
		} else {
			at[string(e.kv.Key)] = e.kv
		}
	}
	var out []kvpart.KeyValue
	for _, kv := range at {
		out = append(out, kv)
	}
	slices.SortFunc(out, func(a, b kvpart.KeyValue) int { return bytes.Compare(a.Key, b.Key) })
	m.cached = out
	return out
}

func modelWithin(k, key, end []byte) bool {
	if len(end) == 0 {
		return string(k) == string(key)
	}
	if string(k) < string(key) {
		return false
	}
	return string(end) == "\x00" || string(k) < string(end)
}

func (m *model) find(key []byte, rev int64) *kvpart.KeyValue {
	for _, kv := range m.state(rev) {
		if string(kv.Key) == string(key) {
			return &kv
		}
	}
	return nil
}

func (m *model) rangeAt(r *kvpart.Range, rev, header int64) *kvpart.RangeResult {
	res := &kvpart.RangeResult{Revision: header}
	var kvs []kvpart.KeyValue
	for _, kv := range m.state(rev) {
		if modelWithin(kv.Key, r.Key, r.End) {
			kvs = append(kvs, kv)
		}
	}
	res.Count = int64(len(kvs))
	if r.CountOnly {
		return res
	}
	var kept []kvpart.KeyValue
	for _, kv := range kvs {
		if r.MinMod != 0 && kv.ModRevision < r.MinMod || r.MaxMod != 0 && kv.ModRevision > r.MaxMod ||
			r.MinCreate != 0 && kv.CreateRevision < r.MinCreate || r.MaxCreate != 0 && kv.CreateRevision > r.MaxCreate {
			continue
		}
		kept = append(kept, kv)
	}
	less := map[kvpart.SortTarget]func(a, b kvpart.KeyValue) bool{
		0: func(a, b kvpart.KeyValue) bool { return string(a.Key) < string(b.Key) },
		1: func(a, b kvpart.KeyValue) bool { return a.Version < b.Version },
		2: func(a, b kvpart.KeyValue) bool { return a.CreateRevision < b.CreateRevision },
		3: func(a, b kvpart.KeyValue) bool { return a.ModRevision < b.ModRevision },
		4: func(a, b kvpart.KeyValue) bool { return string(a.Value) < string(b.Value) },
	}[r.Target]
	if r.Order == 0 && r.Target != 0 && r.Limit > 0 && r.MinMod == 0 && r.MaxMod == 0 && r.MinCreate == 0 && r.MaxCreate == 0 {
		kept = kept[:min(int64(len(kept)), r.Limit+1)] // etcd sorts only what the limit let it read
	}
	if r.Target != 0 || r.Order != 0 {
		sort.SliceStable(kept, func(i, j int) bool {
			if r.Order == 2 {
				return less(kept[j], kept[i])
			}
			return less(kept[i], kept[j])
		})
	}
	if r.Limit > 0 && int64(len(kept)) > r.Limit {
		kept, res.More = kept[:r.Limit], true
	}
	for i := range kept {
		if r.KeysOnly {
			kept[i].Value = nil
			if r.Target != 4 {
				kept[i].Lease = 0
			}
		}
	}
	res.KVs = kept
	return res
}

// read is a Range outside a Txn.
func (m *model) read(r *kvpart.Range) (*kvpart.RangeResult, error) {
	switch {
	case r.Revision > m.rev:
		return nil, ErrFutureRevision
	case r.Revision <= 0:
		return m.rangeAt(r, m.rev, m.rev), nil
	case r.Revision < m.compacted:
		return nil, ErrCompacted
	}
	return m.rangeAt(r, r.Revision, m.rev), nil
}

func (m *model) clone() *model {
	c := *m
	c.log = slices.Clip(m.log)
	return &c
}

// txnRun carries a Txn out on a copy; code 0 means that it may stand.
type txnRun struct {
	m     *model
	base  int64
	wrote int
	code  entry.Code
}

func (t *txnRun) rev() int64 {
	if t.wrote > 0 {
		return t.base + 1
	}
	return t.base
}

func (t *txnRun) put(p *kvpart.Put) *kvpart.PutResult {
	if p.Lease != 0 {
		if _, ok := t.m.leases[p.Lease]; !ok {
			t.code = kvpart.LeaseNotFound
			return nil
		}
	}
	prev := t.m.find(p.Key, t.base+1)
	if (p.IgnoreLease || p.IgnoreValue) && prev == nil {
		t.code = kvpart.KeyNotFound
		return nil
	}
	kv := kvpart.KeyValue{Key: p.Key, Value: p.Value, CreateRevision: t.base + 1, ModRevision: t.base + 1, Version: 1, Lease: p.Lease}
	if prev != nil {
		kv.CreateRevision, kv.Version = prev.CreateRevision, prev.Version+1
	}
	if p.IgnoreValue {
		kv.Value = prev.Value
	}
	if p.IgnoreLease {
		kv.Lease = prev.Lease
	}
	t.m.log = append(t.m.log, modelEvent{kv: kv})
	t.wrote++
	res := &kvpart.PutResult{Revision: t.base + 1}
	if p.PrevKV {
		res.Prev = prev
	}
	return res
}

func (t *txnRun) delete(d *kvpart.DeleteRange) *kvpart.DeleteResult {
	res := &kvpart.DeleteResult{}
	for _, kv := range t.m.state(t.base + 1) {
		if modelWithin(kv.Key, d.Key, d.End) {
			t.m.log = append(t.m.log, modelEvent{del: true, kv: kvpart.KeyValue{Key: kv.Key, ModRevision: t.base + 1}})
			t.wrote++
			res.Deleted++
			if d.PrevKV {
				res.Prevs = append(res.Prevs, kv)
			}
		}
	}
	res.Revision = t.rev()
	return res
}

func (m *model) compareHolds(c *kvpart.Compare) bool {
	var kvs []kvpart.KeyValue
	for _, kv := range m.state(m.rev) {
		if modelWithin(kv.Key, c.Key, c.End) {
			kvs = append(kvs, kv)
		}
	}
	if len(kvs) == 0 {
		if c.Target == kvpart.CompareValue {
			return false
		}
		kvs = []kvpart.KeyValue{{}}
	}
	for _, kv := range kvs {
		var n int64
		switch c.Target {
		case 0:
			n = kv.Version - c.Int
		case 1:
			n = kv.CreateRevision - c.Int
		case 2:
			n = kv.ModRevision - c.Int
		case 3:
			n = int64(bytes.Compare(kv.Value, c.Value))
		case 4:
			n = kv.Lease - c.Int
		}
		if ok := [...]bool{n == 0, n > 0, n < 0, n != 0}[c.Result]; !ok {
			return false
		}
	}
	return true
}

// decide returns which branch each Txn takes, judged on the state before the outermost one.
func (m *model) decide(t *kvpart.Txn, into map[*kvpart.Txn]bool) {
	ok := true
	for i := range t.Compare {
		ok = ok && m.compareHolds(&t.Compare[i])
	}
	into[t] = ok
	for _, op := range branch(t, ok) {
		if op.Txn != nil {
			m.decide(op.Txn, into)
		}
	}
}

func (t *txnRun) txn(x *kvpart.Txn, taken map[*kvpart.Txn]bool) *kvpart.TxnResult {
	res := &kvpart.TxnResult{Succeeded: taken[x]}
	for _, op := range branch(x, taken[x]) {
		var out kvpart.OpResult
		switch {
		case op.Put != nil:
			out.Put = t.put(op.Put)
		case op.Delete != nil:
			out.Delete = t.delete(op.Delete)
		case op.Range != nil:
			if r := op.Range; r.Revision > t.base {
				t.code = kvpart.FutureRevision
			} else if r.Revision != 0 && r.Revision < t.m.compacted {
				t.code = kvpart.Compacted
			} else if r.Revision > 0 {
				out.Range = t.m.rangeAt(r, r.Revision, t.rev())
			} else {
				out.Range = t.m.rangeAt(r, t.base+1, t.rev())
			}
		case op.Txn != nil:
			out.Txn = t.txn(op.Txn, taken)
		}
		if t.code != 0 {
			return nil
		}
		res.Ops = append(res.Ops, out)
	}
	return res
}

// apply carries a part out and returns its answer, or the code it is rejected with.
func (m *model) apply(p *kvpart.Part) (any, entry.Code) {
	t := &txnRun{m: m.clone(), base: m.rev}
	var res any
	switch {
	case p.Put != nil:
		res = t.put(p.Put)
	case p.Delete != nil:
		res = t.delete(p.Delete)
	case p.Txn != nil:
		taken := map[*kvpart.Txn]bool{}
		m.decide(p.Txn, taken)
		r := t.txn(p.Txn, taken)
		if r != nil {
			r.Revision = t.rev()
		}
		res = r
	case p.Compact != nil:
		switch {
		case p.Compact.Revision <= m.compacted:
			return nil, kvpart.Compacted
		case p.Compact.Revision > m.rev:
			return nil, kvpart.FutureRevision
		}
		m.compacted = p.Compact.Revision
		return &kvpart.CompactResult{Revision: m.rev}, 0
	case p.Grant != nil:
		if _, ok := m.leases[p.Grant.ID]; ok {
			return nil, kvpart.LeaseExists
		}
		m.leases[p.Grant.ID] = p.Grant.TTL
		return &kvpart.GrantResult{Revision: m.rev, ID: p.Grant.ID, TTL: p.Grant.TTL}, 0
	case p.Revoke != nil:
		for _, id := range p.Revoke.IDs {
			if _, ok := m.leases[id]; !ok && !p.Revoke.Expired {
				return nil, kvpart.LeaseNotFound
			}
		}
		for _, id := range p.Revoke.IDs {
			if _, ok := m.leases[id]; !ok {
				continue
			}
			delete(m.leases, id)
			t := &txnRun{m: m, base: m.rev}
			for _, kv := range m.state(m.rev) {
				if kv.Lease == id {
					t.delete(&kvpart.DeleteRange{Key: kv.Key})
				}
			}
			m.rev = t.rev()
		}
		return &kvpart.RevokeResult{Revision: m.rev}, 0
	}
	if t.code != 0 {
		return nil, t.code
	}
	m.log, m.rev = t.m.log, t.rev()
	return res, 0
}

// sizes counts bytes as Size does, with all the history compaction leaves.
func (m *model) sizes() (history, inUse int64) {
	for _, kv := range m.state(m.rev) {
		inUse += int64(len(kv.Key) + len(kv.Value))
	}
	superseded := map[string]int64{} // key → revision of the next change, walking backwards
	for i := len(m.log) - 1; i >= 0; i-- {
		e := &m.log[i]
		next, ok := superseded[string(e.kv.Key)]
		superseded[string(e.kv.Key)] = e.kv.ModRevision
		gone := e.kv.ModRevision < m.compacted && (e.del || ok && next <= m.compacted)
		if !gone {
			history += int64(len(e.kv.Key) + len(e.kv.Value))
		}
	}
	return history, inUse
}
