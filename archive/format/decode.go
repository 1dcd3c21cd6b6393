package format

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"iter"

	"github.com/holdfastdb/holdfast/internal/wire"
)

// Span is an object of consecutive entries that was found whole.
type Span struct {
	Name              string
	Cluster, Timeline uint64
	First, Last       uint64
	FirstTerm         uint64
	LastTerm          uint64
	Before, After     Hash   // of all entries before it, and of those in it as well (Tip)
	State             uint64 // the state hash after the last entry

	entries []byte // checked
}

var (
	errSum  = errors.New("another checksum")
	errTerm = errors.New("no term, or one below that of the entry before")
)

// DecodeSpan reads the object of that name. It checks everything before it returns, and allocates only the Span. b becomes the Span's and
// must not be changed any more. It accepts exactly what an Encoder makes. The error is a *Fault. Follows checks whether the span continues
// another.
func DecodeSpan(name string, b []byte) (*Span, error) {
	s := &Span{Name: name}
	fault := func(offset int, index uint64, reason string) (*Span, error) {
		return nil, &Fault{Name: name, Offset: offset, Index: index, Reason: reason}
	}
	switch {
	case len(b) > MaxBytes:
		return fault(MaxBytes, 0, fmt.Sprintf("it has %d bytes, more than any object", len(b)))
	case len(b) < SpanHeadBytes:
		return fault(len(b), 0, "it ends in its head")
	case string(b[:len(spanMagic)]) != spanMagic:
		return fault(0, 0, "it holds no entries, or in a form of another version")
	case crc32.Checksum(b[:spanHeadCRCAt], castagnoli) != binary.LittleEndian.Uint32(b[spanHeadCRCAt:]):
		return fault(0, 0, "its head has another checksum")
	}
	s.Cluster = binary.LittleEndian.Uint64(b[spanClusterAt:])
	s.Timeline = binary.LittleEndian.Uint64(b[spanTimelineAt:])
	s.First = binary.LittleEndian.Uint64(b[spanFirstAt:])
	s.Last = binary.LittleEndian.Uint64(b[spanLastAt:])
	copy(s.Before[:], b[spanBeforeAt:])
	switch {
	case s.First == 0 || s.Last < s.First:
		return fault(spanFirstAt, 0, fmt.Sprintf("it has entries %d to %d", s.First, s.Last))
	case name != SpanName(s.Timeline, s.First):
		return fault(spanTimelineAt, 0, "it is another object: "+SpanName(s.Timeline, s.First))
	}
	tip, sum := Tip{Hash: s.Before}, sha256.New()
	r := wire.NewReader(b[SpanHeadBytes:])
	at := func() int { return len(b) - r.Len() }
	for index := s.First; ; index++ {
		begin := at()
		ent, err := takeEntry(&r, index, tip.Term)
		if err != nil {
			return fault(begin, index, err.Error())
		}
		if tip.add(ent, sum); index == s.First {
			s.FirstTerm = ent.Term
		}
		if index == s.Last {
			break
		}
	}
	end := at()
	s.entries = b[SpanHeadBytes:end:end]
	if r.Len() != SpanEndBytes {
		return fault(end, 0, fmt.Sprintf("%d bytes after the last entry, not %d", r.Len(), SpanEndBytes))
	}
	s.State = r.Uint64()
	if endSum(b, tip.Hash, s.State) != binary.LittleEndian.Uint32(b[len(b)-4:]) {
		return fault(end, 0, "its end has another checksum")
	}
	s.LastTerm, s.After = tip.Term, tip.Hash
	return s, nil
}

// takeEntry takes an entry off the reader. Its data aliases the reader's bytes.
func takeEntry(r *wire.Reader, index, termBefore uint64) (Entry, error) {
	before := *r
	ent := Entry{Index: index, Term: r.Uvarint(), Type: r.Byte(), Data: r.Bytes()}
	fields := before.Take(before.Len() - r.Len())
	sum := r.Take(4)
	switch {
	case r.Err() != nil:
		return Entry{}, r.Err()
	case binary.LittleEndian.Uint32(sum) != entrySum(index, fields):
		return Entry{}, errSum
	case ent.Term == 0 || ent.Term < termBefore:
		return Entry{}, errTerm
	}
	return ent, nil
}

// Entries yields the entries in order. Their data is copied, so that the caller may keep and change it; of no bytes it is nil.
func (s *Span) Entries() iter.Seq[Entry] {
	return func(yield func(Entry) bool) {
		r := wire.NewReader(s.entries)
		for index := s.First; r.Len() > 0; index++ {
			ent, err := takeEntry(&r, index, 0)
			if err != nil {
				return // the bytes were changed since the check
			}
			ent.Data = append([]byte(nil), ent.Data...)
			if !yield(ent) {
				return
			}
		}
	}
}

// Bytes is the size of its object.
func (s *Span) Bytes() int64 { return int64(SpanHeadBytes + len(s.entries) + SpanEndBytes) }

// Tip is where a log ends that ends with this span.
func (s *Span) Tip() Tip {
	return Tip{Cluster: s.Cluster, Timeline: s.Timeline, Last: s.Last, Term: s.LastTerm, Hash: s.After}
}

// TipAt is the end of a log that ends with the entry at index, which is in the span or directly before its first. In the latter case the
// term is unknown and 0. The work is that of hashing all entries up to it.
func (s *Span) TipAt(index uint64) Tip {
	tip, sum := Tip{Cluster: s.Cluster, Timeline: s.Timeline, Last: s.First - 1, Hash: s.Before}, sha256.New()
	if index == s.Last {
		return s.Tip()
	}
	r := wire.NewReader(s.entries)
	for tip.Last < index && r.Len() > 0 {
		ent, err := takeEntry(&r, tip.Last+1, tip.Term)
		if err != nil {
			break // the bytes were changed since the check
		}
		tip.add(ent, sum)
	}
	return tip
}

// Follows returns nil if the span continues t. Otherwise its *Fault tells what is missing, or which of the two is of another history. Spans
// of one timeline may overlap, if two members have shipped at the same time and cut the log differently. The archive is read from name to
// name (SpanName of the index after the last); other spans in a list are harmless.
func (s *Span) Follows(t Tip) error {
	fault := func(offset int, format string, args ...any) error {
		return &Fault{Name: s.Name, Offset: offset, Reason: fmt.Sprintf(format, args...)}
	}
	switch {
	case s.Cluster != t.Cluster:
		return fault(spanClusterAt, "it is of cluster %016x, the one before of %016x", s.Cluster, t.Cluster)
	case s.Timeline != t.Timeline:
		return fault(spanTimelineAt, "it is of timeline %016x, the one before of %016x", s.Timeline, t.Timeline)
	case s.First > t.Last+1:
		return fault(spanFirstAt, "entries %d to %d are missing before it", t.Last+1, s.First-1)
	case s.First != t.Last+1:
		return fault(spanFirstAt, "it begins with entry %d, and the one before ends with %d", s.First, t.Last)
	case s.Before != t.Hash:
		return fault(spanBeforeAt, "it follows entries of hash %s, and those before it have %s", s.Before, t.Hash)
	case s.FirstTerm < t.Term:
		return fault(SpanHeadBytes, "it begins in term %d, and the one before ends in %d", s.FirstTerm, t.Term)
	}
	return nil
}

// Equal reports whether two entries are the same to raft: no data and data of no bytes are.
func (e Entry) Equal(o Entry) bool {
	return e.Index == o.Index && e.Term == o.Term && e.Type == o.Type && bytes.Equal(e.Data, o.Data)
}
