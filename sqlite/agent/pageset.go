package agent

import "math/bits"

// pageSet is a set of page numbers, a bit a page.
type pageSet struct {
	bits []uint64
	any  bool
}

func (s *pageSet) add(page uint32) {
	i := int(page / 64)
	for i >= len(s.bits) {
		s.bits = append(s.bits, 0)
	}
	s.bits[i] |= 1 << (page % 64)
	s.any = true
}

// All yields the pages, ascending.
func (s *pageSet) All(yield func(page uint32) bool) {
	for i, w := range s.bits {
		for ; w != 0; w &= w - 1 {
			if !yield(uint32(i*64 + bits.TrailingZeros64(w))) {
				return
			}
		}
	}
}

func (s *pageSet) clear() { *s = pageSet{} }
