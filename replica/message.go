package replica

import (
	"encoding/binary"
	"errors"
	"fmt"

	"go.etcd.io/raft/v3/raftpb"
)

// Raft messages travel in a codec of our own (docs/formats/peer.md): a handful of varints instead of protobuf with
// pointer fields, decoded without copying entry data. Fields are written in a fixed order behind a presence mask.

const (
	hasLogTerm = 1 << iota
	hasIndex
	hasCommit
	hasVote
	hasReject
	hasContext
	hasEntries
	hasSnapshot
)

// minEntryLen is the encoded size of an entry without data: type, term, index, length.
const minEntryLen = 4

var errMessage = errors.New("malformed raft message")

// appendMessage encodes m. Responses never travel.
func appendMessage(b []byte, m *raftpb.Message) []byte {
	var mask byte
	set := func(on bool, bit byte) {
		if on {
			mask |= bit
		}
	}
	set(m.GetLogTerm() != 0, hasLogTerm)
	set(m.GetIndex() != 0, hasIndex)
	set(m.GetCommit() != 0, hasCommit)
	set(m.GetVote() != 0, hasVote)
	set(m.GetReject() || m.GetRejectHint() != 0, hasReject)
	set(len(m.Context) > 0, hasContext)
	set(len(m.Entries) > 0, hasEntries)
	set(m.GetSnapshot().GetMetadata().GetIndex() != 0, hasSnapshot)
	b = append(b, byte(m.GetType()), mask)
	b = binary.LittleEndian.AppendUint64(b, m.GetTo())
	b = binary.LittleEndian.AppendUint64(b, m.GetFrom())
	b = binary.AppendUvarint(b, m.GetTerm())
	if mask&hasLogTerm != 0 {
		b = binary.AppendUvarint(b, m.GetLogTerm())
	}
	if mask&hasIndex != 0 {
		b = binary.AppendUvarint(b, m.GetIndex())
	}
	if mask&hasCommit != 0 {
		b = binary.AppendUvarint(b, m.GetCommit())
	}
	if mask&hasVote != 0 {
		b = binary.LittleEndian.AppendUint64(b, m.GetVote())
	}
	if mask&hasReject != 0 {
		r := byte(0)
		if m.GetReject() {
			r = 1
		}
		b = append(b, r)
		b = binary.AppendUvarint(b, m.GetRejectHint())
	}
	if mask&hasContext != 0 {
		b = binary.AppendUvarint(b, uint64(len(m.Context)))
		b = append(b, m.Context...)
	}
	if mask&hasEntries != 0 {
		b = binary.AppendUvarint(b, uint64(len(m.Entries)))
		for _, e := range m.Entries {
			b = append(b, byte(e.GetType()))
			b = binary.AppendUvarint(b, e.GetTerm())
			b = binary.AppendUvarint(b, e.GetIndex())
			b = binary.AppendUvarint(b, uint64(len(e.Data)))
			b = append(b, e.Data...)
		}
	}
	if mask&hasSnapshot != 0 {
		md := m.Snapshot.Metadata
		b = binary.AppendUvarint(b, md.GetIndex())
		b = binary.AppendUvarint(b, md.GetTerm())
		b = appendConf(b, confOf(md.GetConfState()))
	}
	return b
}

// messageSize is a close upper bound of the encoded size, for one allocation per frame.
func messageSize(m *raftpb.Message) int {
	n := 96 + len(m.Context)
	for _, e := range m.Entries {
		n += 24 + len(e.Data)
	}
	return n
}

// reader decodes from a byte slice; the first error sticks.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.bad, r.b = true, nil
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) u64() uint64 {
	if len(r.b) < 8 {
		r.bad, r.b = true, nil
		return 0
	}
	v := binary.LittleEndian.Uint64(r.b)
	r.b = r.b[8:]
	return v
}

func (r *reader) byte() byte {
	if len(r.b) < 1 {
		r.bad = true
		return 0
	}
	v := r.b[0]
	r.b = r.b[1:]
	return v
}

func (r *reader) bytes() []byte {
	n := r.uvarint()
	if n > uint64(len(r.b)) {
		r.bad, r.b = true, nil
		return nil
	}
	v := r.b[:n:n]
	r.b = r.b[n:]
	return v
}

// decodeMessage decodes a frame; entry data and context alias b.
func decodeMessage(b []byte) (*raftpb.Message, error) {
	r := &reader{b: b}
	typ := raftpb.MessageType(r.byte())
	mask := r.byte()
	m := &raftpb.Message{Type: typ.Enum()}
	m.To, m.From = new(r.u64()), new(r.u64())
	m.Term = new(r.uvarint())
	if mask&hasLogTerm != 0 {
		m.LogTerm = new(r.uvarint())
	}
	if mask&hasIndex != 0 {
		m.Index = new(r.uvarint())
	}
	if mask&hasCommit != 0 {
		m.Commit = new(r.uvarint())
	}
	if mask&hasVote != 0 {
		m.Vote = new(r.u64())
	}
	if mask&hasReject != 0 {
		m.Reject = new(r.byte() == 1)
		m.RejectHint = new(r.uvarint())
	}
	if mask&hasContext != 0 {
		m.Context = r.bytes()
	}
	if mask&hasEntries != 0 {
		n := r.uvarint()
		if n > uint64(len(r.b))/minEntryLen { // memory grows with what arrived, not with what is promised
			return nil, errMessage
		}
		m.Entries = make([]*raftpb.Entry, 0, n)
		for range n {
			e := &raftpb.Entry{Type: raftpb.EntryType(r.byte()).Enum()}
			e.Term, e.Index = new(r.uvarint()), new(r.uvarint())
			e.Data = r.bytes()
			if r.bad {
				return nil, errMessage
			}
			m.Entries = append(m.Entries, e)
		}
	}
	if mask&hasSnapshot != 0 {
		md := &raftpb.SnapshotMetadata{Index: new(r.uvarint()), Term: new(r.uvarint())}
		md.ConfState = r.conf().raft()
		m.Snapshot = &raftpb.Snapshot{Metadata: md}
	}
	if r.bad || len(r.b) != 0 {
		return nil, errMessage
	}
	if _, ok := raftpb.MessageType_name[int32(typ)]; !ok {
		return nil, fmt.Errorf("%w: type %d", errMessage, typ)
	}
	return m, nil
}
