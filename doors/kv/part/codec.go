package part

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/holdfastdb/holdfast/internal/wire"
)

// Limits of a part. Doors refuse requests beyond them before proposing; Check rejects them as Malformed. MaxTxnDepth is what etcd reaches
// with its default of 128 operations, since each level of nesting takes at least one.
const (
	MaxTxnDepth = 129
	MaxTxnOps   = 1 << 16 // per list of a Txn
	MaxRevokes  = 1 << 16 // ids in one LeaseRevoke
	MaxSpans    = 1 << 16 // of one Within
)

// ErrKind means that a newer build wrote this part. It is fatal to the node that applies it: members that skipped it would drift from the
// others (DECISIONS A20). ErrDepth and the errors of wire mean malformed bytes. The machine rejects such a part as Malformed, which is the
// same answer on every member.
var (
	ErrKind  = errors.New("kv part of a kind or with a flag this build does not know")
	ErrDepth = errors.New("kv txn nested too deeply")
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
	kindMust    = 10
)

// FromClient reports whether only a client sends such a part: a change of keys, a lease granted or revoked early. The others are a
// compaction, an alarm and the end of expired leases, which members propose by themselves.
func FromClient(body []byte) bool {
	if len(body) == 0 {
		return false
	}
	switch body[0] {
	case kindPut, kindDelete, kindTxn, kindGrant, kindWithin, kindMust:
		return true
	case kindRevoke:
		return len(body) > 1 && body[1]&revokeExpired == 0
	}
	return false
}

// PartLevel is the cluster's level from which on an encoded part may be proposed, if that is later than the machine's own.
func PartLevel(body []byte) uint16 {
	switch {
	case len(body) > 0 && body[0] == kindMust:
		return MustLevel
	case len(body) > 1 && body[0] == kindDelete && body[1]&deleteByRange != 0:
		return ByRangeLevel
	}
	return 0
}

// Flag bits of the kinds that have them. Unknown bits are refused as ErrKind: they would change what the part means.
const (
	putPrev, putIgnoreValue, putIgnoreLease, putLease = 1, 2, 4, 8
	deletePrev, deleteEnd, deleteByRange              = 1, 2, 4
	rangeKeysOnly, rangeCountOnly, rangeEnd           = 1, 2, 4
	rangeSort, rangeLimit, rangeFilters               = 8, 16, 32
	compareEnd, compareValue                          = 1, 2
	revokeExpired                                     = 1
	alarmOn                                           = 1
)

// Append appends the encoding of p to dst. A part with no pointer set is a programming error and panics.
func Append(dst []byte, p *Part) []byte {
	if p.Must {
		dst = append(dst, kindMust)
	}
	if p.Within != nil {
		dst = binary.AppendUvarint(append(dst, kindWithin), uint64(len(p.Within.Spans)))
		for i := range p.Within.Spans {
			dst = wire.AppendBytes(dst, p.Within.Spans[i].From)
			dst = wire.AppendBytes(dst, p.Within.Spans[i].To)
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
		dst = append(dst, kindRevoke, wire.Bit(p.Revoke.Expired, revokeExpired))
		dst = binary.AppendUvarint(dst, uint64(len(p.Revoke.IDs)))
		for _, id := range p.Revoke.IDs {
			dst = binary.LittleEndian.AppendUint64(dst, uint64(id))
		}
		return dst
	case p.Alarm != nil:
		dst = append(dst, kindAlarm, wire.Bit(p.Alarm.On, alarmOn), byte(p.Alarm.Type))
		return binary.LittleEndian.AppendUint64(dst, p.Alarm.Member)
	}
	panic("kv.Append: empty part")
}

func appendPut(dst []byte, p *Put) []byte {
	dst = append(dst, wire.Bit(p.PrevKV, putPrev)|wire.Bit(p.IgnoreValue, putIgnoreValue)|wire.Bit(p.IgnoreLease, putIgnoreLease)|
		wire.Bit(p.Lease != 0, putLease))
	dst = wire.AppendBytes(dst, p.Key)
	dst = wire.AppendBytes(dst, p.Value)
	if p.Lease != 0 {
		dst = binary.LittleEndian.AppendUint64(dst, uint64(p.Lease))
	}
	return dst
}

func appendDelete(dst []byte, d *DeleteRange) []byte {
	dst = append(dst, wire.Bit(d.PrevKV, deletePrev)|wire.Bit(len(d.End) > 0, deleteEnd)|wire.Bit(d.ByRange, deleteByRange))
	dst = wire.AppendBytes(dst, d.Key)
	if len(d.End) > 0 {
		dst = wire.AppendBytes(dst, d.End)
	}
	return dst
}

func appendRange(dst []byte, r *Range) []byte {
	filters := r.MinMod|r.MaxMod|r.MinCreate|r.MaxCreate != 0
	dst = append(dst, wire.Bit(r.KeysOnly, rangeKeysOnly)|wire.Bit(r.CountOnly, rangeCountOnly)|wire.Bit(len(r.End) > 0, rangeEnd)|
		wire.Bit(r.Order != 0 || r.Target != 0, rangeSort)|wire.Bit(r.Limit != 0 || r.Revision != 0, rangeLimit)|wire.Bit(filters, rangeFilters))
	dst = wire.AppendBytes(dst, r.Key)
	if len(r.End) > 0 {
		dst = wire.AppendBytes(dst, r.End)
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
		dst = append(dst, wire.Bit(len(c.End) > 0, compareEnd)|wire.Bit(c.Target == CompareValue, compareValue), byte(c.Result), byte(c.Target))
		dst = wire.AppendBytes(dst, c.Key)
		if len(c.End) > 0 {
			dst = wire.AppendBytes(dst, c.End)
		}
		if c.Target == CompareValue {
			dst = wire.AppendBytes(dst, c.Value)
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
	r := reader{wire.NewReader(b)}
	d.part = Part{}
	kind := r.Byte()
	if d.part.Must = kind == kindMust; d.part.Must {
		kind = r.Byte()
	}
	if kind == kindWithin {
		d.part.Within = r.within()
		if kind = r.Byte(); r.Err() == nil && kind != kindPut && kind != kindTxn && kind != kindRevoke {
			return nil, fmt.Errorf("decode kv part: kind %d within limits: %w", kind, ErrKind)
		}
	}
	if d.part.Must && r.Err() == nil && kind != kindTxn {
		return nil, fmt.Errorf("decode kv part: kind %d that must hold: %w", kind, ErrKind)
	}
	switch kind {
	case kindPut:
		d.put = Put{}
		r.put(&d.put)
		d.part.Put = &d.put
	case kindDelete:
		d.del = DeleteRange{}
		r.delete(&d.del, deletePrev|deleteEnd|deleteByRange)
		d.part.Delete = &d.del
	case kindTxn:
		d.part.Txn = r.txn(1)
	case kindCompact:
		d.compact = Compact{Revision: r.Varint()}
		d.part.Compact = &d.compact
	case kindGrant:
		d.grant = LeaseGrant{ID: int64(r.Uint64()), TTL: r.Varint()}
		d.part.Grant = &d.grant
	case kindRevoke:
		d.part.Revoke = r.revoke()
	case kindAlarm:
		on, typ := r.flags(alarmOn), r.Byte()
		d.part.Alarm = &Alarm{On: on&alarmOn != 0, Type: AlarmType(typ), Member: r.Uint64()}
	default:
		if r.Err() == nil {
			return nil, fmt.Errorf("decode kv part of kind %d: %w", kind, ErrKind)
		}
	}
	if err := r.End(); err != nil {
		return nil, fmt.Errorf("decode kv part: %w", err)
	}
	return &d.part, nil
}

// Plain reports whether the first bytes of b alone show that this build knows all of the part's kinds and flags. That holds for a put or a
// delete, which nest nothing. Any other fault of such a part is malformed, and rejected where it is applied. It is for callers that look at
// every command a second time and must not decode it again.
func Plain(b []byte) bool {
	if len(b) < 2 {
		return false
	}
	switch b[0] {
	case kindPut:
		return b[1]&^(putPrev|putIgnoreValue|putIgnoreLease|putLease) == 0
	case kindDelete:
		return b[1]&^(deletePrev|deleteEnd|deleteByRange) == 0
	}
	return false
}

// reader takes what parts are made of. It is a value for the sake of the simple parts, which allocate nothing.
type reader struct{ wire.Reader }

func (r *reader) flags(known byte) byte { return r.Flags(known, ErrKind) }

func (r *reader) put(p *Put) {
	f := r.flags(putPrev | putIgnoreValue | putIgnoreLease | putLease)
	p.PrevKV, p.IgnoreValue, p.IgnoreLease = f&putPrev != 0, f&putIgnoreValue != 0, f&putIgnoreLease != 0
	p.Key, p.Value = r.Bytes(), r.Bytes()
	if f&putLease != 0 {
		p.Lease = int64(r.Uint64())
	}
}

func (r *reader) delete(d *DeleteRange, known byte) {
	f := r.flags(known)
	d.PrevKV, d.ByRange = f&deletePrev != 0, f&deleteByRange != 0
	d.Key = r.Bytes()
	if f&deleteEnd != 0 {
		d.End = r.Bytes()
	}
}

func (r *reader) rangeOp() *Range {
	f := r.flags(rangeKeysOnly | rangeCountOnly | rangeEnd | rangeSort | rangeLimit | rangeFilters)
	g := &Range{KeysOnly: f&rangeKeysOnly != 0, CountOnly: f&rangeCountOnly != 0, Key: r.Bytes()}
	if f&rangeEnd != 0 {
		g.End = r.Bytes()
	}
	if f&rangeSort != 0 {
		g.Order, g.Target = SortOrder(r.Byte()), SortTarget(r.Byte())
	}
	if f&rangeLimit != 0 {
		g.Limit, g.Revision = r.Varint(), r.Varint()
	}
	if f&rangeFilters != 0 {
		g.MinMod, g.MaxMod, g.MinCreate, g.MaxCreate = r.Varint(), r.Varint(), r.Varint(), r.Varint()
	}
	return g
}

func (r *reader) txn(depth int) *Txn {
	if depth > MaxTxnDepth {
		r.Fail(ErrDepth)
		return nil
	}
	t := &Txn{}
	if n := r.Count(MaxTxnOps, 4); n > 0 {
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
	c.Result, c.Target = CompareResult(r.Byte()), CompareTarget(r.Byte())
	c.Key = r.Bytes()
	if f&compareEnd != 0 {
		c.End = r.Bytes()
	}
	if f&compareValue != 0 {
		c.Value = r.Bytes()
	} else {
		c.Int = r.Varint()
	}
}

func (r *reader) ops(depth int) []Op {
	n := r.Count(MaxTxnOps, 1)
	if n == 0 {
		return nil
	}
	ops := make([]Op, n)
	for i := range ops {
		if r.Err() != nil {
			return nil
		}
		switch r.Byte() {
		case kindNone:
		case kindPut:
			ops[i].Put = &Put{}
			r.put(ops[i].Put)
		case kindDelete:
			ops[i].Delete = &DeleteRange{}
			r.delete(ops[i].Delete, deletePrev|deleteEnd)
		case kindTxn:
			ops[i].Txn = r.txn(depth + 1)
		case kindRange:
			ops[i].Range = r.rangeOp()
		default:
			r.Fail(ErrKind)
		}
	}
	return ops
}

func (r *reader) within() *Within {
	w := &Within{}
	if n := r.Count(MaxSpans, 2); n > 0 {
		w.Spans = make([]Span, n)
	}
	for i := range w.Spans {
		w.Spans[i] = Span{From: r.Bytes(), To: r.Bytes()}
	}
	return w
}

func (r *reader) revoke() *LeaseRevoke {
	v := &LeaseRevoke{Expired: r.flags(revokeExpired)&revokeExpired != 0}
	n := r.Count(MaxRevokes, 8)
	if n > 0 {
		v.IDs = make([]int64, n)
	}
	for i := range v.IDs {
		v.IDs[i] = int64(r.Uint64())
	}
	return v
}
