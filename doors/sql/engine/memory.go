package engine

import (
	"sync/atomic"

	"github.com/cockroachdb/apd/v3"
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"

	"github.com/holdfastdb/holdfast/doors/sql/wire"
)

// pool bounds what all statements of an Engine keep in memory together. Any goroutine.
type pool struct {
	most  int64 // bytes
	taken atomic.Int64
}

// poolStep is how many bytes a statement takes from the pool at a time.
const poolStep = 64 << 10

// kept counts what a statement keeps in memory: rows that it joins, sorts, groups or makes distinct, and keys that it will lock. It is the library's
// Reporter, which is asked before each entry of a table of hashes. held counts all else that nodes keep.
type kept struct {
	all         *pool
	used, most  int64 // bytes
	taken       int64 // bytes of the pool
	overcrowded bool  // the pool had no more
}

// rowBytes and columnBytes are about what a row takes in memory beside its values, and entryBytes what an entry of a table of hashes does.
const (
	rowBytes    = 64
	columnBytes = 40
	entryBytes  = 64
)

// begin begins to count for a statement.
func (k *kept) begin(all *pool, most int) { *k = kept{all: all, most: int64(most)} }

// end gives back what the statement has taken of the pool.
func (k *kept) end() {
	if k.taken > 0 {
		k.all.taken.Add(-k.taken)
	}
	k.used, k.taken = 0, 0
}

// MaxMemory implements sql.Reporter.
func (k *kept) MaxMemory() uint64 { return uint64(k.most) }

// UsedMemory implements sql.Reporter: an entry is about to be added.
func (k *kept) UsedMemory() uint64 {
	if !k.take(entryBytes) {
		return uint64(k.most)
	}
	return uint64(k.used)
}

// take counts bytes, and reports whether the statement may keep so many.
func (k *kept) take(bytes int) bool {
	k.used += int64(bytes)
	if k.used > k.taken && k.all != nil {
		more := max(k.used-k.taken, poolStep)
		k.taken += more
		k.overcrowded = k.all.taken.Add(more) > k.all.most
	}
	return k.used <= k.most && !k.overcrowded
}

// add counts bytes by themselves. Error: 1105.
func (k *kept) add(bytes int) error {
	if !k.take(bytes) {
		return k.tooMuch()
	}
	return nil
}

// give gives bytes back that are not kept any more.
func (k *kept) give(bytes int) {
	k.used = max(k.used-int64(bytes), 0) // what is closed behind the end of its statement was given back by that
	if free := k.taken - k.used; k.all != nil && free > 2*poolStep {
		k.taken -= free - poolStep
		k.all.taken.Add(poolStep - free)
	}
}

func (k *kept) tooMuch() error {
	if k.overcrowded && k.used <= k.most {
		return wire.Errorf(wire.ErrUnknown, "Out of memory for a statement: all that run keep more than %d bytes of rows to join, sort, group or lock them; try again when fewer run, and --memory of the server raises the limit", k.all.most)
	}
	return wire.Errorf(wire.ErrUnknown, "Out of memory for a statement that keeps more than %d bytes of rows to join, sort, group or lock them; an index, a condition or LIMIT makes them fewer, and --memory of the server raises the limit", k.most)
}

// judgeMemory puts the limit into the library's error.
func (k *kept) judgeMemory(err error) error {
	if err != nil && sql.ErrNoMemoryAvailable.Is(err) {
		return k.tooMuch()
	}
	return err
}

// rowSize is about how many bytes a row takes in memory.
func rowSize(r sql.Row) int {
	n := rowBytes + columnBytes*len(r)
	for _, v := range r {
		n += valueSize(v)
	}
	return n
}

// valueSize is about how many bytes a value takes in memory beyond columnBytes.
func valueSize(v any) int {
	switch v := v.(type) {
	case string:
		return len(v)
	case []byte:
		return len(v)
	case *apd.Decimal:
		return columnBytes
	case types.JSONDocument:
		return valueSize(v.Val)
	case map[string]any:
		n := rowBytes
		for key, one := range v { // any order: a sum
			n += len(key) + 2*columnBytes + valueSize(one)
		}
		return n
	case []any:
		n := rowBytes
		for _, one := range v {
			n += columnBytes + valueSize(one)
		}
		return n
	case sql.Row:
		return rowSize(v)
	}
	return 0
}
