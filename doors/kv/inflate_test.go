package kv

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	epb "go.etcd.io/etcd/server/v3/etcdserver/api/v3election/v3electionpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/holdfastdb/holdfast/core/entry"
	mident "github.com/holdfastdb/holdfast/core/machine/ident"
	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
	"github.com/holdfastdb/holdfast/internal/wait"
)

// gzipConn returns a connection to the server at addr that sends every message in gzip, or as how makes it.
func gzipConn(t testing.TB, addr string, how packer) *grpc.ClientConn {
	t.Helper()
	//lint:ignore SA1019 a registered compressor would be the server's, too
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithCompressor(how), grpc.WithDisableRetry())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// packer makes what a test wants of a message and calls it gzip.
type packer func(p []byte) []byte

func (f packer) Type() string { return "gzip" }

func (f packer) Do(w io.Writer, p []byte) error {
	_, err := w.Write(f(p))
	return err
}

func inGzip(p []byte) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write(p) // never fails in memory
	_ = z.Close()
	return b.Bytes()
}

// serveAddr serves m and returns the door and its address.
func serveAddr(t testing.TB, m *fakeMember, opts Options) (*Door, string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := newDoor(m, fakeStore{}, mident.New(), opts)
	served := make(chan error, 1)
	go func() { served <- d.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), wait.Limit(t))
		defer cancel()
		if err := d.Shutdown(ctx); err != nil {
			t.Errorf("shutdown: %v", err)
		}
		<-served
		wait.GivenBack(t, collected(d.Owed))
	})
	return d, l.Addr().String()
}

// TestMessagesInGzipAreWhatWasSent: of every kind of call, and of every size.
func TestMessagesInGzipAreWhatWasSent(t *testing.T) {
	t.Parallel()
	m := newFakeMember()
	_, addr := serveAddr(t, m, Options{})
	conn := gzipConn(t, addr, packer(inGzip))
	ctx := t.Context()
	random := make([]byte, 1_400_000)
	r := rand.NewChaCha8([32]byte{})
	_, _ = r.Read(random)
	for _, value := range [][]byte{nil, []byte("v"), bytes.Repeat([]byte("a"), 5000), bytes.Repeat([]byte("b"), 16<<10), bytes.Repeat([]byte("c"), 1_500_000), random} {
		if _, err := pb.NewKVClient(conn).Put(ctx, &pb.PutRequest{Key: []byte("k"), Value: value}); err != nil {
			t.Fatalf("a put of %d bytes: %v", len(value), err)
		}
		m.mu.Lock()
		part, err := kvpart.Decode(m.parts[0].Body)
		m.mu.Unlock()
		if err != nil || part.Put == nil || string(part.Put.Key) != "k" || !bytes.Equal(part.Put.Value, value) {
			t.Fatalf("a put of %d bytes became another: %v", len(value), err)
		}
	}
	if res, err := pb.NewKVClient(conn).Range(ctx, &pb.RangeRequest{Key: []byte("key")}); err != nil || string(res.Kvs[0].Key) != "key" {
		t.Errorf("a range: %v, %v", res, err)
	}
	if _, err := pb.NewMaintenanceClient(conn).Status(ctx, &pb.StatusRequest{}); err != nil {
		t.Errorf("a call whose message is empty: %v", err)
	}
	// A stream with one message, which keeps what that takes until its end.
	observer, cancel := context.WithCancel(ctx)
	observing, err := epb.NewElectionClient(conn).Observe(observer, &epb.LeaderRequest{Name: bytes.Repeat([]byte{'e'}, 40_000)})
	if err == nil {
		_, err = observing.Recv()
	}
	if err != nil {
		t.Errorf("an Observe: %v", err)
	}
	cancel()
	stream, err := pb.NewWatchClient(conn).Watch(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		key := bytes.Repeat([]byte{'k'}, 1+i*20_000)
		if err := stream.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: &pb.WatchCreateRequest{Key: key}}}); err != nil {
			t.Fatal(err)
		}
		if res, err := stream.Recv(); err != nil || !res.Created {
			t.Fatalf("watch %d: %v, %v", i, res, err)
		}
	}
}

// TestMessagesThatAreNoGzipAreRefusedAsByEtcd: with its code and its text, on calls and on streams, and the connection goes on.
func TestMessagesThatAreNoGzipAreRefusedAsByEtcd(t *testing.T) {
	t.Parallel()
	_, addr := serveAddr(t, newFakeMember(), Options{MaxRequestBytes: 1 << 20})
	for _, c := range []struct {
		name string
		pack packer
		code codes.Code
		text string
	}{
		{"nothing", func([]byte) []byte { return nil }, codes.Internal, "grpc: failed to decompress the message: EOF"},
		{"no gzip", func(p []byte) []byte { return []byte("this is no gzip at all") }, codes.Internal, "grpc: failed to decompress the message: gzip: invalid header"},
		{"half", func(p []byte) []byte { b := inGzip(p); return b[:len(b)-9] }, codes.Internal, "grpc: failed to read decompressed data: unexpected EOF"},
		{"another sum", func(p []byte) []byte { b := inGzip(p); b[len(b)-6] ^= 1; return b }, codes.Internal, "grpc: failed to read decompressed data: gzip: invalid checksum"},
		{"a lie about the size", func(p []byte) []byte { b := inGzip(p); b[len(b)-1] = 1; return b }, codes.Internal, "grpc: failed to read decompressed data: gzip: invalid checksum"},
		{"a bomb", func([]byte) []byte { return inGzip(make([]byte, 100<<20)) }, codes.ResourceExhausted, "grpc: received message after decompression larger than max 1572864"},
		{"a bomb that says it is none", func([]byte) []byte {
			b := inGzip(make([]byte, 100<<20))
			copy(b[len(b)-4:], "\x01\x00\x00\x00")
			return b
		}, codes.ResourceExhausted, "grpc: received message after decompression larger than max 1572864"},
	} {
		conn := gzipConn(t, addr, c.pack)
		_, err := pb.NewKVClient(conn).Put(t.Context(), &pb.PutRequest{Key: []byte("k"), Value: []byte("value")})
		if s := status.Convert(err); s.Code() != c.code || s.Message() != c.text {
			t.Errorf("%s: %v, want %v %q", c.name, err, c.code, c.text)
		}
		stream, err := pb.NewWatchClient(conn).Watch(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_ = stream.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: &pb.WatchCreateRequest{Key: []byte("k")}}})
		_, err = stream.Recv()
		if s := status.Convert(err); s.Code() != c.code || s.Message() != c.text {
			t.Errorf("%s on a stream: %v, want %v %q", c.name, err, c.code, c.text)
		}
	}
}

// TestInflatedMessagesAreBounded: a thousand messages of 1.5 MB, 2 KB each on the wire, are in flight at the same time. Those for which there is no room are refused; what
// the others hold is given back when they are answered.
func TestInflatedMessagesAreBounded(t *testing.T) {
	const room, each, calls = 8 << 20, 1_500_000, 200
	m := newFakeMember()
	release, waiting := make(chan struct{}), make(chan struct{}, calls+1)
	m.propose = func(context.Context) (*entry.Result, error) {
		waiting <- struct{}{}
		<-release
		return &entry.Result{Term: 3, Bodies: []entry.Body{{Machine: entry.MachineKV, Value: &kvpart.PutResult{Revision: 5}}}}, nil
	}
	d, addr := serveAddr(t, m, Options{MaxFlightBytes: room})
	packed := inGzip(nil)
	pack := packer(func(p []byte) []byte { // the same message each time: packing it is most of the work otherwise
		return packed
	})
	message := &pb.PutRequest{Key: []byte("k"), Value: make([]byte, each)}
	b, err := codec{steps: d.opts.Steps, counts: &d.counts}.marshal(message)
	if err != nil {
		t.Fatal(err)
	}
	packed = inGzip(b.Materialize())
	if len(packed) > 4<<10 {
		t.Fatalf("%d bytes on the wire", len(packed))
	}
	var before, now runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	conns := []*grpc.ClientConn{gzipConn(t, addr, pack), gzipConn(t, addr, pack), gzipConn(t, addr, pack), gzipConn(t, addr, pack)}
	var mu sync.Mutex
	refused, done := 0, 0
	var wg sync.WaitGroup
	for i := range calls {
		wg.Go(func() {
			_, err := pb.NewKVClient(conns[i%len(conns)]).Put(t.Context(), &pb.PutRequest{Key: []byte("k")})
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				done++
			case status.Code(err) == codes.ResourceExhausted && strings.Contains(err.Error(), "too many requests"):
				refused++
			default:
				t.Errorf("neither done nor refused: %v", err)
			}
		})
	}
	wait.Until(t, "every call waits or was refused", func() bool { mu.Lock(); defer mu.Unlock(); return refused+len(waiting) == calls })
	runtime.GC()
	runtime.ReadMemStats(&now)
	if n := len(waiting); n == 0 || n > room/each {
		t.Errorf("%d calls of %d bytes wait with room for %d", n, each, room)
	}
	if grew := int64(now.HeapAlloc) - int64(before.HeapAlloc); grew > 4*room {
		t.Errorf("the heap grew by %d MB", grew>>20)
	}
	close(release)
	wg.Wait()
	if done+refused != calls || done == 0 {
		t.Errorf("%d done, %d refused", done, refused)
	}
	if _, err := pb.NewKVClient(conns[0]).Put(t.Context(), &pb.PutRequest{Key: []byte("k")}); err != nil {
		t.Errorf("after the crowd: %v", err)
	}
}
