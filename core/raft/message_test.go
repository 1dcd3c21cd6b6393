package raft

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/holdfastdb/holdfast/internal/golden"
)

// messages has one of each kind that travels, and every field at least once.
func messages() []*raftpb.Message {
	msg := func(typ raftpb.MessageType, with func(m *raftpb.Message)) *raftpb.Message {
		m := &raftpb.Message{Type: typ.Enum(), To: new(uint64(0x22)), From: new(uint64(0x1111111111111111)), Term: new(uint64(7))}
		with(m)
		return m
	}
	normal, change := raftpb.EntryNormal, raftpb.EntryConfChangeV2
	return []*raftpb.Message{
		msg(raftpb.MsgHeartbeat, func(m *raftpb.Message) { m.Commit = new(uint64(300)); m.Context = []byte("round 1") }),
		msg(raftpb.MsgHeartbeatResp, func(*raftpb.Message) {}),
		msg(raftpb.MsgVote, func(m *raftpb.Message) { m.Index, m.LogTerm = new(uint64(41)), new(uint64(6)) }),
		msg(raftpb.MsgVoteResp, func(m *raftpb.Message) { m.Reject = new(true); m.Vote = new(uint64(0x33)) }),
		msg(raftpb.MsgApp, func(m *raftpb.Message) {
			m.Index, m.LogTerm, m.Commit = new(uint64(41)), new(uint64(6)), new(uint64(40))
			m.Entries = []*raftpb.Entry{
				{Type: &normal, Term: new(uint64(7)), Index: new(uint64(42)), Data: []byte("command")},
				{Type: &change, Term: new(uint64(7)), Index: new(uint64(1 << 40)), Data: []byte{}},
			}
		}),
		msg(raftpb.MsgAppResp, func(m *raftpb.Message) {
			m.Index, m.LogTerm, m.Reject, m.RejectHint = new(uint64(41)), new(uint64(5)), new(true), new(uint64(39))
		}),
		msg(raftpb.MsgSnap, func(m *raftpb.Message) {
			m.Snapshot = &raftpb.Snapshot{Metadata: &raftpb.SnapshotMetadata{Index: new(uint64(1000)), Term: new(uint64(7)),
				ConfState: Conf{Voters: []uint64{1, 2, 3}, Learners: []uint64{4}}.raft()}}
		}),
		msg(raftpb.MsgReadIndex, func(m *raftpb.Message) {
			m.Entries = []*raftpb.Entry{{Type: &normal, Term: new(uint64(0)), Index: new(uint64(0)), Data: []byte("question")}}
		}),
	}
}

// The golden file pins the bytes: members of two builds talk to each other during an upgrade, and a store holds Conf's.
func TestGolden(t *testing.T) {
	var b strings.Builder
	for _, m := range messages() {
		fmt.Fprintf(&b, "# %s\n%s", m.GetType(), hex.Dump(appendMessage(nil, m)))
	}
	fmt.Fprintf(&b, "# Conf\n%s", hex.Dump(Conf{Voters: []uint64{1, 0x3fffffffffffffff}, Learners: []uint64{5}}.Encode()))
	golden.Check(t, "testdata/message.hex", b.String())
}

func TestMessageRoundTrip(t *testing.T) {
	for _, m := range messages() {
		b := appendMessage(nil, m)
		if size := messageSize(m); len(b) > size {
			t.Errorf("%s: %d bytes, messageSize says at most %d", m.GetType(), len(b), size)
		}
		got, err := decodeMessage(b)
		if err != nil {
			t.Errorf("%s: %v", m.GetType(), err)
			continue
		}
		// A field that was zero may come back unset: raft's getters see no difference, so neither does a second encoding.
		if again := appendMessage(nil, got); !bytes.Equal(again, b) {
			t.Errorf("%s: %x came back as %x", m.GetType(), b, again)
		}
		if m.GetType() == raftpb.MsgApp && !proto.Equal(m, got) {
			t.Errorf("%v came back as %v", m, got)
		}
	}
}

func TestMessageRefusals(t *testing.T) {
	for _, m := range messages() {
		whole := appendMessage(nil, m)
		for n := range len(whole) {
			if got, err := decodeMessage(whole[:n]); !errors.Is(err, errMessage) {
				t.Fatalf("%s cut at %d of %d: %v, %v", m.GetType(), n, len(whole), got, err)
			}
		}
		if _, err := decodeMessage(append(bytes.Clone(whole), 0)); !errors.Is(err, errMessage) {
			t.Errorf("%s with a byte too many: %v", m.GetType(), err)
		}
		whole[0] = 200
		if _, err := decodeMessage(whole); !errors.Is(err, errMessage) {
			t.Errorf("type 200: %v", err)
		}
	}
}

// Announced entries must not cost memory before they are there.
func TestMessageBelievesOnlyWhatArrives(t *testing.T) {
	m := messages()[4]
	m.Entries = nil
	b := appendMessage(nil, m)
	b[1] |= hasEntries
	b = append(b, 0x80, 0x80, 0x80, 0x01) // 2 Mi entries
	b = append(b, make([]byte, 2<<20)...) // … in as many bytes
	if n := testing.AllocsPerRun(1, func() {
		if _, err := decodeMessage(b); !errors.Is(err, errMessage) {
			t.Fatal(err)
		}
	}); n > 100 {
		t.Fatalf("%v allocations for entries that cannot be there", n)
	}
}

func TestConfRoundTrip(t *testing.T) {
	for _, c := range []Conf{{}, {Voters: []uint64{1}}, {Learners: []uint64{9}}, {Voters: []uint64{1, 2, 3}, Learners: []uint64{4, 5}}} {
		got, err := DecodeConf(c.Encode())
		if err != nil || fmt.Sprint(got) != fmt.Sprint(c) {
			t.Errorf("%v came back as %v, %v", c, got, err)
		}
	}
	whole := Conf{Voters: []uint64{1, 2}, Learners: []uint64{3}}.Encode()
	for n := range len(whole) {
		if got, err := DecodeConf(whole[:n]); err == nil {
			t.Errorf("cut at %d: %v", n, got)
		}
	}
}

func TestChangeRoundTrip(t *testing.T) {
	for _, c := range []Change{{Kind: AddVoter, ID: 1}, {Kind: AddLearner, ID: 1 << 61, Context: []byte("why")}, {Kind: Remove, ID: 7, Context: []byte{0}}} {
		data, err := proto.Marshal(c.raft())
		if err != nil {
			t.Fatal(err)
		}
		got, err := DecodeChange(uint8(raftpb.EntryConfChangeV2), data)
		if err != nil || got.Kind != c.Kind || got.ID != c.ID || !bytes.Equal(got.Context, c.Context) {
			t.Errorf("%+v came back as %+v, %v", c, got, err)
		}
	}
	if got, err := DecodeChange(uint8(raftpb.EntryNormal), []byte("anything")); got != nil || err != nil {
		t.Errorf("a normal entry: %v, %v", got, err)
	}
	// Forms that this package never writes: the old form, and changes of no member or of two.
	if _, err := DecodeChange(uint8(raftpb.EntryConfChange), nil); err == nil {
		t.Error("the old form of a change was taken")
	}
	two, err := proto.Marshal(&raftpb.ConfChangeV2{Changes: append(Change{ID: 1}.raft().Changes, Change{ID: 2}.raft().Changes...)})
	if err != nil {
		t.Fatal(err)
	}
	for _, data := range [][]byte{nil, two} {
		if c, err := DecodeChange(uint8(raftpb.EntryConfChangeV2), data); err == nil {
			t.Errorf("%x was taken for %+v", data, c)
		}
	}
}

// Receive takes only what may travel between members, and only from where it says it is.
func TestReceiveRefuses(t *testing.T) {
	s := &story{t: t}
	s.cluster([]string{"1,2,3"})
	n1 := s.at(1).rep
	frame := func(typ raftpb.MessageType, from, to uint64) []byte {
		return appendMessage(nil, &raftpb.Message{Type: typ.Enum(), From: &from, To: &to})
	}
	for _, typ := range []raftpb.MessageType{raftpb.MsgSnap, raftpb.MsgProp, raftpb.MsgHup, raftpb.MsgBeat, raftpb.MsgTransferLeader,
		raftpb.MsgForgetLeader} {
		if _, err := n1.Receive(2, frame(typ, 2, 1)); !errors.Is(err, errMessage) {
			t.Errorf("%s: %v", typ, err)
		}
	}
	for name, b := range map[string][]byte{
		"another sender": frame(raftpb.MsgHeartbeat, 3, 1), "another receiver": frame(raftpb.MsgHeartbeat, 2, 3), "nothing": nil} {
		if _, err := n1.Receive(2, b); !errors.Is(err, errMessage) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, b := range map[string][]byte{"a heartbeat": frame(raftpb.MsgHeartbeat, 2, 1), "no snapshot": frame(raftpb.MsgSnap, 2, 1), "nothing": nil} {
		if err := n1.ReceiveSnapshot(2, b); !errors.Is(err, errMessage) {
			t.Errorf("%s as the head of a snapshot: %v", name, err)
		}
	}
}

func FuzzMessage(f *testing.F) {
	for _, m := range messages() {
		f.Add(appendMessage(nil, m))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		_, _, _ = SnapshotHead(b)
		m, err := decodeMessage(b)
		if err != nil {
			return
		}
		// The first encoding may be longer than need be (long varints, a bit set for a zero); ours is a fixed point.
		ours := appendMessage(nil, m)
		if len(ours) > len(b) {
			t.Fatalf("%x grew to %x", b, ours)
		}
		again, err := decodeMessage(ours)
		if err != nil {
			t.Fatalf("%x became %x: %v", b, ours, err)
		}
		if twice := appendMessage(nil, again); !bytes.Equal(twice, ours) {
			t.Fatalf("%x became %x", ours, twice)
		}
	})
}

func FuzzConf(f *testing.F) {
	f.Add(Conf{Voters: []uint64{1, 2, 3}, Learners: []uint64{4}}.Encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := DecodeConf(b)
		if err != nil {
			return
		}
		if again, err := DecodeConf(c.Encode()); err != nil || fmt.Sprint(again) != fmt.Sprint(c) {
			t.Fatalf("%v came back as %v, %v", c, again, err)
		}
	})
}

func FuzzChange(f *testing.F) {
	data, _ := proto.Marshal(Change{Kind: AddLearner, ID: 5, Context: []byte("x")}.raft())
	f.Add(uint8(raftpb.EntryConfChangeV2), data)
	f.Fuzz(func(t *testing.T, typ uint8, b []byte) {
		if c, err := DecodeChange(typ, b); err == nil && c == nil && raftpb.EntryType(typ) != raftpb.EntryNormal {
			t.Fatalf("type %d: neither a change nor an error", typ)
		}
	})
}

// BenchmarkMessage decodes what a follower gets for every batch of writes: one entry behind another.
func BenchmarkMessage(b *testing.B) {
	normal := raftpb.EntryNormal
	frame := appendMessage(nil, &raftpb.Message{
		Type: raftpb.MsgApp.Enum(), To: new(uint64(2)), From: new(uint64(1)), Term: new(uint64(7)),
		Index: new(uint64(2_000_000)), LogTerm: new(uint64(7)), Commit: new(uint64(2_000_000)),
		Entries: []*raftpb.Entry{{Type: &normal, Term: new(uint64(7)), Index: new(uint64(2_000_001)), Data: make([]byte, 4<<10)}},
	})
	b.ReportAllocs()
	for b.Loop() {
		if _, err := decodeMessage(frame); err != nil {
			b.Fatal(err)
		}
	}
}
