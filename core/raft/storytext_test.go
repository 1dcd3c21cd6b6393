package raft

import (
	"encoding/binary"
	"fmt"
	"strings"

	"go.etcd.io/raft/v3/raftpb"
)

func writeText(w *Write) string {
	var parts []string
	if w.Snapshot != nil {
		parts = append(parts, fmt.Sprintf("snapshot %d@%d", w.Snapshot.Index, w.Snapshot.Term))
	}
	for _, e := range w.Batch.Entries {
		parts = append(parts, entryText(e.Index, e.Term, e.Type, e.Data))
	}
	if hs := w.Batch.HardState; hs != nil {
		parts = append(parts, fmt.Sprintf("term %d vote n%d commit %d", hs.Term, hs.Vote, hs.Commit))
	}
	if len(parts) == 0 {
		parts = append(parts, "nothing")
	}
	if w.Sync {
		parts = append(parts, "sync")
	}
	return strings.Join(parts, ", ")
}

func entryText(index, term uint64, typ uint8, data []byte) string {
	change, err := DecodeChange(typ, data)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%d@%d %s", index, term, dataText(data, change))
}

func dataText(data []byte, c *Change) string {
	switch {
	case c != nil:
		return fmt.Sprintf("(%s n%d)", [...]string{"voter", "learner", "remove"}[c.Kind], c.ID)
	case len(data) == 0:
		return "–"
	}
	return string(data)
}

func messageText(m *raftpb.Message) string {
	b := fmt.Sprintf("%s @%d", m.GetType(), m.GetTerm())
	add := func(on bool, format string, a ...any) {
		if on {
			b += fmt.Sprintf(format, a...)
		}
	}
	switch m.GetType() {
	case raftpb.MsgApp, raftpb.MsgVote, raftpb.MsgPreVote:
		add(true, " after %d@%d", m.GetIndex(), m.GetLogTerm())
	default:
		add(m.GetIndex() != 0, " index %d", m.GetIndex())
	}
	add(m.GetReject(), " rejected")
	add(m.GetRejectHint() != 0, " hint %d@%d", m.GetRejectHint(), m.GetLogTerm())
	for _, e := range m.Entries {
		if m.GetType() == raftpb.MsgApp {
			add(true, ", %s", entryText(e.GetIndex(), e.GetTerm(), uint8(e.GetType()), e.Data))
		} else {
			add(true, " %s", e.Data)
		}
	}
	add(len(m.Context) > 0, " context %s", contextText(m.Context))
	add(m.GetCommit() != 0, ", commit %d", m.GetCommit())
	if sn := m.Snapshot; sn != nil {
		p := pointOf(sn)
		add(true, " snapshot %d@%d %s", p.Index, p.Term, confText(p.Conf))
	}
	return b
}

// contextText prints raft's own numbers as numbers.
func contextText(b []byte) string {
	if len(b) == 8 {
		return fmt.Sprint(binary.LittleEndian.Uint64(b))
	}
	return string(b)
}

func confText(c Conf) string {
	list := func(ids []uint64) string {
		var out []string
		for _, id := range ids {
			out = append(out, fmt.Sprintf("n%d", id))
		}
		return strings.Join(out, " ")
	}
	text := "voters " + list(c.Voters)
	if len(c.Learners) > 0 {
		text += ", learners " + list(c.Learners)
	}
	return text
}
