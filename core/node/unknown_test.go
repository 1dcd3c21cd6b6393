package node

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/core/peer"
)

// inapplicable are commands that would stop every member that applied them, by what is wrong with them.
func inapplicable() map[string][]entry.Part {
	many := make([]entry.Part, entry.MaxParts+1)
	for i := range many {
		many[i].Machine = entry.Machine(i)
	}
	return map[string][]entry.Part{
		"two parts for one machine":    {putPart("k", "1"), putPart("k", "2")},
		"a machine nobody has":         {{Machine: '?', Body: []byte("x")}},
		"too many parts":               many,
		"a kv part of a later build":   {{Machine: entry.MachineKV, Body: []byte{200}}},
		"a v2 part of a later build":   {{Machine: entry.MachineEtcd2, Body: []byte{200}}},
		"a tlog part of a later build": {{Machine: entry.MachineTlog, Body: []byte{200}}},
		"a user part of a later build": {{Machine: entry.MachineIdent, Body: []byte{200}}},
		"a damaged member part":        {{Machine: entry.MachineMember, Body: []byte{200}}},
		"one good part, one bad":       {putPart("k", "1"), {Machine: entry.MachineIdent, Body: []byte{200}}},
	}
}

// A command that no member could apply is refused where it is proposed, and nothing is logged.
func TestWhatNobodyCouldApplyIsNotProposed(t *testing.T) {
	m := newManual(t, 3)
	for what, parts := range inapplicable() {
		for _, n := range m.nodes {
			if err := n.ProposeAsync(LaneKV, 0, parts, func(*entry.Result, error) {}); !errors.Is(err, ErrInapplicable) {
				t.Errorf("%s: proposed on %x: %v", what, n.id, err)
			}
			short, cancel := context.WithCancel(context.Background())
			cancel()
			if _, err := n.Propose(short, LaneKV, parts...); !errors.Is(err, ErrInapplicable) {
				t.Errorf("%s: %x: %v", what, n.id, err)
			}
		}
	}
	m.writeOn(m.nodes[1], 3)
	m.same()
}

// A member of another build may forward what this one cannot apply, or in a lane it does not know. Each such command is refused by
// a frame that every build reads, nothing of it is logged, and what that member sends next is taken.
func TestForwardedWhatNobodyCouldApply(t *testing.T) {
	m := newManual(t, 3)
	leader, follower := m.nodes[0], m.nodes[1]
	var answered [][]byte
	m.lose = func(p parcel) bool {
		if p.channel == peer.ChannelForward && p.to == follower.id {
			answered = append(answered, p.frame)
		}
		return false
	}
	term, seq := leader.Status().Term, uint64(0)
	const origin = 9
	send := func(lane byte, cterm uint64, parts ...entry.Part) {
		frame := binary.AppendUvarint(binary.AppendUvarint([]byte{frameCommands}, term), seq)
		seq++
		cmd := entry.AppendCommand(nil, &entry.Command{Origin: origin, Seq: seq, Term: cterm, Parts: parts})
		leader.HandleFrame(follower.id, peer.ChannelForward, entry.AppendPacked(append(frame, lane), cmd))
		for range 3 {
			m.step()
			m.clock.Advance(10 * time.Millisecond)
		}
	}
	refused := func(what string) {
		t.Helper()
		want := append(binary.AppendUvarint([]byte{frameRefused}, term), refusedOverload, origin, 0, 0, 0, 0, 0, 0, 0)
		want = binary.AppendUvarint(want, seq)
		if len(answered) != 1 || !bytes.Equal(answered[0], want) {
			t.Errorf("%s: answered %x, want %x", what, answered, want)
		}
		answered = nil
	}
	m.step()
	last := leader.rep.LastIndex()
	for what, parts := range inapplicable() {
		send(byte(LaneKV), term, parts...)
		refused(what)
	}
	send(byte(200), term, putPart("lane", "v"))
	refused("a lane nobody has")
	send(255, term, putPart("lane", "v"))
	refused("another lane nobody has")
	send(byte(LaneKV), term-1, putPart("term", "v"))
	refused("a command of another term than its frame")
	if now := leader.rep.LastIndex(); now != last {
		t.Errorf("the log went from %d to %d", last, now)
	}
	send(byte(LaneKV), term, putPart("k", "v"))
	m.until("the next one is applied", func() bool { _, version := read(t, follower, "k"); return version == 1 })
	if len(answered) != 0 {
		t.Errorf("a good one was answered by %x", answered)
	}
	m.writeOn(follower, 3)
	m.same()
}

// The member that sent a command in a lane which the leader does not know hears that it was refused, and goes on.
func TestALaneTheLeaderDoesNotKnow(t *testing.T) {
	m := newManual(t, 3)
	follower := m.nodes[1]
	m.lose = func(p parcel) bool {
		if p.channel == peer.ChannelForward && p.from == follower.id && p.frame[0] == frameCommands {
			p.frame[3] = 7 // after the kind, and two numbers of a byte each
		}
		return false
	}
	o := m.propose(follower, "k", "1")
	m.until("an answer", func() bool { return o.done })
	if !errors.Is(o.err, ErrOverloaded) {
		t.Errorf("it ended with %v", o.err)
	}
	m.lose = nil
	m.writeOn(follower, 3)
	m.same()
}
