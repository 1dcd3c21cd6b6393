package kv

import (
	"context"
	"errors"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"

	"github.com/holdfastdb/holdfast/serve/port"
)

// inflated is the decoded form of a message of a compressed call: the value of the handler, with the room of its inflated bytes. The codec
// finds it in the place of the value. It belongs to the goroutine that receives the message.
type inflated struct {
	into  any
	d     *Door
	from  *port.From // nil: a call of this process
	drawn int64      // bytes; the receiver of the message gives them back with port.Deflated
	err   error      // why the message could not be inflated, in the words of etcd's gRPC server; nil: it was
}

// isCompressed reports whether the messages of a call may be compressed. The one encoding that gets this far is gzip.
func isCompressed(ctx context.Context) bool {
	s, ok := grpc.ServerTransportStreamFromContext(ctx).(interface{ RecvCompress() string })
	return ok && s.RecvCompress() == port.Gzip{}.Type()
}

// decode inflates data, if it is in gzip, and decodes it with c.
func (m *inflated) decode(c codec, data mem.BufferSlice) error {
	buf := data.MaterializeToBuffer(pool)
	defer buf.Free()
	if b := buf.ReadOnlyData(); port.InGzip(b) {
		var content []byte
		content, m.drawn, m.err = m.d.port.Inflate(m.from, b)
		switch {
		case m.err == nil:
			return c.Unmarshal(mem.BufferSlice{mem.SliceBuffer(content)}, m.into)
		case errors.Is(m.err, port.ErrNoRoom):
			m.err = nil
			return errors.New(tooMany) // as for a message that the port has turned away
		case errors.Is(m.err, port.ErrInflatedTooLarge):
			m.err = status.Errorf(codes.ResourceExhausted, "grpc: received message after decompression larger than max %d", m.d.maxMessage)
		default:
			m.err = status.Error(codes.Internal, "grpc: "+m.err.Error())
		}
		return nil // the receiver of the message finds err; the gRPC server would put words of its own around it
	}
	return c.Unmarshal(data, m.into)
}

// inflateUnary runs handler for a call whose message may be in gzip. The room for the message is given back when the handler has ended.
func (d *Door) inflateUnary(srv any, ctx context.Context, dec func(any) error, guard grpc.UnaryServerInterceptor, handler unaryHandler) (any, error) {
	from := client(ctx)
	var drawn int64
	defer func() { d.port.Deflated(from, drawn) }()
	return handler(srv, ctx, func(v any) error {
		m := &inflated{into: v, d: d, from: from}
		err := dec(m)
		drawn += m.drawn
		if m.err != nil {
			return m.err
		}
		return err
	}, guard)
}

// inflatedStream is a stream whose messages may be in gzip. The newest message keeps what it takes until the next one comes or the
// stream has ended.
type inflatedStream struct {
	grpc.ServerStream
	d    *Door
	from *port.From

	mu    sync.Mutex
	drawn int64 // guarded by mu: bytes of the newest message
	ended bool  // guarded by mu
}

// RecvMsg implements grpc.ServerStream.
func (s *inflatedStream) RecvMsg(v any) error {
	s.hold(0)
	m := &inflated{into: v, d: s.d, from: s.from}
	err := s.ServerStream.RecvMsg(m)
	s.hold(m.drawn)
	if m.err != nil {
		return m.err
	}
	return err
}

// hold gives back what the message before took and keeps what the new one takes.
func (s *inflatedStream) hold(drawn int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.d.port.Deflated(s.from, s.drawn)
	if s.drawn = drawn; s.ended {
		s.d.port.Deflated(s.from, s.drawn)
		s.drawn = 0
	}
}

// end gives back everything. A message that is being received is given back as soon as it has come.
func (s *inflatedStream) end() {
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	s.hold(0)
}
