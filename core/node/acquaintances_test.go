package node

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/holdfastdb/holdfast/core/entry"
	eident "github.com/holdfastdb/holdfast/core/entry/ident"
	"github.com/holdfastdb/holdfast/core/peer"
	"github.com/holdfastdb/holdfast/internal/wire"
)

// identCommands is a frame of the forward lane with a change of users that root is said to have asked for.
func identCommands(term uint64, origin uint64, part *eident.Part) []byte {
	part.Actor = eident.Root
	cmd := entry.AppendCommand(nil, &entry.Command{Origin: origin, Seq: 1, Term: term,
		Parts: []entry.Part{{Machine: entry.MachineIdent, Body: eident.AppendPart(nil, part)}}})
	f := binary.AppendUvarint(binary.AppendUvarint([]byte{frameCommands}, term), 0)
	return wire.AppendBytes(append(f, byte(LaneSystem)), cmd)
}

// From a process that is no member nothing is taken: no command, no call, no raft message, no snapshot. From a member it is.
func TestStrangersAreNotHeard(t *testing.T) {
	m := newManual(t, 3)
	leader, follower := m.nodes[0], m.nodes[1]
	term := leader.Status().Term
	answered := 0
	m.lose = func(p parcel) bool {
		if p.to == 0xbad || p.to == leader.id && p.from == leader.id {
			answered++
		}
		return false
	}
	for _, from := range []uint64{0xbad, 0, leader.id} {
		leader.HandleFrame(from, peer.ChannelForward, identCommands(term, 0xbad00+from, &eident.Part{UserAdd: &eident.UserAdd{Name: "mallory"}}))
		call := wire.AppendBytes(binary.AppendUvarint([]byte{frameCall}, 1), "member.join")
		leader.HandleFrame(from, peer.ChannelForward, append(call, `{"kind":"join","peer_addr":"10.0.0.9:1","nonce":"5"}`...))
		// A heartbeat of a later term, which would depose the leader.
		beat := binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64([]byte{8, 0}, leader.id), from)
		leader.HandleFrame(from, peer.ChannelControl, binary.AppendUvarint(beat, term+5))
		if err := leader.HandleStream(from, bytes.NewReader(nil)); !errors.Is(err, errStranger) {
			t.Errorf("a snapshot of %x: %v", from, err)
		}
		for range 5 {
			m.step()
		}
	}
	if got := leader.Status().Term; got != term || !leader.rep.IsLeader() {
		t.Errorf("term %d, was %d", got, term)
	}
	if u := leader.users.State().User("mallory"); u != nil || answered != 0 || len(leader.Members()) != 3 {
		t.Errorf("a stranger was heard: user %v, %d answers, %d members", u, answered, len(leader.Members()))
	}
	leader.HandleFrame(follower.id, peer.ChannelForward, identCommands(term, 0xbad, &eident.Part{UserAdd: &eident.UserAdd{Name: "alice"}}))
	m.until("a member was heard", func() bool { return leader.users.State().User("alice") != nil })
}

// One that the log does not name yet is heard from when it has introduced itself, and only so many are.
func TestIntroducedMembersAreHeard(t *testing.T) {
	m := newManual(t, 3)
	n := m.nodes[2]
	if n.knows(9) {
		t.Fatal("known from the start")
	}
	n.HandleFrame(9, peer.ChannelForward, append([]byte{frameReachMe}, "10.0.0.9:2380"...))
	m.step()
	if !n.knows(9) {
		t.Error("it introduced itself and is not known")
	}
	for id := uint64(100); id < 100+2*maxAcquaintances; id++ {
		n.HandleFrame(id, peer.ChannelForward, append([]byte{frameReachMe}, "10.0.0.9:2380"...))
	}
	m.step()
	if n.knows(100 + 2*maxAcquaintances - 1) {
		t.Error("no bound on those that introduce themselves")
	}
}

// An answer counts only from whom the question went to.
func TestAnswersOfOthersDoNotCount(t *testing.T) {
	m := newManual(t, 3)
	n := m.nodes[1]
	call := &openCall{to: 1, come: make(chan struct{})}
	n.calls.open[7] = call
	reply := append(binary.AppendUvarint([]byte{frameAnswer}, 7), answerOK)
	n.HandleFrame(3, peer.ChannelForward, append(reply, "forged"...))
	n.HandleFrame(1, peer.ChannelForward, append(reply, "true"...))
	<-call.come
	if string(call.answer.body) != "true" {
		t.Errorf("answered %q", call.answer.body)
	}
}

// A stranger's hello learns that there is a cluster, and neither the id under which this member is spoken to nor the others.
func TestHelloTellsStrangersLittle(t *testing.T) {
	n := newManual(t, 3).nodes[0]
	ask := func(q string) (a helloAnswer) {
		t.Helper()
		b, err := n.HandleAsk([]byte(q))
		if err == nil {
			err = json.Unmarshal(b, &a)
		}
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	if a := ask(`{"kind":"hello"}`); a.Member != 0 || len(a.Members) != 0 || a.Cluster == 0 {
		t.Errorf("a stranger hears %+v", a)
	}
	if a := ask(`{"kind":"hello","name":"n2","peer_addr":"10.0.0.2:2380"}`); a.Member != n.id || len(a.Members) != 3 {
		t.Errorf("a member hears %+v", a)
	}
	g := &earlyHandler{opt: StartOptions{Peers: map[string]string{"n1": "10.0.0.1:1", "n2": "10.0.0.2:1"}, Token: "secret"}}
	g.ident.Store(&Identity{Name: "n1", Member: 77})
	b, err := g.HandleAsk([]byte(`{"kind":"hello"}`))
	if err != nil || strings.Contains(string(b), "77") || strings.Contains(string(b), "secret") || strings.Contains(string(b), "10.0.0") {
		t.Errorf("before the beginning a stranger hears %s, %v", b, err)
	}
	if b, err = g.HandleAsk([]byte(`{"kind":"hello","name":"n2"}`)); err != nil || !strings.Contains(string(b), "77") {
		t.Errorf("one of the list hears %s, %v", b, err)
	}
}

// Entries that no Apply could read are refused before they are in the log, where they would stop this member at every start.
func TestUnreadableEntriesAreRefused(t *testing.T) {
	n := newManual(t, 3).nodes[1]
	good := entry.AppendHeader(nil, entry.Header{})
	put := entry.AppendCommand(nil, &entry.Command{Origin: 1, Seq: 1, Term: 1, Parts: []entry.Part{putPart("k", "v")}})
	odd := entry.AppendCommand(nil, &entry.Command{Origin: 1, Seq: 1, Term: 1, Parts: []entry.Part{{Machine: 'Z', Body: []byte("?")}}})
	for name, data := range map[string][]byte{"garbage": []byte("garbage"), "a short command": append(good[:len(good):len(good)], 9, 1),
		"a machine that is not there": entry.AppendPacked(good[:len(good):len(good)], odd)} {
		if n.readable(data) == nil {
			t.Errorf("%s passed", name)
		}
	}
	if err := n.readable(entry.AppendPacked(good[:len(good):len(good)], put)); err != nil {
		t.Errorf("a put: %v", err)
	}
}
