package node

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/holdfastdb/holdfast/core/peer"
	"github.com/holdfastdb/holdfast/internal/task"
	"github.com/holdfastdb/holdfast/internal/wire"
)

// inbox carries messages from other goroutines to the loop. Each channel bounds the bytes that members send while the
// loop is busy, for example with a slow disk or a snapshot. A full channel does not block another:
//
//   - control, per sender: a heartbeat, vote or question that finds no room is lost as on a bad network, and comes again.
//   - append: so is a message with entries or an acknowledgement; the leader sends again after the next heartbeat. There
//     is room for all that a leader sends ahead and the largest message beside it.
//   - forward: commands beyond the bound are refused, which their member hears as a full queue. If even their names find
//     no room they are lost, and sent again after resendAfter.
//
// The loop takes all at once, so as much again may be with it. A frame always fits in an empty channel. Lost frames are
// counted (Counters.FramesLost) and logged.
type inbox struct {
	mu     sync.Mutex
	frames []frame
	funcs  []func() error
	spareF []frame
	held   [heldChannels]int // bytes in frames by lane, those on the control lane apart
	beats  map[uint64]int    // bytes in frames on the control channel by sender
	lost   int64             // frames, ever
	loss   error             // the last one not logged yet, nil: none
	from   uint64            // its sender
	limits inboxLimits
}

// heldChannels are the lanes that frames come on.
const heldChannels = int(peer.ChannelForward) + 1

// inboxLimits are in bytes; tests lower them.
type inboxLimits struct {
	control int // per sender
	senders int
	append  int
	refuse  int // commands from here on are refused
	forward int
}

var defaultInboxLimits = inboxLimits{control: 1 << 20, senders: 64, append: 24 << 20, refuse: 16 << 20, forward: 24 << 20}

type frame struct {
	from    uint64
	channel peer.Channel
	b       []byte
	full    bool // of commands only the names are left, to be refused
}

// frameOverhead is the cost of a queued frame beyond its bytes.
const frameOverhead = 64

// put queues a frame, false if it is lost. Any goroutine.
func (i *inbox) put(f frame) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if int(f.channel) >= heldChannels {
		return false
	}
	size := len(f.b) + frameOverhead
	switch held := i.held[f.channel]; f.channel {
	case peer.ChannelControl:
		mine, known := i.beats[f.from]
		if mine > 0 && mine+size > i.limits.control || !known && len(i.beats) >= i.limits.senders {
			return i.lose(&f)
		}
		if i.beats == nil {
			i.beats = map[uint64]int{}
		}
		i.beats[f.from] = mine + size
	case peer.ChannelAppend:
		if held > 0 && held+size > i.limits.append {
			return i.lose(&f)
		}
	case peer.ChannelForward:
		if held > 0 && held+size > i.limits.refuse && len(f.b) > 0 && f.b[0] == frameCommands {
			f.b, f.full = namesOf(f.b), true
			size = len(f.b) + frameOverhead
		}
		if held > 0 && held+size > i.limits.forward {
			return i.lose(&f)
		}
	}
	i.held[f.channel] += size
	i.frames = append(i.frames, f)
	return true
}

// lose counts a frame that found no room; the caller holds mu.
func (i *inbox) lose(f *frame) bool {
	i.lost++
	i.from, i.loss = f.from, fmt.Errorf("no room for %d bytes on the channel %s, %d frames lost so far", len(f.b), f.channel, i.lost)
	return false
}

// take empties the inbox. Loop only.
func (i *inbox) take() (frames []frame, funcs []func() error, from uint64, loss error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	frames, funcs, from, loss = i.frames, i.funcs, i.from, i.loss
	i.frames, i.funcs, i.loss = i.spareF[:0], nil, nil
	i.held = [heldChannels]int{}
	clear(i.beats)
	return frames, funcs, from, loss
}

// giveBack returns take's slice for the next frames. Loop only.
func (i *inbox) giveBack(frames []frame) {
	clear(frames)
	i.mu.Lock()
	i.spareF = frames
	i.mu.Unlock()
}

// nameBytes is the most that origin, sequence number and term of a command take.
const nameBytes = 8 + 2*binary.MaxVarintLen64

// namesOf is a frame of commands with nothing of them but who proposed them, and when.
func namesOf(b []byte) []byte {
	r := wire.NewReader(b[1:])
	names := binary.AppendUvarint([]byte{frameCommands}, r.Uvarint())
	names = binary.AppendUvarint(names, r.Uvarint())
	for r.Len() > 0 {
		lane, cmd := r.Byte(), r.Bytes()
		if r.Err() != nil {
			break // the frames in front of the damage are taken, as of a whole frame
		}
		names = wire.AppendBytes(append(names, lane), cmd[:min(len(cmd), nameBytes)])
	}
	return names
}

// HandleFrame implements peer.Handler.
func (n *Node) HandleFrame(from uint64, channel peer.Channel, b []byte) {
	if !n.knows(from) && (channel != peer.ChannelForward || len(b) == 0 || b[0] != frameReachMe) {
		n.stranger.Store(from)
		return // and it takes no place in the table that a member may need
	}
	if channel == peer.ChannelForward && len(b) > 0 && (b[0] == frameCall || b[0] == frameAnswer) {
		n.handleCallFrame(from, b)
		return
	}
	n.inbox.put(frame{from: from, channel: channel, b: b})
	n.wakeup()
}

// later runs f on the loop. An error from f is fatal.
func (n *Node) later(f func() error) {
	n.inbox.mu.Lock()
	n.inbox.funcs = append(n.inbox.funcs, f)
	n.inbox.mu.Unlock()
	n.wakeup()
}

// onLoop runs f on the loop and waits for it. After an error nothing that f sets may be read.
func (n *Node) onLoop(ctx context.Context, f func()) error {
	done := make(chan struct{})
	n.later(func() error {
		f()
		close(done)
		return nil
	})
	switch n.tasks.Wait(task.Forever, done, ctx.Done(), n.dead) {
	case 1:
		return ctx.Err()
	case 2:
		return ErrStopped
	}
	return nil
}

// drainInbox handles everything in the inbox. Loop only.
func (n *Node) drainInbox() error {
	frames, funcs, from, loss := n.inbox.take()
	if loss != nil {
		n.complain("message lost: this member is too slow", from, loss)
	}
	if s := n.stranger.Swap(0); s != 0 {
		n.complain("message dropped", s, errStranger)
	}
	for i := range frames {
		f := &frames[i]
		if f.channel == peer.ChannelForward {
			switch {
			case len(f.b) == 0:
			case f.b[0] == frameCommands:
				n.takeCommands(f.from, f.b[1:], f.full)
			case f.b[0] == frameRefused:
				n.takeRefusals(f.from, f.b[1:])
			case f.b[0] == frameReachMe:
				n.introduced(f.from, f.b[1:])
			}
			continue
		}
		if f.channel == peer.ChannelControl && len(f.b) > 0 && f.b[0] >= controlFrames {
			n.takeControl(f.from, f.b)
			continue
		}
		acked, err := n.rep.Receive(f.from, f.b)
		if err != nil {
			n.complain("message dropped", f.from, err)
		}
		if s, ok := n.sent[f.from]; ok && acked >= s.index {
			took := n.clock.Mono() - s.at
			n.steps.Replicate.Done(1, took)
			n.latencyOf(f.from).add(took)
			delete(n.sent, f.from)
		}
	}
	n.inbox.giveBack(frames)
	for _, f := range funcs {
		if err := f(); err != nil {
			return err
		}
	}
	return nil
}
