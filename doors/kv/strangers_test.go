package kv

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	kvmachine "github.com/holdfastdb/holdfast/doors/kv/machine"
	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
	"github.com/holdfastdb/holdfast/internal/wait"
)

// TestHeaderListsAreBounded: a byte may stand for a whole header, so a stream's headers are bounded by what they become.
func TestHeaderListsAreBounded(t *testing.T) {
	t.Parallel()
	conn := serveFake(t, newFakeMember(), Options{})
	c := newRawClient(t, conn.Target())
	var block bytes.Buffer
	e := hpack.NewEncoder(&block)
	for _, f := range [][2]string{{":method", "POST"}, {":scheme", "http"}, {":path", "/etcdserverpb.Watch/Watch"}, {":authority", "test"},
		{"content-type", "application/grpc"}, {"te", "trailers"}, {"a", ""}} {
		_ = e.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}) // into a buffer
	}
	again := block.Len()
	_ = e.WriteField(hpack.HeaderField{Name: "a"})
	block.Write(bytes.Repeat(block.Bytes()[again:], 10_000))
	if err := c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndHeaders: true}); err != nil {
		t.Fatal(err)
	}
	if err := c.framer.WritePing(false, [8]byte{}); err != nil {
		t.Fatal(err)
	}
	for refused := false; !refused; {
		f, err := c.framer.ReadFrame()
		if err != nil {
			break // the connection is ended: as good
		}
		switch f := f.(type) {
		case *http2.RSTStreamFrame:
			refused = true
		case *http2.PingFrame:
			if f.IsAck() {
				t.Fatalf("a stream with headers of %d bytes stands for %d", block.Len(), 33*10_000)
			}
		}
	}
	ctx := metadata.AppendToOutgoingContext(context.Background(), "token", strings.Repeat("t", 12<<10))
	if _, err := pb.NewKVClient(conn).Put(ctx, putRequest); err != nil {
		t.Errorf("a put with a large token: %v", err)
	}
}

// TestOpenCallsAreBounded: a client that opens calls without end is refused, and others are not.
func TestOpenCallsAreBounded(t *testing.T) {
	t.Parallel()
	conn := serveFake(t, newFakeMember(), Options{MaxCallBytes: 4 << 20})
	good := pb.NewWatchClient(dialFrom(t, conn, "127.0.0.2"))
	if _, err := good.Watch(t.Context()); err != nil {
		t.Fatal(err)
	}
	greedy := dialAgain(t, conn)
	refused := 0
	for range 300 {
		w, err := pb.NewWatchClient(greedy).Watch(t.Context())
		if err == nil {
			if err = w.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: &pb.WatchCreateRequest{Key: []byte("k")}}}); err == nil || errors.Is(err, io.EOF) {
				_, err = w.Recv() // which has the status also where the stream was refused before the request was sent
			}
		}
		if status.Code(err) == codes.ResourceExhausted {
			refused++
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if refused < 108 || refused > 126 {
		t.Errorf("%d of 300 streams were refused; three quarters of 256 fit, with their watches", refused)
	}
	w, err := good.Watch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: &pb.WatchCreateRequest{Key: []byte("k")}}}); err != nil {
		t.Fatal(err)
	}
	if r, err := w.Recv(); err != nil || !r.Created || r.Canceled {
		t.Errorf("another client's watch: %v, %v", r, err)
	}
	if _, err := pb.NewKVClient(greedy).Put(t.Context(), putRequest); err != nil {
		t.Errorf("a put of the client that has all streams: %v", err)
	}
	greedy.Close()
	wait.Until(t, "room comes back", func() bool {
		w, err := pb.NewWatchClient(dialAgain(t, conn)).Watch(t.Context())
		return err == nil && w.Send(&pb.WatchRequest{}) == nil
	})
}

// dialFrom makes another connection to where conn leads, from an address of this machine.
func dialFrom(t *testing.T, conn *grpc.ClientConn, addr string) *grpc.ClientConn {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(addr)}}
	c, err := grpc.NewClient(conn.Target(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, to string) (net.Conn, error) { return d.DialContext(ctx, "tcp", to) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// dialAgain makes another connection to where conn leads.
func dialAgain(t *testing.T, conn *grpc.ClientConn) *grpc.ClientConn {
	t.Helper()
	c, err := grpc.NewClient(conn.Target(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// TestWatchedKeysAreBounded: a watch holds its keys, and a client may send many; what is cancelled is given back.
func TestWatchedKeysAreBounded(t *testing.T) {
	t.Parallel()
	conn := serveFake(t, newFakeMember(), Options{MaxCallBytes: 8 << 20})
	w, err := pb.NewWatchClient(conn).Watch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	create := func() *pb.WatchResponse {
		t.Helper()
		key := bytes.Repeat([]byte("k"), 500<<10)
		if err := w.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: &pb.WatchCreateRequest{Key: key}}}); err != nil {
			t.Fatal(err)
		}
		r, err := w.Recv()
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	made := int64(-1)
	for range 20 {
		if r := create(); !r.Canceled {
			made = r.WatchId
		} else if !strings.Contains(r.CancelReason, "too many requests") {
			t.Fatal(r.CancelReason)
		}
	}
	if made < 4 || made > 6 {
		t.Errorf("%d watches of half a megabyte fit", made+1)
	}
	if err := w.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CancelRequest{CancelRequest: &pb.WatchCancelRequest{WatchId: made}}}); err != nil {
		t.Fatal(err)
	}
	if r, err := w.Recv(); err != nil || !r.Canceled {
		t.Fatal(r, err)
	}
	if r := create(); r.Canceled {
		t.Errorf("after one is cancelled: %s", r.CancelReason)
	}
}

// largeStore answers every read with so many bytes, if it may.
type largeStore struct {
	fakeStore
	bytes int
}

func (s largeStore) Range(r *kvpart.Range, maxBytes int64) (*kvpart.RangeResult, int64, error) {
	if int64(s.bytes) > maxBytes {
		return nil, 0, kvmachine.ErrTooLarge
	}
	return &kvpart.RangeResult{Revision: 5, Count: 1, KVs: []kvpart.KeyValue{{Key: r.Key, Value: make([]byte, s.bytes), ModRevision: 5}}}, 5, nil
}

// stalledReaders asks on connections of their own for answers that it does not take.
func stalledReaders(t *testing.T, addr string, connections, each int) {
	t.Helper()
	for range connections {
		c := newRawClient(t, addr)
		if err := c.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}); err != nil {
			t.Fatal(err)
		}
		for n := range each {
			c.begin(uint32(2*n+1), "/etcdserverpb.KV/Range", []byte{0, 0, 0, 0, 3, 0x0a, 1, 'a'})
		}
	}
}

// TestStalledReadersKeepNobodyOut: untaken answers have a bound of their own, and clients that take theirs get them.
func TestStalledReadersKeepNobodyOut(t *testing.T) {
	t.Parallel()
	conn := serveReader(t, newFakeMember(), largeStore{fakeStore{}, 3 << 20}, Options{MaxAnswerBytes: 12 << 20})
	kv := pb.NewKVClient(conn)
	get := func() error {
		_, err := kv.Range(t.Context(), &pb.RangeRequest{Key: []byte("a")}, grpc.MaxCallRecvMsgSize(8<<20))
		return err
	}
	if err := get(); err != nil {
		t.Fatal(err)
	}
	stalledReaders(t, conn.Target(), 3, 5)
	for n := range 20 {
		if err := get(); err != nil {
			t.Fatalf("read %d beside stalled ones: %v", n, err)
		}
	}
}

// TestUntakenAnswersAreBounded: no kind of untaken answer fills the memory. It looks at this process's heap, so it runs alone.
func TestUntakenAnswersAreBounded(t *testing.T) {
	conn := serveReader(t, newFakeMember(), largeStore{fakeStore{}, 900 << 10}, Options{MaxAnswerBytes: 12 << 20})
	if _, err := pb.NewKVClient(conn).Range(t.Context(), &pb.RangeRequest{Key: []byte("a")}); err != nil {
		t.Fatal(err)
	}
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	stalledReaders(t, conn.Target(), 2, 60)
	time.Sleep(300 * time.Millisecond) // for what should not come; less than a stalled reader may take
	if took := heap() - before; took > 40<<20 {
		t.Errorf("%d MiB are held for 120 answers that nobody takes", took>>20)
	}
}

// TestALargeAnswerIsNotMadeAsJSON: one of more than a third of all room is answered over gRPC alone.
func TestALargeAnswerIsNotMadeAsJSON(t *testing.T) {
	t.Parallel()
	conn := serveReader(t, newFakeMember(), largeStore{fakeStore{}, 5 << 20}, Options{MaxAnswerBytes: 12 << 20})
	if _, err := pb.NewKVClient(conn).Range(t.Context(), &pb.RangeRequest{Key: []byte("a")}, grpc.MaxCallRecvMsgSize(8<<20)); err != nil {
		t.Error(err)
	}
	r, err := http.Post("http://"+conn.Target()+"/v3/kv/range", "application/json", strings.NewReader(`{"key":"YQ=="}`))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if said, err := io.ReadAll(r.Body); err != nil || r.StatusCode != http.StatusTooManyRequests || !strings.Contains(string(said), "larger than this server buffers") {
		t.Errorf("%s, %.200s, %v", r.Status, said, err)
	}
}

// TestUntakenAnswersOfTheGatewayAreBounded: the same over HTTP/1.1, where an answer is JSON that the gRPC server knows nothing of. It
// looks at this process's heap, so it runs alone.
func TestUntakenAnswersOfTheGatewayAreBounded(t *testing.T) {
	conn := serveReader(t, newFakeMember(), largeStore{fakeStore{}, 3 << 20}, Options{MaxAnswerBytes: 12 << 20})
	ask := func(taken bool) net.Conn {
		c, err := net.Dial("tcp", conn.Target())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		if !taken {
			_ = c.(*net.TCPConn).SetReadBuffer(4 << 10) // the kernel would take more in
		}
		if _, err := fmt.Fprintf(c, "POST /v3/kv/range HTTP/1.1\r\nHost: localhost\r\nContent-Length: 14\r\n\r\n%s", `{"key":"YQ=="}`); err != nil {
			t.Fatal(err)
		}
		return c
	}
	whole := func() error {
		c := ask(true)
		defer c.Close()
		_ = c.SetReadDeadline(time.Now().Add(wait.Limit(t)))
		r, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			return err
		}
		if n, err := io.Copy(io.Discard, r.Body); err != nil || n < 4<<20 || r.StatusCode != http.StatusOK {
			return fmt.Errorf("%s, %d bytes: %w", r.Status, n, err)
		}
		return nil
	}
	if err := whole(); err != nil {
		t.Fatal(err)
	}
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	for range 60 {
		ask(false)
	}
	time.Sleep(1500 * time.Millisecond) // for what should not come; less than a stalled reader may take
	if took := heap() - before; took > 60<<20 {
		t.Errorf("%d MiB are held for 60 answers that nobody takes", took>>20)
	}
	wait.Until(t, "a client that takes its answer gets it", func() bool { return whole() == nil }) // the sixty wait for the same room, for three seconds each
}
