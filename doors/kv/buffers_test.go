package kv

import "testing"

func TestBuffersHaveTheSizeAskedFor(t *testing.T) {
	p := new(buffers)
	for _, n := range []int{0, 1, 2047, 2048, 2049, 1<<20 - 1, 1 << 20, 1<<20 + 1} {
		for range 3 {
			b := p.Get(n)
			if len(*b) != n {
				t.Fatalf("%d bytes instead of %d", len(*b), n)
			}
			p.Put(b)
		}
	}
}

// TestOnlyBuffersOfAClassAreKept: one that is smaller than its class would be given to a message that needs more.
func TestOnlyBuffersOfAClassAreKept(t *testing.T) {
	p := new(buffers)
	for _, size := range []int{0, 100, 3000, 4095, 5000, 1 << 21} {
		b := make([]byte, size)
		p.Put(&b)
	}
	for n := 1; n <= 1<<20; n *= 2 {
		if b := p.Get(n); len(*b) != n {
			t.Fatalf("%d bytes instead of %d", len(*b), n)
		}
	}
}
