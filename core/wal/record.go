package wal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/holdfastdb/holdfast/internal/wire"
)

// A record is a header of 32 bytes, a payload, and zeros up to a multiple of 8. The alignment lets recovery look for records after a
// damaged one. All integers are little-endian. The byte table is docs/formats/wal.md.
const (
	recordHeaderLen = 32
	recordAlign     = 8
	recordMagic     = 0x72574648 // "HFWr"

	kindSegment = 1 // the first record of a segment, and only that
	kindBatch   = 2

	formatVersion     = 1
	segmentPayloadLen = 64
	segmentRecordLen  = recordHeaderLen + segmentPayloadLen

	flagHardState = 1
	hardStateLen  = 24

	// MaxRecordBytes bounds the payload of one record, in Append and in recovery.
	MaxRecordBytes = 256 << 20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errBadRecord: the bytes are not a record. Recovery decides whether that is a torn tail or corruption.
var errBadRecord = errors.New("bad record")

// Errors of a batch's payload.
var (
	errFlags = errors.New("unknown flags")
	errIndex = errors.New("index out of range")
)

// header is the decoded front of a record.
type header struct {
	length  uint32 // of the payload
	segment uint64
	synced  uint64 // the segment was synced up to here when the record was written
	kind    byte
}

// seedOf starts every checksum of one log. It is random per log, so that neither a client's value nor another log's segment can pass for a
// record.
func seedOf(logID uint64) uint32 {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], logID)
	return crc32.Checksum(b[:], castagnoli)
}

// putHeader fills in the header of rec, whose payload is in place, and the checksum over both.
func putHeader(rec []byte, h header, seed uint32) {
	binary.LittleEndian.PutUint32(rec[4:], h.length)
	binary.LittleEndian.PutUint64(rec[8:], h.segment)
	binary.LittleEndian.PutUint64(rec[16:], h.synced)
	binary.LittleEndian.PutUint32(rec[24:], recordMagic)
	rec[28], rec[29], rec[30], rec[31] = h.kind, 0, 0, 0
	crc := crc32.Update(seed, castagnoli, rec[4:recordHeaderLen+int(h.length)])
	binary.LittleEndian.PutUint32(rec, crc)
}

// looksLikeRecord is the cheap test before a checksum is worth computing.
func looksLikeRecord(b []byte, segment uint64) bool {
	return binary.LittleEndian.Uint32(b[24:]) == recordMagic && binary.LittleEndian.Uint64(b[8:]) == segment
}

// parseHeader decodes the first 32 bytes of b without checking the checksum; ok is false if they are no header.
func parseHeader(b []byte) (h header, ok bool) {
	h = header{
		length:  binary.LittleEndian.Uint32(b[4:]),
		segment: binary.LittleEndian.Uint64(b[8:]),
		synced:  binary.LittleEndian.Uint64(b[16:]),
		kind:    b[28],
	}
	ok = binary.LittleEndian.Uint32(b[24:]) == recordMagic &&
		(h.kind == kindSegment || h.kind == kindBatch) && b[29]|b[30]|b[31] == 0 && h.length <= MaxRecordBytes
	return h, ok
}

// checksumOK verifies rec, which is header and payload.
func checksumOK(rec []byte, seed uint32) bool {
	return binary.LittleEndian.Uint32(rec) == crc32.Update(seed, castagnoli, rec[4:])
}

// align rounds up to where the next record may begin.
func align(n int64) int64 { return (n + recordAlign - 1) &^ (recordAlign - 1) }

// segmentHeader is the payload of a segment's first record: recovery's data if all earlier segments are gone.
type segmentHeader struct {
	logID     uint64
	prev      position // the last entry before this segment
	prevEnd   uint64   // where the records of the segment before end; 0 = there is none
	hardState HardState
}

// position is an entry's index and term.
type position struct{ index, term uint64 }

func putSegmentHeader(b []byte, h segmentHeader) {
	le := binary.LittleEndian
	le.PutUint32(b, formatVersion)
	le.PutUint32(b[4:], 0)
	le.PutUint64(b[8:], h.logID)
	le.PutUint64(b[16:], h.prev.index)
	le.PutUint64(b[24:], h.prev.term)
	le.PutUint64(b[32:], h.prevEnd)
	putHardState(b[40:], h.hardState)
}

func parseSegmentHeader(b []byte) (h segmentHeader, err error) {
	le := binary.LittleEndian
	if len(b) != segmentPayloadLen {
		return h, fmt.Errorf("segment header of %d bytes: %w", len(b), errBadRecord)
	}
	if v := le.Uint32(b); v != formatVersion || le.Uint32(b[4:]) != 0 {
		return h, fmt.Errorf("segment of format version %d, this build knows %d", v, formatVersion)
	}
	return segmentHeader{
		logID:     le.Uint64(b[8:]),
		prev:      position{le.Uint64(b[16:]), le.Uint64(b[24:])},
		prevEnd:   le.Uint64(b[32:]),
		hardState: getHardState(b[40:]),
	}, nil
}

func putHardState(b []byte, hs HardState) {
	binary.LittleEndian.PutUint64(b, hs.Term)
	binary.LittleEndian.PutUint64(b[8:], hs.Vote)
	binary.LittleEndian.PutUint64(b[16:], hs.Commit)
}

func getHardState(b []byte) HardState {
	le := binary.LittleEndian
	return HardState{Term: le.Uint64(b), Vote: le.Uint64(b[8:]), Commit: le.Uint64(b[16:])}
}

// batchLen is how many bytes appendBatch appends.
func batchLen(b Batch) int {
	n := 1 + wire.UvarintLen(uint64(len(b.Entries)))
	if b.HardState != nil {
		n += hardStateLen
	}
	if len(b.Entries) == 0 {
		return n
	}
	n += wire.UvarintLen(b.Entries[0].Index)
	for i := range b.Entries {
		e := &b.Entries[i]
		n += wire.UvarintLen(e.Term) + 1 + wire.UvarintLen(uint64(len(e.Data))) + len(e.Data)
	}
	return n
}

// appendBatch appends a batch's payload to dst.
func appendBatch(dst []byte, b Batch) []byte {
	if b.HardState != nil {
		dst = append(dst, flagHardState)
		dst = append(dst, make([]byte, hardStateLen)...)
		putHardState(dst[len(dst)-hardStateLen:], *b.HardState)
	} else {
		dst = append(dst, 0)
	}
	dst = binary.AppendUvarint(dst, uint64(len(b.Entries)))
	if len(b.Entries) == 0 {
		return dst
	}
	dst = binary.AppendUvarint(dst, b.Entries[0].Index)
	for i := range b.Entries {
		e := &b.Entries[i]
		dst = binary.AppendUvarint(dst, e.Term)
		dst = append(dst, e.Type)
		dst = wire.AppendBytes(dst, e.Data)
	}
	return dst
}

// decodeBatch decodes a payload. The entries are appended to dst and their Data points into p. It accepts exactly what
// appendBatch makes: a batch has one encoding.
func decodeBatch(dst []Entry, p []byte) (hs *HardState, entries []Entry, err error) {
	r := wire.NewReader(p)
	if r.Flags(flagHardState, errFlags)&flagHardState != 0 {
		if b := r.Take(hardStateLen); b != nil {
			v := getHardState(b)
			hs = &v
		}
	}
	// An entry takes at least three bytes: a count that cannot be true must not make us allocate for it.
	if count := r.Count(MaxRecordBytes, 3); count > 0 {
		index := r.Uvarint()
		if index == 0 || index+uint64(count) < index {
			r.Fail(errIndex)
		}
		for ; count > 0 && r.Err() == nil; count-- {
			dst = append(dst, Entry{Index: index, Term: r.Uvarint(), Type: r.Byte(), Data: r.Bytes()})
			index++
		}
	}
	if err := r.End(); err != nil {
		return nil, nil, fmt.Errorf("batch: %w: %w", err, errBadRecord)
	}
	return hs, dst, nil
}
