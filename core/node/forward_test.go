package node

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/core/peer"
	"github.com/holdfastdb/holdfast/internal/golden"
)

// A frame with commands is lost with its connection, and the next one arrives before the follower has sent the first again.
// The leader must not take the second for proof that it had the first.
func TestLostFrameOfCommandsIsSentAgain(t *testing.T) {
	m := newManual(t, 3)
	follower := m.nodes[1]
	m.lose = func(p parcel) bool { return p.channel == peer.ChannelForward && p.from == follower.id }
	first := m.propose(follower, "first", "1")
	m.step()
	m.step()
	m.lose = nil
	second := m.propose(follower, "second", "2")
	term := follower.Status().Term
	m.until("both applied", func() bool { return first.done && second.done })
	if first.err != nil || second.err != nil {
		t.Fatal(first.err, second.err)
	}
	if now := follower.Status().Term; now != term {
		t.Fatalf("it took a new leader: term %d, then %d", term, now)
	}
	for _, n := range m.nodes {
		m.until("everywhere", func() bool { _, v := read(t, n, "second"); return v != 0 })
		if _, v := read(t, n, "first"); v != 1 {
			t.Fatalf("member %x applied the first command %d times", n.id, v)
		}
	}
}

// forwardFrames are the frames of the forward lane as a member sends them: the golden file and the seeds of the fuzz tests.
func forwardFrames(t testing.TB) (names []string, frames map[string][]byte) {
	cmd := entry.AppendCommand(nil, &entry.Command{Origin: 0x0102030405060708, Seq: 300, Term: 7,
		Parts: []entry.Part{{Machine: entry.MachineKV, Body: []byte("body")}}})
	commands := binary.AppendUvarint([]byte{frameCommands}, 7)
	commands = binary.AppendUvarint(commands, 299)
	commands = entry.AppendPacked(append(commands, byte(LaneKV)), cmd)
	refused := binary.AppendUvarint([]byte{frameRefused}, 7)
	refused = append(refused, refusedOverload)
	refused = binary.LittleEndian.AppendUint64(refused, 0x0102030405060708)
	refused = binary.AppendUvarint(refused, 300)
	call := binary.AppendUvarint([]byte{frameCall}, 500)
	call = entry.AppendPacked(call, []byte("member.add"))
	call = append(call, "request"...)
	answer := binary.AppendUvarint([]byte{frameAnswer}, 500)
	answer = append(answer, answerError)
	answer = append(answer, "member not found"...)
	return []string{"commands", "refused", "call", "answer"},
		map[string][]byte{"commands": commands, "refused": refused, "call": call, "answer": answer}
}

// The golden file pins the frames as they are built above; the cluster below shows that the node builds the same.
func TestForwardGolden(t *testing.T) {
	names, frames := forwardFrames(t)
	var b strings.Builder
	for _, name := range names {
		fmt.Fprintf(&b, "# %s\n%s", name, hex.Dump(frames[name]))
	}
	golden.Check(t, "testdata/forward.hex", b.String())
}

// A follower's real frame has the form of the golden file, and so has the leader's refusal.
func TestForwardFramesOnTheWire(t *testing.T) {
	m := newManual(t, 3)
	leader, follower := m.nodes[0], m.nodes[1]
	var sent [][]byte
	m.lose = func(p parcel) bool {
		if p.channel == peer.ChannelForward {
			sent = append(sent, p.frame)
		}
		return false
	}
	term := leader.Status().Term
	o := m.propose(follower, "k", "v")
	m.until("applied", func() bool { return o.done })
	cmd := entry.AppendCommand(nil, &entry.Command{Origin: follower.origin, Seq: 1, Term: term, Parts: []entry.Part{putPart("k", "v")}})
	want := binary.AppendUvarint([]byte{frameCommands}, term)
	want = entry.AppendPacked(append(want, 0, byte(LaneKV)), cmd)
	if len(sent) != 1 || !bytes.Equal(sent[0], want) {
		t.Fatalf("sent %x, want %x", sent, want)
	}
	// Frames of an earlier term, as a member sends them that does not know better yet: all refused, nothing applied.
	sent = nil
	old := entry.AppendCommand(nil, &entry.Command{Origin: 9, Seq: 5, Term: term - 1, Parts: []entry.Part{putPart("k", "old")}})
	frame := binary.AppendUvarint([]byte{frameCommands}, term-1)
	leader.HandleFrame(follower.id, peer.ChannelForward, entry.AppendPacked(append(frame, 0, byte(LaneKV)), old))
	m.step()
	m.step()
	refusal := append(binary.AppendUvarint([]byte{frameRefused}, term-1), refusedNotLeader, 9, 0, 0, 0, 0, 0, 0, 0, 5)
	if len(sent) != 1 || !bytes.Equal(sent[0], refusal) {
		t.Fatalf("answered %x, want %x", sent, refusal)
	}
	// A command that claims another term than its frame never gets in, or the fence of Apply would be the only one.
	bad := append(binary.AppendUvarint([]byte{frameCommands}, term), 0)
	leader.HandleFrame(follower.id, peer.ChannelForward, entry.AppendPacked(append(bad, byte(LaneKV)), old))
	m.step()
	m.step()
	if v, version := read(t, leader, "k"); v != "v" || version != 1 {
		t.Fatalf("k = %q, version %d", v, version)
	}
}

// A command that came twice is packed once.
func TestForwardedTwiceAppliedOnce(t *testing.T) {
	m := newManual(t, 3)
	follower := m.nodes[1]
	var again []parcel
	m.lose = func(p parcel) bool {
		if p.channel == peer.ChannelForward {
			again = append(again, p)
		}
		return false
	}
	o := m.propose(follower, "k", "v")
	m.until("applied", func() bool { return o.done })
	for range 3 {
		for _, p := range slices.Clone(again) {
			m.node(p.to).HandleFrame(p.from, p.channel, p.frame)
		}
		m.step()
	}
	second := m.propose(follower, "other", "v")
	m.until("applied", func() bool { return second.done })
	if _, version := read(t, follower, "k"); version != 1 {
		t.Fatalf("applied %d times", version)
	}
}

// A full queue at the leader comes back as a refusal, and the follower says so to its caller.
func TestForwardedIntoAFullQueue(t *testing.T) {
	m := newManual(t, 3)
	leader, follower := m.nodes[0], m.nodes[1]
	leader.lanes.mu.Lock()
	leader.lanes.of[LaneKV].limit = 1 // holds one command of any size, when it is empty
	leader.lanes.mu.Unlock()
	a, b := m.propose(follower, "a", ""), m.propose(follower, "b", "")
	m.until("both have an outcome", func() bool { return a.done && b.done })
	if a.err != nil || !errors.Is(b.err, ErrOverloaded) {
		t.Fatal(a.err, b.err)
	}
	if leader.Counters().Refused != 1 {
		t.Errorf("%d refused", leader.Counters().Refused)
	}
}

// A leader that is cut off and deposed has taken commands that never commit. Their origin proposes them again under the new leader, exactly
// once.
func TestSupersededIsProposedAgain(t *testing.T) {
	m := newManual(t, 3)
	old := m.nodes[0]
	m.lose = func(p parcel) bool { return p.from == old.id || p.to == old.id }
	o := m.propose(old, "k", "v")
	m.until("a new leader", func() bool { return m.nodes[1].pub.Load().leads != 0 || m.nodes[2].pub.Load().leads != 0 })
	if o.done {
		t.Fatalf("an outcome without a majority: %v %v", o.res, o.err)
	}
	m.lose = nil
	m.until("applied", func() bool { return o.done })
	if o.err != nil {
		t.Fatal(o.err)
	}
	if n := old.Counters().Superseded; n == 0 {
		t.Error("it was not superseded: the test shows nothing")
	}
	for _, n := range m.nodes {
		m.until("everywhere", func() bool { _, v := read(t, n, "k"); return v == 1 })
	}
}

// A command decided in a term dies with it.
func TestInTermIsNotProposedAgain(t *testing.T) {
	m := newManual(t, 3)
	old := m.nodes[0]
	term := old.Status().Term
	m.lose = func(p parcel) bool { return p.from == old.id || p.to == old.id }
	var err error
	if e := old.ProposeAsync(LaneSystem, term, []entry.Part{putPart("k", "v")}, func(_ *entry.Result, e error) { err = e }); e != nil {
		t.Fatal(e)
	}
	m.until("a new leader", func() bool { return m.nodes[1].pub.Load().leads != 0 || m.nodes[2].pub.Load().leads != 0 })
	m.lose = nil
	m.until("an outcome", func() bool { return err != nil })
	if !errors.Is(err, ErrSuperseded) {
		t.Fatal(err)
	}
	if _, version := read(t, old, "k"); version != 0 {
		t.Fatal("it was applied")
	}
}

// No bytes on the forward lane may stop a member or be answered with anything but frames.
func FuzzForwardFrame(f *testing.F) {
	_, frames := forwardFrames(f)
	for _, b := range frames {
		f.Add(b)
	}
	m := newManual(f, 3)
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 0 && b[0] == frameCall {
			return // runs services; FuzzCallFrame
		}
		for _, to := range []*Node{m.nodes[0], m.nodes[1]} {
			to.HandleFrame(3, peer.ChannelForward, bytes.Clone(b))
			if err := to.drainInbox(); err != nil {
				t.Fatal(err)
			}
			for _, p := range to.lanes.take(nil, to.lanes.last(), 1<<30, 1<<20) { // not into the log: what is in a command is Apply's to judge
				if p.foreign == nil {
					t.Fatal("a frame made a command of this member's own")
				}
			}
		}
		m.take()
	})
}

// A call frame runs the named service with exactly the bytes behind the name. Otherwise it is answered "not the leader", or, if it breaks
// off, is ignored.
func FuzzCallFrame(f *testing.F) {
	f.Add(uint64(1), []byte("echo"), []byte("request"), 0)
	f.Add(uint64(1)<<63, []byte("nobody"), []byte{}, 3)
	m := newManual(f, 1)
	n := m.nodes[0]
	const asker = 7
	n.pending.add(asker)
	n.calls.services = map[string]func(context.Context, []byte) ([]byte, error){
		"echo": func(_ context.Context, b []byte) ([]byte, error) { return b, nil }}
	f.Fuzz(func(t *testing.T, id uint64, service, request []byte, cut int) {
		b := append(entry.AppendPacked(binary.AppendUvarint([]byte{frameCall}, id), service), request...)
		head := len(b) - len(request)
		if cut > 0 && cut < len(b) {
			b = b[:len(b)-cut]
		}
		m.take()
		n.handleCallFrame(asker, bytes.Clone(b))
		for range cap(n.calls.slots) { // until the services are done
			n.calls.slots <- struct{}{}
		}
		for range cap(n.calls.slots) {
			<-n.calls.slots
		}
		answers := m.take()
		if len(b) < head {
			if len(answers) != 0 {
				t.Fatalf("a frame that breaks off was answered %x", answers[0].frame)
			}
			return
		}
		want := binary.AppendUvarint([]byte{frameAnswer}, id)
		if string(service) == "echo" {
			want = append(append(want, answerOK), b[head:]...)
		} else {
			want = append(want, answerNotLeader)
		}
		if len(answers) != 1 || answers[0].to != asker || !bytes.Equal(answers[0].frame, want) {
			t.Fatalf("answered %v, want %x", answers, want)
		}
	})
}

// A refusal is lost with its connection, too. The follower sends the command again and is refused again. Otherwise it would wait for an
// outcome that never comes, as long as the term lasts.
func TestLostRefusalIsSentAgain(t *testing.T) {
	m := newManual(t, 3)
	leader, follower := m.nodes[0], m.nodes[1]
	leader.lanes.mu.Lock()
	leader.lanes.of[LaneKV].limit = 1
	leader.lanes.mu.Unlock()
	lost := 0
	m.lose = func(p parcel) bool {
		if p.channel == peer.ChannelForward && p.frame[0] == frameRefused && lost == 0 {
			lost++
			return true
		}
		return false
	}
	a, b := m.propose(follower, "a", ""), m.propose(follower, "b", "")
	m.until("both have an outcome", func() bool { return a.done && b.done })
	if a.err != nil || !errors.Is(b.err, ErrOverloaded) || lost != 1 {
		t.Fatal(a.err, b.err, lost)
	}
	if len(follower.inflight) != 0 {
		t.Errorf("%d in flight", len(follower.inflight))
	}
}

// The work of sending again follows what is in flight, not what ever was.
func TestSendingAgainIsCheap(t *testing.T) {
	m := newManual(t, 3)
	follower := m.nodes[1]
	m.lose = func(p parcel) bool { return p.channel == peer.ChannelForward && p.from == follower.id }
	o := m.propose(follower, "k", "v")
	m.step()
	follower.nextSeq += 1 << 40
	for range 300 { // three seconds
		m.step()
		m.clock.Advance(10 * time.Millisecond)
	}
	m.lose = nil
	m.until("applied", func() bool { return o.done })
	if o.err != nil {
		t.Fatal(o.err)
	}
}
