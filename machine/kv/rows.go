package kv

import (
	"encoding/binary"
	"fmt"
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
	flags := byte(0)
	if m.lease != 0 {
		flags |= rowLease
	}
	if m.valLen <= inlineBytes {
		flags |= rowInline
	}
	dst = append(dst, flags)
	dst = binary.AppendUvarint(dst, uint64(m.mod))
	dst = binary.AppendUvarint(dst, uint64(m.mod-m.create))
	dst = binary.AppendUvarint(dst, uint64(m.sub))
	dst = binary.AppendUvarint(dst, uint64(m.version))
	if m.lease != 0 {
		dst = binary.LittleEndian.AppendUint64(dst, uint64(m.lease))
	}
	dst = binary.AppendUvarint(dst, uint64(m.valLen))
	if flags&rowInline != 0 {
		dst = append(dst, value...)
	}
	return dst
}

// decodeCurrentRow is its inverse. value aliases row; inline says whether it was there.
func decodeCurrentRow(row []byte) (m meta, value []byte, inline bool, err error) {
	r := rowReader{b: row}
	flags := r.byte()
	m.mod = int64(r.uvarint())
	m.create = m.mod - int64(r.uvarint())
	m.sub = uint32(r.uvarint())
	m.version = int64(r.uvarint())
	if flags&rowLease != 0 {
		m.lease = r.fixed64()
	}
	m.valLen = uint32(r.uvarint())
	inline = flags&rowInline != 0
	if inline {
		value, r.b = r.b, nil
	}
	if r.bad || flags&^(rowLease|rowInline) != 0 || len(r.b) != 0 || m.version <= 0 || inline && len(value) != int(m.valLen) {
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
	flags := byte(0)
	if m.lease != 0 {
		flags |= rowLease
	}
	dst = append(dst, flags)
	dst = binary.AppendUvarint(dst, uint64(m.mod-m.create))
	dst = binary.AppendUvarint(dst, uint64(m.version))
	if m.lease != 0 {
		dst = binary.LittleEndian.AppendUint64(dst, uint64(m.lease))
	}
	return append(dst, value...)
}

// decodeHistoryRow is its inverse for the row at rev.sub; of a deletion, meta.exists is false. value aliases row.
func decodeHistoryRow(row []byte, rev int64, sub uint32) (m meta, value []byte, err error) {
	r := rowReader{b: row}
	flags := r.byte()
	m.mod, m.sub = rev, sub
	if flags == rowDeleted && len(r.b) == 0 && !r.bad {
		return m, nil, nil
	}
	m.create = m.mod - int64(r.uvarint())
	m.version = int64(r.uvarint())
	if flags&rowLease != 0 {
		m.lease = r.fixed64()
	}
	if r.bad || flags&^rowLease != 0 || m.version <= 0 {
		return meta{}, nil, fmt.Errorf("history row %x: %w", clip(row), errCorrupt)
	}
	m.valLen = uint32(len(r.b))
	return m, r.b, nil
}

// change is a row of the space by revision: which key changed how, and the version it replaced, so that compaction can
// drop that version without looking for it.
type change struct {
	deleted bool
	prev    meta // only mod, sub and valLen; mod 0 = the key did not exist before
	key     []byte
}

// appendChange encodes it: flags, [prev mod, prev sub, prev value length], key.
func appendChange(dst []byte, deleted bool, prev *meta, key string) []byte {
	flags := byte(0)
	if deleted {
		flags |= rowDeleted
	}
	if prev.exists() {
		flags |= rowPrev
	}
	dst = append(dst, flags)
	if prev.exists() {
		dst = binary.AppendUvarint(dst, uint64(prev.mod))
		dst = binary.AppendUvarint(dst, uint64(prev.sub))
		dst = binary.AppendUvarint(dst, uint64(prev.valLen))
	}
	return append(dst, key...)
}

// decodeChange is its inverse; the key aliases row.
func decodeChange(row []byte) (c change, err error) {
	r := rowReader{b: row}
	flags := r.byte()
	c.deleted = flags&rowDeleted != 0
	if flags&rowPrev != 0 {
		c.prev.mod, c.prev.sub, c.prev.valLen = int64(r.uvarint()), uint32(r.uvarint()), uint32(r.uvarint())
	}
	if r.bad || flags&^(rowDeleted|rowPrev) != 0 {
		return change{}, fmt.Errorf("revision row %x: %w", clip(row), errCorrupt)
	}
	c.key = r.b
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
	r := rowReader{b: row}
	if v := r.byte(); v != sumsVersion {
		return sums{}, fmt.Errorf("counters row of version %d: %w", v, errCorrupt)
	}
	var sub int64
	for _, p := range [...]*int64{&s.rev, &s.compacted, &s.keys, &s.history, &s.inUse, &s.target, &s.edge, &s.cursorRev, &sub} {
		*p = r.varint()
	}
	s.cursorSub = uint32(sub)
	if r.bad || len(r.b) != 0 {
		return sums{}, fmt.Errorf("counters row %x: %w", row, errCorrupt)
	}
	return s, nil
}

func clip(b []byte) []byte { return b[:min(len(b), 40)] }

// rowReader takes values off the front of b; what is missing reads as zero and sets bad.
type rowReader struct {
	b   []byte
	bad bool
}

func (r *rowReader) byte() byte {
	if len(r.b) == 0 {
		r.bad = true
		return 0
	}
	v := r.b[0]
	r.b = r.b[1:]
	return v
}

func (r *rowReader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.bad, r.b = true, nil
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *rowReader) varint() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.bad, r.b = true, nil
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *rowReader) fixed64() int64 {
	if len(r.b) < 8 {
		r.bad, r.b = true, nil
		return 0
	}
	v := int64(binary.LittleEndian.Uint64(r.b))
	r.b = r.b[8:]
	return v
}
