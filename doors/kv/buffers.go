package kv

import (
	"math/bits"
	"sync"

	"google.golang.org/grpc/mem"
)

// buffers is the memory that messages come in and that answers are encoded in. grpc's own pool clears every buffer that it gives out, to
// its whole capacity: a message of 100 KB cost a megabyte of zeros. A user of one from here must overwrite all the bytes that it uses.
type buffers struct {
	classes [largestBuffer - smallestBuffer + 1]sync.Pool
}

// Sizes of buffers, as powers of two. A larger buffer is not worth keeping.
const (
	smallestBuffer = 11
	largestBuffer  = 20
)

// pool is shared by all doors of the process.
var pool = new(buffers)

var _ mem.BufferPool = pool

// Get implements mem.BufferPool: a buffer of n bytes with anything in it.
func (p *buffers) Get(n int) *[]byte {
	class := bits.Len(uint(max(n, 1) - 1))
	if class > largestBuffer {
		b := make([]byte, n)
		return &b
	}
	class = max(class, smallestBuffer)
	if b, ok := p.classes[class-smallestBuffer].Get().(*[]byte); ok {
		*b = (*b)[:n]
		return b
	}
	b := make([]byte, n, 1<<class)
	return &b
}

// Put implements mem.BufferPool.
func (p *buffers) Put(b *[]byte) {
	size := cap(*b)
	class := bits.Len(uint(size)) - 1
	if class < smallestBuffer || class > largestBuffer || size != 1<<class {
		return
	}
	p.classes[class-smallestBuffer].Put(b)
}
