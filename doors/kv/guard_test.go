package kv

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/core/node"
	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
	"github.com/holdfastdb/holdfast/internal/wait"
)

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
	const patience = 5 * time.Second // the door is asked twice within it
	conn, ctx := serveFake(t, m, Options{NoLeaderTimeout: patience}), context.Background()
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
	time.Sleep(patience + 100*time.Millisecond)
	m.set(func(s *node.Status) { s.Leader = 0 })
	// The clients of a leader that has just ended come here before there is another.
	kv := pb.NewKVClient(conn)
	if _, err := kv.Put(withLeader(ctx), putRequest); err != nil {
		t.Errorf("put requiring a leader that was lost a moment ago: %v", err)
	}
	late := open(withLeader(ctx))
	for _, w := range []pb.Watch_WatchClient{requiring, late} {
		if _, err := w.Recv(); status.Convert(err).Message() != "etcdserver: no leader" || status.Code(err) != codes.Unavailable {
			t.Errorf("watch requiring a leader: %v", err)
		}
	}
	if _, err := kv.Put(withLeader(ctx), putRequest); status.Convert(err).Message() != "etcdserver: no leader" {
		t.Errorf("put requiring a leader: %v", err)
	}
	soon, cancel := context.WithTimeout(ctx, wait.Limit(t)) // a stream that is not refused says nothing
	defer cancel()
	refused, err := pb.NewWatchClient(conn).Watch(withLeader(soon))
	if err == nil {
		_, err = refused.Recv()
	}
	if status.Convert(err).Message() != "etcdserver: no leader" {
		t.Errorf("watch that begins without a leader: %v", err)
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
	if _, err := kv.Put(context.Background(), putRequest); status.Convert(err).Message() != "etcdserver: request timed out" {
		t.Errorf("time-out: %v", err)
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
	result(&kvpart.DeleteResult{})
	_, _ = kv.DeleteRange(ctx, &pb.DeleteRangeRequest{Key: []byte("a")})
	result(&kvpart.CompactResult{})
	_, _ = kv.Compact(ctx, &pb.CompactionRequest{Revision: 1})
	result(&kvpart.GrantResult{})
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
