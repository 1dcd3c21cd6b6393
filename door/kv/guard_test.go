package kv

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/holdfastdb/holdfast/door/port"
	"github.com/holdfastdb/holdfast/entry"
	ekv "github.com/holdfastdb/holdfast/entry/kv"
	"github.com/holdfastdb/holdfast/internal/wait"
	mident "github.com/holdfastdb/holdfast/machine/ident"
	mkv "github.com/holdfastdb/holdfast/machine/kv"
	"github.com/holdfastdb/holdfast/node"
)

// fakeMember is a member without a log: a test says how it stands and how proposals end.
type fakeMember struct {
	rounds atomic.Int64 // of Linearize
	member
	mu      sync.Mutex
	status  node.Status
	changed chan struct{}
	stopped chan struct{}
	propose func(ctx context.Context) (*entry.Result, error)
	lanes   []node.Lane
}

func newFakeMember() *fakeMember {
	return &fakeMember{
		status:  node.Status{ClusterID: 1, MemberID: 2, Leader: 2, Term: 3},
		changed: make(chan struct{}), stopped: make(chan struct{}),
		propose: func(context.Context) (*entry.Result, error) {
			return &entry.Result{Term: 3, Bodies: []entry.Body{{Machine: entry.MachineKV, Value: &ekv.PutResult{Revision: 5}}}}, nil
		},
	}
}

func (m *fakeMember) Status() node.Status {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.status
}

func (m *fakeMember) set(change func(*node.Status)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change(&m.status)
	close(m.changed)
	m.changed = make(chan struct{})
}

func (m *fakeMember) LeaderChanged() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.changed
}

func (m *fakeMember) StoppedC() <-chan struct{} { return m.stopped }

func (m *fakeMember) Linearize(context.Context) error {
	m.rounds.Add(1)
	return nil
}

func (m *fakeMember) Propose(ctx context.Context, lane node.Lane, _ ...entry.Part) (*entry.Result, error) {
	m.mu.Lock()
	m.lanes = append(m.lanes, lane)
	propose := m.propose
	m.mu.Unlock()
	return propose(ctx)
}

func (m *fakeMember) Call(context.Context, string, []byte) ([]byte, error) {
	return ekv.AppendLeaseTime(nil, ekv.LeaseTime{Granted: 9, Remaining: 9}), nil
}

// fakeStore is a reader with one key, in which nothing happens.
type fakeStore struct{ reader }

func (fakeStore) Revision() (int64, int64) { return 1, 0 }
func (fakeStore) Scrubbed() int64          { return 0 }
func (fakeStore) Recent(int64) ([]mkv.Event, int64, bool, <-chan struct{}) {
	return nil, 1, true, nil
}

func (fakeStore) Range(r *ekv.Range, _ int64) (*ekv.RangeResult, int64, error) {
	return &ekv.RangeResult{Revision: 5, Count: 1, KVs: []ekv.KeyValue{{Key: r.Key, Value: []byte("v"), ModRevision: 5}}}, 5, nil
}
func (fakeStore) Txn(*ekv.Txn, int64) (*ekv.TxnResult, error) {
	return &ekv.TxnResult{Revision: 5}, nil
}
func (fakeStore) Stats() *mkv.Stats             { return new(mkv.Stats) }
func (fakeStore) Alarms() []ekv.AlarmState      { return nil }
func (fakeStore) Size() (int64, int64)          { return 0, 0 }
func (fakeStore) Leases() []mkv.Lease           { return nil }
func (fakeStore) LeaseCount() int               { return 0 }
func (fakeStore) Lease(int64) (mkv.Lease, bool) { return mkv.Lease{}, false }

// serveFake serves m and returns a connection to it.
func serveFake(t testing.TB, m *fakeMember, opts Options) *grpc.ClientConn {
	t.Helper()
	return serveReader(t, m, fakeStore{}, opts)
}

func serveReader(t testing.TB, m *fakeMember, kv reader, opts Options) *grpc.ClientConn {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := newDoor(m, kv, mident.New(), opts)
	served := make(chan error, 1)
	go func() { served <- d.Serve(l) }()
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := d.Shutdown(ctx); err != nil {
			t.Errorf("shutdown: %v", err)
		}
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return conn
}

var putRequest = &pb.PutRequest{Key: []byte("a"), Value: []byte("v")}

func withLeader(ctx context.Context) context.Context {
	return metadata.AppendToOutgoingContext(ctx, rpctypes.MetadataRequireLeaderKey, rpctypes.MetadataHasLeader)
}

func TestLearnerServesWhatEtcdsDoes(t *testing.T) {
	t.Parallel()
	m := newFakeMember()
	m.status.Learner = true
	conn, ctx := serveFake(t, m, Options{}), context.Background()
	kv := pb.NewKVClient(conn)
	want := status.Convert(rpctypes.ErrGRPCNotSupportedForLearner).Message()
	refused := func(what string, err error) {
		t.Helper()
		if status.Convert(err).Message() != want {
			t.Errorf("%s: %v", what, err)
		}
	}
	_, err := kv.Put(ctx, putRequest)
	refused("put", err)
	_, err = kv.Range(ctx, &pb.RangeRequest{Key: []byte("a")})
	refused("linearizable range", err)
	_, err = pb.NewClusterClient(conn).MemberList(ctx, &pb.MemberListRequest{})
	refused("member list", err)
	w, err := pb.NewWatchClient(conn).Watch(ctx)
	if err == nil {
		_, err = w.Recv()
	}
	refused("watch", err)
	if _, err := kv.Range(ctx, &pb.RangeRequest{Key: []byte("a"), Serializable: true}); err != nil {
		t.Errorf("serializable range: %v", err)
	}
	if st, err := pb.NewMaintenanceClient(conn).Status(ctx, &pb.StatusRequest{}); err != nil || !st.IsLearner {
		t.Errorf("status: %v, %v", st, err)
	}
	if _, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{}); err != nil {
		t.Errorf("health: %v", err)
	}
	m.set(func(s *node.Status) { s.Learner = false })
	if _, err := kv.Put(ctx, putRequest); err != nil {
		t.Errorf("put after promotion: %v", err)
	}
}

func TestLosingTheLeaderEndsStreamsThatRequireOne(t *testing.T) {
	t.Parallel()
	m := newFakeMember()
	conn, ctx := serveFake(t, m, Options{NoLeaderTimeout: 50 * time.Millisecond}), context.Background()
	open := func(ctx context.Context) pb.Watch_WatchClient {
		t.Helper()
		w, err := pb.NewWatchClient(conn).Watch(ctx)
		if err == nil {
			err = w.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: &pb.WatchCreateRequest{Key: []byte("a")}}})
		}
		if err == nil {
			_, err = w.Recv()
		}
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	requiring, indifferent := open(withLeader(ctx)), open(ctx)
	// A short loss ends nothing.
	m.set(func(s *node.Status) { s.Leader = 0 })
	m.set(func(s *node.Status) { s.Leader = 2 })
	time.Sleep(100 * time.Millisecond)
	m.set(func(s *node.Status) { s.Leader = 0 })
	kv := pb.NewKVClient(conn)
	if _, err := kv.Put(withLeader(ctx), putRequest); status.Convert(err).Message() != "etcdserver: no leader" {
		t.Errorf("put requiring a leader: %v", err)
	}
	if _, err := requiring.Recv(); status.Convert(err).Message() != "etcdserver: no leader" || status.Code(err) != codes.Unavailable {
		t.Errorf("watch requiring a leader: %v", err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := indifferent.Recv()
		ended <- err
	}()
	select {
	case err := <-ended:
		t.Errorf("a watch that requires no leader ended: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	if err := indifferent.CloseSend(); err != nil {
		t.Error(err)
	}
}

func TestOutcomesAsClientsHearThem(t *testing.T) {
	t.Parallel()
	m := newFakeMember()
	conn := serveFake(t, m, Options{RequestTimeout: 50 * time.Millisecond})
	kv := pb.NewKVClient(conn)
	for _, c := range []struct {
		name string
		err  error
		want error
	}{
		{"overloaded", node.ErrOverloaded, rpctypes.ErrGRPCRequestTooManyRequests},
		{"unknown", node.ErrUnknown, rpctypes.ErrGRPCTimeout},
		{"superseded", node.ErrSuperseded, rpctypes.ErrGRPCLeaderChanged},
		{"no leader", node.ErrNoLeader, rpctypes.ErrGRPCNoLeader},
		{"stopped", node.ErrStopped, rpctypes.ErrGRPCStopped},
		{"too large", node.ErrTooLarge, rpctypes.ErrGRPCRequestTooLarge},
		{"wrapped", errors.Join(errors.New("propose put"), node.ErrNoLeader), rpctypes.ErrGRPCNoLeader},
	} {
		m.mu.Lock()
		m.propose = func(context.Context) (*entry.Result, error) { return nil, c.err }
		m.mu.Unlock()
		_, err := kv.Put(context.Background(), putRequest)
		if got, want := status.Convert(err), status.Convert(c.want); got.Code() != want.Code() || got.Message() != want.Message() {
			t.Errorf("%s: %v, want %v", c.name, got, want)
		}
	}
	// A request without a deadline is given one.
	m.mu.Lock()
	m.propose = func(ctx context.Context) (*entry.Result, error) {
		<-ctx.Done()
		return nil, node.ErrUnknown
	}
	m.mu.Unlock()
	start := time.Now()
	if _, err := kv.Put(context.Background(), putRequest); status.Convert(err).Message() != "etcdserver: request timed out" {
		t.Errorf("time-out: %v", err)
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("a request of 50 ms took %v", took)
	}
}

func TestLanes(t *testing.T) {
	t.Parallel()
	m := newFakeMember()
	conn, ctx := serveFake(t, m, Options{}), context.Background()
	kv := pb.NewKVClient(conn)
	result := func(body any) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.propose = func(context.Context) (*entry.Result, error) {
			return &entry.Result{Bodies: []entry.Body{{Machine: entry.MachineKV, Value: body}}}, nil
		}
	}
	_, _ = kv.Put(ctx, putRequest)
	result(&ekv.DeleteResult{})
	_, _ = kv.DeleteRange(ctx, &pb.DeleteRangeRequest{Key: []byte("a")})
	result(&ekv.CompactResult{})
	_, _ = kv.Compact(ctx, &pb.CompactionRequest{Revision: 1})
	result(&ekv.GrantResult{})
	_, _ = pb.NewLeaseClient(conn).LeaseGrant(ctx, &pb.LeaseGrantRequest{TTL: 5})
	want := []node.Lane{Lane, node.LaneSystem, node.LaneSystem, node.LaneSystem}
	if len(m.lanes) != len(want) {
		t.Fatalf("lanes %v, want %v", m.lanes, want)
	}
	for i := range want {
		if m.lanes[i] != want[i] {
			t.Errorf("lanes %v, want %v", m.lanes, want)
			break
		}
	}
}

func TestKeepAlivesAnswerInOrder(t *testing.T) {
	t.Parallel()
	conn := serveFake(t, newFakeMember(), Options{})
	stream, err := pb.NewLeaseClient(conn).LeaseKeepAlive(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	const n = 500
	go func() {
		for i := range n {
			if err := stream.Send(&pb.LeaseKeepAliveRequest{ID: int64(i)}); err != nil {
				t.Error(err)
			}
		}
		_ = stream.CloseSend()
	}()
	for i := range n {
		r, err := stream.Recv()
		if err != nil || r.ID != int64(i) || r.TTL != 9 || r.Header == nil {
			t.Fatalf("answer %d: %v, %v", i, r, err)
		}
	}
	if _, err := stream.Recv(); err != io.EOF {
		t.Errorf("end: %v", err)
	}
}

// TestCodecRefusesWhatIsNotProtobuf: bad bytes must end in an error for the client, not in a command.
func TestCodecRefusesWhatIsNotProtobuf(t *testing.T) {
	t.Parallel()
	m := newFakeMember()
	conn := serveFake(t, m, Options{})
	for _, method := range []string{"Put", "Range", "DeleteRange", "Txn", "Compact"} {
		err := conn.Invoke(context.Background(), "/etcdserverpb.KV/"+method, &raw{[]byte{0x0a, 200}}, &raw{}, grpc.ForceCodec(rawCodec{}))
		if status.Code(err) != codes.Internal {
			t.Errorf("%s: %v", method, err)
		}
	}
	if len(m.lanes) != 0 {
		t.Errorf("%d proposals", len(m.lanes))
	}
}

type raw struct{ b []byte }

type rawCodec struct{}

func (rawCodec) Marshal(v any) ([]byte, error)   { return v.(*raw).b, nil }
func (rawCodec) Unmarshal(b []byte, v any) error { v.(*raw).b = b; return nil }
func (rawCodec) Name() string                    { return "proto" }

// TestLargeRequestsInFlightAreBounded: beyond the bound they are refused, below it and when small they are not, and what
// was held comes back however a request ends.
func TestLargeRequestsInFlightAreBounded(t *testing.T) {
	t.Parallel()
	m := newFakeMember()
	hold := make(chan struct{})
	m.propose = func(context.Context) (*entry.Result, error) {
		<-hold
		return &entry.Result{Bodies: []entry.Body{{Machine: entry.MachineKV, Value: &ekv.PutResult{}}}}, nil
	}
	conn := serveFake(t, m, Options{MaxFlightBytes: 3 << 20})
	kv, ctx := pb.NewKVClient(conn), context.Background()
	large := &pb.PutRequest{Key: []byte("a"), Value: make([]byte, 1<<20)}
	var wg sync.WaitGroup
	send := func(r *pb.PutRequest) {
		wg.Add(1)
		go func() {
			defer wg.Done()
			if _, err := kv.Put(ctx, r); err != nil {
				t.Error(err)
			}
		}()
	}
	proposed := func(n int) func() bool {
		return func() bool { m.mu.Lock(); defer m.mu.Unlock(); return len(m.lanes) == n }
	}
	send(large)
	send(large)
	wait.Until(t, "two in flight", proposed(2))
	if _, err := kv.Put(ctx, large); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a third: %v", err)
	}
	txn := &pb.TxnRequest{Success: []*pb.RequestOp{{Request: &pb.RequestOp_RequestPut{RequestPut: large}}}}
	if _, err := kv.Txn(ctx, txn); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a large txn: %v", err)
	}
	send(putRequest)
	wait.Until(t, "a small one in flight too", proposed(3))
	close(hold)
	wg.Wait()
	bad := append([]byte{0x0a}, make([]byte, 100<<10)...)
	_ = conn.Invoke(ctx, "/etcdserverpb.KV/Put", &raw{append(bad, 0xff)}, &raw{}, grpc.ForceCodec(rawCodec{}))
	send(large)
	send(large)
	wg.Wait()
}

// TestHalfALargeRequestIsInFlight: what has begun to come takes memory, whether the rest comes or not. A client that begins
// more than there is room for hears so at once, from a call of any kind, and is not made to send it all first.
func TestHalfALargeRequestIsInFlight(t *testing.T) {
	t.Parallel()
	conn := serveFake(t, newFakeMember(), Options{MaxFlightBytes: 3 << 20})
	c := newRawClient(t, conn.Target())
	half := append([]byte{0, 0, 16, 0, 0}, make([]byte, 10_000)...)
	c.begin(1, "/etcdserverpb.KV/Put", half)
	c.begin(3, "/etcdserverpb.KV/Put", half)
	methods := []string{"KV/Put", "KV/Txn", "KV/Range", "Lease/LeaseGrant"}
	for i, method := range methods {
		c.begin(uint32(5+2*i), "/etcdserverpb."+method, half)
	}
	for i, method := range methods {
		if code, text := c.end(uint32(5 + 2*i)); code != codes.ResourceExhausted || text != rpctypes.ErrorDesc(rpctypes.ErrGRPCRequestTooManyRequests) {
			t.Errorf("%s: %s %q", method, code, text)
		}
	}
	c.begin(99, "/etcdserverpb.Watch/Watch", half)
	if code, text := c.end(99); code != codes.Internal || !strings.Contains(text, "too many requests") { // see refused
		t.Errorf("a watch: %s %q", code, text)
	}
	if _, err := pb.NewKVClient(conn).Put(context.Background(), putRequest); err != nil {
		t.Errorf("a small one by another client: %v", err)
	}
	c.reset(1)
	if _, err := pb.NewKVClient(conn).Put(context.Background(), &pb.PutRequest{Key: []byte("a"), Value: make([]byte, 1<<20)}); err != nil {
		t.Errorf("a large one after the first has been given up: %v", err)
	}
}

// rawClient speaks HTTP/2 frame by frame.
type rawClient struct {
	t      *testing.T
	framer *http2.Framer
	ends   map[uint32][]hpack.HeaderField // trailers of calls that the server has ended
}

func newRawClient(t *testing.T, addr string) *rawClient {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	c := &rawClient{t, http2.NewFramer(conn, conn), map[uint32][]hpack.HeaderField{}}
	c.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	if err := c.framer.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	return c
}

// begin opens a call and sends the beginning of its message.
func (c *rawClient) begin(stream uint32, path string, message []byte) {
	c.t.Helper()
	var block bytes.Buffer
	e := hpack.NewEncoder(&block)
	for _, f := range [][2]string{{":method", "POST"}, {":scheme", "http"}, {":path", path}, {":authority", "test"},
		{"content-type", "application/grpc"}, {"te", "trailers"}} {
		_ = e.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}) // into a buffer
	}
	if err := c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: block.Bytes(), EndHeaders: true}); err != nil {
		c.t.Fatal(err)
	}
	if err := c.framer.WriteData(stream, false, message); err != nil {
		c.t.Fatal(err)
	}
}

// end waits until the server ends a call.
func (c *rawClient) end(stream uint32) (code codes.Code, text string) {
	c.t.Helper()
	for c.ends[stream] == nil {
		f, err := c.framer.ReadFrame()
		if err != nil {
			c.t.Fatal(err)
		}
		if h, ok := f.(*http2.MetaHeadersFrame); ok && h.StreamEnded() {
			c.ends[h.StreamID] = slices.Clone(h.Fields)
		}
	}
	for _, field := range c.ends[stream] {
		switch field.Name {
		case "grpc-status":
			n, _ := strconv.Atoi(field.Value)
			code = codes.Code(n)
		case "grpc-message":
			text = field.Value
		}
	}
	return code, text
}

func (c *rawClient) reset(stream uint32) {
	c.t.Helper()
	if err := c.framer.WriteRSTStream(stream, http2.ErrCodeCancel); err != nil {
		c.t.Fatal(err)
	}
	// Only what comes after its acknowledgement is known to come after the reset.
	if err := c.framer.WritePing(false, [8]byte{}); err != nil {
		c.t.Fatal(err)
	}
	for {
		f, err := c.framer.ReadFrame()
		if err != nil {
			c.t.Fatal(err)
		}
		if p, ok := f.(*http2.PingFrame); ok && p.IsAck() {
			return
		}
	}
}

// TestRoomIsGivenBack: large answers wait for each other, and their room comes back when they are sent.
func TestRoomIsGivenBack(t *testing.T) {
	const all = 24 << 20
	d := &Door{opts: Options{MaxResultBytes: 8 << 20, RequestTimeout: 50 * time.Millisecond}, large: make(chan struct{}, largeAnswers),
		port: port.New(port.Options{AnswerBytes: all})}
	full := func() bool {
		if !d.port.TakeAnswer(nil, all) {
			return false
		}
		d.port.AnswerGone(nil, all)
		return true
	}
	ctx := context.Background()
	size := int64(7 << 20)
	read := func(max int64) error {
		if max < size {
			return mkv.ErrTooLarge
		}
		return nil
	}
	of := func() int64 { return size }
	var rooms []*room
	for range 2 {
		r, err := d.withRoom(ctx, read, of)
		if err != nil || r == nil {
			t.Fatalf("room %v, %v", r, err)
		}
		rooms = append(rooms, r)
	}
	d.port.TakeAnswer(nil, 3<<20)
	if _, err := d.withRoom(ctx, read, of); err != rpctypes.ErrGRPCRequestTooManyRequests {
		t.Errorf("one more: %v", err)
	}
	d.port.AnswerGone(nil, 3<<20)
	for _, r := range rooms {
		a := &rangeAnswer{result: &ekv.RangeResult{KVs: []ekv.KeyValue{{Value: make([]byte, 2<<20)}}}}
		marshal(a, r).Free()
	}
	if !full() {
		t.Error("room is still held")
	}
	if _, err := d.withRoom(ctx, func(int64) error { return mkv.ErrTooLarge }, of); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("larger than any room: %v", err)
	}
	if !full() {
		t.Error("room is held after a refusal")
	}
	for _, n := range []int64{10, 100 << 10} { // with all room, and with none
		size = n
		for _, taken := range []int64{0, all} {
			if taken > 0 && !d.port.TakeAnswer(nil, taken) {
				t.Fatal("room is lost")
			}
			r, err := d.withRoom(ctx, read, of)
			if wait := taken > 0 && n > freeAnswer; wait != (err != nil) || (r != nil) != (err == nil && n > freeAnswer) {
				t.Errorf("%d bytes with %d taken: %v, %v", n, taken, r, err)
			}
			r.giveBack()
			d.port.AnswerGone(nil, taken)
		}
	}
	if !full() {
		t.Error("room is held after small answers")
	}
}

// BenchmarkPutPath is a put through grpc and the door, answered at once: what the door costs without a node.
func BenchmarkPutPath(b *testing.B) {
	conn := serveFake(b, newFakeMember(), Options{})
	kv := pb.NewKVClient(conn)
	b.ReportAllocs()
	b.SetParallelism(32)
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			if _, err := kv.Put(context.Background(), putRequest); err != nil {
				b.Error(err)
			}
		}
	})
}

// TestComparisonsAloneAreLinearizable: a Txn that only compares has not asked for an answer that may be stale.
func TestComparisonsAloneAreLinearizable(t *testing.T) {
	t.Parallel()
	m := newFakeMember()
	kv := pb.NewKVClient(serveFake(t, m, Options{}))
	compare := []*pb.Compare{{Key: []byte("a"), Target: pb.Compare_VERSION, Result: pb.Compare_GREATER, TargetUnion: &pb.Compare_Version{}}}
	stale := []*pb.RequestOp{{Request: &pb.RequestOp_RequestRange{RequestRange: &pb.RangeRequest{Key: []byte("a"), Serializable: true}}}}
	for _, c := range []struct {
		txn  *pb.TxnRequest
		want int64
	}{{&pb.TxnRequest{Compare: compare}, 1}, {&pb.TxnRequest{Compare: compare, Success: stale}, 0}} {
		before := m.rounds.Load()
		if _, err := kv.Txn(t.Context(), c.txn); err != nil {
			t.Fatal(err)
		}
		if n := m.rounds.Load() - before; n != c.want {
			t.Errorf("%v took %d read rounds, want %d", c.txn, n, c.want)
		}
	}
}
