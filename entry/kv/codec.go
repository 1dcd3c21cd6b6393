package kv

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// Limits of what a part may hold. Doors refuse requests beyond them before proposing; Check rejects them as Malformed.
// MaxTxnDepth is what etcd reaches with its default of 128 operations, since each level of nesting takes at least one.
const (
	MaxTxnDepth = 129
	MaxTxnOps   = 1 << 16 // per list of a Txn
	MaxRevokes  = 1 << 16 // ids in one LeaseRevoke
	MaxSpans    = 1 << 16 // of one Within
)

// ErrKind means that a newer build wrote this part: fatal to the node that applies it, since members that skipped it would
// drift from those that do not (DECISIONS A20). The other errors say that the bytes make no sense; the machine rejects
// such a part as Malformed, which is the same answer on every member.
var (
	ErrKind  = errors.New("kv part of a kind this build does not know")
	ErrShort = errors.New("kv part ends early")
	ErrRange = errors.New("kv part holds a number out of range")
	ErrDepth = errors.New("kv txn nested too deeply or too long")
	ErrTrail = errors.New("bytes after the end of a kv part")
)

// Kinds of parts and of operations; they are part of the log's format and never renumbered.
const (
	kindNone    = 0 // an operation that does nothing: etcd lets clients send one
	kindPut     = 1
	kindDelete  = 2
	kindTxn     = 3
	kindCompact = 4
	kindGrant   = 5
	kindRevoke  = 6
	kindAlarm   = 7
	kindRange   = 8
	kindWithin  = 9
)

// FromClient reports whether an encoded part is one that only a client has reason to send: a change of keys, a lease granted or
// ended before its time. What is left are a compaction, an alarm and the end of leases that have run out, which members do by
// themselves.
func FromClient(body []byte) bool {
	if len(body) == 0 {
		return false
	}
	switch body[0] {
	case kindPut, kindDelete, kindTxn, kindGrant, kindWithin:
		return true
	case kindRevoke:
		return len(body) > 1 && body[1]&revokeExpired == 0
	}
	return false
}

// Flag bits of the kinds that have them. Unknown bits are refused as ErrKind: they would change what the part means.
const (
	putPrev, putIgnoreValue, putIgnoreLease, putLease = 1, 2, 4, 8
	deletePrev, deleteEnd                             = 1, 2
	rangeKeysOnly, rangeCountOnly, rangeEnd           = 1, 2, 4
	rangeSort, rangeLimit, rangeFilters               = 8, 16, 32
	compareEnd, compareValue                          = 1, 2
	revokeExpired                                     = 1
	alarmOn                                           = 1
)

// Append appends the encoding of p to dst. A part with no pointer set is a programming error and panics.
func Append(dst []byte, p *Part) []byte {
	if p.Within != nil {
		dst = binary.AppendUvarint(append(dst, kindWithin), uint64(len(p.Within.Spans)))
		for i := range p.Within.Spans {
			dst = appendBytes(dst, p.Within.Spans[i].From)
			dst = appendBytes(dst, p.Within.Spans[i].To)
		}
	}
	switch {
	case p.Put != nil:
		return appendPut(append(dst, kindPut), p.Put)
	case p.Delete != nil:
		return appendDelete(append(dst, kindDelete), p.Delete)
	case p.Txn != nil:
		return appendTxn(append(dst, kindTxn), p.Txn)
	case p.Compact != nil:
		return binary.AppendVarint(append(dst, kindCompact), p.Compact.Revision)
	case p.Grant != nil:
		dst = binary.LittleEndian.AppendUint64(append(dst, kindGrant), uint64(p.Grant.ID))
		return binary.AppendVarint(dst, p.Grant.TTL)
	case p.Revoke != nil:
		dst = append(dst, kindRevoke, bit(p.Revoke.Expired, revokeExpired))
		dst = binary.AppendUvarint(dst, uint64(len(p.Revoke.IDs)))
		for _, id := range p.Revoke.IDs {
			dst = binary.LittleEndian.AppendUint64(dst, uint64(id))
		}
		return dst
	case p.Alarm != nil:
		dst = append(dst, kindAlarm, bit(p.Alarm.On, alarmOn), byte(p.Alarm.Type))
		return binary.LittleEndian.AppendUint64(dst, p.Alarm.Member)
	}
	panic("kv.Append: empty part")
}

func appendPut(dst []byte, p *Put) []byte {
	dst = append(dst, bit(p.PrevKV, putPrev)|bit(p.IgnoreValue, putIgnoreValue)|bit(p.IgnoreLease, putIgnoreLease)|
		bit(p.Lease != 0, putLease))
	dst = appendBytes(dst, p.Key)
	dst = appendBytes(dst, p.Value)
	if p.Lease != 0 {
		dst = binary.LittleEndian.AppendUint64(dst, uint64(p.Lease))
	}
	return dst
}

func appendDelete(dst []byte, d *DeleteRange) []byte {
	dst = append(dst, bit(d.PrevKV, deletePrev)|bit(len(d.End) > 0, deleteEnd))
	dst = appendBytes(dst, d.Key)
	if len(d.End) > 0 {
		dst = appendBytes(dst, d.End)
	}
	return dst
}

func appendRange(dst []byte, r *Range) []byte {
	filters := r.MinMod|r.MaxMod|r.MinCreate|r.MaxCreate != 0
	dst = append(dst, bit(r.KeysOnly, rangeKeysOnly)|bit(r.CountOnly, rangeCountOnly)|bit(len(r.End) > 0, rangeEnd)|
		bit(r.Order != 0 || r.Target != 0, rangeSort)|bit(r.Limit != 0 || r.Revision != 0, rangeLimit)|bit(filters, rangeFilters))
	dst = appendBytes(dst, r.Key)
	if len(r.End) > 0 {
		dst = appendBytes(dst, r.End)
	}
	if r.Order != 0 || r.Target != 0 {
		dst = append(dst, byte(r.Order), byte(r.Target))
	}
	if r.Limit != 0 || r.Revision != 0 {
		dst = binary.AppendVarint(dst, r.Limit)
		dst = binary.AppendVarint(dst, r.Revision)
	}
	if filters {
		for _, v := range [...]int64{r.MinMod, r.MaxMod, r.MinCreate, r.MaxCreate} {
			dst = binary.AppendVarint(dst, v)
		}
	}
	return dst
}

func appendTxn(dst []byte, t *Txn) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(t.Compare)))
	for i := range t.Compare {
		c := &t.Compare[i]
		dst = append(dst, bit(len(c.End) > 0, compareEnd)|bit(c.Target == CompareValue, compareValue), byte(c.Result), byte(c.Target))
		dst = appendBytes(dst, c.Key)
		if len(c.End) > 0 {
			dst = appendBytes(dst, c.End)
		}
		if c.Target == CompareValue {
			dst = appendBytes(dst, c.Value)
		} else {
			dst = binary.AppendVarint(dst, c.Int)
		}
	}
	dst = appendOps(dst, t.Then)
	return appendOps(dst, t.Else)
}

func appendOps(dst []byte, ops []Op) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(ops)))
	for i := range ops {
		switch op := &ops[i]; {
		case op.Put != nil:
			dst = appendPut(append(dst, kindPut), op.Put)
		case op.Range != nil:
			dst = appendRange(append(dst, kindRange), op.Range)
		case op.Delete != nil:
			dst = appendDelete(append(dst, kindDelete), op.Delete)
		case op.Txn != nil:
			dst = appendTxn(append(dst, kindTxn), op.Txn)
		default:
			dst = append(dst, kindNone)
		}
	}
	return dst
}

func bit(on bool, flag byte) byte {
	if on {
		return flag
	}
	return 0
}

func appendBytes(dst, b []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(b)))
	return append(dst, b...)
}

// Decode decodes one part. Keys and values alias b.
func Decode(b []byte) (*Part, error) { return new(Decoder).Decode(b) }

// Decoder decodes parts one after another without allocating for the simple ones. It is owned by one goroutine.
type Decoder struct {
	part    Part
	put     Put
	del     DeleteRange
	compact Compact
	grant   LeaseGrant
}

// Decode is the function of that name; the part is valid until the next call.
func (d *Decoder) Decode(b []byte) (*Part, error) {
	r := reader{b: b}
	d.part = Part{}
	kind := r.byte()
	if kind == kindWithin {
		d.part.Within = r.within()
		if kind = r.byte(); r.err == nil && kind != kindPut && kind != kindTxn && kind != kindRevoke {
			return nil, fmt.Errorf("decode kv part: kind %d within limits: %w", kind, ErrKind)
		}
	}
	switch kind {
	case kindPut:
		d.put = Put{}
		r.put(&d.put)
		d.part.Put = &d.put
	case kindDelete:
		d.del = DeleteRange{}
		r.delete(&d.del)
		d.part.Delete = &d.del
	case kindTxn:
		d.part.Txn = r.txn(1)
	case kindCompact:
		d.compact = Compact{Revision: r.varint()}
		d.part.Compact = &d.compact
	case kindGrant:
		d.grant = LeaseGrant{ID: int64(r.fixed64()), TTL: r.varint()}
		d.part.Grant = &d.grant
	case kindRevoke:
		d.part.Revoke = r.revoke()
	case kindAlarm:
		on, typ := r.flags(alarmOn), r.byte()
		d.part.Alarm = &Alarm{On: on&alarmOn != 0, Type: AlarmType(typ), Member: r.fixed64()}
	default:
		if r.err == nil {
			return nil, fmt.Errorf("decode kv part of kind %d: %w", kind, ErrKind)
		}
	}
	if r.err == nil && len(r.b) != 0 {
		r.err = ErrTrail
	}
	if r.err != nil {
		return nil, fmt.Errorf("decode kv part: %w", r.err)
	}
	return &d.part, nil
}

// reader takes values off the front of b. The first error sticks and every later value is zero, so that callers check once.
type reader struct {
	b   []byte
	err error
}

func (r *reader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
	r.b = nil
}

func (r *reader) byte() byte {
	if len(r.b) == 0 {
		r.fail(ErrShort)
		return 0
	}
	v := r.b[0]
	r.b = r.b[1:]
	return v
}

func (r *reader) flags(known byte) byte {
	v := r.byte()
	if v&^known != 0 {
		r.fail(ErrKind)
		return 0
	}
	return v
}

func (r *reader) fixed64() uint64 {
	if len(r.b) < 8 {
		r.fail(ErrShort)
		return 0
	}
	v := binary.LittleEndian.Uint64(r.b)
	r.b = r.b[8:]
	return v
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.failVarint(n)
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) varint() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.failVarint(n)
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) failVarint(n int) {
	if n == 0 {
		r.fail(ErrShort)
	} else {
		r.fail(ErrRange)
	}
}

func (r *reader) bytes() []byte {
	n := r.uvarint()
	if n > uint64(len(r.b)) {
		r.fail(ErrShort)
		return nil
	}
	if n > math.MaxInt32 {
		r.fail(ErrRange)
		return nil
	}
	v := r.b[:n:n]
	r.b = r.b[n:]
	return v
}

// count takes the length of a list whose elements take at least min bytes each, so that a few bytes cannot ask for much
// memory.
func (r *reader) count(limit, min int) int {
	n := r.uvarint()
	switch {
	case n > uint64(limit):
		r.fail(ErrDepth)
		return 0
	case n > uint64(len(r.b)/min):
		r.fail(ErrShort)
		return 0
	}
	return int(n)
}

func (r *reader) put(p *Put) {
	f := r.flags(putPrev | putIgnoreValue | putIgnoreLease | putLease)
	p.PrevKV, p.IgnoreValue, p.IgnoreLease = f&putPrev != 0, f&putIgnoreValue != 0, f&putIgnoreLease != 0
	p.Key, p.Value = r.bytes(), r.bytes()
	if f&putLease != 0 {
		p.Lease = int64(r.fixed64())
	}
}

func (r *reader) delete(d *DeleteRange) {
	f := r.flags(deletePrev | deleteEnd)
	d.PrevKV = f&deletePrev != 0
	d.Key = r.bytes()
	if f&deleteEnd != 0 {
		d.End = r.bytes()
	}
}

func (r *reader) rangeOp() *Range {
	f := r.flags(rangeKeysOnly | rangeCountOnly | rangeEnd | rangeSort | rangeLimit | rangeFilters)
	g := &Range{KeysOnly: f&rangeKeysOnly != 0, CountOnly: f&rangeCountOnly != 0, Key: r.bytes()}
	if f&rangeEnd != 0 {
		g.End = r.bytes()
	}
	if f&rangeSort != 0 {
		g.Order, g.Target = SortOrder(r.byte()), SortTarget(r.byte())
	}
	if f&rangeLimit != 0 {
		g.Limit, g.Revision = r.varint(), r.varint()
	}
	if f&rangeFilters != 0 {
		g.MinMod, g.MaxMod, g.MinCreate, g.MaxCreate = r.varint(), r.varint(), r.varint(), r.varint()
	}
	return g
}

func (r *reader) txn(depth int) *Txn {
	if depth > MaxTxnDepth {
		r.fail(ErrDepth)
		return nil
	}
	t := &Txn{}
	if n := r.count(MaxTxnOps, 4); n > 0 {
		t.Compare = make([]Compare, n)
	}
	for i := range t.Compare {
		r.compare(&t.Compare[i])
	}
	t.Then = r.ops(depth)
	t.Else = r.ops(depth)
	return t
}

func (r *reader) compare(c *Compare) {
	f := r.flags(compareEnd | compareValue)
	c.Result, c.Target = CompareResult(r.byte()), CompareTarget(r.byte())
	c.Key = r.bytes()
	if f&compareEnd != 0 {
		c.End = r.bytes()
	}
	if f&compareValue != 0 {
		c.Value = r.bytes()
	} else {
		c.Int = r.varint()
	}
}

func (r *reader) ops(depth int) []Op {
	n := r.count(MaxTxnOps, 1)
	if n == 0 {
		return nil
	}
	ops := make([]Op, n)
	for i := range ops {
		if r.err != nil {
			return nil
		}
		switch r.byte() {
		case kindNone:
		case kindPut:
			ops[i].Put = &Put{}
			r.put(ops[i].Put)
		case kindDelete:
			ops[i].Delete = &DeleteRange{}
			r.delete(ops[i].Delete)
		case kindTxn:
			ops[i].Txn = r.txn(depth + 1)
		case kindRange:
			ops[i].Range = r.rangeOp()
		default:
			r.fail(ErrKind)
		}
	}
	return ops
}

func (r *reader) within() *Within {
	w := &Within{}
	if n := r.count(MaxSpans, 2); n > 0 {
		w.Spans = make([]Span, n)
	}
	for i := range w.Spans {
		w.Spans[i] = Span{From: r.bytes(), To: r.bytes()}
	}
	return w
}

func (r *reader) revoke() *LeaseRevoke {
	v := &LeaseRevoke{Expired: r.flags(revokeExpired)&revokeExpired != 0}
	n := r.count(MaxRevokes, 8)
	if n > 0 {
		v.IDs = make([]int64, n)
	}
	for i := range v.IDs {
		v.IDs[i] = int64(r.fixed64())
	}
	return v
}
