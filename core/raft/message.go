package raft

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"go.etcd.io/raft/v3/raftpb"

	"github.com/holdfastdb/holdfast/internal/wire"
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
	mask := wire.Bit(m.GetLogTerm() != 0, hasLogTerm) | wire.Bit(m.GetIndex() != 0, hasIndex) |
		wire.Bit(m.GetCommit() != 0, hasCommit) | wire.Bit(m.GetVote() != 0, hasVote) |
		wire.Bit(m.GetReject() || m.GetRejectHint() != 0, hasReject) | wire.Bit(len(m.Context) > 0, hasContext) |
		wire.Bit(len(m.Entries) > 0, hasEntries) | wire.Bit(m.GetSnapshot().GetMetadata().GetIndex() != 0, hasSnapshot)
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
		b = append(b, wire.Bit(m.GetReject(), 1))
		b = binary.AppendUvarint(b, m.GetRejectHint())
	}
	if mask&hasContext != 0 {
		b = wire.AppendBytes(b, m.Context)
	}
	if mask&hasEntries != 0 {
		b = binary.AppendUvarint(b, uint64(len(m.Entries)))
		for _, e := range m.Entries {
			b = append(b, byte(e.GetType()))
			b = binary.AppendUvarint(b, e.GetTerm())
			b = binary.AppendUvarint(b, e.GetIndex())
			b = wire.AppendBytes(b, e.Data)
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

// decodeMessage decodes a frame; entry data and context alias b.
func decodeMessage(b []byte) (*raftpb.Message, error) {
	r := wire.NewReader(b)
	typ := raftpb.MessageType(r.Byte())
	mask := r.Byte()
	m := &raftpb.Message{Type: typ.Enum()}
	m.To, m.From = new(r.Uint64()), new(r.Uint64())
	m.Term = new(r.Uvarint())
	if mask&hasLogTerm != 0 {
		m.LogTerm = new(r.Uvarint())
	}
	if mask&hasIndex != 0 {
		m.Index = new(r.Uvarint())
	}
	if mask&hasCommit != 0 {
		m.Commit = new(r.Uvarint())
	}
	if mask&hasVote != 0 {
		m.Vote = new(r.Uint64())
	}
	if mask&hasReject != 0 {
		m.Reject = new(r.Byte() == 1)
		m.RejectHint = new(r.Uvarint())
	}
	if mask&hasContext != 0 {
		m.Context = r.Bytes()
	}
	if mask&hasEntries != 0 {
		n := r.Count(math.MaxInt32, minEntryLen) // memory grows with the bytes received, not with the announced count
		m.Entries = make([]*raftpb.Entry, 0, n)
		for range n {
			e := &raftpb.Entry{Type: raftpb.EntryType(r.Byte()).Enum()}
			e.Term, e.Index = new(r.Uvarint()), new(r.Uvarint())
			e.Data = r.Bytes()
			if r.Err() != nil {
				return nil, errMessage
			}
			m.Entries = append(m.Entries, e)
		}
	}
	if mask&hasSnapshot != 0 {
		md := &raftpb.SnapshotMetadata{Index: new(r.Uvarint()), Term: new(r.Uvarint())}
		md.ConfState = takeConf(&r).raft()
		m.Snapshot = &raftpb.Snapshot{Metadata: md}
	}
	if r.End() != nil {
		return nil, errMessage
	}
	if _, ok := raftpb.MessageType_name[int32(typ)]; !ok {
		return nil, fmt.Errorf("%w: type %d", errMessage, typ)
	}
	return m, nil
}
