package machine

import (
	"bytes"
	"math/rand/v2"

	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
)

// chaos makes requests at every odd edge: few keys, so that they meet; intervals that are empty, inverted or endless; old,
// future and negative revisions.
type chaos struct {
	*rand.Rand
	m *model
}

var chaosKeys = []string{"a", "a\x00", "a\x00\xff", "a\x01", "b", "b/1", "b/2", "b/3", "c", "\x00", "\xff", "\xff\xff"}

func (c *chaos) key() []byte { return []byte(chaosKeys[c.IntN(len(chaosKeys))]) }

func (c *chaos) end() []byte {
	switch c.IntN(5) {
	case 0, 1:
		return nil
	case 2:
		return []byte{0}
	}
	return c.key()
}

func (c *chaos) value() []byte {
	switch c.IntN(12) {
	case 0:
		return nil
	case 1:
		return bytes.Repeat([]byte{byte('a' + c.IntN(3))}, inlineBytes+c.IntN(3)-1)
	case 2:
		return bytes.Repeat([]byte{byte('a' + c.IntN(3))}, laterBytes+c.IntN(3)-1)
	}
	return []byte{byte('a' + c.IntN(4))}
}

func (c *chaos) rev() int64 {
	switch c.IntN(8) {
	case 0:
		return c.m.rev + int64(c.IntN(3)) - 1
	case 1:
		return c.m.compacted + int64(c.IntN(3)) - 1
	case 2:
		return c.m.rev - int64(c.IntN(20))
	}
	return 0
}

func (c *chaos) lease() int64 { return int64(c.IntN(6)) - 1 }

func (c *chaos) put() *kvpart.Put {
	p := &kvpart.Put{Key: c.key(), Value: c.value(), PrevKV: c.IntN(3) == 0}
	if c.IntN(3) == 0 {
		p.Lease = c.lease()
	}
	switch c.IntN(6) {
	case 0:
		p.IgnoreValue, p.Value = true, nil
	case 1:
		p.IgnoreLease, p.Lease = true, 0
	}
	return p
}

func (c *chaos) delete() *kvpart.DeleteRange {
	return &kvpart.DeleteRange{Key: c.key(), End: c.end(), PrevKV: c.IntN(2) == 0}
}

func (c *chaos) rangeOp() *kvpart.Range {
	r := &kvpart.Range{Key: c.key(), End: c.end(), Revision: c.rev()}
	if c.IntN(2) == 0 {
		r.Limit = int64(c.IntN(5)) - 1
	}
	if c.IntN(2) == 0 {
		r.Order, r.Target = kvpart.SortOrder(c.IntN(3)), kvpart.SortTarget(c.IntN(5))
	}
	r.KeysOnly, r.CountOnly = c.IntN(5) == 0, c.IntN(8) == 0
	if c.IntN(4) == 0 {
		r.MinMod, r.MaxMod, r.MinCreate, r.MaxCreate = c.rev(), c.rev(), c.rev(), c.rev()
	}
	return r
}

func (c *chaos) txn(depth int) *kvpart.Txn {
	t := &kvpart.Txn{}
	for range c.IntN(3) {
		cmp := kvpart.Compare{Key: c.key(), End: c.end(), Result: kvpart.CompareResult(c.IntN(4)), Target: kvpart.CompareTarget(c.IntN(5))}
		if cmp.Target == kvpart.CompareValue {
			cmp.Value = c.value()
		} else if cmp.Int = int64(c.IntN(4)); c.IntN(2) == 0 {
			cmp.Int = c.rev()
		}
		t.Compare = append(t.Compare, cmp)
	}
	ops := func() (ops []kvpart.Op) {
		for range c.IntN(5) {
			switch k := c.IntN(9); {
			case k < 3:
				ops = append(ops, kvpart.Op{Put: c.put()})
			case k < 5:
				ops = append(ops, kvpart.Op{Range: c.rangeOp()})
			case k < 7:
				ops = append(ops, kvpart.Op{Delete: c.delete()})
			case k == 7 && depth < 3:
				ops = append(ops, kvpart.Op{Txn: c.txn(depth + 1)})
			case k == 8 && c.IntN(4) == 0:
				ops = append(ops, kvpart.Op{})
			}
		}
		return ops
	}
	t.Then, t.Else = ops(), ops()
	return t
}

func (c *chaos) part() *kvpart.Part {
	switch k := c.IntN(100); {
	case k < 40:
		return &kvpart.Part{Put: c.put()}
	case k < 55:
		d := c.delete()
		d.ByRange = c.IntN(3) > 0
		return &kvpart.Part{Delete: d}
	case k < 88:
		return &kvpart.Part{Txn: c.txn(1)}
	case k < 90:
		return &kvpart.Part{Compact: &kvpart.Compact{Revision: c.rev()}}
	case k < 95:
		id := c.lease()
		if id == 0 {
			id = 7
		}
		return &kvpart.Part{Grant: &kvpart.LeaseGrant{ID: id, TTL: int64(c.IntN(100))}}
	}
	r := &kvpart.LeaseRevoke{Expired: c.IntN(2) == 0}
	seen := map[int64]bool{}
	for range 1 + c.IntN(2) {
		if id := c.lease(); !seen[id] {
			seen[id] = true
			r.IDs = append(r.IDs, id)
		}
	}
	return &kvpart.Part{Revoke: r}
}
