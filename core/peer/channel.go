package peer

import (
	"bufio"
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// queueBytes bounds the frames that wait for one channel of one peer. Beyond it frames are dropped, which raft and the forwarder survive.
// Without a bound a slow member would exhaust its leader's memory.
var queueBytes = [channelCount]int{1 << 20, 32 << 20, 32 << 20, 0}

// tcpChannel is the queue of one outgoing connection; one goroutine dials and writes.
type tcpChannel struct {
	wake    chan struct{} // capacity 1
	traffic *Traffic      // of the peer, whose channels share it

	mu    sync.Mutex // guards everything below
	queue [][]byte
	bytes int
	up    bool
	since time.Time // of up, or of down; zero: it never was up
	// dialled is the address of the last dial that ended, "" before the first; refusal is why it made no connection, nil if it did.
	dialled string
	refusal error
	// direct is the connection for writes by the sender itself; nil with TLS or when down.
	direct  syscall.RawConn
	writing bool   // the channel's goroutine has taken frames and not finished with them
	rest    []byte // the rest of a direct write, already framed
	scratch []byte
	probed  time.Time // when the probe left that is not answered yet; zero: none is out
}

// directMax is the largest frame the sender writes itself.
const directMax = 64 << 10

// writeDirect writes a frame from the sender's goroutine if the channel is idle and the socket takes it. Waking another goroutine costs
// more than the write, and a replicated command needs four such writes. It never blocks; the rest is left to the channel's goroutine. The
// caller holds mu.
func (l *tcpChannel) writeDirect(frame []byte) (taken bool) {
	if l.direct == nil || l.writing || len(l.queue) > 0 || len(l.rest) > 0 || len(frame) > directMax {
		return false
	}
	var head [frameHeaderLen]byte
	putFrameHeader(head[:], frame)
	l.scratch = append(append(l.scratch[:0], head[:]...), frame...)
	n := 0
	err := l.direct.Write(func(fd uintptr) bool {
		var e error
		if n, e = syscall.Write(int(fd), l.scratch); e != nil {
			n = 0 // no room in the socket, or the connection is broken: the channel's goroutine finds out which
		}
		return true
	})
	if err != nil || n <= 0 {
		return false
	}
	l.traffic.Sent.Add(uint64(n))
	if n < len(l.scratch) {
		l.rest = append(l.rest[:0], l.scratch[n:]...)
		select {
		case l.wake <- struct{}{}:
		default:
		}
	}
	return true
}

// runChannel keeps one outgoing connection: dial, write what is queued, start again when it breaks.
func (t *TCP) runChannel(ctx context.Context, p *tcpPeer, channel Channel, l *tcpChannel) {
	wait, told, good := redialMin, p.at.Load(), ""
	at := told
	var gone departure
	for try := 0; ctx.Err() == nil; {
		if now := p.at.Load(); now != told { // the member moves, or will: until then it is where it was
			told, at, wait, try = now, placesOf(strings.Join(now.all[:now.own], ","), append(slices.Clone(now.all[now.own:]), good)), redialMin, 0
		}
		addr := at.pick(try)
		t.mu.Lock()
		h := hello{kind: byte(channel), cluster: t.cluster, from: t.self, to: p.id}
		t.mu.Unlock()
		limit, soon := gone.next(at.own)
		c, r, err := t.dial(ctx, addr, h, limit)
		if err != nil {
			try++
			l.failed(addr, err)
			if channel == ChannelControl && errors.Is(err, errExpelled) {
				t.handler.Expelled(p.id)
			}
			if gone.failed(err, at.own) && !t.hears(p.id) {
				gone = departure{}
				t.handler.Refused(p.id)
			}
			if soon && ctx.Err() == nil {
				select {
				case <-ctx.Done():
				case <-time.After(redialSoon):
				}
				continue
			}
			select {
			case <-ctx.Done():
			case <-time.After(wait):
			}
			wait = min(wait*2, redialMax)
			continue
		}
		wait, gone, good = redialMin, departure{}, addr
		l.mu.Lock()
		l.up, l.since, l.dialled, l.refusal = true, time.Now(), addr, nil
		l.queue, l.bytes, l.rest, l.writing, l.probed = nil, 0, nil, false, time.Time{}
		if tc, ok := c.(*net.TCPConn); ok {
			l.direct, _ = tc.SyscallConn()
		}
		l.mu.Unlock()
		t.handler.Reconnected(p.id, channel)
		closed := make(chan struct{})
		go func() {
			l.listen(r)
			c.Close()
			close(closed)
		}()
		l.writeTo(ctx, c, closed, channel == ChannelControl)
		c.Close()
		<-closed
		l.mu.Lock()
		l.up, l.since, l.direct = false, time.Now(), nil
		p.traffic.SendFailures.Add(uint64(len(l.queue)))
		l.queue, l.bytes, l.rest = nil, 0, nil
		l.mu.Unlock()
		if channel == ChannelControl && ctx.Err() == nil {
			p.traffic.Disconnects.Inc()
			gone = departure{broke: true}
		}
	}
}

// listen reads the answers of the other side on a channel, which only acknowledge probes, until the connection ends.
func (l *tcpChannel) listen(r *bufio.Reader) {
	for {
		if _, err := readFrame(r, 0); err != nil {
			return
		}
		l.mu.Lock()
		began := l.probed
		l.probed = time.Time{}
		l.mu.Unlock()
		if began.IsZero() {
			return // an answer without a probe: the other side is no member
		}
		l.traffic.spoke()
		l.traffic.RoundTrip.Record(time.Since(began))
	}
}

// probe sends an empty frame, which the other side answers, unless one is out. In that case the member is slow, and the running measurement
// shows by how much. The caller is the channel's goroutine, which looks at the queue next.
func (l *tcpChannel) probe() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.probed.IsZero() {
		return
	}
	l.probed = time.Now()
	if !l.writeDirect(nil) {
		l.queue = append(l.queue, nil)
	}
}

// writeTo writes what is queued until the connection is gone, and probes the member now and then.
func (l *tcpChannel) writeTo(ctx context.Context, c net.Conn, closed <-chan struct{}, probing bool) {
	var due <-chan time.Time
	if probing {
		ticks := time.NewTicker(probeInterval)
		defer ticks.Stop()
		due = ticks.C
		l.probe()
	}
	var bufs net.Buffers
	var heads []byte
	for {
		l.mu.Lock()
		q, rest := l.queue, l.rest
		l.queue, l.bytes, l.rest = nil, 0, nil
		l.writing = len(q) > 0 || len(rest) > 0
		l.mu.Unlock()
		if len(q) == 0 && len(rest) == 0 {
			select {
			case <-l.wake:
				continue
			case <-due:
				l.probe()
				continue
			case <-closed:
				return
			case <-ctx.Done():
				return
			}
		}
		bufs = bufs[:0]
		if len(rest) > 0 {
			bufs = append(bufs, rest)
		}
		if need := len(q) * frameHeaderLen; cap(heads) < need {
			heads = make([]byte, need)
		}
		for i, f := range q {
			h := heads[:cap(heads)][i*frameHeaderLen : (i+1)*frameHeaderLen]
			putFrameHeader(h, f)
			bufs = append(bufs, h, f)
		}
		c.SetWriteDeadline(time.Now().Add(writeTimeout))
		out := bufs
		n, err := out.WriteTo(c)
		l.traffic.Sent.Add(uint64(n))
		if err != nil {
			l.traffic.SendFailures.Add(uint64(len(q))) // how many of them arrived is unknown
			return
		}
		clear(bufs)
	}
}
