package raft

import (
	"errors"

	"github.com/holdfastdb/holdfast/core/wal"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
)

// storage shows the WAL to raft. With asynchronous writes raft asks it only for entries whose write was reported back,
// so it never sees a write in progress.
type storage struct {
	wal          *wal.WAL
	hs           wal.HardState // last durable one
	handed       wal.HardState // last one handed out in a Write
	lastAppended uint64        // the last index handed out in Writes
	conf         Conf          // at start
	point        func() (uint64, Conf)
}

func (s *storage) InitialState() (*raftpb.HardState, *raftpb.ConfState, error) {
	s.handed = s.hs
	return &raftpb.HardState{Term: new(s.hs.Term), Vote: new(s.hs.Vote), Commit: new(s.hs.Commit)}, s.conf.raft(), nil
}

func (s *storage) Entries(lo, hi, maxBytes uint64) ([]*raftpb.Entry, error) {
	es, err := s.wal.Entries(lo, hi, maxBytes)
	if err != nil {
		return nil, storageErr(err)
	}
	// One allocation for the lot: raft wants pointers.
	type block struct {
		e           raftpb.Entry
		term, index uint64
		typ         raftpb.EntryType
	}
	blocks := make([]block, len(es))
	out := make([]*raftpb.Entry, len(es))
	for i := range es {
		b := &blocks[i]
		b.term, b.index, b.typ = es[i].Term, es[i].Index, raftpb.EntryType(es[i].Type)
		b.e.Term, b.e.Index, b.e.Type, b.e.Data = &b.term, &b.index, &b.typ, es[i].Data
		out[i] = &b.e
	}
	return out, nil
}

func (s *storage) Term(i uint64) (uint64, error) {
	t, err := s.wal.Term(i)
	return t, storageErr(err)
}

func (s *storage) LastIndex() (uint64, error)  { return s.wal.LastIndex(), nil }
func (s *storage) FirstIndex() (uint64, error) { return s.wal.FirstIndex(), nil }

// Snapshot names the point of a stream that would start now. Its contents are read from the store when the message goes out, on the same
// goroutine and before anything else is applied.
func (s *storage) Snapshot() (*raftpb.Snapshot, error) {
	index, conf := s.point()
	term, err := s.wal.Term(index)
	if err != nil {
		return nil, raft.ErrSnapshotTemporarilyUnavailable
	}
	return &raftpb.Snapshot{Metadata: &raftpb.SnapshotMetadata{Index: new(index), Term: new(term), ConfState: conf.raft()}}, nil
}

func storageErr(err error) error {
	if errors.Is(err, wal.ErrTruncated) {
		return raft.ErrCompacted
	}
	return err
}
