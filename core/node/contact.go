package node

import (
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/holdfastdb/holdfast/core/peer"
)

// contacts is what this member has said about its way to the others. Loop only, but for resumed.
type contacts struct {
	lost     map[uint64]time.Duration // members that are unreachable → when that began, by this member's clock
	lookedAt time.Duration            // at the contacts; 0: not yet
	// resumed is when this process began to run, or ran again after a pause, by its clock. Any goroutine reads it.
	resumed atomic.Int64

	leaderlessFrom time.Duration // when the last leader was lost, by this member's clock; only while there is none
	leaderlessTold bool
	slowTold       time.Duration // since when syncs are slow, of the line that said so; 0: none did
}

// Contact is what this member knows of its way to another one.
type Contact struct {
	ID   uint64
	Name string // "" = added but never started
	peer.Contact
	// Lost is for how long the member has been unreachable from here, 0 if it is reachable.
	Lost time.Duration
}

// Why describes the fault on the way to an unreachable member.
func (c *Contact) Why() string {
	at := c.Addr
	switch {
	case c.Err != nil && at != "":
		return at + ": " + reason(c.Err, at)
	case c.Down > 0 && at != "":
		return at + ": the connection broke"
	case c.Down > 0:
		return "it was not dialled yet"
	}
	if c.Heard < peer.SilentAfter && c.Unanswered < peer.SilentAfter {
		return at + ": it answers, and nothing comes on its own connection to this member: is this member's address right where it runs?"
	}
	if c.Heard < peer.SilentAfter {
		return at + ": it is heard and connected, and answers nothing: what is sent to it does not arrive"
	}
	return at + ": it is connected and says nothing: its process is stopped, or the network drops what it sends"
}

// reason is an error of a dial without the address, which stands beside it.
func reason(err error, addr string) string {
	text := err.Error()
	if i := strings.Index(text, addr+": "); i >= 0 {
		text = text[i+len(addr)+2:]
	}
	return strings.TrimPrefix(text, "connect: ")
}

// Age says when the member was heard.
func (c *Contact) Age() string {
	if !c.Ever {
		return "never heard"
	}
	return fmt.Sprintf("heard %v ago", c.Heard.Round(100*time.Millisecond))
}

// Contacts lists the others as this member reaches them, by id; those are missing of which the network keeps no account.
func (n *Node) Contacts() []Contact {
	var out []Contact
	resumed := n.clock.Mono() - time.Duration(n.resumed.Load())
	for _, m := range n.members.List() {
		if m.ID == n.id {
			continue
		}
		if c, ok := n.net.Contact(m.ID); ok {
			out = append(out, Contact{ID: m.ID, Name: m.Name, Contact: c, Lost: c.Lost(resumed)})
		}
	}
	return out
}

// Losses are looked for every lookInterval. A look that is late by more than pauseAfter shows that this member itself was
// paused. Then the silence is not the other members' fault.
const (
	lookInterval = 500 * time.Millisecond
	pauseAfter   = 2 * time.Second
)

// lookAround says which members were lost and found, and that there is no leader or a slow disk. Loop only.
func (n *Node) lookAround(now time.Duration) {
	if n.lost == nil {
		n.lost = map[uint64]time.Duration{}
		n.resumed.Store(int64(now))
	}
	if late := now - n.lookedAt - lookInterval; n.lookedAt != 0 && late >= pauseAfter {
		n.resumed.Store(int64(now))
		n.log.Warn("this member did nothing for a while: its process was stopped, or waited for a disk or a processor", "for", late.Round(100*time.Millisecond))
	}
	n.lookedAt = now
	for _, c := range n.Contacts() {
		at, was := n.lost[c.ID]
		switch {
		case c.Lost > 0 && !was:
			n.lost[c.ID] = now - c.Lost
			if c.Name == "" { // it was added and has not started
				continue
			}
			n.log.Warn("member unreachable", "member", fmt.Sprintf("%x", c.ID), "since", n.clock.Wall().Add(-c.Lost).UTC().Format(time.RFC3339),
				"at", c.Why(), "last", c.Age())
		case c.Lost == 0 && was:
			delete(n.lost, c.ID)
			if c.Name != "" {
				n.log.Info("member reachable again", "member", fmt.Sprintf("%x", c.ID), "after", (now - at).Round(100*time.Millisecond), "addr", c.Addr)
			}
		}
	}
	for id := range n.lost {
		if n.members.Removed(id) {
			delete(n.lost, id)
		}
	}
	n.lookForLeader(now)
	n.lookAtSyncs(now)
}

// leaderlessAfter is for how long there may be no leader without a line: an election takes a second or two.
const leaderlessAfter = 5 * time.Second

// lookForLeader says that there has been no leader for a while, and that there is one again. Loop only.
func (n *Node) lookForLeader(now time.Duration) {
	if n.rep.Leader() != 0 {
		if n.leaderlessTold {
			n.log.Info("there is a leader again", "after", (now - n.leaderlessFrom).Round(100*time.Millisecond))
		}
		n.leaderlessFrom, n.leaderlessTold = 0, false
		return
	}
	if n.leaderlessFrom == 0 {
		n.leaderlessFrom = now
	}
	if now-n.leaderlessFrom >= leaderlessAfter && !n.leaderlessTold {
		n.leaderlessTold = true
		n.log.Warn("there is no leader", "for", (now - n.leaderlessFrom).Round(100*time.Millisecond), "why", n.WaitsFor())
	}
}

// WaitsFor says why a member knows no leader: whether a majority answers, and the fault of each voter that does not. "" if there is a
// leader. It may be called from any goroutine.
func (n *Node) WaitsFor() string {
	pub := n.pub.Load()
	if pub.leader != 0 {
		return ""
	}
	known := map[uint64]Contact{}
	for _, c := range n.Contacts() {
		known[c.ID] = c
	}
	answering := 0
	var away []string
	for _, id := range pub.conf.Voters {
		c, ok := known[id]
		switch {
		case id == n.id, ok && c.Lost == 0 && c.Ever && c.Down == 0:
			answering++
		case !ok:
			away = append(away, fmt.Sprintf("%x has no address", id))
		default:
			name := fmt.Sprintf("%x", id)
			if c.Name != "" {
				name = fmt.Sprintf("%s (%x)", c.Name, id)
			}
			away = append(away, fmt.Sprintf("%s at %s, %s", name, c.Why(), c.Age()))
		}
	}
	text := fmt.Sprintf("waiting for a leader; %d of %d voters answer", answering, len(pub.conf.Voters))
	if answering <= len(pub.conf.Voters)/2 {
		text += ", and a majority must run"
	} else {
		text += ", which is a majority: an election is due"
	}
	if len(away) > 0 {
		text += ": " + strings.Join(away, "; ")
	}
	return text
}

// A disk is slow whose every sync has taken slowSync for slowFor.
const (
	slowSync = 100 * time.Millisecond
	slowFor  = 10 * time.Second
)

// lookAtSyncs says that syncs of the log are slow, and that they are quick again. Loop only.
func (n *Node) lookAtSyncs(now time.Duration) {
	from, last := n.writer.slow(now)
	switch {
	case from != 0 && now-from >= slowFor && n.slowTold == 0:
		n.slowTold = from
		n.log.Warn("the log's disk is slow: for a while every sync has taken more than 100 ms, and each write waits for one", "for",
			(now - from).Round(time.Second), "last", last.Round(time.Millisecond))
	case from == 0 && n.slowTold != 0:
		n.log.Info("syncs of the log are quick again", "after", (now - n.slowTold).Round(time.Second))
		n.slowTold = 0
	}
}
