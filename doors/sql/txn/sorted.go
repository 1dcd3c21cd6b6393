package txn

import (
	"bytes"
	"slices"
	"sort"
)

// blockRows is how many rows a block of a sorted has at most.
const blockRows = 256

// sorted has rows in the order of their keys, in blocks. A row is found in logarithmic time, and adding one moves a block's worth of pointers.
// A flat slice was rejected, because an insert into 100,000 rows moves all of them.
type sorted struct {
	blocks [][]*row // none is empty
	rows   int
}

// block is the place of the block that has the key, or would have it.
func (s *sorted) block(key []byte) int {
	n := sort.Search(len(s.blocks), func(i int) bool { return bytes.Compare(s.blocks[i][0].key, key) > 0 })
	return max(0, n-1)
}

func find(block []*row, key []byte) (int, bool) {
	return slices.BinarySearchFunc(block, key, func(r *row, key []byte) int { return bytes.Compare(r.key, key) })
}

// get returns the row of a key, or nil.
func (s *sorted) get(key []byte) *row {
	if len(s.blocks) == 0 {
		return nil
	}
	block := s.blocks[s.block(key)]
	if i, ok := find(block, key); ok {
		return block[i]
	}
	return nil
}

// add takes in a row whose key is not there.
func (s *sorted) add(r *row) {
	s.rows++
	if len(s.blocks) == 0 {
		s.blocks = [][]*row{{r}}
		return
	}
	b := s.block(r.key)
	i, _ := find(s.blocks[b], r.key)
	block := slices.Insert(s.blocks[b], i, r)
	s.blocks[b] = block
	if len(block) <= blockRows {
		return
	}
	at := len(block) / 2
	if b == len(s.blocks)-1 && i == len(block)-1 {
		at = len(block) - 1 // rows that come in order fill their blocks
	}
	s.blocks[b] = block[:at:at]
	s.blocks = slices.Insert(s.blocks, b+1, slices.Clone(block[at:]))
}

// remove takes out the row of a key, which is there.
func (s *sorted) remove(key []byte) {
	s.rows--
	b := s.block(key)
	i, _ := find(s.blocks[b], key)
	if s.blocks[b] = slices.Delete(s.blocks[b], i, i+1); len(s.blocks[b]) == 0 {
		s.blocks = slices.Delete(s.blocks, b, b+1)
	}
}

// from returns the first row at or behind a key, or nil.
func (s *sorted) from(key []byte) *row {
	if len(s.blocks) == 0 {
		return nil
	}
	b := s.block(key)
	i, _ := find(s.blocks[b], key)
	if i < len(s.blocks[b]) {
		return s.blocks[b][i]
	}
	if b+1 < len(s.blocks) {
		return s.blocks[b+1][0]
	}
	return nil
}

// before returns the last row before a key, or nil. A nil key: the last of all.
func (s *sorted) before(key []byte) *row {
	if len(s.blocks) == 0 {
		return nil
	}
	if key == nil {
		last := s.blocks[len(s.blocks)-1]
		return last[len(last)-1]
	}
	b := s.block(key)
	i, _ := find(s.blocks[b], key)
	if i > 0 {
		return s.blocks[b][i-1]
	}
	return nil // the first row of a block is not behind the key, unless the block is the first
}
