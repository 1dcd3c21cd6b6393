package peer

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"time"
)

// SendStream implements Network.
func (t *TCP) SendStream(to uint64, write func(w io.Writer) error, done func(error)) {
	t.mu.Lock()
	p := t.peers[to]
	h := hello{kind: byte(ChannelSnapshot), cluster: t.cluster, from: t.self, to: to}
	t.mu.Unlock()
	if p == nil {
		done(fmt.Errorf("stream to %x: unknown member", to))
		return
	}
	t.wg.Go(func() {
		err := func() error {
			c, r, err := t.dial(t.ctx, p.at.Load().pick(0), h, dialTimeout)
			if err != nil {
				return err
			}
			stop := context.AfterFunc(t.ctx, func() { c.Close() })
			defer stop()
			defer c.Close()
			s := &streamWriter{w: bufio.NewWriterSize(&streamConn{c: c, traffic: &p.traffic}, 64<<10), buf: make([]byte, 0, streamChunk)}
			if err := write(s); err != nil {
				return err // closing without the end mark tells the receiver
			}
			if err := s.finish(); err != nil {
				return err
			}
			c.SetReadDeadline(time.Now().Add(5 * time.Minute)) // the receiver builds and syncs a store
			status, err := readFrame(r, 4096)
			if err != nil {
				return unexpected(err)
			}
			if len(status) > 0 {
				return fmt.Errorf("%w: %s", ErrRefused, status)
			}
			return nil
		}()
		if err != nil {
			p.traffic.SendFailures.Inc()
		}
		done(err)
	})
}

// streamRate bounds a stream, in bytes per second. A snapshot is read from the disk that the log syncs to, and written to a disk that
// others may share. At full speed it tripled the p99 of all clients. A gigabyte takes half a minute.
const streamRate = 32 << 20

// streamConn gives every write its own deadline (a stream may take long, a stuck receiver may not) and keeps to streamRate.
type streamConn struct {
	c       net.Conn
	due     time.Time // when the next write may begin
	traffic *Traffic
}

func (s *streamConn) Write(p []byte) (int, error) {
	now := time.Now()
	if wait := s.due.Sub(now); wait > 0 {
		time.Sleep(wait) // milliseconds: writes are of the buffer's size
		now = s.due
	}
	s.due = now.Add(time.Duration(len(p)) * time.Second / streamRate)
	s.c.SetWriteDeadline(now.Add(3 * writeTimeout))
	n, err := s.c.Write(p)
	s.traffic.Sent.Add(uint64(n))
	return n, err
}
