package store

import (
	"encoding/binary"
	"fmt"
)

// The kinds of operation in Batch.Repr. The numbers are Pebble's, whose batches need no translation; they are part of
// what members hash and never change.
const (
	opDelete      = 0
	opSet         = 1
	opDeleteRange = 15
)

// memBatch is a Batch as the plain list of its operations, in the form Repr promises.
type memBatch struct {
	ops    []byte
	origin *memTree // a batch made before an Install cannot be committed after it
}

func (b *memBatch) Set(key, value []byte) {
	b.ops = append(b.ops, opSet)
	b.ops = appendBytes(b.ops, key)
	b.ops = appendBytes(b.ops, value)
}

func (b *memBatch) Delete(key []byte) {
	b.ops = append(b.ops, opDelete)
	b.ops = appendBytes(b.ops, key)
}

func (b *memBatch) DeleteRange(lower, upper []byte) {
	b.ops = append(b.ops, opDeleteRange)
	b.ops = appendBytes(b.ops, lower)
	b.ops = appendBytes(b.ops, upper)
}

// Overwrote has nothing to hint at: a tree keeps one version of a key.
func (b *memBatch) Overwrote(int) {}

func (b *memBatch) Repr() []byte { return b.ops }
func (b *memBatch) Len() int     { return len(b.ops) }

func appendBytes(dst, s []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(s)))
	return append(dst, s...)
}

// takeBytes cuts a length-prefixed string off the front of src.
func takeBytes(src []byte) (s, rest []byte, err error) {
	n, w := binary.Uvarint(src)
	if w <= 0 || w > 1 && src[w-1] == 0 || n > uint64(len(src)-w) {
		return nil, nil, fmt.Errorf("decode batch: string of %d bytes in %d", n, len(src))
	}
	end := w + int(n)
	return src[w:end:end], src[end:], nil
}

// decodeOps calls fn for each operation of a Repr. value is the upper bound for opDeleteRange and nil for opDelete.
func decodeOps(repr []byte, fn func(kind byte, key, value []byte) error) error {
	for len(repr) > 0 {
		kind := repr[0]
		key, rest, err := takeBytes(repr[1:])
		if err != nil {
			return err
		}
		var value []byte
		switch kind {
		case opDelete:
		case opSet, opDeleteRange:
			if value, rest, err = takeBytes(rest); err != nil {
				return err
			}
		default:
			return fmt.Errorf("decode batch: unknown kind %d", kind)
		}
		if err := fn(kind, key, value); err != nil {
			return err
		}
		repr = rest
	}
	return nil
}
