package outcall

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
)

// maxTogether is up to which size head and body are sent in one write.
const maxTogether = 16 << 10

// buffers are for heads of requests and bodies of answers.
var buffers = sync.Pool{New: func() any { return &buffer{b: make([]byte, 0, 2<<10)} }}

type buffer struct{ b []byte }

func (b *buffer) free() {
	if cap(b.b) <= maxBody {
		b.b = b.b[:0]
		buffers.Put(b)
	}
}

// make makes a call to one endpoint and returns its result.
func (c *call) make() verdict {
	if c.target.scheme == "grpc" {
		return c.overGRPC()
	}
	v, again := c.overHTTP(true)
	if again {
		v, _ = c.overHTTP(false)
	}
	return v
}

// overHTTP sends the request and reads the answer, on a kept connection if it may be one. again: the service had closed the kept
// connection, so it has answered nothing; repeat the call on a new one.
func (c *call) overHTTP(kept bool) (v verdict, again bool) {
	n := c.net
	var conn *conn
	if kept {
		conn = c.kept()
	}
	reused := conn != nil
	if conn == nil {
		var err error
		if conn, err = c.connect(); err != nil {
			r := (*refusal)(nil)
			switch {
			case errors.As(err, &r):
				return verdict{outcome: Refused, message: r.Error()}, false
			case c.isCancelled():
				return verdict{outcome: Transient, message: "cancelled"}, false
			}
			return c.unreached(err), false
		}
	}
	conn.SetDeadline(c.by) // a connection that cannot take a deadline is broken: the write says so
	if !c.hold(conn, nil) {
		conn.Close() // nothing was sent on it
		return verdict{outcome: Transient, message: "cancelled"}, false
	}
	buf := buffers.Get().(*buffer)
	defer buf.free()
	a, err := c.exchange(conn, buf)
	cancelled := !c.hold(nil, nil)
	conn.rest()
	switch {
	case err == nil && a.whole && a.reusable && !cancelled:
		n.keep(c.endpoint, conn)
	case isTimeout(err) && conn.sent && !conn.heard && !cancelled:
		n.listen(c, conn)
	default:
		conn.Close() // the answer is judged by the part that was read
	}
	switch {
	case err == nil:
		return c.judgeAnswer(a), false
	case cancelled:
		return verdict{outcome: Transient, message: "cancelled"}, false
	case reused && !conn.heard && !isTimeout(err):
		return verdict{}, true
	case errors.Is(err, errTooLong):
		return verdict{outcome: Transient, message: c.explain(err)}, false
	}
	return c.failed(err), false
}

// kept is a kept connection that is still good, or nil.
func (c *call) kept() *conn {
	n := c.net
	for {
		conn := n.take(c.endpoint)
		if conn == nil {
			return nil
		}
		// Where it leads may have become one of our own addresses, and what allowed it is not asked here: then a new one is judged.
		if conn.quiet() && n.judge.address(conn.remote, c.target.host) == nil {
			return conn
		}
		conn.Close() // it is of no use
	}
}

// connect makes a connection.
func (c *call) connect() (*conn, error) {
	ctx, stop := context.WithDeadline(c.net.base, c.by)
	defer stop()
	if !c.hold(nil, stop) {
		return nil, context.Canceled
	}
	raw, err := c.net.dial(ctx, &c.target)
	if err == nil && c.target.scheme == "https" {
		raw, err = c.net.handshake(ctx, raw, c.target.host)
	}
	if !c.hold(nil, nil) && err == nil {
		raw.Close() // nothing was sent on it
		err = context.Canceled
	}
	if err != nil {
		return nil, err
	}
	c.net.reached(c.endpoint)
	return newConn(raw), nil
}

// exchange writes the request and reads the answer.
func (c *call) exchange(conn *conn, buf *buffer) (answer, error) {
	conn.awake()
	b := c.appendHead(buf.b[:0])
	apart := len(c.body) > maxTogether
	if !apart {
		b = append(b, c.body...)
	}
	buf.b = b
	_, err := conn.Conn.Write(b)
	if err == nil && apart {
		_, err = conn.Conn.Write(c.body)
	}
	if err != nil && !isTimeout(err) {
		// A service may answer before it has read everything, and close: the answer is what counts.
		if a, readErr := conn.readAnswer(c.method, c.jsonRPC, buf, c.long); readErr == nil {
			a.reusable = false
			return a, nil
		}
	}
	if err != nil {
		return answer{}, err
	}
	conn.sent = true
	return conn.readAnswer(c.method, c.jsonRPC, buf, c.long)
}

// long takes one of the few places for calls that read a long answer; the time of the call goes on meanwhile. done gives it back.
func (c *call) long() (done func(), err error) {
	n := c.net
	ctx, stop := context.WithDeadline(n.base, c.by)
	defer stop()
	c.mu.Lock()
	conn := c.conn
	c.mu.Unlock()
	if !c.hold(conn, stop) {
		return nil, context.Canceled
	}
	defer c.hold(conn, nil)
	for _, places := range []chan struct{}{c.endpoint.long, n.long} {
		select {
		case places <- struct{}{}:
		case <-ctx.Done():
			if places == n.long {
				<-c.endpoint.long
			}
			return nil, fmt.Errorf("no place to read an answer of more than 1 MiB in: %w", context.Cause(ctx))
		}
	}
	return func() { <-n.long; <-c.endpoint.long }, nil
}

// appendHead appends the request's first line and headers.
func (c *call) appendHead(b []byte) []byte {
	t := &c.target
	b = append(b, c.method...)
	b = append(b, ' ')
	b = append(b, t.path...)
	b = append(b, " HTTP/1.1\r\nHost: "...)
	b = append(b, t.authority...)
	b = append(b, "\r\n"...)
	typed, agent, authorized := false, false, c.strip
	for _, h := range c.req.Headers {
		switch {
		case framing[strings.ToLower(h.Name)], c.strip && credential(h.Name):
			continue
		case strings.EqualFold(h.Name, "Content-Type"):
			typed = true
		case strings.EqualFold(h.Name, "User-Agent"):
			agent = true
		case strings.EqualFold(h.Name, "Authorization"):
			authorized = true
		}
		b = appendHeader(b, h.Name, h.Value)
	}
	if !agent {
		b = append(b, "User-Agent: holdfast\r\n"...)
	}
	if !typed {
		b = append(b, "Content-Type: application/json\r\n"...)
	}
	if t.authorization != "" && !authorized {
		b = appendHeader(b, "Authorization", t.authorization)
	}
	if c.method == http.MethodPost {
		b = append(b, "Content-Length: "...)
		b = strconv.AppendInt(b, int64(len(c.body)), 10)
		b = append(b, "\r\n"...)
	}
	return append(b, "\r\n"...)
}

func appendHeader(b []byte, name, value string) []byte {
	b = append(b, name...)
	b = append(b, ": "...)
	b = append(b, value...)
	return append(b, "\r\n"...)
}

// credential reports whether a header identifies the caller: it must not reach the host of a redirect.
func credential(name string) bool {
	switch strings.ToLower(name) {
	case "authorization", "cookie", "cookie2", "proxy-authorization", "www-authenticate":
		return true
	}
	return false
}
