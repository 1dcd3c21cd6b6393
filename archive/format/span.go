package format

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"hash/crc32"

	"github.com/holdfastdb/holdfast/internal/wire"
)

// A span is an object of consecutive entries:
//
//	head     magic, cluster, timeline, first and last index, hash of all entries before, CRC of all that
//	entries  each: u term, type, bytes data, CRC of its index and these
//	end      state hash after the last entry, CRC of that, of the head and of the hash of all entries up to the last
//
// An entry's own CRC tells which one is damaged. The hash is of entries and not of the previous object. So it does not depend on where
// another leader has cut the log (docs/adr/0016). The byte table is docs/formats/archive.md.
const (
	spanMagic = "HFSPAN01" // the digits are the version

	spanClusterAt  = 8
	spanTimelineAt = 16
	spanFirstAt    = 24
	spanLastAt     = 32
	spanBeforeAt   = 40
	spanHeadCRCAt  = 72
	minEntryLen    = 1 + 1 + 1 + 4

	// SpanHeadBytes and SpanEndBytes are a span's overhead in front of its entries and behind them.
	SpanHeadBytes = 76
	SpanEndBytes  = 12
)

// Entry is one raft entry as raft has it, membership changes included. Type is raft's entry type, not interpreted here.
type Entry struct {
	Index, Term uint64
	Type        uint8
	Data        []byte
}

// Tip is the end of an archived log: its cluster and timeline, its last entry, and the hash of all entries up to that one. The hash is zero
// where a timeline begins, and where it continues behind a snapshot because the entries before are lost. The entry is then the last one in
// the snapshot, or 0 of term 0.
type Tip struct {
	Cluster, Timeline uint64
	Last, Term        uint64
	Hash              Hash
}

// add moves the tip on to the next entry.
func (t *Tip) add(ent Entry, sum hash.Hash) {
	t.Last, t.Term = ent.Index, ent.Term
	var b [8 + 8 + 1]byte
	binary.LittleEndian.PutUint64(b[:], ent.Index)
	binary.LittleEndian.PutUint64(b[8:], ent.Term)
	b[16] = ent.Type
	sum.Reset()
	for _, part := range [][]byte{t.Hash[:], b[:], ent.Data} {
		_, _ = sum.Write(part) // which never fails
	}
	sum.Sum(t.Hash[:0])
}

// Encoder makes one span after another. The bytes of a span follow only from its entries, those before it and the state. Members with the
// same history make the same bytes of the same entries. It belongs to one goroutine.
type Encoder struct {
	tip   Tip // of the last entry added
	limit int
	sum   hash.Hash
	b     []byte // of the span that is being made; nil if it has no entry yet
}

// NewEncoder returns an encoder that goes on after a tip. A span has at most limit bytes, or a single entry that needs more; limit is
// cut to MaxBytes.
func NewEncoder(after Tip, limit int) *Encoder {
	return &Encoder{tip: after, limit: min(limit, MaxBytes), sum: sha256.New()}
}

// Append adds the next entry, which it copies. It returns false if there is no room for it in this span, which is then to be
// finished first. An error says that the entry cannot follow here or is larger than any object, and nothing has changed.
func (e *Encoder) Append(ent Entry) (bool, error) {
	switch {
	case ent.Index == 0 || ent.Index != e.tip.Last+1:
		return false, fmt.Errorf("entry %d cannot follow entry %d in the archive", ent.Index, e.tip.Last)
	case ent.Term == 0 || ent.Term < e.tip.Term:
		return false, fmt.Errorf("entry %d of term %d cannot follow term %d in the archive", ent.Index, ent.Term, e.tip.Term)
	}
	// Compared before anything is added to it, so that no length can wrap around.
	if len(ent.Data) > MaxBytes-SpanHeadBytes-SpanEndBytes-2*binary.MaxVarintLen64-minEntryLen {
		return false, fmt.Errorf("entry %d has %d bytes, and an object of the archive at most %d", ent.Index, len(ent.Data), MaxBytes)
	}
	if e.b == nil {
		e.begin(ent.Index)
	} else if len(e.b)+entryLen(ent)+SpanEndBytes > e.limit {
		return false, nil
	}
	at := len(e.b)
	e.b = binary.AppendUvarint(e.b, ent.Term)
	e.b = append(e.b, ent.Type)
	e.b = wire.AppendBytes(e.b, ent.Data)
	e.b = binary.LittleEndian.AppendUint32(e.b, entrySum(ent.Index, e.b[at:]))
	e.tip.add(ent, e.sum)
	return true, nil
}

// begin writes the head, without last index and CRC.
func (e *Encoder) begin(first uint64) {
	e.b = append(make([]byte, 0, 4<<10), spanMagic...)
	for _, v := range []uint64{e.tip.Cluster, e.tip.Timeline, first, 0} {
		e.b = binary.LittleEndian.AppendUint64(e.b, v)
	}
	e.b = append(e.b, e.tip.Hash[:]...)
	e.b = append(e.b, 0, 0, 0, 0)
}

// Len is the size in bytes that the span would have if it were finished now; 0 if it has no entry.
func (e *Encoder) Len() int {
	if e.b == nil {
		return 0
	}
	return len(e.b) + SpanEndBytes
}

// Finish ends the span. state is the rolling state hash after its last entry (docs/formats/store.md), which is the same on all
// members. The object is the caller's, and the encoder goes on with the next one. Without an entry there is no span, and the
// name is empty.
func (e *Encoder) Finish(state uint64) (name string, object []byte) {
	if e.b == nil {
		return "", nil
	}
	b := e.b
	first := binary.LittleEndian.Uint64(b[spanFirstAt:])
	binary.LittleEndian.PutUint64(b[spanLastAt:], e.tip.Last)
	binary.LittleEndian.PutUint32(b[spanHeadCRCAt:], crc32.Checksum(b[:spanHeadCRCAt], castagnoli))
	b = binary.LittleEndian.AppendUint64(b, state)
	b = binary.LittleEndian.AppendUint32(b, endSum(b, e.tip.Hash, state))
	e.b = nil
	return SpanName(e.tip.Timeline, first), b
}

// Tip is where a log ends that ends with the last entry added.
func (e *Encoder) Tip() Tip { return e.tip }

// entryLen is how many bytes an entry takes.
func entryLen(ent Entry) int {
	return uvarintLen(ent.Term) + 1 + uvarintLen(uint64(len(ent.Data))) + len(ent.Data) + 4
}

func uvarintLen(v uint64) int {
	var b [binary.MaxVarintLen64]byte
	return binary.PutUvarint(b[:], v)
}

// endSum is the CRC at the end, which holds the parts together. It is not a CRC of the bytes as they stand. A CRC over a text followed by
// the text's own CRC says nothing of the text. It would only count the bytes of the checked parts.
func endSum(object []byte, after Hash, state uint64) uint32 {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], state)
	sum := crc32.Checksum(object[:spanHeadCRCAt], castagnoli)
	sum = crc32.Update(sum, castagnoli, after[:])
	return crc32.Update(sum, castagnoli, b[:])
}

// entrySum is the CRC of an entry: of its index too, so that an entry in another's place is noticed.
func entrySum(index uint64, fields []byte) uint32 {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], index)
	return crc32.Update(crc32.Checksum(b[:], castagnoli), castagnoli, fields)
}
