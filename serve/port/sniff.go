package port

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/holdfastdb/holdfast/serve/port/frame"
)

// preface is how every HTTP/2 client begins. No HTTP/1.1 method is called PRI, so its first four bytes decide.
const preface = frame.Preface

// begin finds out what c speaks and hands it on. c has been counted in.
func (p *Port) begin(c net.Conn, site netip.Addr, offer Protocols) {
	p.mu.Lock()
	waiting := p.silent.push(c, site, p.now.Load())
	p.mu.Unlock()
	_ = c.SetDeadline(time.Now().Add(p.opts.SilenceTimeout)) // if it fails the connection is closed, and the read returns the error
	serve := p.recognise(c, offer)
	p.mu.Lock()
	counted := p.silent.remove(waiting)
	p.mu.Unlock()
	if serve == nil || !counted { // nothing serves it, or it was closed to make room
		_ = c.Close()
		if counted {
			p.release(site)
		}
		return
	}
	_ = c.SetDeadline(time.Time{}) // as above
	serve()
}

// recognise returns the function that serves c from here on; nil: none.
func (p *Port) recognise(c net.Conn, offer Protocols) func() {
	if offer.TLS != nil && offer.AlsoPlain {
		// A handshake begins with a byte that no request begins with.
		first := make([]byte, 1)
		if _, err := io.ReadFull(c, first); err != nil {
			return nil
		}
		c = &replayed{c, first}
		if !looksLikeTLS(first) {
			offer.TLS = nil
		}
	}
	if offer.TLS != nil {
		return p.recogniseTLS(c, offer)
	}
	head, h2, err := peekPreface(c)
	switch {
	case err != nil:
		return nil
	case h2 && !offer.NoGRPC:
		return func() {
			p.grpc.give(&counted{Conn: p.newGRPCConn(&replayed{c, head}), port: p, site: Site(c.RemoteAddr())})
		}
	case !h2 && !offer.NoHTTP && !looksLikeTLS(head):
		return func() { p.serveHTTP1(&client{Conn: c, raw: c, port: p, site: Site(c.RemoteAddr()), head: head}, nil) }
	}
	return nil
}

// recogniseTLS is recognise after a handshake. c's deadline bounds the handshake and what follows it together.
func (p *Port) recogniseTLS(c net.Conn, offer Protocols) func() {
	tc, site := tls.Server(c, offer.TLS), Site(c.RemoteAddr())
	if err := tc.HandshakeContext(context.Background()); err != nil {
		if failed := p.opts.Conns.Failed; failed != nil && !errors.Is(err, io.EOF) { // a probe connects and closes
			failed(c.RemoteAddr().String(), err)
		}
		var plain tls.RecordHeaderError
		if errors.As(err, &plain) && plain.Conn != nil && looksLikeHTTP(plain.RecordHeader[:]) {
			// The most common mistake with curl gets an answer that says so.
			_, _ = io.WriteString(plain.Conn, "HTTP/1.0 400 Bad Request\r\nConnection: close\r\n\r\nthis port speaks TLS: use https://\n")
		}
		return nil
	}
	var head []byte
	h2 := tc.ConnectionState().NegotiatedProtocol == "h2"
	if !h2 {
		// A client without ALPN may still speak HTTP/2.
		var err error
		if head, h2, err = peekPreface(tc); err != nil {
			return nil
		}
	}
	if !h2 {
		if offer.NoHTTP {
			return nil
		}
		s := &secret{client{Conn: tc, raw: c, port: p, site: site, head: head}, tc}
		return func() { p.serveHTTP1(&s.client, s) }
	}
	toGRPC := func() {
		p.grpc.give(handshaken{&encrypted{counted{Conn: p.newGRPCConn(&replayed{tc, head}), port: p, site: site}, tc}})
	}
	switch {
	case offer.NoHTTP:
		return toGRPC
	case offer.NoGRPC:
		return func() { p.json.give(p.newWeb(tc, head, site)) }
	}
	var grpc bool
	var err error
	if head, grpc, err = peekRequest(tc, head); err != nil {
		return nil
	}
	if grpc {
		return toGRPC
	}
	return func() { p.json.give(newSecondSettings(p.newWeb(tc, head, site))) }
}

// peekPreface reads until it is certain whether the client speaks HTTP/2, and no more than arrives with that.
func peekPreface(c net.Conn) (head []byte, h2 bool, err error) {
	b := make([]byte, 0, 512)
	for {
		n, err := c.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		if want := min(len(b), 4); string(b[:want]) != preface[:want] {
			return b, false, nil
		} else if want == 4 {
			return b, true, nil
		}
		if err != nil {
			return nil, false, err
		}
	}
}

// looksLikeTLS: a client that was told https:// of a port that has none.
func looksLikeTLS(head []byte) bool { return head[0] == 0x16 }

// looksLikeHTTP: the beginning of a request line in the clear.
func looksLikeHTTP(head []byte) bool {
	return slices.ContainsFunc([]string{"GET ", "PUT ", "POST", "HEAD", "DELE", "OPTI", "PATC", "PRI "}, func(m string) bool {
		return bytes.HasPrefix(head, []byte(m))
	})
}

// encrypted is a connection whose TLS the port has made.
type encrypted struct {
	counted
	tls *tls.Conn
}

// handshaken is one for the gRPC server, which asks for its state by ConnectionState. net/http must not find that method:
// it would expect a protocol it negotiated itself.
type handshaken struct{ *encrypted }

// ConnectionState is the negotiated state, the client's certificate included.
func (c handshaken) ConnectionState() tls.ConnectionState { return c.tls.ConnectionState() }

// withProtocols is offer's TLS configuration with the protocols it offers.
func withProtocols(offer Protocols) *tls.Config {
	if offer.TLS == nil {
		return nil
	}
	protocols := []string{"h2", "http/1.1"}
	if offer.NoHTTP {
		protocols = protocols[:1]
	}
	c := offer.TLS.Clone()
	c.NextProtos = protocols
	if chosen := c.GetConfigForClient; chosen != nil {
		c.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			c, err := chosen(hello)
			if c == nil || err != nil {
				return c, err
			}
			c = c.Clone()
			c.NextProtos = protocols
			return c, nil
		}
	}
	return c
}
