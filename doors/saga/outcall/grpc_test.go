package outcall

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/holdfastdb/holdfast/internal/wait"
)

// bytesCodec is the codec of the services in these tests: messages are *[]byte.
type bytesCodec struct{}

func (bytesCodec) Name() string { return "proto" }

func (bytesCodec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(*v.(*[]byte))}, nil
}

func (bytesCodec) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*[]byte) = data.Materialize()
	return nil
}

// serveGRPC is a service over gRPC that takes every method: f has its name, its metadata and its message, and returns the answer.
func serveGRPC(t testing.TB, f func(ctx context.Context, method string, in []byte) ([]byte, error)) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpcServer(f)
	go s.Serve(l)
	t.Cleanup(s.Stop)
	return l.Addr().String()
}

// grpcServer is a service that answers every method with f.
func grpcServer(f func(ctx context.Context, method string, in []byte) ([]byte, error)) *grpc.Server {
	return grpc.NewServer(grpc.ForceServerCodecV2(bytesCodec{}), grpc.MaxRecvMsgSize(16<<20), grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		var in []byte
		if err := stream.RecvMsg(&in); err != nil {
			return err
		}
		method, _ := grpc.MethodFromServerStream(stream)
		out, err := f(stream.Context(), method, in)
		if err != nil {
			return err
		}
		return stream.SendMsg(&out)
	}))
}

func hangGRPC(ctx context.Context, _ string, _ []byte) ([]byte, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestWhatAStatusOverGRPCMeans(t *testing.T) {
	var code atomic.Uint32
	var text atomic.Value
	at := serveGRPC(t, func(context.Context, string, []byte) ([]byte, error) {
		return nil, status.Error(codes.Code(code.Load()), text.Load().(string))
	})
	n := newNet(t, Options{Breaker: Breaker{Failures: 1000}})
	for _, c := range []struct {
		code    codes.Code
		text    string
		outcome Outcome
		message string
	}{
		{codes.OK, "", OK, ""},
		{codes.Aborted, "out of stock", Failure, "out of stock"},
		{codes.Aborted, "FAILURE", Failure, "FAILURE"},
		{codes.Aborted, "ONGOING", Ongoing, "ONGOING"}, // of clients before 1.10
		{codes.Aborted, "ONGOING still", Failure, "ONGOING still"},
		{codes.FailedPrecondition, "in a minute", Ongoing, "in a minute"},
		{codes.Internal, "panic", Transient, "answered Internal: panic"},
		{codes.Internal, "FAILURE", Transient, "answered Internal: FAILURE"},
		{codes.Unavailable, "going away", Transient, "going away"},
		{codes.DeadlineExceeded, "", Transient, "no answer in time"},
		{codes.Unknown, "?", Transient, "answered Unknown: ?"},
		{codes.Unimplemented, "no such method", Transient, "answered Unimplemented"},
		{codes.ResourceExhausted, "later", Transient, "answered ResourceExhausted: later"},
		{codes.Canceled, "no", Transient, "answered Canceled"},
		{codes.NotFound, "no", Transient, "answered NotFound"},
	} {
		code.Store(uint32(c.code))
		text.Store(c.text)
		r := do(t, n, &Request{URL: at + "/pkg.Service/Method", Protocol: GRPC})
		if r.Outcome != c.outcome || !strings.Contains(r.Message, c.message) {
			t.Errorf("%v %q: %v %q, want %v %q", c.code, c.text, r.Outcome, r.Message, c.outcome, c.message)
		}
	}
}

func TestACallOverGRPCSaysWhatItIsOf(t *testing.T) {
	var seen metadata.MD
	var called string
	var got []byte
	at := serveGRPC(t, func(ctx context.Context, method string, in []byte) ([]byte, error) {
		seen, _ = metadata.FromIncomingContext(ctx)
		called, got = method, in
		return []byte("anything at all"), nil
	})
	n := newNet(t, Options{})
	payload := []byte("\x00\xff raw")
	headers := []Header{{"X-Trace", "7"}, {"grpc-timeout", "1n"}, {"Content-Type", "x"}, {"te", "x"}, {"Host", "x"}, {"key-bin", "\x00\x01"}}
	want(t, do(t, n, &Request{URL: at + "/busi.Busi/TransOut", Protocol: GRPC, Gid: "g1", Mode: "saga", BranchID: "01", Op: "action",
		Payload: payload, Headers: headers}), OK, "")
	if called != "/busi.Busi/TransOut" || string(got) != string(payload) {
		t.Errorf("%s was called with %q", called, got)
	}
	for name, value := range map[string]string{"dtm-gid": "g1", "dtm-trans_type": "saga", "dtm-branch_id": "01", "dtm-op": "action", "dtm-dtm": "",
		":authority": at, "x-trace": "7", "content-type": "application/grpc", "key-bin": "\x00\x01"} {
		if v := seen.Get(name); len(v) != 1 || v[0] != value {
			t.Errorf("%s is %q, want %q", name, v, value)
		}
	}
	for _, r := range []Request{{Gid: "ü"}, {Op: "a\nb"}, {BranchID: "\x00"}, {Headers: []Header{{"a b", "1"}}}, {Headers: []Header{{"a", "ü"}}}, {Headers: []Header{{"a", "1\r\n"}}}} {
		r.URL, r.Protocol = at+"/pkg.Service/Method", GRPC
		want(t, do(t, n, &r), Refused, "")
	}
}

func TestProtocolsMix(t *testing.T) {
	seen, base := recorder(t)
	at := serveGRPC(t, func(context.Context, string, []byte) ([]byte, error) { return nil, nil })
	n := newNet(t, Options{})
	want(t, do(t, n, &Request{URL: base + "/pay", Protocol: GRPC, Gid: "g"}), OK, "")
	if !strings.HasPrefix(seen.uri, "/pay?branch_id=&gid=g") {
		t.Errorf("an HTTP URL in a gRPC transaction was called as %s", seen.uri)
	}
	want(t, do(t, n, &Request{URL: "HTTP" + base[4:], Protocol: GRPC}), OK, "")
	want(t, do(t, n, &Request{URL: at + "/pkg.Service/Method", Protocol: JSONRPC}), OK, "")
	want(t, do(t, n, &Request{URL: at + "/pkg.Service/Method"}), Refused, "http://")
	want(t, do(t, n, &Request{URL: base, Protocol: "smtp"}), Refused, `"smtp"`)
}

func TestAConnectionOverGRPCIsShared(t *testing.T) {
	at := serveGRPC(t, func(context.Context, string, []byte) ([]byte, error) {
		time.Sleep(time.Millisecond)
		return nil, nil
	})
	n := newNet(t, Options{})
	var all []started
	for range 300 {
		all = append(all, start(n, &Request{URL: at + "/pkg.Service/Method", Protocol: GRPC, Payload: []byte("x")}))
	}
	for _, s := range all {
		want(t, result(t, s), OK, "")
	}
	if dials := n.Meter().Dials.Load(); dials != 1 {
		t.Errorf("%d connections for 300 calls", dials)
	}
}

func TestAnswersOverGRPCAreBounded(t *testing.T) {
	var asked atomic.Int32
	at := serveGRPC(t, func(_ context.Context, _ string, in []byte) ([]byte, error) {
		asked.Add(1)
		size, _ := strconv.Atoi(string(in))
		return make([]byte, size), nil
	})
	n := newNet(t, Options{Timeout: time.Minute})
	for i := range int32(3) { // a service whose answers are long is asked twice the first time, and once from then on
		want(t, do(t, n, &Request{URL: at + "/pkg.Service/Long", Protocol: GRPC, Payload: []byte(fmt.Sprint(3 << 20))}), OK, "")
		if got := asked.Load(); got != i+2 {
			t.Errorf("call %d: asked %d times", i, got)
		}
	}
	want(t, do(t, n, &Request{URL: at + "/pkg.Service/Method", Protocol: GRPC, Payload: []byte(fmt.Sprint(maxBody))}), OK, "")
	want(t, do(t, n, &Request{URL: at + "/pkg.Service/Method", Protocol: GRPC, Payload: []byte(fmt.Sprint(8 << 20))}), Transient, "larger than max")
}

func TestTimeoutAndCancelOverGRPC(t *testing.T) {
	reached := make(chan bool, 10)
	at := serveGRPC(t, func(ctx context.Context, m string, in []byte) ([]byte, error) {
		reached <- true
		return hangGRPC(ctx, m, in)
	})
	n := newNet(t, Options{Timeout: time.Minute})
	wait.Until(t, "a call without an answer reaches the service", func() bool {
		want(t, do(t, n, &Request{URL: at + "/pkg.Service/Method", Protocol: GRPC, Timeout: 50 * time.Millisecond}), Transient, "no answer in time (50ms)")
		select {
		case <-reached:
			return true
		default:
			return false
		}
	})
	s := start(n, &Request{URL: at + "/pkg.Service/Method", Protocol: GRPC})
	<-reached
	s.cancel()
	want(t, result(t, s), Transient, "cancelled")

	// A port that is open and says nothing, as one that is no gRPC at all.
	mute := listen(t, func(c net.Conn, _ int) { io.Copy(io.Discard, c) })
	want(t, do(t, n, &Request{URL: mute.Addr().String() + "/pkg.Service/Method", Protocol: GRPC, Timeout: 100 * time.Millisecond}), Transient, "no answer in time")
	web := listen(t, func(c net.Conn, _ int) { io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n") })
	if r := do(t, n, &Request{URL: web.Addr().String() + "/pkg.Service/Method", Protocol: GRPC, Timeout: time.Minute}); r.Outcome != Transient {
		t.Errorf("%+v", r)
	}
}

func TestAChannelIsJudgedAgain(t *testing.T) {
	at := serveGRPC(t, func(context.Context, string, []byte) ([]byte, error) { return nil, nil })
	var own atomic.Pointer[[]netip.AddrPort]
	own.Store(&[]netip.AddrPort{})
	n := newNet(t, Options{Policy: Policy{Own: func() []netip.AddrPort { return *own.Load() }}, Lookup: names(map[string][]string{"x.test": {"127.0.0.1"}})})
	_, port, _ := net.SplitHostPort(at)
	call := &Request{URL: "x.test:" + port + "/pkg.Service/Method", Protocol: GRPC}
	want(t, do(t, n, call), OK, "")
	own.Store(&[]netip.AddrPort{netip.MustParseAddrPort(at)})
	want(t, do(t, n, call), Refused, "never called")
	want(t, do(t, n, call), Refused, "never called")
	own.Store(&[]netip.AddrPort{})
	want(t, do(t, n, call), OK, "")
}

func TestAServiceOverGRPCThatComesBackIsCalledAgain(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := l.Addr().String()
	l.Close()
	n := newNet(t, Options{Breaker: Breaker{First: 20 * time.Millisecond, Longest: 20 * time.Millisecond}})
	call := &Request{URL: at + "/pkg.Service/Method", Protocol: GRPC}
	for range 10 {
		want(t, do(t, n, call), Transient, "refused")
	}
	if l, err = net.Listen("tcp", at); err != nil {
		t.Skip("somebody has taken the port:", err)
	}
	s := grpcServer(func(_ context.Context, _ string, in []byte) ([]byte, error) { return in, nil })
	go s.Serve(l)
	defer s.Stop()
	for end := time.Now().Add(wait.Limit(t)); do(t, n, call).Outcome != OK; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it is not called again")
		}
	}
}

// TestSilentServicesAreNotGivenUpAtOnce: a thousand services that never say a word are given up over as long as a call usually takes, and none before.
func TestSilentServicesAreNotGivenUpAtOnce(t *testing.T) {
	const usual, tenths = 3 * time.Second, 10
	n := newNet(t, Options{Timeout: usual})
	var in [tenths]int
	for range 1000 {
		took := n.connectTimeout() - usual
		if took < 0 || took >= usual {
			t.Fatalf("a try may take %v more than usual", took)
		}
		in[took*tenths/usual]++
	}
	for i, many := range in {
		if many < 50 || many > 150 { // a tenth of them, seven deviations either way
			t.Errorf("%d of 1000 are given up in tenth %d", many, i)
		}
	}
}
