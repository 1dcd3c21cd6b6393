package peer

import (
	"errors"
	"io"
	"net"
	"sync/atomic"

	"github.com/holdfastdb/holdfast/internal/meter"
)

// Traffic counts the frames between one other member and this one since this one was told of it. Fields only grow, are written as things
// happen, by atomic additions and no lock of their own, and may be read at any time.
//
// Bytes are those of frames with their headers, before TLS: the members' bytes, not the network's. Questions (Ask) are not in it; they come
// from processes that need not be members.
type Traffic struct {
	Sent, Received meter.Counter // bytes
	// SendFailures counts frames and streams that did not leave: not connected, the queue full, or lost with a connection.
	SendFailures meter.Counter
	// ReceiveFailures counts connections that ended within a frame or by a wrong one, and streams that were not taken.
	ReceiveFailures meter.Counter
	// Disconnects counts how often the control channel to the member was up and broke.
	Disconnects meter.Counter
	// RoundTrip is how long the member takes to answer on the control channel: both ways, both sockets, both processes.
	RoundTrip meter.Histogram

	// heardAt is when a frame of the member last came, cameAt when one last came by a connection that it made. hearingFrom is the beginning
	// of its present unbroken time without silence. All in ns since began; 0: never.
	heardAt, cameAt, hearingFrom atomic.Int64
	// probedAt is when its last probe came. probes: it sends one a second.
	probedAt atomic.Int64
	probes   atomic.Bool
}

// heard counts a frame that came in. Traffic is nil for a sender that is not known as a member yet.
func (c *Traffic) heard(frame []byte) {
	if c != nil {
		c.Received.Add(uint64(frameHeaderLen + len(frame)))
		c.cameAt.Store(c.spoke())
	}
}

// lost counts how reading from the member ended, unless it was between two frames or by ourselves.
func (c *Traffic) lost(err error) {
	if c != nil && err != io.EOF && !errors.Is(err, net.ErrClosed) {
		c.ReceiveFailures.Inc()
	}
}

// Traffic implements Network.
func (t *TCP) Traffic(id uint64) *Traffic {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p := t.peers[id]; p != nil {
		return &p.traffic
	}
	return nil
}
