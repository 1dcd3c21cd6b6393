package sim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/holdfastdb/holdfast/core/peer"
	"github.com/holdfastdb/holdfast/internal/task"
)

// hostNet is a process's end of the network; it implements node.Transport.
type hostNet struct {
	h       *host
	handler peer.Handler
	peers   map[uint64]*host // by the address that the log gives for them
	removed map[uint64]bool
}

// named is the host at an address.
func (w *World) named(addr string) *host {
	for _, h := range w.hosts {
		if h.addr() == addr {
			return h
		}
	}
	return nil
}

// Start implements node.Transport.
func (n *hostNet) Start(h peer.Handler) { n.handler = h }

// Identify implements node.Transport.
func (n *hostNet) Identify(_, _ uint64) {}

// Ask implements node.Transport.
func (n *hostNet) Ask(ctx context.Context, addr string, question []byte) (answer []byte, err error) {
	w, from, gen := n.h.w, n.h, n.h.gen
	come := make(chan struct{})
	settle := func(b []byte, e error) {
		if from.gen != gen {
			return
		}
		select {
		case <-come: // the caller has given up
		default:
			answer, err = b, e
			close(come)
			from.tasks.turn()
		}
	}
	to := w.named(addr)
	if to != nil {
		to.asks = append(to.asks, func() { settle(nil, errors.New("connection reset")) })
	}
	reaches := func() bool {
		return to != nil && to.on && !to.paused && to.net.handler != nil && !w.net.isCut(from, to) && !w.net.isCut(to, from)
	}
	w.after(w.net.latency(), func() {
		if !reaches() {
			w.after(Between(w.rNet, time.Millisecond, time.Second), func() { settle(nil, errors.New("connection refused")) })
			return
		}
		handler := to.net.handler
		to.tasks.Go(func() {
			b, err := handler.HandleAsk(question)
			w.after(w.net.latency(), func() {
				switch {
				case !reaches():
				case err != nil:
					settle(nil, fmt.Errorf("%w: %s", peer.ErrRefused, err))
				default:
					settle(b, nil)
				}
			})
		})
	})
	w.after(15*time.Second, func() { settle(nil, errors.New("connection lost")) })
	if from.tasks.Wait(task.Forever, come, ctx.Done()) == 1 {
		return nil, ctx.Err()
	}
	return answer, err
}

// SetPeer implements peer.Network.
func (n *hostNet) SetPeer(id uint64, addr string, _ ...string) {
	to := n.h.w.named(addr)
	if to == nil || n.peers[id] == to {
		return
	}
	n.peers[id] = to
	for lane := peer.ChannelControl; lane <= peer.ChannelForward; lane++ {
		n.h.w.net.link(n.h, to, lane).dial()
	}
}

// RemovePeer implements peer.Network.
func (n *hostNet) RemovePeer(id uint64) {
	to := n.peers[id]
	delete(n.peers, id)
	n.removed[id] = true
	for _, l := range n.h.w.net.links {
		if l.from == n.h && l.to == to || l.to == n.h && l.from.id == id {
			l.drop("peer removed")
		}
	}
}

// expects reports whether the member at a host is one this one wants to talk to.
func (n *hostNet) expects(h *host) bool { return h.id != 0 && n.peers[h.id] == h }

// Send implements peer.Network.
func (n *hostNet) Send(to uint64, lane peer.Channel, frame []byte) bool {
	h := n.peers[to]
	if h == nil {
		return false
	}
	if lane == peer.ChannelControl {
		n.h.promise.send(n.h, frame)
	}
	l := n.h.w.net.link(n.h, h, lane)
	if !l.up || h.id != to || l.bytes+len(frame) > linkBytes {
		return false
	}
	l.send(frame)
	return true
}

// ConnectedFor implements peer.Network.
func (n *hostNet) ConnectedFor(id uint64) int64 {
	w, h := n.h.w, n.peers[id]
	if h == nil || h.id != id {
		return 0
	}
	out, in := w.net.link(n.h, h, peer.ChannelControl), w.net.link(h, n.h, peer.ChannelControl)
	if !out.up || !in.up {
		return 0
	}
	return int64(w.now - max(out.since, in.since))
}

// Contact implements peer.Network: the simulation has no use for it.
func (n *hostNet) Contact(uint64) (peer.Contact, bool) { return peer.Contact{}, false }

// Traffic implements peer.Network: the simulation has no metrics.
func (n *hostNet) Traffic(uint64) *peer.Traffic { return nil }

func (n *hostNet) Close() error { return nil }

// SendStream takes the whole stream at once, as it would leave over time, and delivers it as a whole, cut short, or not at all.
func (n *hostNet) SendStream(to uint64, write func(io.Writer) error, done func(error)) {
	w, from, gen := n.h.w, n.h, n.h.gen
	var buf bytes.Buffer
	if err := write(&buf); err != nil {
		done(err)
		return
	}
	finish := func(err error) {
		if from.gen == gen && from.n != nil {
			done(err)
			from.pumpSoon()
		}
	}
	target := n.peers[to]
	if target == nil || target.id != to {
		done(fmt.Errorf("stream to %x: unknown member", to))
		return
	}
	w.trace.add(w.now, "%s → %s snapshot stream of %d bytes", from.name, target.name, buf.Len())
	tgen := target.gen
	w.after(Between(w.rNet, time.Millisecond, 80*time.Millisecond), func() {
		if target.n == nil || target.gen != tgen || w.net.isCut(from, target) || w.net.isCut(target, from) {
			w.after(Between(w.rNet, time.Millisecond, time.Second), func() { finish(errors.New("connection lost")) })
			return
		}
		b := buf.Bytes()
		if w.rNet.IntN(10) == 0 {
			b = b[:w.rNet.IntN(len(b))]
		}
		w.nemesis.incoming(target)
		err := target.n.HandleStream(from.id, bytes.NewReader(b))
		w.trace.add(w.now, "%s took snapshot stream from %s: %v", target.name, from.name, err)
		target.pumpSoon()
		w.after(w.net.latency(), func() { finish(err) })
	})
}
