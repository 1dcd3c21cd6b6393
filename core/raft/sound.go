package raft

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"go.etcd.io/raft/v3/raftpb"
)

// maxTermJump is how far ahead of ours the term of a message may be. A term is an election, and there are at most ten of those in a second,
// so no member is centuries ahead. A term near the end of its range would leave none to elect in.
const maxTermJump = 1 << 32

// limits is the state a message is checked against besides the log.
type limits struct {
	// end is below or at where the log ends for raft, which may have cut it since the last Ready said where.
	end uint64
	// asked is the highest read round that heartbeats of this member's leadership in askedTerm have named.
	asked, askedTerm uint64
}

// sound reports why a message cannot come from a member that keeps raft's rules, nil if it can. The raft library trusts what it
// is given and panics over what cannot be, so every message passes here before it reaches the library. It may lower the commit
// index of a heartbeat to where the log is known to reach; the next heartbeat brings the rest.
func (r *Replica) sound(from uint64, m *raftpb.Message) error {
	bad := func(f string, args ...any) error {
		return fmt.Errorf("%s from %x: %s: %w", m.GetType(), from, fmt.Sprintf(f, args...), errMessage)
	}
	term := m.GetTerm()
	switch {
	case from == r.cfg.ID || from == 0:
		return bad("it is no other member")
	case m.GetFrom() != from || m.GetTo() != r.cfg.ID:
		return bad("it says it is from %x to %x", m.GetFrom(), m.GetTo())
	case m.GetType() == raftpb.MsgReadIndex && term != 0:
		return bad("it has a term")
	case m.GetType() != raftpb.MsgReadIndex && term == 0:
		return bad("it has no term") // raft takes it for one of its own
	case term > r.term && term-r.term > maxTermJump:
		return bad("term %d, and this member is in %d", term, r.term)
	case m.GetSnapshot() != nil && m.GetType() != raftpb.MsgSnap:
		return bad("it carries a snapshot")
	case len(m.Entries) > 0 && m.GetType() != raftpb.MsgApp && m.GetType() != raftpb.MsgReadIndex && m.GetType() != raftpb.MsgReadIndexResp:
		return bad("it carries entries")
	}
	switch m.GetType() {
	case raftpb.MsgApp:
		return r.soundEntries(m, bad)
	case raftpb.MsgHeartbeat:
		if m.GetCommit() > r.LastIndex() {
			return bad("commit %d, and the log ends at %d: either it lies, or this log has lost what was acknowledged", m.GetCommit(), r.LastIndex())
		}
		if m.GetCommit() > r.limits.end {
			m.Commit = new(r.limits.end)
		}
	case raftpb.MsgAppResp:
		if !m.GetReject() && m.GetIndex() > r.LastIndex() {
			return bad("it has %d, and the log ends at %d", m.GetIndex(), r.LastIndex())
		}
	case raftpb.MsgHeartbeatResp:
		switch c := m.Context; {
		case len(c) == 0:
		case len(c) != 8:
			return bad("a read round of %d bytes", len(c))
		case term != r.limits.askedTerm || binary.LittleEndian.Uint64(c) > r.limits.asked:
			return bad("it answers a read round that was not asked for")
		}
	case raftpb.MsgReadIndex, raftpb.MsgReadIndexResp:
		if len(m.Entries) != 1 {
			return bad("%d questions", len(m.Entries))
		}
	case raftpb.MsgVote, raftpb.MsgPreVote, raftpb.MsgVoteResp, raftpb.MsgPreVoteResp, raftpb.MsgTimeoutNow:
	case raftpb.MsgSnap:
		return soundSnapshot(m, bad)
	default:
		return bad("it does not travel this way")
	}
	return nil
}

// soundEntries checks the entries that another member wants appended. They must follow one another, with terms that never go back, and be
// of kinds that Apply can read. Entries of raft's own kind are decoded here, because a failure at Apply would be final.
func (r *Replica) soundEntries(m *raftpb.Message, bad func(string, ...any) error) error {
	if m.GetLogTerm() > m.GetTerm() || m.GetIndex() > math.MaxInt64 {
		return bad("it follows %d@%d", m.GetIndex(), m.GetLogTerm())
	}
	next, term := m.GetIndex()+1, m.GetLogTerm()
	for _, e := range m.Entries {
		if e.GetIndex() != next || e.GetTerm() < max(term, 1) || e.GetTerm() > m.GetTerm() {
			return bad("entry %d@%d, expected %d of a term from %d to %d", e.GetIndex(), e.GetTerm(), next, max(term, 1), m.GetTerm())
		}
		next, term = next+1, e.GetTerm()
		if _, err := DecodeChange(uint8(e.GetType()), e.Data); err != nil {
			return bad("entry %d: %v", e.GetIndex(), err)
		}
		if e.GetType() == raftpb.EntryNormal && r.cfg.Readable != nil && len(e.Data) > 0 {
			if err := r.cfg.Readable(e.Data); err != nil {
				return bad("entry %d: %v", e.GetIndex(), err)
			}
		}
	}
	if len(m.Entries) > 0 {
		r.limits.end = min(r.limits.end, next-1)
	}
	return nil
}

// soundSnapshot looks at the head of a snapshot: a place in the log, and members of whom each is named once.
func soundSnapshot(m *raftpb.Message, bad func(string, ...any) error) error {
	md := m.GetSnapshot().GetMetadata()
	if md.GetIndex() == 0 || md.GetIndex() > math.MaxInt64 || md.GetTerm() == 0 || md.GetTerm() > m.GetTerm() {
		return bad("it is at %d@%d", md.GetIndex(), md.GetTerm())
	}
	conf := confOf(md.GetConfState())
	all := slices.Concat(conf.Voters, conf.Learners)
	slices.Sort(all)
	if len(conf.Voters) == 0 || all[0] == 0 || len(slices.Compact(slices.Clone(all))) != len(all) {
		return bad("voters %x and learners %x", conf.Voters, conf.Learners)
	}
	return nil
}
