package raft

import (
	"encoding/binary"
	"errors"
	"math"
	"testing"

	"github.com/holdfastdb/holdfast/core/disk"
	"github.com/holdfastdb/holdfast/core/wal"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

func msg(kind raftpb.MessageType, set func(*raftpb.Message)) *raftpb.Message {
	m := &raftpb.Message{Type: kind.Enum()}
	set(m)
	return m
}

// follower makes a follower 2 of three whose log ends at 3@1.
func follower(t *testing.T) *Replica {
	t.Helper()
	fs := disk.NewMem()
	if err := fs.MkdirAll("wal"); err != nil {
		t.Fatal(err)
	}
	log, err := wal.Open(fs, "wal", wal.Options{Manual: true, LogID: 2, SegmentBytes: 64 << 10})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { log.Close() })
	if err := log.Reset(3, 1, wal.HardState{Term: 1, Commit: 3}); err != nil {
		t.Fatal(err)
	}
	conf := Conf{Voters: []uint64{1, 2, 3}}
	r, err := New(Config{ID: 2, WAL: log, Conf: conf, Applied: 3, ElectionTicks: 10, HeartbeatTicks: 1,
		SnapshotPoint: func() (uint64, Conf) { return 3, conf },
		Readable: func(data []byte) error {
			if string(data) == "unreadable" {
				return errors.New("unreadable")
			}
			return nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// turn carries out what raft asks for.
func turn(r *Replica) (sent []*raftpb.Message) {
	take := func(out []Outgoing) {
		for _, o := range out {
			if m, err := decodeMessage(o.Frame); err == nil {
				sent = append(sent, m)
			}
		}
	}
	var rd Ready
	for r.Ready(&rd) {
		take(rd.Send)
		for _, w := range rd.Writes {
			if len(w.Batch.Entries) > 0 || w.Sync {
				if err := r.cfg.WAL.Append(w.Batch); err != nil {
					panic(err)
				}
			}
			take(r.Written(w))
		}
		r.Applied(&rd)
	}
	return sent
}

// lead makes r the leader of term 2.
func lead(t *testing.T, r *Replica) {
	t.Helper()
	r.Campaign()
	for _, kind := range []raftpb.MessageType{raftpb.MsgPreVoteResp, raftpb.MsgVoteResp} {
		turn(r)
		m := msg(kind, func(m *raftpb.Message) { m.From, m.To, m.Term = new(uint64(1)), new(uint64(2)), new(uint64(2)) })
		if _, err := r.Receive(1, appendMessage(nil, m)); err != nil {
			t.Fatal(err)
		}
	}
	turn(r)
	if !r.IsLeader() {
		t.Fatal("it does not lead")
	}
}

// No frame ends the process: what raft would stop at is refused before raft sees it.
func TestNoMessageStopsTheMember(t *testing.T) {
	entries := func(es ...*raftpb.Entry) func(*raftpb.Message) {
		return func(m *raftpb.Message) {
			m.Index, m.LogTerm, m.Entries, m.Commit = new(uint64(3)), new(uint64(1)), es, new(uint64(math.MaxUint64))
		}
	}
	entry := func(index, term uint64, typ raftpb.EntryType, data string) *raftpb.Entry {
		return &raftpb.Entry{Index: new(index), Term: new(term), Type: typ.Enum(), Data: []byte(data)}
	}
	two, err := proto.Marshal(&raftpb.ConfChangeV2{Changes: []*raftpb.ConfChangeSingle{{NodeId: new(uint64(1))}, {NodeId: new(uint64(3))}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		kind  raftpb.MessageType
		leads bool
		set   func(*raftpb.Message)
	}{
		{"a commit beyond the log", raftpb.MsgHeartbeat, false, func(m *raftpb.Message) { m.Commit = new(uint64(1 << 40)) }},
		{"a commit just beyond the log", raftpb.MsgHeartbeat, false, func(m *raftpb.Message) { m.Commit = new(uint64(4)) }},
		{"no term", raftpb.MsgVote, false, func(m *raftpb.Message) { m.Term, m.Index, m.LogTerm = new(uint64(0)), new(uint64(9)), new(uint64(9)) }},
		{"no term in a heartbeat", raftpb.MsgHeartbeat, true, func(m *raftpb.Message) { m.Term = new(uint64(0)) }},
		{"the last term", raftpb.MsgVote, false, func(m *raftpb.Message) { m.Term = new(uint64(math.MaxUint64)) }},
		{"a term nobody can be in", raftpb.MsgHeartbeat, false, func(m *raftpb.Message) { m.Term = new(uint64(1 << 40)) }},
		{"a question without one", raftpb.MsgReadIndex, true, func(m *raftpb.Message) { m.Term = new(uint64(0)) }},
		{"a question with a term", raftpb.MsgReadIndex, true, func(m *raftpb.Message) { m.Entries = []*raftpb.Entry{{Data: []byte("q")}} }},
		{"a short read round", raftpb.MsgHeartbeatResp, true, func(m *raftpb.Message) { m.Context = []byte{1} }},
		{"a read round nobody asked for", raftpb.MsgHeartbeatResp, true, func(m *raftpb.Message) { m.Context = binary.LittleEndian.AppendUint64(nil, 1<<50) }},
		{"an acknowledgement beyond the log", raftpb.MsgAppResp, true, func(m *raftpb.Message) { m.Index = new(uint64(1 << 40)) }},
		{"entries with a hole", raftpb.MsgApp, false, entries(entry(4, 1, 0, ""), entry(6, 1, 0, ""))},
		{"entries before their place", raftpb.MsgApp, false, entries(entry(1, 1, 0, ""))},
		{"an entry of a later term than its message", raftpb.MsgApp, false, entries(entry(4, 9, 0, ""))},
		{"an entry without a term", raftpb.MsgApp, false, entries(entry(4, 0, 0, ""))},
		{"terms that go back", raftpb.MsgApp, false, entries(entry(4, 2, 0, ""), entry(5, 1, 0, ""))},
		{"an entry of an unknown kind", raftpb.MsgApp, false, entries(entry(4, 1, 77, ""))},
		{"a membership change that cannot be read", raftpb.MsgApp, false, entries(entry(4, 1, raftpb.EntryConfChangeV2, "\xff\xff"))},
		{"a membership change of two", raftpb.MsgApp, false, entries(entry(4, 1, raftpb.EntryConfChangeV2, string(two)))},
		{"commands that cannot be read", raftpb.MsgApp, false, entries(entry(4, 1, 0, "unreadable"))},
		{"a question with entries of another kind", raftpb.MsgVote, false, func(m *raftpb.Message) { m.Entries = []*raftpb.Entry{entry(4, 1, 0, "")} }},
		{"a message of raft's own", raftpb.MsgStorageAppendResp, false, func(m *raftpb.Message) { m.Index, m.LogTerm = new(uint64(9)), new(uint64(1)) }},
		{"an order to check the quorum", raftpb.MsgCheckQuorum, true, func(*raftpb.Message) {}},
		{"an unknown kind", 99, false, func(*raftpb.Message) {}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := follower(t)
			if c.leads {
				lead(t, r)
			}
			was := r.Commit()
			m := msg(c.kind, func(m *raftpb.Message) { m.From, m.To, m.Term = new(uint64(3)), new(uint64(2)), new(uint64(2)) })
			c.set(m)
			if _, err := r.Receive(3, appendMessage(nil, m)); !errors.Is(err, errMessage) {
				t.Errorf("Receive: %v", err)
			}
			turn(r)
			if r.Commit() != was || r.LastIndex() != map[bool]uint64{false: 3, true: 4}[c.leads] {
				t.Errorf("commit %d, log ends at %d", r.Commit(), r.LastIndex())
			}
		})
	}
}

// A snapshot's head must name a place and members, each once.
func TestNoSnapshotHeadStopsTheMember(t *testing.T) {
	for name, conf := range map[string]Conf{
		"nobody votes": {Learners: []uint64{2}}, "one votes twice": {Voters: []uint64{1, 1, 2}},
		"a learner votes": {Voters: []uint64{1, 2}, Learners: []uint64{2}}, "no id": {Voters: []uint64{0, 2}},
	} {
		r := follower(t)
		m := msg(raftpb.MsgSnap, func(m *raftpb.Message) {
			m.From, m.To, m.Term = new(uint64(3)), new(uint64(2)), new(uint64(2))
			m.Snapshot = &raftpb.Snapshot{Metadata: &raftpb.SnapshotMetadata{Index: new(uint64(9)), Term: new(uint64(2)), ConfState: conf.raft()}}
		})
		if err := r.ReceiveSnapshot(3, appendMessage(nil, m)); !errors.Is(err, errMessage) {
			t.Errorf("%s: %v", name, err)
		}
		turn(r)
	}
}

// A heartbeat that arrives right behind entries which cut the log is held against where the log ends then.
func TestHeartbeatBehindACut(t *testing.T) {
	r := follower(t)
	step := func(kind raftpb.MessageType, from, term uint64, set func(*raftpb.Message)) {
		t.Helper()
		m := msg(kind, func(m *raftpb.Message) { m.From, m.To, m.Term = new(from), new(uint64(2)), new(term) })
		set(m)
		if _, err := r.Receive(from, appendMessage(nil, m)); err != nil {
			t.Fatal(err)
		}
	}
	append9 := func(m *raftpb.Message) {
		m.Index, m.LogTerm = new(uint64(3)), new(uint64(1))
		for i := uint64(4); i <= 9; i++ {
			m.Entries = append(m.Entries, &raftpb.Entry{Index: new(i), Term: new(uint64(2))})
		}
	}
	step(raftpb.MsgApp, 1, 2, append9)
	turn(r)
	if r.LastIndex() != 9 {
		t.Fatalf("the log ends at %d", r.LastIndex())
	}
	step(raftpb.MsgApp, 3, 3, func(m *raftpb.Message) {
		m.Index, m.LogTerm = new(uint64(3)), new(uint64(1))
		m.Entries = []*raftpb.Entry{{Index: new(uint64(4)), Term: new(uint64(3))}}
	})
	step(raftpb.MsgHeartbeat, 3, 3, func(m *raftpb.Message) { m.Commit = new(uint64(8)) })
	turn(r)
	if r.LastIndex() != 4 || r.Commit() != 4 {
		t.Errorf("the log ends at %d, commit %d", r.LastIndex(), r.Commit())
	}
}

// The messages that members do send pass: a read round is asked for and answered.
func TestReadRoundsPass(t *testing.T) {
	r := follower(t)
	lead(t, r)
	ack := msg(raftpb.MsgAppResp, func(m *raftpb.Message) {
		m.From, m.To, m.Term, m.Index = new(uint64(1)), new(uint64(2)), new(uint64(2)), new(uint64(4))
	})
	if _, err := r.Receive(1, appendMessage(nil, ack)); err != nil {
		t.Fatal(err)
	}
	turn(r)
	r.ReadIndex([]byte("question"))
	var beat *raftpb.Message
	for _, m := range turn(r) {
		if m.GetType() == raftpb.MsgHeartbeat && m.GetTo() == 1 {
			beat = m
		}
	}
	if beat == nil || len(beat.Context) == 0 {
		t.Fatalf("no heartbeat asks: %v", beat)
	}
	answer := msg(raftpb.MsgHeartbeatResp, func(m *raftpb.Message) {
		m.From, m.To, m.Term, m.Context = new(uint64(1)), new(uint64(2)), new(uint64(2)), beat.Context
	})
	if _, err := r.Receive(1, appendMessage(nil, answer)); err != nil {
		t.Fatal(err)
	}
	var rd Ready
	if !r.Ready(&rd) || len(rd.Reads) != 1 || rd.Reads[0].Index != 4 {
		t.Errorf("reads: %v", rd.Reads)
	}
}
