package raft

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/holdfastdb/holdfast/core/peer"
	"github.com/holdfastdb/holdfast/core/wal"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
)

// Write must reach the WAL: Batch first, fsync if Sync, then Written. Writes complete in order.
type Write struct {
	Batch wal.Batch
	// Sync is false when nothing was added that a promise rests on (only the commit index moved).
	Sync bool
	// Snapshot is set when the log and store are to be replaced by the received snapshot at this index first.
	Snapshot  *SnapshotPoint
	responses []*raftpb.Message
}

// SnapshotPoint names a snapshot: the last log position it covers and the configuration there.
type SnapshotPoint struct {
	Index, Term uint64
	Conf        Conf
}

// Committed is one committed entry on its way to Apply.
type Committed struct {
	Index, Term uint64
	// Change is set for a membership change, Data otherwise (empty for raft's own entries).
	Change *Change
	Data   []byte
}

// Outgoing is a message for another member.
type Outgoing struct {
	To    uint64
	Lane  peer.Channel
	Frame []byte
	// Snapshot: this is a raft snapshot message; the frame heads a stream of the store's contents.
	Snapshot *SnapshotPoint
	// Last is the index of the last entry the message carries, 0 if none.
	Last uint64
}

// ReadState answers a ReadIndex: everything acknowledged before the question is applied once Applied ≥ Index.
type ReadState struct {
	Index   uint64
	Context []byte
}

// Ready is the driver's work now. Send Send at once, hand each of Writes to the WAL in order, apply Commits and then call Applied with
// them.
type Ready struct {
	Send    []Outgoing
	Writes  []*Write
	Commits []Committed
	Reads   []ReadState
	apply   []*raftpb.Message
}

// Ready collects what is to be done; false: nothing.
func (r *Replica) Ready(out *Ready) bool {
	defer func() { r.limits.end = r.st.lastAppended }() // all that raft has appended or cut is handed out now
	if !r.rn.HasReady() {
		return false
	}
	rd := r.rn.Ready()
	r.aside.putBack(rd.Messages)
	out.Send, out.Writes, out.Commits, out.Reads, out.apply = out.Send[:0], out.Writes[:0], out.Commits[:0], out.Reads[:0], out.apply[:0]
	if rd.SoftState != nil {
		r.lead, r.role = rd.SoftState.Lead, rd.SoftState.RaftState
	}
	if rd.HardState != nil {
		r.term = rd.HardState.GetTerm()
	}
	for _, s := range rd.ReadStates {
		out.Reads = append(out.Reads, ReadState{Index: s.Index, Context: s.RequestCtx})
	}
	for i, m := range rd.Messages {
		if overtaken(m, rd.Messages[i+1:]) {
			continue
		}
		switch m.GetTo() {
		case raft.LocalAppendThread:
			out.Writes = append(out.Writes, r.write(m))
		case raft.LocalApplyThread:
			for _, e := range m.Entries {
				c, err := committed(e)
				if err != nil {
					panic(fmt.Sprintf("committed entry %d cannot be decoded: %v", e.GetIndex(), err)) // we encoded it
				}
				out.Commits = append(out.Commits, c)
				r.openTerm = c.Term
			}
			out.apply = append(out.apply, m.Responses...)
		default:
			out.Send = append(out.Send, r.outgoing(m))
		}
	}
	return true
}

// overtaken reports whether m only tells a member the commit index, and a later message tells it too. A leader often gets the
// acknowledgement that commits one entry and then appends the next. It would send two messages and wait for two answers, each of them two
// wake-ups.
func overtaken(m *raftpb.Message, later []*raftpb.Message) bool {
	if m.GetType() != raftpb.MsgApp || len(m.Entries) > 0 {
		return false
	}
	return slices.ContainsFunc(later, func(l *raftpb.Message) bool {
		return l.GetType() == raftpb.MsgApp && l.GetTo() == m.GetTo() && l.GetTerm() == m.GetTerm() && l.GetIndex() == m.GetIndex() &&
			l.GetCommit() >= m.GetCommit()
	})
}

// Written is called when a Write (and all before it) is durable. It returns messages that may leave now.
func (r *Replica) Written(w *Write) []Outgoing {
	if w.Batch.HardState != nil {
		r.st.hs = *w.Batch.HardState
	}
	var out []Outgoing
	for _, m := range w.responses {
		if m.GetTo() == r.cfg.ID {
			r.step(m)
		} else {
			out = append(out, r.outgoing(m))
		}
	}
	return out
}

// Applied is called when the Commits of a Ready are in the store.
func (r *Replica) Applied(rd *Ready) {
	for _, m := range rd.apply {
		r.step(m)
	}
	clear(rd.apply)
}

func (r *Replica) write(m *raftpb.Message) *Write {
	w := &Write{responses: m.Responses}
	if n := len(m.Entries); n > 0 {
		w.Sync = true
		w.Batch.Entries = make([]wal.Entry, n)
		for i, e := range m.Entries {
			w.Batch.Entries[i] = wal.Entry{Index: e.GetIndex(), Term: e.GetTerm(), Type: uint8(e.GetType()), Data: e.Data}
		}
		r.st.lastAppended = m.Entries[n-1].GetIndex()
	}
	if m.Term != nil {
		hs := wal.HardState{Term: m.GetTerm(), Vote: m.GetVote(), Commit: m.GetCommit()}
		if hs.Term != r.st.handed.Term || hs.Vote != r.st.handed.Vote {
			w.Sync = true
		}
		r.st.handed = hs
		w.Batch.HardState = &hs
	}
	if !raft.IsEmptySnap(m.Snapshot) {
		w.Sync = true
		w.Snapshot = pointOf(m.Snapshot)
		r.conf = w.Snapshot.Conf
		if len(m.Entries) == 0 {
			r.st.lastAppended = w.Snapshot.Index
		}
	}
	return w
}

func (r *Replica) outgoing(m *raftpb.Message) Outgoing {
	o := Outgoing{To: m.GetTo(), Lane: peer.ChannelControl}
	switch m.GetType() {
	case raftpb.MsgApp, raftpb.MsgAppResp:
		o.Lane = peer.ChannelAppend
	case raftpb.MsgSnap:
		o.Lane = peer.ChannelSnapshot
		o.Snapshot = pointOf(m.Snapshot)
	case raftpb.MsgHeartbeat:
		if c := m.Context; len(c) == 8 {
			r.limits.asked, r.limits.askedTerm = binary.LittleEndian.Uint64(c), m.GetTerm()
		}
	}
	if k := len(m.Entries); k > 0 {
		o.Last = m.Entries[k-1].GetIndex()
	}
	o.Frame = appendMessage(make([]byte, 0, messageSize(m)), m)
	return o
}

func pointOf(s *raftpb.Snapshot) *SnapshotPoint {
	md := s.GetMetadata()
	return &SnapshotPoint{Index: md.GetIndex(), Term: md.GetTerm(), Conf: confOf(md.GetConfState())}
}

func committed(e *raftpb.Entry) (Committed, error) {
	c := Committed{Index: e.GetIndex(), Term: e.GetTerm()}
	if e.GetType() == raftpb.EntryNormal {
		c.Data = e.Data
		return c, nil
	}
	ch, err := DecodeChange(uint8(e.GetType()), e.Data)
	c.Change = ch
	return c, err
}
