package store

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/holdfastdb/holdfast/internal/wire"
)

// The kinds of operation in Batch.Repr. The numbers are Pebble's, whose batches need no translation; members hash them, so they never
// change.
const (
	opDelete      = 0
	opSet         = 1
	opDeleteRange = 15
)

// memBatch is a Batch as the plain list of its operations, in the form Repr promises.
type memBatch struct {
	ops    []byte
	origin *memTree // a batch made before an Install cannot be committed after it

	overwrote int
}

func (b *memBatch) Set(key, value []byte) {
	b.ops = append(b.ops, opSet)
	b.ops = wire.AppendBytes(b.ops, key)
	b.ops = wire.AppendBytes(b.ops, value)
}

func (b *memBatch) SetJoined(key, head, tail []byte) {
	b.ops = append(b.ops, opSet)
	b.ops = wire.AppendBytes(b.ops, key)
	b.ops = binary.AppendUvarint(b.ops, uint64(len(head)+len(tail)))
	b.ops = append(append(b.ops, head...), tail...)
}

func (b *memBatch) Delete(key []byte) {
	b.ops = append(b.ops, opDelete)
	b.ops = wire.AppendBytes(b.ops, key)
}

func (b *memBatch) DeleteRange(lower, upper []byte) {
	b.ops = append(b.ops, opDeleteRange)
	b.ops = wire.AppendBytes(b.ops, lower)
	b.ops = wire.AppendBytes(b.ops, upper)
}

func (b *memBatch) Grow(n int) { b.ops = slices.Grow(b.ops, n) }

// Overwrote is counted, and has nothing to hint at: a tree keeps one version of a key.
func (b *memBatch) Overwrote(n int) { b.overwrote += n }

func (b *memBatch) Repr() []byte { return b.ops }
func (b *memBatch) Len() int     { return len(b.ops) }

// decodeOps calls fn for each operation of a Repr. value is the upper bound for opDeleteRange and nil for opDelete.
func decodeOps(repr []byte, fn func(kind byte, key, value []byte) error) error {
	for r := wire.NewReader(repr); r.Len() > 0; {
		kind, key := r.Byte(), r.Bytes()
		var value []byte
		switch kind {
		case opDelete:
		case opSet, opDeleteRange:
			value = r.Bytes()
		default:
			return fmt.Errorf("decode batch: unknown kind %d", kind)
		}
		if err := r.Err(); err != nil {
			return fmt.Errorf("decode batch: %w", err)
		}
		if err := fn(kind, key, value); err != nil {
			return err
		}
	}
	return nil
}
