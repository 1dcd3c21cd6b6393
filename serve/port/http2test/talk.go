// Package http2test writes an HTTP/2 client's bytes, frame by frame and as wrong as a test wants them. Its connection is the test's to read
// from.
package http2test

import (
	"bytes"
	"encoding/binary"
	"net"
	"sync/atomic"
	"time"

	"github.com/holdfastdb/holdfast/serve/port/frame"
)

// Talk is the client's half of a gRPC connection. The zero Talk is one that has begun already; New's begins with the preface.
type Talk struct {
	bytes.Buffer
	opened map[uint32]bool
}

// New returns a Talk that begins a connection.
func New() *Talk {
	var c Talk
	c.WriteString(frame.Preface)
	c.Frame(frame.Settings, 0, 0, nil)
	return &c
}

// Frame writes a frame. The first DATA frame of a stream comes after one that opens it.
func (c *Talk) Frame(kind, flags byte, stream uint32, payload []byte) *Talk {
	if kind == frame.Data && !c.opened[stream] {
		c.Frame(frame.Headers, frame.EndHeaders, stream, nil)
	}
	return c.Bare(kind, flags, stream, payload)
}

// Bare writes a frame, and that is all.
func (c *Talk) Bare(kind, flags byte, stream uint32, payload []byte) *Talk {
	if c.opened == nil {
		c.opened = map[uint32]bool{}
	}
	c.opened[stream] = c.opened[stream] || kind == frame.Headers
	n := len(payload)
	c.Write([]byte{byte(n >> 16), byte(n >> 8), byte(n), kind, flags})
	c.Write(binary.BigEndian.AppendUint32(nil, stream))
	c.Write(payload)
	return c
}

// Send writes a message in frames of at most part bytes; the last one ends the stream.
func (c *Talk) Send(stream uint32, message []byte, part int) *Talk {
	for len(message) > part {
		c.Frame(frame.Data, 0, stream, message[:part])
		message = message[part:]
	}
	return c.Frame(frame.Data, frame.End, stream, message)
}

// Prefixed is a gRPC message of n bytes, each the given one.
func Prefixed(n int, fill byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(n)), bytes.Repeat([]byte{fill}, n)...)
}

// Wire is a connection from which In is read, Part bytes at a time, and that keeps what is written to it.
type Wire struct {
	net.Conn
	In     *bytes.Reader
	Out    bytes.Buffer
	Part   int
	Closed atomic.Bool
}

// On returns a Wire from which b is read.
func On(b []byte, part int) *Wire { return &Wire{In: bytes.NewReader(b), Part: part} }

// Read implements net.Conn.
func (w *Wire) Read(p []byte) (int, error) { return w.In.Read(p[:min(len(p), max(w.Part, 1))]) }

// Write implements net.Conn.
func (w *Wire) Write(p []byte) (int, error) { return w.Out.Write(p) }

// Close implements net.Conn.
func (w *Wire) Close() error { w.Closed.Store(true); return nil }

// SetDeadline implements net.Conn: there are none.
func (w *Wire) SetDeadline(time.Time) error { return nil }

// SetReadDeadline implements net.Conn.
func (w *Wire) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline implements net.Conn.
func (w *Wire) SetWriteDeadline(time.Time) error { return nil }

// LocalAddr implements net.Conn.
func (w *Wire) LocalAddr() net.Addr { return address{} }

// RemoteAddr implements net.Conn.
func (w *Wire) RemoteAddr() net.Addr { return address{} }

// address is one that never was on a network.
type address struct{}

func (address) Network() string { return "inprocess" }
func (address) String() string  { return "inprocess" }
