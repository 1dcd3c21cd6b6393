// Package peer is the seam between members: framed messages over channels. Each channel and direction has one connection, so that a large
// entry or a snapshot never stands in front of a heartbeat. Peer knows nothing of raft or of a frame's meaning, and it never retries: the
// layer that understands a lost frame sends it again.
//
// TCP is the real implementation (byte table: docs/formats/peer.md); the simulation has one of its own.
package peer

import (
	"errors"
	"fmt"
	"io"
)

// Channel separates traffic that must not wait for each other.
type Channel uint8

// The channels. A channel is one connection per direction; order is kept within a channel, not between them.
const (
	ChannelControl  Channel = iota // heartbeats, votes, read index
	ChannelAppend                  // log entries and their acknowledgements
	ChannelForward                 // commands and calls on their way to the leader, and their answers
	ChannelSnapshot                // one stream at a time, acknowledged as a whole
	channelCount
)

// String names the channel as it appears in logs and metrics.
func (l Channel) String() string {
	switch l {
	case ChannelControl:
		return "control"
	case ChannelAppend:
		return "append"
	case ChannelForward:
		return "forward"
	case ChannelSnapshot:
		return "snapshot"
	}
	return "unknown"
}

// MaxFrameBytes bounds one frame; a peer that announces more is cut off.
const MaxFrameBytes = 16 << 20

// ErrRefused is returned by Ask when the other side answered with a refusal; its text is the other side's sentence.
var ErrRefused = errors.New("refused")

// errExpelled is the refusal of a member that was removed.
var errExpelled = fmt.Errorf("%w: this member was removed from the cluster", ErrRefused)

// expulsion is the sentence that a removed member hears. It is part of the protocol: the other side knows it by its words.
func expulsion(id uint64) string { return fmt.Sprintf("member %x was removed from the cluster", id) }

// Handler receives what other members send. Its methods are called on connection goroutines and must not block for long,
// except HandleStream, which has a goroutine of its own.
type Handler interface {
	// HandleFrame gets one frame; it owns the slice.
	HandleFrame(from uint64, channel Channel, frame []byte)
	// HandleStream reads one stream to its end. An error is sent back to the sender.
	HandleStream(from uint64, r io.Reader) error
	// HandleAsk answers a question from a process that need not be a member yet (bootstrap, join).
	HandleAsk(question []byte) (answer []byte, err error)
	// Reconnected says that a new outgoing connection on the channel was accepted: frames sent before may be lost.
	Reconnected(to uint64, channel Channel)
	// Refused says that the process of a member has ended. The control channel to it was up and broke, each of its addresses refuses, and
	// it has no connection to this member. All frames that it had sent were handed over before. It is said once for each such break. A
	// cable, a firewall or a slow member does not look like that.
	Refused(to uint64)
	// Expelled says that the member by refuses this one because it was removed from the cluster. It is said at each such dial of the control
	// channel.
	Expelled(by uint64)
}

// Network connects this member with the others. Safe for concurrent use.
type Network interface {
	// SetPeer adds a member or changes its address: host:port, or several with commas between, of which any one will do. The addresses in
	// also, one each, are dialled where none of addr answers. A connection that is up stays.
	SetPeer(id uint64, addr string, also ...string)
	// RemovePeer drops its connections and refuses new ones from it.
	RemovePeer(id uint64)
	// Send queues a frame without blocking and takes ownership of it. False: dropped, because the peer is unknown, not
	// connected, or its queue is full.
	Send(to uint64, channel Channel, frame []byte) bool
	// SendStream runs write in a goroutine with a stream to the peer; done gets nil once the receiver took all of it.
	SendStream(to uint64, write func(w io.Writer) error, done func(error))
	// ConnectedFor returns how long the peer's control channel has been up without a break, in both directions, in nanoseconds. It is 0 if
	// the channel is down, or if the peer was silent for SilentAfter.
	ConnectedFor(id uint64) int64
	// Contact returns what is known of the way to a member; false: the member is unknown, or the network keeps no account.
	Contact(id uint64) (Contact, bool)
	// Traffic returns what is counted of a peer, nil if it is unknown or nothing is counted.
	Traffic(id uint64) *Traffic
	Close() error
}
