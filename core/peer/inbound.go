package peer

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"time"
)

// inbound is an accepted control channel. A peer may dial again before its old connection is found dead. So the end of one connection must
// not be taken for the end of another.
type inbound struct {
	conn  net.Conn
	since int64 // ns
}

func (t *TCP) accept(ln net.Listener) {
	for {
		c, err := ln.Accept()
		if err != nil {
			if t.ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return
			}
			time.Sleep(10 * time.Millisecond) // out of descriptors and the like: do not spin
			continue
		}
		if !t.lobby.enter(c) {
			c.Close() // refused
			continue
		}
		t.wg.Go(func() {
			defer t.lobby.leave(c)
			t.serve(c)
		})
	}
}

// serve handles one accepted connection.
func (t *TCP) serve(c net.Conn) {
	defer c.Close()
	raw := c // the TCP connection: closing it ends TLS on it too
	t.mu.Lock()
	if t.ctx.Err() != nil { // Close has been through conns already
		t.mu.Unlock()
		return
	}
	t.conns[raw] = 0
	t.mu.Unlock()
	defer t.release(raw)
	c, err := t.secure(c)
	if err != nil {
		t.seldom("a TLS handshake on the port of members failed",
			"from", raw.RemoteAddr().String(), "err", err, "own", t.ownCertificate())
		return
	}
	c.SetDeadline(time.Now().Add(helloTimeout))
	r := bufio.NewReaderSize(c, 64<<10)
	b, err := readFrame(r, helloLen)
	if err != nil {
		return
	}
	h, err := decodeHello(b)
	w := bufio.NewWriter(c)
	cert, proven := shown(c), true
	if err == nil && h.kind != helloAsk {
		if proven, err = t.vouch(cert, h.from); err != nil {
			t.seldom("connection refused", "from", c.RemoteAddr().String(), "member", fmt.Sprintf("%x", h.from), "err", err)
		}
	}
	if err == nil {
		err = t.admit(&h, raw)
	}
	if err != nil {
		writeFrame(w, []byte(err.Error()))
		w.Flush()
		return
	}
	if h.kind != helloAsk {
		t.lobby.known(raw)
	}
	if err := writeFrame(w, nil); err != nil || w.Flush() != nil {
		return
	}
	switch {
	case h.kind == helloAsk:
		t.answer(c, r, w, cert)
	case Channel(h.kind) == ChannelSnapshot:
		t.takeStream(h.from, c, r, w)
	default:
		c.SetDeadline(time.Time{})
		if proven {
			cert = nil
		}
		t.receive(&h, c, r, w, cert)
	}
}

// secure makes TLS of an accepted connection, where this member speaks TLS, and requires the other's certificate where both sides have
// one.
func (t *TCP) secure(c net.Conn) (net.Conn, error) {
	if t.opts.TLS == nil {
		return c, nil
	}
	cfg := t.opts.TLS
	if t.opts.DialTLS == nil {
		cfg = cfg.Clone()
		cfg.ClientAuth = tls.RequireAndVerifyClientCert
	}
	tc := tls.Server(c, cfg)
	c.SetDeadline(time.Now().Add(helloTimeout))
	return tc, tc.HandshakeContext(t.ctx)
}

// answer reads a question and answers it.
func (t *TCP) answer(c net.Conn, r *bufio.Reader, w *bufio.Writer, cert *x509.Certificate) {
	q, err := readFrame(r, 1<<20)
	if err != nil {
		return
	}
	c.SetDeadline(time.Time{}) // the answer may have to wait for a commit
	var answer []byte
	if err = t.mayAsk(cert, q); err == nil {
		answer, err = t.handler.HandleAsk(q)
	}
	status := []byte{0}
	if err != nil {
		status, answer = []byte{1}, []byte(err.Error())
	}
	c.SetDeadline(time.Now().Add(writeTimeout))
	writeFrame(w, append(status, answer...))
	w.Flush()
}

// takeStream gives a stream to the handler and reports the result.
func (t *TCP) takeStream(from uint64, c net.Conn, r *bufio.Reader, w *bufio.Writer) {
	c.SetDeadline(time.Time{})
	status, traffic := []byte(nil), t.Traffic(from)
	waits := func() { c.SetReadDeadline(time.Now().Add(t.streamPatience)) }
	if err := t.handler.HandleStream(from, &streamReader{r: r, traffic: traffic, waits: waits}); err != nil {
		status = []byte(err.Error())
		traffic.lost(err)
	}
	c.SetDeadline(time.Now().Add(writeTimeout))
	writeFrame(w, status)
	w.Flush()
}

// mayAsk says why a question from the holder of cert is not answered, nil if it is.
func (t *TCP) mayAsk(cert *x509.Certificate, question []byte) error {
	if t.opts.Members == nil || cert == nil {
		return nil
	}
	addr := ""
	if t.opts.AskedAt != nil {
		addr = t.opts.AskedAt(question)
	}
	return t.opts.Members.check(cert, addr)
}

// receive hands on the frames of a channel until its connection ends, and answers probes. A cert that is not nil is still to be
// compared with the member's address, once that is known.
func (t *TCP) receive(h *hello, c net.Conn, r *bufio.Reader, w *bufio.Writer, cert *x509.Certificate) {
	channel, from := Channel(h.kind), t.Traffic(h.from)
	for {
		f, err := readFrame(r, MaxFrameBytes)
		if from == nil {
			from = t.Traffic(h.from) // this member may not have heard of its addition before
		}
		if err != nil {
			if errors.Is(err, errFrame) {
				t.complain(h, err)
			}
			from.lost(err)
			return
		}
		from.heard(f)
		if cert != nil {
			known, err := t.vouch(cert, h.from)
			if err != nil {
				t.complain(h, err)
				return
			}
			if known {
				cert = nil
			}
		}
		if channel == ChannelControl && len(f) == 0 {
			from.probed()
			c.SetWriteDeadline(time.Now().Add(writeTimeout))
			if writeFrame(w, nil) != nil || w.Flush() != nil {
				return
			}
			continue
		}
		t.handler.HandleFrame(h.from, channel, f)
	}
}

// admit checks an accepted connection's hello against who we are, and records it.
func (t *TCP) admit(h *hello, c net.Conn) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if h.kind != helloAsk {
		if t.self == 0 {
			return errors.New("not ready: this member has not joined a cluster yet")
		}
		if h.cluster != t.cluster {
			return errors.New("cluster id mismatch: this member belongs to another cluster")
		}
		if h.to != t.self {
			return fmt.Errorf("member id mismatch: this member is not %x", h.to)
		}
		if h.from == t.self || h.from == 0 {
			return errors.New("member id mismatch: a connection between a member and itself")
		}
		if _, gone := t.removed[h.from]; gone {
			return errors.New(expulsion(h.from))
		}
		if Channel(h.kind) == ChannelControl {
			t.inbound[h.from] = inbound{c, time.Now().UnixNano()}
		}
	}
	t.conns[c] = h.from
	return nil
}

// release forgets an accepted connection.
func (t *TCP) release(c net.Conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	from := t.conns[c]
	delete(t.conns, c)
	if t.inbound[from].conn == c {
		delete(t.inbound, from)
	}
}

// complaintInterval is the least time between two lines of the log about connections that were cut. A stranger can open thousands of
// connections a second.
const complaintInterval = time.Second

// complain logs why a connection was cut.
func (t *TCP) complain(h *hello, why error) {
	t.seldom("connection cut", "member", fmt.Sprintf("%x", h.from), "channel", Channel(h.kind).String(), "err", why)
}

// seldom logs a warning about a connection that others have made, if none was logged within complaintInterval, and with how many were kept back.
func (t *TCP) seldom(text string, args ...any) {
	now := time.Now()
	t.mu.Lock()
	soon := !t.complained.IsZero() && now.Sub(t.complained) < complaintInterval
	if soon {
		t.kept++
	} else {
		if t.kept > 0 {
			args = append(args, "suppressed", t.kept)
		}
		t.complained, t.kept = now, 0
	}
	t.mu.Unlock()
	if !soon {
		t.log.Warn(text, args...)
	}
}

// ownCertificate says until when this member's own certificate is good: the other side's error may be about that one.
func (t *TCP) ownCertificate() string {
	if t.opts.TLS == nil {
		return ""
	}
	leaf := (*x509.Certificate)(nil)
	if get := t.opts.TLS.GetCertificate; get != nil {
		if c, err := get(&tls.ClientHelloInfo{}); err == nil && c != nil {
			leaf = c.Leaf
		}
	} else if len(t.opts.TLS.Certificates) > 0 {
		leaf = t.opts.TLS.Certificates[0].Leaf
	}
	switch {
	case leaf == nil:
		return ""
	case time.Now().After(leaf.NotAfter):
		return "expired at " + leaf.NotAfter.UTC().Format(time.RFC3339)
	}
	return "good until " + leaf.NotAfter.UTC().Format(time.RFC3339)
}
