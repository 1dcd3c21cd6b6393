package raft

import (
	"fmt"
	"strings"

	"go.etcd.io/raft/v3/raftpb"
)

// Describe prints a frame between members as one short line for traces: "Append 7..9 after 6@2 commit 5 term 2".
func Describe(frame []byte) string {
	m, err := decodeMessage(frame)
	if err != nil {
		return fmt.Sprintf("%d bytes that are no message", len(frame))
	}
	var b strings.Builder
	switch t := m.GetType(); t {
	case raftpb.MsgApp:
		b.WriteString("Append")
		if k := len(m.Entries); k > 0 {
			fmt.Fprintf(&b, " %d..%d", m.Entries[0].GetIndex(), m.Entries[k-1].GetIndex())
		}
		fmt.Fprintf(&b, " after %d@%d commit %d", m.GetIndex(), m.GetLogTerm(), m.GetCommit())
	case raftpb.MsgAppResp:
		fmt.Fprintf(&b, "AppendResp %d", m.GetIndex())
	case raftpb.MsgVote, raftpb.MsgPreVote:
		fmt.Fprintf(&b, "%s last %d@%d", strings.TrimPrefix(t.String(), "Msg"), m.GetIndex(), m.GetLogTerm())
	case raftpb.MsgHeartbeat:
		fmt.Fprintf(&b, "Heartbeat commit %d", m.GetCommit())
	case raftpb.MsgSnap:
		md := m.GetSnapshot().GetMetadata()
		fmt.Fprintf(&b, "Snapshot %d@%d", md.GetIndex(), md.GetTerm())
	default:
		b.WriteString(strings.TrimPrefix(t.String(), "Msg"))
	}
	if m.GetReject() {
		fmt.Fprintf(&b, " rejected, hint %d", m.GetRejectHint())
	}
	fmt.Fprintf(&b, " term %d", m.GetTerm())
	return b.String()
}

// Vote reads a frame by which its sender gives its vote in a term, as it may only once that is durable. (A candidate asks for
// votes before its own is, and counts that only afterwards.)
func Vote(frame []byte) (term, candidate uint64, ok bool) {
	m, err := decodeMessage(frame)
	if err != nil || m.GetType() != raftpb.MsgVoteResp || m.GetReject() {
		return 0, 0, false
	}
	return m.GetTerm(), m.GetTo(), true
}
