package node

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/core/peer"
	"github.com/holdfastdb/holdfast/internal/wire"
)

// forwarding is what travels between a follower and its leader. Loop only.
type forwarding struct {
	forwarded  point                  // the last command this member forwarded
	accepted   map[uint64]uint64      // highest forwarded sequence number taken, per origin, in this term
	turnedAway map[commandID]struct{} // of them, those refused because the queue was full
	acceptTerm uint64
	arrived    entry.Command // the forwarded command being judged
	complainAt time.Duration
}

// The forward lane. A follower sends its doors' commands to the leader of the term it knows, in the order of their
// sequence numbers. The leader packs them unchanged. Nothing comes back for an accepted command: the follower answers
// from its own Apply. Only a refusal is sent, and it is a proof: there is one leader per term, and it alone decides which
// commands it took. Frames are lost with their connection, and the leader knows only the highest sequence number it
// received. So each frame names its predecessor: after a gap the leader takes nothing until the follower has sent
// everything again. Byte table: docs/formats/peer.md.
const (
	frameCommands = 1 // term, after, then per command: lane, length, bytes
	frameRefused  = 2 // term, reason, then sequence numbers
	frameCall     = 3 // id, service, request
	frameAnswer   = 4 // id, status, payload
	frameReachMe  = 5 // the sender's peer address
)

const (
	refusedNotLeader = 1
	refusedOverload  = 2
)

// resendAfter is the time without progress after which a follower sends its commands to the same leader again; the leader
// skips known sequence numbers. The time counts from the last own command applied, not from each command's start.
// Commands apply in the order they were sent, so later ones only wait their turn. Resending a hundred large values every
// second would keep the lane full for ever. Without progress the wait doubles up to resendMost.
const (
	resendAfter = time.Second
	resendMost  = 8 * time.Second
)

// forwardWindow bounds the bytes of a follower's commands in flight; the rest waits in its own queues. There the system
// lane overtakes, and the queue's bound refuses at the door. Behind a lane full of large values, the calls that keep
// leases alive would wait for seconds.
const forwardWindow = 4 << 20

// forward sends what is queued to the leader, as far as the window allows. Loop only.
func (n *Node) forward(lead uint64) {
	term := n.rep.Term()
	for {
		last := n.lanes.last()
		if n.inflightBytes >= forwardWindow {
			last = LaneSystem
		}
		n.batch = n.lanes.take(n.batch[:0], last, packBytes, packCount)
		if len(n.batch) == 0 {
			return
		}
		var back []*pending
		frame := append(make([]byte, 0, 4096), frameCommands)
		frame = binary.AppendUvarint(frame, term)
		frame = binary.AppendUvarint(frame, n.forwardedSeq(term))
		var sent []*pending
		for _, p := range n.batch {
			switch {
			case p.foreign != nil:
				continue // left from when this member led; its origin sees the later term
			case p.change != nil:
				n.complete(p, nil, ErrSuperseded) // membership changes are proposed by the leader only
				continue
			case p.inTerm != 0 && p.inTerm != term && !n.cfg.Break.NoTermFence:
				n.complete(p, nil, ErrSuperseded)
				continue
			}
			if p.call == nil && !p.state.CompareAndSwap(stateQueued, stateDispatched) {
				continue
			}
			n.track(p, term)
			sent = append(sent, p)
			n.scratch = entry.AppendCommand(n.scratch[:0], &entry.Command{Origin: n.origin, Seq: p.seq, Term: term, Parts: p.parts})
			frame = wire.AppendBytes(append(frame, byte(p.lane)), n.scratch)
		}
		if len(sent) > 0 && !n.net.Send(lead, peer.ChannelForward, frame) {
			// Nothing left this process: they are queued again as if nothing had happened.
			for _, p := range sent {
				n.untrack(p)
				back = append(back, p)
			}
			n.lanes.unshift(back)
			return
		}
		if len(sent) > 0 {
			n.forwarded = point{term, sent[len(sent)-1].seq}
		}
	}
}

// point is how far this member has forwarded commands under one term.
type point struct{ term, seq uint64 }

// forwardedSeq is the last sequence number forwarded in this term, 0 if none. Loop only.
func (n *Node) forwardedSeq(term uint64) uint64 {
	if n.forwarded.term != term {
		return 0
	}
	return n.forwarded.seq
}

// resend sends everything in flight for this term again, in order. The loop calls it after a reconnection, and when a
// command has had no result for long. The leader drops what it took already.
func (n *Node) resend(lead uint64) {
	term, now := n.rep.Term(), n.clock.Mono()
	if n.rep.IsLeader() || lead == 0 || len(n.inflight) == 0 {
		return
	}
	last := uint64(0) // everything before the first command in flight has its outcome
	start := func() []byte {
		return binary.AppendUvarint(binary.AppendUvarint([]byte{frameCommands}, term), last)
	}
	frame := start()
	for _, seq := range n.inOrder() {
		p := n.inflight[seq]
		if p.term != term || p.change != nil {
			continue
		}
		p.sentAt = now
		n.scratch = entry.AppendCommand(n.scratch[:0], &entry.Command{Origin: n.origin, Seq: p.seq, Term: term, Parts: p.parts})
		frame = wire.AppendBytes(append(frame, byte(p.lane)), n.scratch)
		last = seq
		if len(frame) > packBytes {
			n.net.Send(lead, peer.ChannelForward, frame)
			frame = start()
		}
	}
	n.net.Send(lead, peer.ChannelForward, frame)
}

// commandID names a command for the life of the cluster.
type commandID struct{ origin, seq uint64 }

// maxOrigins bounds whose commands the leader tells apart in one term: each start of a member is one.
const maxOrigins = 1 << 14

// maxTurnedAway bounds how many refused commands the leader remembers, to refuse them again if the refusal was lost.
const maxTurnedAway = 1 << 16

// refusable returns why a forwarded command must not be logged, nil if it may be. A member of another build may know lanes and
// parts that this one does not. Loop only.
func (n *Node) refusable(lane Lane, cmd []byte, mine bool) error {
	switch {
	case !mine:
		return errors.New("a command of another term than its frame")
	}
	if err := n.arrived.Decode(cmd); err != nil {
		return err
	}
	return n.proposable(lane, n.arrived.Parts)
}

// complain logs why something that another member sent was not taken, once a second at most: it may go on sending it. Loop
// only.
func (n *Node) complain(text string, from uint64, why error) {
	if now := n.clock.Mono(); now >= n.complainAt {
		n.complainAt = now + time.Second
		n.log.Warn(text, "member", fmt.Sprintf("%x", from), "err", why)
	}
}

// takeCommands queues forwarded commands on the leader, or refuses all of them if there was no room for more than their names
// (full). Loop only (it owns accepted).
func (n *Node) takeCommands(from uint64, b []byte, full bool) {
	r := wire.NewReader(b)
	term, after := r.Uvarint(), r.Uvarint()
	var refused []byte
	leads := n.rep.IsLeader() && n.rep.Term() == term
	for r.Len() > 0 {
		lane, cmd := Lane(r.Byte()), r.Bytes()
		if r.Err() != nil {
			break // the commands before it get their answers
		}
		origin, seq, cterm, err := entry.DecodeCommandID(cmd)
		if err != nil {
			continue // no caller here to answer
		}
		reason := byte(refusedNotLeader)
		if _, had := n.accepted[origin]; leads && !had && len(n.accepted) >= maxOrigins {
			reason = refusedOverload
		} else if leads {
			if after > n.accepted[origin] {
				return // a frame before this one was lost
			}
			id := commandID{origin, seq}
			if seq <= n.accepted[origin] {
				if _, refused := n.turnedAway[id]; !refused {
					continue // taken before
				}
			} else {
				n.accepted[origin] = seq
				// A refusal like that of a full queue, which members of all builds understand: nothing was proposed.
				if full {
					// Counted and remembered like one that found its lane full.
				} else if err := n.refusable(lane, cmd, cterm == term); err != nil {
					n.complain("command refused", from, err)
				} else if n.lanes.push(&pending{lane: lane, foreign: cmd, term: term, size: len(cmd) + overheadBytes}) {
					continue
				}
				if len(n.turnedAway) >= maxTurnedAway {
					clear(n.turnedAway) // a member that missed a refusal this old learns the outcome when the term ends
				}
				n.turnedAway[id] = struct{}{}
				n.refused.Add(1)
			}
			reason = refusedOverload
		}
		if refused == nil {
			refused = append(refused, frameRefused)
			refused = binary.AppendUvarint(refused, term)
		}
		refused = append(refused, reason)
		refused = binary.LittleEndian.AppendUint64(refused, origin)
		refused = binary.AppendUvarint(refused, seq)
	}
	if refused != nil {
		n.net.Send(from, peer.ChannelForward, refused)
	}
}

// takeRefusals ends or queues again what the leader of that term did not take. Loop only.
func (n *Node) takeRefusals(from uint64, b []byte) {
	r := wire.NewReader(b)
	term := r.Uvarint()
	if from != n.rep.Leader() {
		return // only the leader can refuse, and repeats the refusal when the commands are sent again
	}
	for r.Len() > 0 {
		reason, origin, seq := r.Byte(), r.Uint64(), r.Uvarint()
		if r.Err() != nil {
			return
		}
		p := n.inflight[seq]
		if origin != n.origin || p == nil || p.term != term {
			continue
		}
		if reason == refusedNotLeader && p.inTerm == 0 {
			// It led that term once or never: either way a later term decides, unless this member is behind and the
			// refusal overtook nothing. Wait for the term to move on; supersede picks the command up.
			continue
		}
		n.forget(p)
		if p.inTerm != 0 {
			n.complete(p, nil, ErrSuperseded)
			continue
		}
		n.complete(p, nil, ErrOverloaded)
	}
}

// introduce sends this leader's address to members that do not answer. A member that has not yet applied this member's
// addition hears its messages but has no address to answer to. It would never catch up. Loop only, leader only.
func (n *Node) introduce() {
	for _, p := range n.rep.Progress() {
		if p.ID != n.id && !p.Active {
			n.tellAddress(p.ID)
		}
	}
}
