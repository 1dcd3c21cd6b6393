package port

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// webConns are the connections that a server of net/http serves, over HTTP/1.1 or HTTP/2, each with its state (watchWeb). Those without
// progress can then make room. The zero value is ready. Its methods may be called from several goroutines.
type webConns struct {
	mu  sync.Mutex
	all map[*webConn]struct{} // guarded by mu
}

// webConn is one connection. webConns.mu guards what has no atomics.
type webConn struct {
	of   *webConns
	site netip.Addr
	cut  func() // closes the connection without waiting for its client

	arrived atomic.Int64 // bytes
	wrote   atomic.Int64 // when it was last written to, in ns since 1970
	state   http.ConnState
	since   time.Time // when it came into this state
	before  int64     // bytes that had arrived then
	whole   int       // requests that are being handled and have come whole
	asked   bool      // one has come whole
}

// enter counts a connection in. cut must close it without waiting.
func (w *webConns) enter(site netip.Addr, cut func()) *webConn {
	c := &webConn{of: w, site: site, cut: cut, since: time.Now()}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.all == nil {
		w.all = map[*webConn]struct{}{}
	}
	w.all[c] = struct{}{}
	return c
}

// leave counts a connection out and reports whether it was in: one that has made room is out.
func (w *webConns) leave(c *webConn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, in := w.all[c]
	delete(w.all, c)
	return in
}

// arriving counts what a webConn's client sends, and notes when it is sent something.
type arriving struct {
	net.Conn
	web *webConn
}

// NetConn is the connection below.
func (a *arriving) NetConn() net.Conn { return a.Conn }

// Read implements net.Conn.
func (a *arriving) Read(p []byte) (int, error) {
	n, err := a.Conn.Read(p)
	a.web.arrived.Add(int64(n))
	return n, err
}

// Write implements net.Conn.
func (a *arriving) Write(p []byte) (int, error) {
	n, err := a.Conn.Write(p)
	a.web.wrote.Store(time.Now().UnixNano())
	return n, err
}

func (w *webConns) len() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.all)
}

// evict closes the connection that has been of a rank for longest, counts it out and returns it; nil: there is none. limit says when there are many.
func (w *webConns) evict(may func(netip.Addr) bool, rank Rank, limit *ConnLimit) *webConn {
	w.mu.Lock()
	defer w.mu.Unlock()
	var longest *webConn
	of, now := 0, time.Now()
	for c := range w.all { // any order: looks for the connection that has been so for longest
		if c.is(rank, now) {
			if of++; (longest == nil || c.since.Before(longest.since)) && may(c.site) {
				longest = c
			}
		}
	}
	if rank == Crowding && !limit.Many(of) {
		return nil
	}
	if longest != nil {
		delete(w.all, longest)
		longest.cut()
	}
	return longest
}

// is reports whether the connection has a rank. of.mu is held.
func (c *webConn) is(rank Rank, now time.Time) bool {
	waited := now.Sub(c.since)
	switch {
	case c.state == http.StateIdle:
		return rank == Idle
	case c.whole > 0:
		return false
	case rank == Lacking && c.state == http.StateNew:
		return waited > time.Second
	case rank == Lacking:
		return waited > stallGrace && c.arrived.Load()-c.before < int64(waited/time.Second)*leastRate
	default:
		return (rank == Young || rank == Crowding) && !c.asked
	}
}

// webKey is the key of a connection in its requests' contexts.
type webKey struct{}

// watchWeb has a server tell the webConns of its connections what they do. It must be called before the server serves.
func watchWeb(s *http.Server) {
	handler, conns := s.Handler, s.ConnContext
	s.ConnState = func(c net.Conn, state http.ConnState) {
		if w := webConnOf(c); w != nil {
			w.become(state)
		}
	}
	s.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		if conns != nil {
			ctx = conns(ctx, c)
		}
		if w := webConnOf(c); w != nil {
			ctx = context.WithValue(ctx, webKey{}, w)
		}
		return ctx
	}
	s.Handler = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w, _ := r.Context().Value(webKey{}).(*webConn)
		if w == nil {
			handler.ServeHTTP(rw, r)
			return
		}
		b := &webBody{ReadCloser: r.Body, of: w}
		defer b.handled()
		if r.Body == nil || r.Body == http.NoBody {
			b.whole()
		} else {
			r.Body = b
		}
		handler.ServeHTTP(rw, r)
	})
}

// webConnOf finds what a server of net/http knows as c; nil: it is none of a webConns.
func webConnOf(c net.Conn) *webConn {
	switch c := c.(type) {
	case *tls.Conn:
		return webConnOf(c.NetConn())
	case *limited:
		return c.web
	case *encrypted:
		return c.web
	case *secondSettings:
		return c.web
	}
	return nil
}

func (c *webConn) become(state http.ConnState) {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	if state != c.state {
		c.state, c.since, c.before = state, time.Now(), c.arrived.Load()
	}
}

// webBody is a request's body. It notes that it has come whole.
type webBody struct {
	io.ReadCloser
	of   *webConn
	once sync.Once
	came atomic.Bool
}

// Read implements io.Reader.
func (b *webBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		b.whole()
	}
	return n, err
}

func (b *webBody) whole() {
	b.once.Do(func() {
		b.came.Store(true)
		b.of.requests(1)
	})
}

// handled is called when the handler has returned.
func (b *webBody) handled() {
	b.once.Do(func() {}) // nothing counts any more
	if b.came.Load() {
		b.of.requests(-1)
	}
}

// requests counts n requests that have come whole.
func (c *webConn) requests(n int) {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	c.whole += n
	c.asked = true
	c.since, c.before = time.Now(), c.arrived.Load()
}
