package machine

import (
	"encoding/binary"
	"fmt"

	"github.com/holdfastdb/holdfast/internal/wire"
)

// Flag bits of rows.
const (
	rowLease   = 1 // a lease id follows
	rowInline  = 2 // current row: the value follows
	rowDeleted = 4 // history and revision rows: the version is a deletion
	rowPrev    = 8 // revision row: the version replaced another one, which follows
)

// appendCurrentRow encodes the current row of a key: flags, mod, mod-create, sub, version, [lease], value length, [value].
func appendCurrentRow(dst []byte, m *meta, value []byte) []byte {
	inline := m.valLen <= inlineBytes
	dst = append(dst, wire.Bit(m.lease != 0, rowLease)|wire.Bit(inline, rowInline))
	dst = binary.AppendUvarint(dst, uint64(m.mod))
	dst = binary.AppendUvarint(dst, uint64(m.mod-m.create))
	dst = binary.AppendUvarint(dst, uint64(m.sub))
	dst = binary.AppendUvarint(dst, uint64(m.version))
	if m.lease != 0 {
		dst = binary.LittleEndian.AppendUint64(dst, uint64(m.lease))
	}
	dst = binary.AppendUvarint(dst, uint64(m.valLen))
	if inline {
		dst = append(dst, value...)
	}
	return dst
}

// decodeCurrentRow is its inverse. value aliases row; inline reports whether it was there.
func decodeCurrentRow(row []byte) (m meta, value []byte, inline bool, err error) {
	r := wire.NewReader(row)
	flags := r.Byte()
	m.mod = int64(r.Uvarint())
	m.create = m.mod - int64(r.Uvarint())
	m.sub = uint32(r.Uvarint())
	m.version = int64(r.Uvarint())
	if flags&rowLease != 0 {
		m.lease = int64(r.Uint64())
	}
	m.valLen = uint32(r.Uvarint())
	inline = flags&rowInline != 0
	if inline {
		value = r.Rest()
	}
	if r.End() != nil || flags&^(rowLease|rowInline) != 0 || m.version <= 0 || inline && len(value) != int(m.valLen) {
		return meta{}, nil, false, fmt.Errorf("current row %x: %w", clip(row), errCorrupt)
	}
	return m, value, inline, nil
}

// appendHistoryRow encodes one version: flags, then for a put mod-create, version, [lease], value. Revision and key are in
// the row's key.
func appendHistoryRow(dst []byte, m *meta, value []byte) []byte {
	if !m.exists() {
		return append(dst, rowDeleted)
	}
	dst = append(dst, wire.Bit(m.lease != 0, rowLease))
	dst = binary.AppendUvarint(dst, uint64(m.mod-m.create))
	dst = binary.AppendUvarint(dst, uint64(m.version))
	if m.lease != 0 {
		dst = binary.LittleEndian.AppendUint64(dst, uint64(m.lease))
	}
	return append(dst, value...)
}

// decodeHistoryRow is its inverse for the row at rev.sub; of a deletion, meta.exists is false. value aliases row.
func decodeHistoryRow(row []byte, rev int64, sub uint32) (m meta, value []byte, err error) {
	r := wire.NewReader(row)
	flags := r.Byte()
	m.mod, m.sub = rev, sub
	if flags == rowDeleted && r.End() == nil {
		return m, nil, nil
	}
	m.create = m.mod - int64(r.Uvarint())
	m.version = int64(r.Uvarint())
	if flags&rowLease != 0 {
		m.lease = int64(r.Uint64())
	}
	value = r.Rest()
	if r.Err() != nil || flags&^rowLease != 0 || m.version <= 0 {
		return meta{}, nil, fmt.Errorf("history row %x: %w", clip(row), errCorrupt)
	}
	m.valLen = uint32(len(value))
	return m, value, nil
}

// change is a row of the space by revision: the key, its change, and the version it replaced. Compaction can then drop that version without
// looking for it.
type change struct {
	deleted bool
	prev    meta // only mod, sub and valLen; mod 0 = the key did not exist before
	key     []byte
}

// appendChange encodes it: flags, [prev mod, prev sub, prev value length], key.
func appendChange(dst []byte, deleted bool, prev *meta, key []byte) []byte {
	dst = append(dst, wire.Bit(deleted, rowDeleted)|wire.Bit(prev.exists(), rowPrev))
	if prev.exists() {
		dst = binary.AppendUvarint(dst, uint64(prev.mod))
		dst = binary.AppendUvarint(dst, uint64(prev.sub))
		dst = binary.AppendUvarint(dst, uint64(prev.valLen))
	}
	return append(dst, key...)
}

// decodeChange is its inverse; the key aliases row.
func decodeChange(row []byte) (c change, err error) {
	r := wire.NewReader(row)
	flags := r.Byte()
	c.deleted = flags&rowDeleted != 0
	if flags&rowPrev != 0 {
		c.prev.mod, c.prev.sub, c.prev.valLen = int64(r.Uvarint()), uint32(r.Uvarint()), uint32(r.Uvarint())
	}
	c.key = r.Rest()
	if r.Err() != nil || flags&^(rowDeleted|rowPrev) != 0 {
		return change{}, fmt.Errorf("revision row %x: %w", clip(row), errCorrupt)
	}
	return c, nil
}

// sums are the machine's running numbers, one small row written once per entry that changed them.
type sums struct {
	rev       int64 // current revision; a fresh machine is at 1
	compacted int64 // history below is gone; -1 = never compacted, as in etcd
	keys      int64 // keys that exist
	history   int64 // bytes of keys and values of all versions, deletions included
	inUse     int64 // bytes of keys and values of the keys that exist

	// The scrub behind compaction (scrub.go).
	target    int64  // revision it works towards; at most compacted
	edge      int64  // revision the last finished scrub worked towards
	cursorRev int64  // next row by revision to look at
	cursorSub uint32 // its second half
}

const sumsVersion = 1

var freshSums = sums{rev: 1, compacted: -1, target: -1, edge: -1}

func appendSums(dst []byte, s *sums) []byte {
	dst = append(dst, sumsVersion)
	for _, v := range [...]int64{s.rev, s.compacted, s.keys, s.history, s.inUse, s.target, s.edge, s.cursorRev, int64(s.cursorSub)} {
		dst = binary.AppendVarint(dst, v)
	}
	return dst
}

func decodeSums(row []byte) (s sums, err error) {
	r := wire.NewReader(row)
	if v := r.Byte(); v != sumsVersion {
		return sums{}, fmt.Errorf("counters row of version %d: %w", v, errCorrupt)
	}
	var sub int64
	for _, p := range [...]*int64{&s.rev, &s.compacted, &s.keys, &s.history, &s.inUse, &s.target, &s.edge, &s.cursorRev, &sub} {
		*p = r.Varint()
	}
	s.cursorSub = uint32(sub)
	if r.End() != nil {
		return sums{}, fmt.Errorf("counters row %x: %w", row, errCorrupt)
	}
	return s, nil
}

func clip(b []byte) []byte { return b[:min(len(b), 40)] }
