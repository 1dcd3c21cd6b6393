package peer

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"time"
)

// dial makes a connection, and has its hello accepted. Until there is an answer to the first packet it waits for at most limit.
func (t *TCP) dial(ctx context.Context, addr string, h hello, limit time.Duration) (net.Conn, *bufio.Reader, error) {
	d := net.Dialer{Timeout: limit}
	network, at := endpoint(addr)
	c, err := d.DialContext(ctx, network, at)
	if err != nil {
		return nil, nil, err
	}
	if t.opts.TLS != nil {
		cfg := t.opts.TLS
		if t.opts.DialTLS != nil {
			cfg = t.opts.DialTLS
		}
		cfg = cfg.Clone()
		if t.opts.Roots != nil {
			cfg.RootCAs = t.opts.Roots()
		}
		if cfg.ServerName == "" {
			cfg.ServerName, _, _ = net.SplitHostPort(at)
		}
		if t.opts.Members != nil {
			t.opts.Members.dialling(cfg, at)
		}
		if t.opts.Watch != nil {
			t.opts.Watch(cfg, c)
		}
		c = tls.Client(c, cfg)
	}
	stop := context.AfterFunc(ctx, func() { c.Close() }) // Close does not wait for an address that does not answer
	defer stop()
	c.SetDeadline(time.Now().Add(helloTimeout))
	var head [frameHeaderLen]byte
	payload := h.append(nil)
	putFrameHeader(head[:], payload)
	if _, err := c.Write(append(head[:], payload...)); err != nil {
		c.Close()
		return nil, nil, err
	}
	r := bufio.NewReaderSize(c, 64<<10)
	answer, err := readFrame(r, 4096)
	if err != nil {
		c.Close()
		return nil, nil, fmt.Errorf("hello: %w", unexpected(err))
	}
	if len(answer) > 0 { // a sentence: refused
		c.Close()
		if string(answer) == expulsion(h.from) {
			return nil, nil, errExpelled
		}
		return nil, nil, fmt.Errorf("%w: %s", ErrRefused, answer)
	}
	c.SetDeadline(time.Time{})
	return c, r, nil
}

// Ask sends one question to the process that listens on addr and returns the answer. A refusal wraps ErrRefused.
func (t *TCP) Ask(ctx context.Context, addr string, question []byte) ([]byte, error) {
	c, r, err := t.dial(ctx, addr, hello{kind: helloAsk}, dialTimeout)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	w := bufio.NewWriter(c)
	if err := writeFrame(w, question); err != nil {
		return nil, err
	}
	if err := w.Flush(); err != nil {
		return nil, err
	}
	b, err := readFrame(r, 4<<20)
	if err != nil {
		return nil, unexpected(err)
	}
	if len(b) == 0 {
		return nil, errFrame
	}
	if b[0] != 0 {
		return nil, fmt.Errorf("%w: %s", ErrRefused, b[1:])
	}
	return b[1:], nil
}
