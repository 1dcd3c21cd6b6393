package raft

import (
	"testing"

	"github.com/holdfastdb/holdfast/core/disk"
	"github.com/holdfastdb/holdfast/core/wal"
	"go.etcd.io/raft/v3/raftpb"
)

// A vote, and the term it is given in, are durable before another member hears of them: a member that forgot either could vote twice.
func TestVotesAreDurableBeforeTheyAreHeard(t *testing.T) {
	fs := disk.NewMem()
	if err := fs.MkdirAll("wal"); err != nil {
		t.Fatal(err)
	}
	log, err := wal.Open(fs, "wal", wal.Options{Manual: true, LogID: 2, SegmentBytes: 64 << 10})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	if err := log.Reset(1, 1, wal.HardState{Term: 1, Commit: 1}); err != nil {
		t.Fatal(err)
	}
	conf := Conf{Voters: []uint64{1, 2, 3}}
	r, err := New(Config{ID: 2, WAL: log, Conf: conf, Applied: 1, ElectionTicks: 10, HeartbeatTicks: 1,
		SnapshotPoint: func() (uint64, Conf) { return 1, conf }})
	if err != nil {
		t.Fatal(err)
	}
	// hear steps a message and returns what is to be written with it, and the types of the messages that leave before and after.
	hear := func(m *raftpb.Message) (writes []*Write, before, after map[raftpb.MessageType]bool) {
		t.Helper()
		if _, err := r.Receive(m.GetFrom(), appendMessage(nil, m)); err != nil {
			t.Fatal(err)
		}
		before, after = map[raftpb.MessageType]bool{}, map[raftpb.MessageType]bool{}
		note := func(to map[raftpb.MessageType]bool, o Outgoing) {
			m, err := decodeMessage(o.Frame)
			if err != nil {
				t.Fatal(err)
			}
			to[m.GetType()] = true
		}
		var rd Ready
		for r.Ready(&rd) {
			for _, o := range rd.Send {
				note(before, o)
			}
			for _, w := range rd.Writes {
				writes = append(writes, w)
				for _, o := range r.Written(w) {
					note(after, o)
				}
			}
			r.Applied(&rd)
		}
		return writes, before, after
	}
	synced := func(writes []*Write, term, vote uint64) bool {
		for _, w := range writes {
			if hs := w.Batch.HardState; hs != nil && hs.Term == term && hs.Vote == vote {
				return w.Sync
			}
		}
		return false
	}
	ask := &raftpb.Message{Type: raftpb.MsgVote.Enum(), From: new(uint64(1)), To: new(uint64(2)), Term: new(uint64(5)), LogTerm: new(uint64(1)), Index: new(uint64(1))}
	writes, before, after := hear(ask)
	if !synced(writes, 5, 1) {
		t.Errorf("the vote is not synced: %d writes", len(writes))
	}
	if before[raftpb.MsgVoteResp] || !after[raftpb.MsgVoteResp] {
		t.Errorf("the answer to the vote leaves before the write: %v, after it: %v", before, after)
	}
	beat := &raftpb.Message{Type: raftpb.MsgHeartbeat.Enum(), From: new(uint64(3)), To: new(uint64(2)), Term: new(uint64(6)), Commit: new(uint64(1))}
	writes, _, _ = hear(beat)
	if !synced(writes, 6, 0) {
		t.Errorf("the term is not synced: %d writes", len(writes))
	}
}
