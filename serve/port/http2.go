package port

import (
	"context"
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"time"
)

// newHTTP2 makes the server of HTTP/2 that is not gRPC. TLS is made before it sees a connection, so to it everything is
// "unencrypted"; requests carry the state of the TLS below all the same.
func (p *Port) newHTTP2() *http.Server {
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	handler := p.streaming(p.opts.HTTP2)
	s := &http.Server{
		Protocols: &protocols,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r.TLS, _ = r.Context().Value(tlsState{}).(*tls.ConnectionState)
			r.Body = http.MaxBytesReader(w, r.Body, int64(p.opts.MaxBodyBytes))
			handler.ServeHTTP(w, r)
		}),
		ReadHeaderTimeout: p.opts.SilenceTimeout,
		IdleTimeout:       p.opts.IdleTimeout,
		MaxHeaderBytes:    maxHeader,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: 250,
			WriteByteTimeout:     p.opts.RequestTimeout,
			SendPingTimeout:      p.opts.RequestTimeout,
			PingTimeout:          15 * time.Second,
			// The most that one connection can make the server hold of unread bodies.
			MaxReceiveBufferPerConnection: 1 << 20,
			MaxReceiveBufferPerStream:     256 << 10,
		},
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			e, ok := c.(*encrypted)
			if s, wrapped := c.(*secondSettings); wrapped {
				e, ok = s.encrypted, true
			}
			if ok {
				state := e.tls.ConnectionState()
				ctx = context.WithValue(ctx, tlsState{}, &state)
			}
			return ctx
		},
		ErrorLog: log.New(io.Discard, "", 0), // told to the client
	}
	watchWeb(s)
	return s
}

// newWeb counts a connection as one that net/http serves from now on. tc is the TLS connection whose first bytes, head, have been read.
func (p *Port) newWeb(tc *tls.Conn, head []byte, site netip.Addr) *encrypted {
	w := p.web.enter(site, func() { _ = tc.NetConn().Close() })
	return &encrypted{counted{Conn: &arriving{&replayed{tc, head}, w}, port: p, site: site, web: w}, tc}
}

// tlsState is the key of a connection's TLS state in its requests' contexts.
type tlsState struct{}

// DialGRPC returns a connection in memory to the gRPC server. It is not counted, because only this process uses it.
func (p *Port) DialGRPC(ctx context.Context) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case p.grpc.conns <- theirs:
		return ours, nil
	case <-p.grpc.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Bridge answers a request that came over HTTP/2 with the handler of HTTP/1.1, over a connection in memory. The hot handlers are written
// for fasthttp, and HTTP/2 without gRPC is for people with curl.
func (p *Port) Bridge() http.Handler {
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "http", Host: r.In.Host})
			r.Out.Host = r.In.Host
			r.SetXForwarded() // for Host; the client's own header is dropped
		},
		Transport: &http.Transport{
			DisableCompression: true,
			MaxIdleConns:       16,
			IdleConnTimeout:    30 * time.Second,
			DialContext: func(context.Context, string, string) (net.Conn, error) {
				ours, theirs := net.Pipe()
				p.mu.Lock()
				if p.draining.Load() {
					p.mu.Unlock()
					return nil, net.ErrClosed
				}
				p.conns++
				p.opts.Conns.force(netip.Addr{})
				p.wg.Add(1)
				p.mu.Unlock()
				go func() {
					defer p.wg.Done()
					p.serveHTTP1(&client{Conn: theirs, raw: theirs, port: p}, nil)
				}()
				return ours, nil
			},
		},
		FlushInterval: -1, // streams
		ErrorLog:      log.New(io.Discard, "", 0),
	}
}
