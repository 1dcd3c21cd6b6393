package node

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/core/peer"
)

// While the loop does something else, what members send is held up to a bound, by lane, and never keeps a heartbeat out.
func TestInboxIsBounded(t *testing.T) {
	m := newManual(t, 3)
	n := m.nodes[0]
	i := &n.inbox
	bytes := func() (sum int) {
		for _, f := range i.frames {
			sum += cap(f.b)
		}
		return sum
	}
	big := func(kind byte) []byte { return append([]byte{kind}, make([]byte, 1<<20-1)...) }
	for range 200 {
		n.HandleFrame(2, peer.ChannelAppend, big(0))
		n.HandleFrame(2, peer.ChannelForward, big(frameRefused))
		n.HandleFrame(2, peer.ChannelForward, big(frameCommands))
	}
	for range 20_000 {
		n.HandleFrame(2, peer.ChannelControl, make([]byte, 100))
	}
	for id := uint64(100); id < 1000; id++ {
		n.HandleFrame(id, peer.ChannelControl, make([]byte, 100))
	}
	if b, most := bytes(), defaultInboxLimits.append+defaultInboxLimits.forward+2*defaultInboxLimits.control; b > most || len(i.frames) > 50_000 {
		t.Errorf("%d frames with %d bytes are held, %d at most", len(i.frames), b, most)
	}
	before := len(i.frames)
	n.HandleFrame(3, peer.ChannelControl, make([]byte, 100))
	if senders := len(i.beats); len(i.frames) != before && senders > defaultInboxLimits.senders {
		t.Errorf("%d senders on the control lane", senders)
	}
	i.take()
	for range 20_000 {
		n.HandleFrame(2, peer.ChannelControl, make([]byte, 100))
	}
	before = len(i.frames)
	if most := defaultInboxLimits.control / (100 + frameOverhead); before > most {
		t.Errorf("%d small frames of one member on the control lane, %d at most", before, most)
	}
	n.HandleFrame(3, peer.ChannelControl, make([]byte, 100))
	if len(i.frames) != before+1 {
		t.Error("the heartbeats of one member keep out those of another")
	}
	if n.Counters().FramesLost == 0 {
		t.Error("nothing was counted")
	}
	i.take()
	n.HandleFrame(2, peer.ChannelAppend, make([]byte, defaultInboxLimits.append+1))
	if len(i.frames) != 1 {
		t.Error("the largest frame does not fit in an empty inbox")
	}
	i.take()
}

// A member whose loop stands still loses messages, hears of it, and has everything once it runs again.
func TestASlowMemberCatchesUp(t *testing.T) {
	m := newManual(t, 3)
	lead, slow := m.nodes[0], m.nodes[2]
	slow.inbox.limits.append, slow.inbox.limits.control = 2000, 500
	m.nodes = m.nodes[:2] // it stands still
	m.sending = func(p parcel) bool {
		if p.to == slow.id {
			slow.HandleFrame(p.from, p.channel, p.frame)
		}
		return p.to == slow.id
	}
	for range 50 {
		o := m.propose(lead, "k", strings.Repeat("x", 500))
		m.until("applied", func() bool { return o.done })
	}
	m.sending = nil
	if slow.Counters().FramesLost == 0 {
		t.Fatal("nothing was lost: nothing was tried")
	}
	m.nodes = append(m.nodes, slow)
	m.same()
	if _, version := read(t, slow, "k"); version != 50 {
		t.Errorf("version %d", version)
	}
}

// Commands that find the leader's inbox full are refused; if there is no room for that either they come again.
func TestForwardedIntoAFullInbox(t *testing.T) {
	m := newManual(t, 3)
	leader, follower := m.nodes[0], m.nodes[1]
	leader.inbox.limits.refuse = 1
	filler := func() { // the next frame is not the first
		leader.HandleFrame(follower.id, peer.ChannelForward, []byte{99})
	}
	last := leader.rep.LastIndex()
	first := &outcome{}
	err := follower.ProposeAsync(LaneKV, 0, []entry.Part{putPart("k", strings.Repeat("x", 1000))}, func(r *entry.Result, err error) { first.done, first.err = true, err })
	if err != nil {
		t.Fatal(err)
	}
	m.sending = func(p parcel) bool {
		if p.channel != peer.ChannelForward || p.to != leader.id {
			return false
		}
		filler()
		leader.HandleFrame(p.from, p.channel, p.frame)
		return true
	}
	m.until("an answer", func() bool { return first.done })
	if !errors.Is(first.err, ErrOverloaded) || leader.rep.LastIndex() != last {
		t.Errorf("it ended with %v, the log went from %d to %d", first.err, last, leader.rep.LastIndex())
	}
	// No room even for the name.
	leader.inbox.limits.forward = 1
	second := m.propose(follower, "k", "2")
	for range 20 {
		m.step()
		m.clock.Advance(10 * time.Millisecond)
	}
	if lost := leader.Counters().FramesLost; second.done || lost == 0 {
		t.Fatalf("done %v (%v), %d frames lost", second.done, second.err, lost)
	}
	leader.inbox.limits = defaultInboxLimits
	m.until("an answer", func() bool { return second.done })
	if second.err != nil {
		t.Fatal(second.err)
	}
	m.sending = nil
	m.writeOn(follower, 3)
	if _, version := read(t, follower, "k"); version != 1 {
		t.Errorf("version %d", version)
	}
}
