package intake

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/holdfastdb/holdfast/internal/wait"
	"github.com/holdfastdb/holdfast/serve/port/frame"
)

// A Conn is right only with a server that behaves as grpc-go's does. These tests are about that server, with the options
// the kv door gives it: they fail when a newer one does something else.

// window is the connection's, as the port's server has it, and of a stream.
const window, streamWindow = 2 << 20, 64 << 10

// bytesCodec passes messages as they are.
type bytesCodec struct{}

func (bytesCodec) Name() string { return "proto" }

func (bytesCodec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(*v.(*[]byte))}, nil
}

func (bytesCodec) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*[]byte) = data.Materialize()
	return nil
}

var _ encoding.CodecV2 = bytesCodec{}

// counted is a room that any goroutine may use.
type counted struct {
	mu sync.Mutex
	room
	draws atomic.Int64 // that were refused
}

func (c *counted) do(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
}

func (c *counted) Draw(n int64) (ok bool) {
	if c.do(func() { ok = c.room.Draw(n) }); !ok {
		c.draws.Add(1)
	}
	return ok
}
func (c *counted) Return(n int64) { c.do(func() { c.room.Return(n) }) }
func (c *counted) Open(n int64)   { c.do(func() { c.room.Open(n) }) }
func (c *counted) Done(n int64)   { c.do(func() { c.room.Done(n) }) }

func (c *counted) held(budget int64) (messages, calls int64) {
	c.do(func() { messages, calls = budget-c.left, c.calls })
	return messages, calls
}

// marked is an address by which a handler knows the connection it is called from.
type marked struct {
	net.Addr
	conn *Conn
}

// named is a Conn with such an address.
type named struct{ *Conn }

func (n named) RemoteAddr() net.Addr { return marked{n.Conn.RemoteAddr(), n.Conn} }

// listener puts a Conn in front of every connection.
type listener struct {
	net.Listener
	room  Room
	conns chan *Conn
}

func (l *listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	i := New(c, l.room, Options{MaxMessage: largest, Patience: func(int) time.Duration { return patience }})
	l.conns <- i
	return named{i}, nil
}

var errFull = status.Error(codes.ResourceExhausted, "no room")

// serve runs a gRPC server behind Conns. Its method /t/Size answers with a message's length, and errFull for one that was turned away.
// /t/Wait answers when the client gives up; /t/Each answers each message of a stream.
func serve(t *testing.T, r Room) (addr string, conns chan *Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	size := func(ctx context.Context, b []byte) (*[]byte, error) {
		if p, _ := peer.FromContext(ctx); p == nil || p.Addr.(marked).conn == nil {
			t.Error("the handler does not know its connection by the address")
		}
		if TurnedAway(b) {
			return nil, errFull
		}
		answer := binary.BigEndian.AppendUint32(nil, uint32(len(b)))
		return &answer, nil
	}
	unary := func(f func(context.Context, []byte) (*[]byte, error)) grpc.MethodHandler {
		return func(_ any, ctx context.Context, dec func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			var b []byte
			if err := dec(&b); err != nil {
				return nil, err
			}
			answer, err := f(ctx, b)
			if err != nil {
				return nil, err
			}
			return answer, nil
		}
	}
	each := func(_ any, s grpc.ServerStream) error {
		for {
			var b []byte
			if err := s.RecvMsg(&b); errors.Is(err, io.EOF) {
				return nil
			} else if err != nil {
				return err
			}
			answer, err := size(s.Context(), b)
			if err == nil {
				err = s.SendMsg(answer)
			}
			if err != nil {
				return err
			}
		}
	}
	s := grpc.NewServer(grpc.ForceServerCodecV2(bytesCodec{}), grpc.MaxRecvMsgSize(largest), grpc.InitialWindowSize(streamWindow),
		grpc.InitialConnWindowSize(window), grpc.ReadBufferSize(0))
	s.RegisterService(&grpc.ServiceDesc{ServiceName: "t", HandlerType: (*any)(nil), Methods: []grpc.MethodDesc{
		{MethodName: "Size", Handler: unary(size)},
		{MethodName: "Wait", Handler: unary(func(ctx context.Context, _ []byte) (*[]byte, error) { <-ctx.Done(); return nil, ctx.Err() })},
	}, Streams: []grpc.StreamDesc{{StreamName: "Each", Handler: each, ServerStreams: true, ClientStreams: true}}}, nil)
	in := &listener{l, r, make(chan *Conn, 100)}
	go func() { _ = s.Serve(in) }() // ends with Stop
	t.Cleanup(s.Stop)
	return l.Addr().String(), in.conns
}

func dial(t *testing.T, addr string) *grpc.ClientConn {
	t.Helper()
	c, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.ForceCodecV2(bytesCodec{})))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func invoke(ctx context.Context, c *grpc.ClientConn, method string, n int) (size int, err error) {
	ask, answer := make([]byte, n), []byte(nil)
	if err := c.Invoke(ctx, method, &ask, &answer); err != nil {
		return 0, err
	}
	return int(binary.BigEndian.Uint32(answer)), nil
}

// TestServerTakesWhatStandsInForAMessage: for the codec, a message that was turned away is the sixteen bytes in its place. The rest of it
// is dropped and given back to the connection's window, so that the connection goes on as long as its client likes.
func TestServerTakesWhatStandsInForAMessage(t *testing.T) {
	r := &counted{room: room{left: 100_000}}
	addr, conns := serve(t, r)
	c := dial(t, addr)
	const n = 300_000
	for range 3 * window / n { // far more than the window would let through
		if _, err := invoke(t.Context(), c, "/t/Size", n); !errors.Is(err, errFull) && status.Convert(err).Message() != "no room" {
			t.Fatalf("a message without room: %v", err)
		}
		if got, err := invoke(t.Context(), c, "/t/Size", 10); err != nil || got != 10 {
			t.Fatalf("a small one after it: %d, %v", got, err)
		}
	}
	if got, err := invoke(t.Context(), c, "/t/Size", 90_000); err != nil || got != 90_000 {
		t.Errorf("one for which there is room: %d, %v", got, err)
	}
	if len(conns) != 1 || r.draws.Load() == 0 {
		t.Errorf("%d connections, %d refusals", len(conns), r.draws.Load())
	}
}

// TestServerEndsCallsByFrames: the server says by a frame that a call has ended, with any outcome, and so all room comes back.
func TestServerEndsCallsByFrames(t *testing.T) {
	const budget = 8 << 20
	r := &counted{room: room{left: budget}}
	addr, conns := serve(t, r)
	c := dial(t, addr)
	for i := range 30 {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		method := []string{"/t/Size", "/t/Wait", "/t/None"}[i%3]
		_, err := invoke(ctx, c, method, 100_000)
		if cancel(); (err == nil) != (method == "/t/Size") && status.Code(err) != codes.DeadlineExceeded {
			t.Fatalf("%s: %v", method, err)
		}
	}
	s, err := c.NewStream(t.Context(), &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, "/t/Each")
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		ask, answer := make([]byte, 200_000), []byte(nil)
		if err := errors.Join(s.SendMsg(&ask), s.RecvMsg(&answer)); err != nil {
			t.Fatal(err)
		}
		if messages, _ := r.held(budget); messages > 200_000 {
			t.Fatalf("%d bytes are held after an answer", messages)
		}
	}
	if err := s.CloseSend(); err != nil {
		t.Fatal(err)
	}
	i := <-conns
	wait.Until(t, "all comes back", func() bool {
		messages, open := r.held(budget)
		calls, remembered := i.Pending()
		return messages == 0 && open == 0 && calls == 0 && remembered == 0
	})
}

// raw is a client that writes its own frames.
type raw struct {
	*http2.Framer
	t    *testing.T
	head bytes.Buffer
	enc  *hpack.Encoder
}

func dialRaw(t *testing.T, addr string) *raw {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(wait.Limit(t))) // never fails on TCP
	if _, err := io.WriteString(c, frame.Preface); err != nil {
		t.Fatal(err)
	}
	r := &raw{Framer: http2.NewFramer(c, c), t: t}
	r.enc = hpack.NewEncoder(&r.head)
	r.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	r.must(r.WriteSettings())
	return r
}

func (r *raw) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *raw) open(stream uint32, path string) {
	r.t.Helper()
	r.head.Reset()
	for _, h := range [][2]string{{":method", "POST"}, {":scheme", "http"}, {":path", path}, {":authority", "x"}, {"content-type", "application/grpc"}, {"te", "trailers"}} {
		r.must(r.enc.WriteField(hpack.HeaderField{Name: h[0], Value: h[1]}))
	}
	r.must(r.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: r.head.Bytes(), EndHeaders: true}))
}

// until reads frames up to the one that ends a stream and returns the call's code. see is shown every frame.
func (r *raw) until(stream uint32, see func(http2.Frame)) (code string) {
	r.t.Helper()
	for {
		f, err := r.ReadFrame()
		r.must(err)
		if see != nil {
			see(f)
		}
		if h, ok := f.(*http2.MetaHeadersFrame); ok && h.StreamID == stream && h.StreamEnded() {
			for _, field := range h.Fields {
				if field.Name == "grpc-status" {
					return field.Value
				}
			}
		}
		if g, ok := f.(*http2.GoAwayFrame); ok {
			r.t.Fatalf("the server ends the connection: %v", g.ErrCode)
		}
	}
}

// TestServerRefusesTheLongestLength: where turnedAway does not fit into a frame the length says four gigabytes. The server refuses that
// call, without waiting for the message, and serves the next.
func TestServerRefusesTheLongestLength(t *testing.T) {
	addr, _ := serve(t, &counted{room: room{left: 10}})
	r := dialRaw(t, addr)
	r.open(1, "/t/Size")
	r.must(r.WriteData(1, false, []byte{0, 0, 1, 0, 0, 'x', 'x'})) // 64 KiB, of which two bytes come
	if code := r.until(1, nil); code != "8" {                      // ResourceExhausted
		t.Errorf("refused with code %s", code)
	}
	r.must(r.WriteData(1, true, make([]byte, 100))) // on its way already: dropped
	r.open(3, "/t/Size")
	r.must(r.WriteData(3, true, []byte{0, 0, 0, 0, 1, 'x'}))
	if code := r.until(3, nil); code != "0" {
		t.Errorf("the next call: code %s", code)
	}
}

// TestServerDropsFramesOfNoStream: DATA on a stream that was never opened changes nothing for the others.
func TestServerDropsFramesOfNoStream(t *testing.T) {
	addr, _ := serve(t, &counted{room: room{left: 10}})
	r := dialRaw(t, addr)
	r.open(3, "/t/Size")
	r.must(r.WriteData(1, false, make([]byte, 100)))
	r.must(r.WriteData(3, true, []byte{0, 0, 0, 0, 1, 'x'}))
	if code := r.until(3, nil); code != "0" {
		t.Errorf("code %s", code)
	}
}

// TestServerWidensAStreamForItsMessage is why messages are counted here. Once the server has seen a length it lets the client send that
// much on the stream, with any window before. And its frames stay small, which smallMessage rests on.
func TestServerWidensAStreamForItsMessage(t *testing.T) {
	addr, _ := serve(t, &counted{room: room{left: largest}})
	r := dialRaw(t, addr)
	r.open(1, "/t/Size")
	const size = 3 << 20
	r.must(r.WriteData(1, false, append(binary.BigEndian.AppendUint32([]byte{0}, size), make([]byte, 1000)...)))
	for granted, largestFrame := uint32(streamWindow), uint32(frame.Max); granted < size/2; {
		f, err := r.ReadFrame()
		r.must(err)
		switch f := f.(type) {
		case *http2.SettingsFrame:
			if n, ok := f.Value(http2.SettingMaxFrameSize); ok && n != largestFrame {
				t.Fatalf("the server takes frames of %d bytes", n)
			}
		case *http2.WindowUpdateFrame:
			if f.StreamID == 1 {
				granted += f.Increment
			}
		}
	}
}
