package machine

import (
	"bytes"
	"cmp"
	"slices"

	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
)

// versionOverhead is what one version costs an answer beside its key and value, about as much as on the wire. Without it an
// answer of millions of short keys would count as small.
const versionOverhead = 24

// answerBudget bounds the bytes of keys and values an answer may hold; max 0 = no bound.
type answerBudget struct{ max, used, versions int64 }

// spend takes a version of n bytes into account.
func (b *answerBudget) spend(n int) error {
	b.used += int64(n) + versionOverhead
	b.versions++
	if b.max > 0 && b.used > b.max {
		return ErrTooLarge
	}
	return nil
}

// inKeyOrder reports whether the order in which keys are stored is the one asked for.
func inKeyOrder(r *kvpart.Range) bool {
	return r.Target == kvpart.SortByKey && r.Order != kvpart.SortDescend
}

// totaler finds the number of keys in an interval without walking all of them. nil: there is no such way.
type totaler func() (int64, error)

// collect answers r from sc. total is called once, when nothing more has to be read of sc. Without it a limited Range still walks all keys,
// because its count is exact, but decodes nothing beyond the limit.
func collect(r *kvpart.Range, sc scanner, backwards bool, total totaler, b *answerBudget) (*kvpart.RangeResult, error) {
	res := &kvpart.RangeResult{}
	c := collector{r: r, b: b, unsorted: inKeyOrder(r) || backwards}
	for {
		if total != nil && (r.CountOnly || c.full) {
			var err error
			if res.Count, err = total(); err != nil {
				return nil, err
			}
			break
		}
		ok, err := sc.next()
		if err != nil {
			return nil, err
		}
		if !ok {
			break
		}
		res.Count++
		if r.CountOnly || c.full {
			continue
		}
		if err := c.take(sc); err != nil {
			return nil, err
		}
	}
	res.KVs, res.More = c.finish()
	return res, nil
}

// collector gathers the versions of an answer.
type collector struct {
	r        *kvpart.Range
	b        *answerBudget
	unsorted bool // the keys come in the order asked for: the first ones met are the first of the answer
	kvs      []kvpart.KeyValue
	taken    int64 // versions put into kvs so far, whether still there or not
	mem      arena
	more     bool // something beyond the limit was left out
	full     bool // nothing that is still to come can be part of the answer
}

// take adds the version sc stands on if the filters let it pass.
func (c *collector) take(sc scanner) error {
	v, err := sc.version()
	if err != nil {
		return err
	}
	if !passes(c.r, &v.meta) {
		return nil
	}
	if limit := c.r.Limit; limit > 0 {
		if c.unsorted && c.taken >= limit {
			c.more, c.full = true, true
			return nil
		}
		if sortsPage(c.r) && c.taken > limit {
			c.full = true
			return nil
		}
		// Sorting needs all versions, but never more memory than a few times the answer.
		if int64(len(c.kvs)) >= 2*min(limit, 1<<32)+256 {
			c.prune()
		}
	}
	c.taken++
	var value []byte
	if !c.r.KeysOnly || c.r.Target == kvpart.SortByValue && !c.unsorted {
		if value, err = sc.value(); err != nil {
			return err
		}
	}
	if err := c.b.spend(len(v.key) + len(value)); err != nil {
		return err
	}
	if len(value) > 0 {
		value = c.mem.copy(value)
	} else {
		value = nil
	}
	kv := v.meta.keyValue(c.mem.copy(v.key), value)
	if c.r.KeysOnly && c.r.Target != kvpart.SortByValue {
		kv.Lease = 0 // etcd 3.7 answers keys_only from its index, which does not know leases
	}
	c.kvs = append(c.kvs, kv)
	return nil
}

// prune keeps the first limit versions of those gathered so far, in memory of their own.
func (c *collector) prune() {
	sortVersions(c.r, c.kvs)
	for _, kv := range c.kvs[c.r.Limit:] {
		c.b.used -= int64(len(kv.Key)+len(kv.Value)) + versionOverhead
	}
	c.kvs, c.more = c.kvs[:c.r.Limit], true
	old := c.kvs
	c.mem = arena{}
	c.kvs = make([]kvpart.KeyValue, len(old), cap(old))
	for i, kv := range old {
		kv.Key = c.mem.copy(kv.Key)
		if kv.Value != nil {
			kv.Value = c.mem.copy(kv.Value)
		}
		c.kvs[i] = kv
	}
}

func (c *collector) finish() (kvs []kvpart.KeyValue, more bool) {
	if !c.unsorted {
		sortVersions(c.r, c.kvs)
	}
	if c.r.Limit > 0 && int64(len(c.kvs)) > c.r.Limit { // only after sorting
		c.kvs, c.more = c.kvs[:c.r.Limit], true
	}
	if c.r.KeysOnly {
		for i := range c.kvs {
			c.kvs[i].Value = nil
		}
	}
	return c.kvs, c.more
}

// sortsPage reports whether etcd sorts only the first limit+1 versions in key order. The case is a target without an order, a limit and no
// filters. It is odd, but every version of etcd answers so.
func sortsPage(r *kvpart.Range) bool {
	return r.Order == kvpart.SortNone && r.Target != kvpart.SortByKey && r.Limit > 0 && r.MinMod|r.MaxMod|r.MinCreate|r.MaxCreate == 0
}

// passes applies the revision filters; 0 means none, and a maximum below zero lets nothing pass.
func passes(r *kvpart.Range, mt *meta) bool {
	return (r.MaxMod == 0 || mt.mod <= r.MaxMod) && (r.MinMod == 0 || mt.mod >= r.MinMod) &&
		(r.MaxCreate == 0 || mt.create <= r.MaxCreate) && (r.MinCreate == 0 || mt.create >= r.MinCreate)
}

// sortVersions orders by the target; ties keep key order. A target without an order means ascending.
func sortVersions(r *kvpart.Range, kvs []kvpart.KeyValue) {
	slices.SortStableFunc(kvs, func(a, b kvpart.KeyValue) int {
		var c int
		switch r.Target {
		case kvpart.SortByVersion:
			c = cmp.Compare(a.Version, b.Version)
		case kvpart.SortByCreate:
			c = cmp.Compare(a.CreateRevision, b.CreateRevision)
		case kvpart.SortByMod:
			c = cmp.Compare(a.ModRevision, b.ModRevision)
		case kvpart.SortByValue:
			c = bytes.Compare(a.Value, b.Value)
		default:
			c = bytes.Compare(a.Key, b.Key)
		}
		if r.Order == kvpart.SortDescend {
			c = -c
		}
		return c
	})
}
