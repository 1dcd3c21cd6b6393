package wal

import (
	"fmt"
	"strings"

	"github.com/holdfastdb/holdfast/core/disk"
)

const segmentSuffix = ".wal"

func segmentName(number uint64) string { return fmt.Sprintf("%016x%s", number, segmentSuffix) }

func parseSegmentName(name string) (number uint64, ok bool) {
	if !strings.HasSuffix(name, segmentSuffix) {
		return 0, false
	}
	if _, err := fmt.Sscanf(name, "%016x", &number); err != nil || segmentName(number) != name {
		return 0, false
	}
	return number, true
}

// segment is one file and the table of its entries. Everything but the constants is guarded by Log.mu.
type segment struct {
	number uint64    // constant
	name   string    // constant, base name
	file   disk.File // constant
	size   int64     // of the file; grows only before the first record is written

	base uint64 // rows count from here
	rows []row  // ascending by index; records without entries have none

	readers int  // Entries calls reading the file now
	dropped bool // no longer part of the log: the last reader closes and removes it
}

// row says where a record's entries are: 16 bytes per record, since there may be 100,000 records in a segment.
type row struct {
	delta uint32 // index of the first entry, from segment.base
	n     uint32 // entries that still count: later ones of the record were overwritten
	off   uint32
	size  uint32 // header and payload
}

// addRow notes that the record at off holds n entries from first on.
func (s *segment) addRow(first uint64, n int, off, size int64) {
	if len(s.rows) == 0 {
		s.base = first
	}
	s.rows = append(s.rows, row{delta: uint32(first - s.base), n: uint32(n), off: uint32(off), size: uint32(size)})
}

// cut drops all entries from index on and reports whether any are left, so that an earlier segment need not be looked at.
func (s *segment) cut(index uint64) (left bool) {
	for len(s.rows) > 0 {
		r := &s.rows[len(s.rows)-1]
		first := s.base + uint64(r.delta)
		if first < index {
			r.n = uint32(min(uint64(r.n), index-first))
			return true
		}
		s.rows = s.rows[:len(s.rows)-1]
	}
	return false
}

// first is the first index in the table; ok is false if there are no entries.
func (s *segment) first() (index uint64, ok bool) {
	if len(s.rows) == 0 {
		return 0, false
	}
	return s.base + uint64(s.rows[0].delta), true
}

// last is the last index in the table, 0 if there are no entries.
func (s *segment) last() uint64 {
	if len(s.rows) == 0 {
		return 0
	}
	r := s.rows[len(s.rows)-1]
	return s.base + uint64(r.delta) + uint64(r.n) - 1
}
