package kv

import (
	"errors"
	"math"

	"google.golang.org/protobuf/encoding/protowire"

	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
)

// The decoders below read etcd's request messages from their wire form into the log's own structs. They accept and refuse exactly what
// protobuf does. The last value of a field wins, and a repeated message field is merged. Well-formed unknown fields and fields of the wrong
// wire type are skipped. Every byte slice in the result aliases the input.

var errWire = errors.New("malformed protobuf message")

// invalidEnum stands for an enum value the log has no number for; the checks refuse it.
const invalidEnum = math.MaxUint8

// maxDepth bounds the nesting of transactions that is decoded at all. etcd allows no more levels than operations (128),
// so what lies deeper is answered with "too many operations" and need not be looked at.
const maxDepth = 160

// field is one decoded tag with its value: num for varints, bytes for length-delimited ones.
type field struct {
	id    protowire.Number
	typ   protowire.Type
	num   uint64
	bytes []byte
}

// next reads one field from b and returns what follows it. Fixed-width fields and groups are skipped over: no message
// here has one, so they can only be unknown.
func (f *field) next(b []byte) ([]byte, error) {
	var n int
	if len(b) > 0 && b[0] < 0x80 { // field numbers up to 15: the common case
		f.id, f.typ, n = protowire.Number(b[0]>>3), protowire.Type(b[0]&7), 1
		if f.id < protowire.MinValidNumber {
			return nil, errWire
		}
	} else if f.id, f.typ, n = protowire.ConsumeTag(b); n < 0 || f.id > protowire.MaxValidNumber {
		return nil, errWire
	}
	b = b[n:]
	switch f.typ {
	case protowire.VarintType:
		if len(b) > 0 && b[0] < 0x80 {
			f.num = uint64(b[0])
			return b[1:], nil
		}
		f.num, n = protowire.ConsumeVarint(b)
	case protowire.BytesType:
		f.bytes, n = protowire.ConsumeBytes(b)
	default:
		n = protowire.ConsumeFieldValue(f.id, f.typ, b)
	}
	if n < 0 {
		return nil, errWire
	}
	return b[n:], nil
}

func (f *field) is(id protowire.Number, typ protowire.Type) bool { return f.id == id && f.typ == typ }

// enum narrows a protobuf enum (32 bits on the wire, as protobuf cuts it) to the log's.
func (f *field) enum(limit uint8) uint8 {
	if v := int32(f.num); v >= 0 && v <= int32(limit) {
		return uint8(v)
	}
	return invalidEnum
}

func decodePut(b []byte, p *kvpart.Put) error {
	var f field
	var err error
	for len(b) > 0 {
		if b, err = f.next(b); err != nil {
			return err
		}
		switch {
		case f.is(1, protowire.BytesType):
			p.Key = f.bytes
		case f.is(2, protowire.BytesType):
			p.Value = f.bytes
		case f.is(3, protowire.VarintType):
			p.Lease = int64(f.num)
		case f.is(4, protowire.VarintType):
			p.PrevKV = f.num != 0
		case f.is(5, protowire.VarintType):
			p.IgnoreValue = f.num != 0
		case f.is(6, protowire.VarintType):
			p.IgnoreLease = f.num != 0
		}
	}
	return nil
}

// decodeRange also reports serializable, which is a matter of the door and not of the log. It is kept from an earlier
// part of a merged message by passing it in.
func decodeRange(b []byte, r *kvpart.Range, serializable bool) (bool, error) {
	var f field
	var err error
	for len(b) > 0 {
		if b, err = f.next(b); err != nil {
			return false, err
		}
		if f.typ == protowire.BytesType {
			switch f.id {
			case 1:
				r.Key = f.bytes
			case 2:
				r.End = f.bytes
			}
			continue
		}
		if f.typ != protowire.VarintType {
			continue
		}
		switch f.id {
		case 3:
			r.Limit = int64(f.num)
		case 4:
			r.Revision = int64(f.num)
		case 5:
			r.Order = kvpart.SortOrder(f.enum(2))
		case 6:
			r.Target = kvpart.SortTarget(f.enum(4))
		case 7:
			serializable = f.num != 0
		case 8:
			r.KeysOnly = f.num != 0
		case 9:
			r.CountOnly = f.num != 0
		case 10:
			r.MinMod = int64(f.num)
		case 11:
			r.MaxMod = int64(f.num)
		case 12:
			r.MinCreate = int64(f.num)
		case 13:
			r.MaxCreate = int64(f.num)
		}
	}
	return serializable, nil
}

func decodeDelete(b []byte, d *kvpart.DeleteRange) error {
	var f field
	var err error
	for len(b) > 0 {
		if b, err = f.next(b); err != nil {
			return err
		}
		switch {
		case f.is(1, protowire.BytesType):
			d.Key = f.bytes
		case f.is(2, protowire.BytesType):
			d.End = f.bytes
		case f.is(3, protowire.VarintType):
			d.PrevKV = f.num != 0
		}
	}
	return nil
}

// txnTraits are facts about a Txn that the door needs beyond the logged form.
type txnTraits struct {
	// writes: something other than a Range stands in a branch, so the Txn must go through the log. As in etcd a nested Txn counts as a
	// write with any content.
	writes bool
	// allSerializable: every operation is a serializable Range, so no read-index round is needed.
	allSerializable bool
	// tooDeep: nested beyond maxDepth, or of more operations than left says; the rest was not looked at.
	tooDeep bool
	// left is how many operations and comparisons are still taken, at all levels together. 0 before decoding: leastTotal.
	left int
}

// leastTotal is how many operations and comparisons a Txn may have at all levels together, if no list may have as many. etcd bounds each list alone. An
// operation takes four bytes of a message and a hundred of memory, and nested lists could hold hundreds of thousands.
const leastTotal = 4096

func decodeTxn(b []byte, t *kvpart.Txn, traits *txnTraits) error {
	traits.allSerializable = true
	if traits.left == 0 {
		traits.left = leastTotal
	}
	return decodeTxnAt(b, t, traits, 0)
}

func decodeTxnAt(b []byte, t *kvpart.Txn, traits *txnTraits, depth int) error {
	if depth > maxDepth {
		traits.tooDeep = true
		return nil
	}
	var f field
	var err error
	for len(b) > 0 {
		if b, err = f.next(b); err != nil {
			return err
		}
		if f.typ != protowire.BytesType {
			continue
		}
		if f.id >= 1 && f.id <= 3 {
			if traits.left == 0 {
				traits.tooDeep = true
				return nil
			}
			traits.left--
		}
		switch f.id {
		case 1:
			t.Compare = append(t.Compare, kvpart.Compare{})
			err = decodeCompare(f.bytes, &t.Compare[len(t.Compare)-1])
		case 2:
			t.Then = append(t.Then, kvpart.Op{})
			err = decodeOp(f.bytes, &t.Then[len(t.Then)-1], traits, depth)
		case 3:
			t.Else = append(t.Else, kvpart.Op{})
			err = decodeOp(f.bytes, &t.Else[len(t.Else)-1], traits, depth)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// decodeOp reads a RequestOp, a protobuf oneof: another kind replaces what stood there, the same kind again is merged.
func decodeOp(b []byte, op *kvpart.Op, traits *txnTraits, depth int) error {
	var f field
	var err error
	serializable := false
	for len(b) > 0 {
		if b, err = f.next(b); err != nil {
			return err
		}
		if f.typ != protowire.BytesType {
			continue
		}
		switch f.id {
		case 1:
			if op.Range == nil {
				*op, serializable = kvpart.Op{Range: new(kvpart.Range)}, false
			}
			serializable, err = decodeRange(f.bytes, op.Range, serializable)
		case 2:
			if op.Put == nil {
				*op = kvpart.Op{Put: new(kvpart.Put)}
			}
			err = decodePut(f.bytes, op.Put)
		case 3:
			if op.Delete == nil {
				*op = kvpart.Op{Delete: new(kvpart.DeleteRange)}
			}
			err = decodeDelete(f.bytes, op.Delete)
		case 4:
			if op.Txn == nil {
				*op = kvpart.Op{Txn: new(kvpart.Txn)}
			}
			err = decodeTxnAt(f.bytes, op.Txn, traits, depth+1)
		}
		if err != nil {
			return err
		}
	}
	if op.Range == nil {
		traits.writes = true
	}
	if op.Range == nil || !serializable {
		traits.allSerializable = false
	}
	return nil
}

// decodeCompare reads a Compare. The wire carries the operand as a oneof beside the target; an operand that does not fit
// the target counts as zero, as in etcd.
func decodeCompare(b []byte, c *kvpart.Compare) error {
	var f field
	var err error
	operand := protowire.Number(0)
	for len(b) > 0 {
		if b, err = f.next(b); err != nil {
			return err
		}
		switch {
		case f.is(1, protowire.VarintType):
			c.Result = kvpart.CompareResult(f.enum(3))
		case f.is(2, protowire.VarintType):
			c.Target = kvpart.CompareTarget(f.enum(4))
		case f.is(3, protowire.BytesType):
			c.Key = f.bytes
		case f.is(4, protowire.VarintType), f.is(5, protowire.VarintType), f.is(6, protowire.VarintType), f.is(8, protowire.VarintType):
			operand, c.Int, c.Value = f.id, int64(f.num), nil
		case f.is(7, protowire.BytesType):
			operand, c.Int, c.Value = f.id, 0, f.bytes
		case f.is(64, protowire.BytesType):
			c.End = f.bytes
		}
	}
	// Operand fields are numbered 4 (version) to 8 (lease) in the order of the targets.
	if operand != 4+protowire.Number(c.Target) {
		c.Int, c.Value = 0, nil
	}
	return nil
}
