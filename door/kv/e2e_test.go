package kv_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	epb "go.etcd.io/etcd/server/v3/etcdserver/api/v3election/v3electionpb"
	lpb "go.etcd.io/etcd/server/v3/etcdserver/api/v3lock/v3lockpb"
	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	doorkv "github.com/holdfastdb/holdfast/door/kv"
	"github.com/holdfastdb/holdfast/etcddata"
	"github.com/holdfastdb/holdfast/etcdfile"
	"github.com/holdfastdb/holdfast/internal/certtest"
	"github.com/holdfastdb/holdfast/machine"
	metcd2 "github.com/holdfastdb/holdfast/machine/etcd2"
	mkv "github.com/holdfastdb/holdfast/machine/kv"
	"github.com/holdfastdb/holdfast/node"
	"github.com/holdfastdb/holdfast/worker/lease"
)

// server is one member with the door and the lease worker, in this process.
type server struct {
	node *node.Node
	kv   *mkv.Machine
	door *doorkv.Door
	addr string
	stop func()
}

// serve starts a cluster of one that ends with the test.
func serve(t testing.TB, opts doorkv.Options) *server {
	t.Helper()
	s := start(t, opts, node.StartOptions{Name: "n1"})
	s.ready(t)
	return s
}

// serveThree starts a cluster of three.
func serveThree(t testing.TB, opts doorkv.Options) []*server {
	t.Helper()
	peers, held := map[string]string{}, make([]net.Listener, 3)
	for i := range 3 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		held[i] = l // until all are known: the system may give a closed one's port again
		peers[fmt.Sprintf("n%d", i+1)] = l.Addr().String()
	}
	for _, l := range held {
		l.Close()
	}
	servers := make([]*server, 3)
	var wg sync.WaitGroup
	for i := range servers {
		name := fmt.Sprintf("n%d", i+1)
		wg.Add(1)
		go func() {
			defer wg.Done()
			servers[i] = start(t, opts, node.StartOptions{Name: name, PeerAddr: peers[name], Peers: peers})
		}()
	}
	wg.Wait()
	for _, s := range servers {
		if s == nil {
			t.FailNow()
		}
		s.ready(t)
	}
	return servers
}

func start(t testing.TB, opts doorkv.Options, how node.StartOptions) *server {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	keys, nodes, dir := mkv.New(mkv.Options{}), metcd2.New(metcd2.Options{}), t.TempDir()
	n, err := node.Start(ctx, node.Config{Dir: dir, Machines: []machine.Machine{keys, nodes}, Lanes: []node.LaneSpec{{Number: doorkv.Lane, Name: "kv"}},
		Logger: slog.New(slog.DiscardHandler)}, how)
	if err != nil {
		t.Errorf("start %s: %v", how.Name, err)
		return nil
	}
	w := lease.New(n, keys)
	worked := make(chan struct{})
	go func() { defer close(worked); w.Run() }()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Errorf("listen: %v", err)
		return nil
	}
	opts.SaveEtcd = etcddata.NewSaver(n, nil, dir).Save
	s := &server{node: n, kv: keys, door: doorkv.New(n, keys, nodes.Stats(), opts), addr: l.Addr().String()}
	served := make(chan error, 1)
	go func() { served <- s.door.Serve(l) }()
	s.stop = sync.OnceFunc(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := s.door.Shutdown(ctx); err != nil {
			t.Errorf("shutdown: %v", err)
		}
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
		n.Stop()
		<-worked
	})
	t.Cleanup(s.stop)
	return s
}

func (s *server) ready(t testing.TB) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !s.node.Status().Ready; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("member not ready after 20 s")
		}
	}
}

func (s *server) client(t testing.TB) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{s.addr}, DialTimeout: 5 * time.Second, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// must unwraps the two results of a call: must(c.Get(ctx, "a"))(t).
func must[T any](v T, err error) func(t testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func put(t testing.TB, c *clientv3.Client, key, value string, opts ...clientv3.OpOption) int64 {
	t.Helper()
	return must(c.Put(context.Background(), key, value, opts...))(t).Header.Revision
}

// wantError compares an error with one of etcd's, by code and text, as clients do.
func wantError(t testing.TB, what string, got, want error) {
	t.Helper()
	if got == nil || status.Convert(rpctypes.Error(want)).Message() != status.Convert(rpctypes.Error(got)).Message() {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

func TestPutRangeDelete(t *testing.T) {
	t.Parallel()
	s := serve(t, doorkv.Options{})
	c, ctx := s.client(t), context.Background()
	first := must(c.Put(ctx, "a", "1"))(t)
	if h := first.Header; h.Revision != 2 || h.ClusterId == 0 || h.MemberId == 0 || h.RaftTerm == 0 {
		t.Errorf("header %v", h)
	}
	second := must(c.Put(ctx, "a", "2", clientv3.WithPrevKV()))(t)
	if second.PrevKv == nil || string(second.PrevKv.Value) != "1" || second.PrevKv.ModRevision != 2 {
		t.Errorf("previous value %v", second.PrevKv)
	}
	for i := range 10 {
		put(t, c, fmt.Sprintf("k%d", i), strings.Repeat("v", i*1000))
	}
	all := must(c.Get(ctx, "k", clientv3.WithPrefix(), clientv3.WithLimit(3)))(t)
	if len(all.Kvs) != 3 || !all.More || all.Count != 10 {
		t.Errorf("%d keys, more %v, count %d", len(all.Kvs), all.More, all.Count)
	}
	last := must(c.Get(ctx, "k", clientv3.WithLastRev()...))(t)
	if len(last.Kvs) != 1 || string(last.Kvs[0].Key) != "k9" || len(last.Kvs[0].Value) != 9000 {
		t.Errorf("last written: %v", last.Kvs)
	}
	old := must(c.Get(ctx, "a", clientv3.WithRev(2)))(t)
	if string(old.Kvs[0].Value) != "1" || old.Header.Revision != 13 {
		t.Errorf("at revision 2: %v", old)
	}
	del := must(c.Delete(ctx, "k", clientv3.WithPrefix(), clientv3.WithPrevKV()))(t)
	if del.Deleted != 10 || len(del.PrevKvs) != 10 || del.Header.Revision != 14 {
		t.Errorf("deleted %d, %d previous values, revision %d", del.Deleted, len(del.PrevKvs), del.Header.Revision)
	}
	if del := must(c.Delete(ctx, "nothing"))(t); del.Deleted != 0 || del.Header.Revision != 14 {
		t.Errorf("deleting nothing: %v", del)
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	s := serve(t, doorkv.Options{MaxResultBytes: 100_000})
	c, ctx := s.client(t), context.Background()
	kv := pb.NewKVClient(c.ActiveConnection())
	key := []byte("k")
	_, err := kv.Put(ctx, &pb.PutRequest{})
	wantError(t, "put without key", err, rpctypes.ErrGRPCEmptyKey)
	_, err = kv.Put(ctx, &pb.PutRequest{Key: key, Value: key, IgnoreValue: true})
	wantError(t, "value with ignore_value", err, rpctypes.ErrGRPCValueProvided)
	_, err = kv.Put(ctx, &pb.PutRequest{Key: key, IgnoreValue: true})
	wantError(t, "ignore_value of a key that is not there", err, rpctypes.ErrGRPCKeyNotFound)
	_, err = kv.Put(ctx, &pb.PutRequest{Key: key, Lease: 99})
	wantError(t, "lease that is not there", err, rpctypes.ErrGRPCLeaseNotFound)
	_, err = kv.Put(ctx, &pb.PutRequest{Key: key, Value: make([]byte, 1700<<10)})
	wantError(t, "too large", err, rpctypes.ErrGRPCRequestTooLarge)
	_, err = kv.Range(ctx, &pb.RangeRequest{})
	wantError(t, "range without key", err, rpctypes.ErrGRPCEmptyKey)
	_, err = kv.Range(ctx, &pb.RangeRequest{Key: key, SortOrder: 5})
	wantError(t, "sort order", err, rpctypes.ErrGRPCInvalidSortOption)
	_, err = kv.Range(ctx, &pb.RangeRequest{Key: key, Revision: 1000})
	wantError(t, "future revision", err, rpctypes.ErrGRPCFutureRev)
	_, err = kv.DeleteRange(ctx, &pb.DeleteRangeRequest{})
	wantError(t, "delete without key", err, rpctypes.ErrGRPCEmptyKey)
	_, err = c.Compact(ctx, 1000)
	wantError(t, "compact the future", err, rpctypes.ErrGRPCFutureRev)
	_, err = c.Txn(ctx).Then(clientv3.OpPut("a", ""), clientv3.OpPut("a", "")).Commit()
	wantError(t, "key twice", err, rpctypes.ErrGRPCDuplicateKey)
	_, err = c.Txn(ctx).Then(clientv3.OpDelete("b", clientv3.WithFromKey()), clientv3.OpPut("b/3", "", clientv3.WithIgnoreValue())).Commit()
	wantError(t, "ignore_value of a key deleted before", err, rpctypes.ErrGRPCKeyNotFound)
	_, err = c.Grant(ctx, 9_000_000_001)
	wantError(t, "ttl", err, rpctypes.ErrGRPCLeaseTTLTooLarge)
	_, err = c.Revoke(ctx, 99)
	wantError(t, "revoke a lease that is not there", err, rpctypes.ErrGRPCLeaseNotFound)
	_, err = pb.NewClusterClient(c.ActiveConnection()).MemberAdd(ctx, &pb.MemberAddRequest{PeerURLs: []string{"nonsense"}})
	wantError(t, "urls", err, rpctypes.ErrGRPCMemberBadURLs)
	_, err = c.MemberRemove(ctx, 12345)
	wantError(t, "member", err, rpctypes.ErrGRPCMemberNotFound)
	if st := must(c.AuthStatus(ctx))(t); st.Enabled {
		t.Error("auth is enabled")
	}

	for i := range 3 {
		put(t, c, fmt.Sprintf("big%d", i), strings.Repeat("v", 50_000))
	}
	_, err = c.Get(ctx, "big", clientv3.WithPrefix())
	if status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "RangeStream") {
		t.Errorf("range over the budget: %v", err)
	}
	stream := must(kv.RangeStream(ctx, &pb.RangeRequest{Key: []byte("big"), RangeEnd: []byte("bih")}))(t)
	var got pb.RangeResponse
	for {
		m, err := stream.Recv()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if got.Header != nil {
			t.Error("a chunk after the header")
		}
		got.Kvs = append(got.Kvs, m.RangeResponse.Kvs...)
		got.Header, got.Count = m.RangeResponse.Header, m.RangeResponse.Count
	}
	if len(got.Kvs) != 3 || got.Count != 3 || got.Header == nil || got.Header.Revision == 0 {
		t.Errorf("stream: %d keys, count %d, header %v", len(got.Kvs), got.Count, got.Header)
	}
}

func TestTxn(t *testing.T) {
	t.Parallel()
	s := serve(t, doorkv.Options{})
	c, ctx := s.client(t), context.Background()
	put(t, c, "a", "1")
	res := must(c.Txn(ctx).If(clientv3.Compare(clientv3.Value("a"), "=", "1"), clientv3.Compare(clientv3.Version("b"), "=", 0)).
		Then(clientv3.OpGet("a"), clientv3.OpPut("a", "2", clientv3.WithPrevKV()),
			clientv3.OpTxn([]clientv3.Cmp{clientv3.Compare(clientv3.Value("a"), "=", "9")}, nil,
				[]clientv3.Op{clientv3.OpPut("b", "3"), clientv3.OpGet("a")})).
		Else(clientv3.OpDelete("a")).Commit())(t)
	if !res.Succeeded || res.Header.Revision != 3 || len(res.Responses) != 3 {
		t.Fatalf("%v", res)
	}
	if r := res.Responses[0].GetResponseRange(); r.Header.Revision != 2 || string(r.Kvs[0].Value) != "1" {
		t.Errorf("get before the write: %v", r)
	}
	if r := res.Responses[1].GetResponsePut(); r.Header.Revision != 3 || string(r.PrevKv.Value) != "1" {
		t.Errorf("put: %v", r)
	}
	inner := res.Responses[2].GetResponseTxn()
	if inner.Succeeded || len(inner.Responses) != 2 || string(inner.Responses[1].GetResponseRange().Kvs[0].Value) != "2" {
		t.Errorf("nested: %v", inner)
	}
	// A Txn that only reads.
	read := must(c.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision("b"), "=", 3)).Then(clientv3.OpGet("a"), clientv3.OpGet("a", clientv3.WithRev(2))).Commit())(t)
	if !read.Succeeded || read.Header.Revision != 3 ||
		string(read.Responses[0].GetResponseRange().Kvs[0].Value) != "2" || string(read.Responses[1].GetResponseRange().Kvs[0].Value) != "1" {
		t.Errorf("read only: %v", read)
	}
	_, err := c.Txn(ctx).Then(clientv3.OpGet("a", clientv3.WithRev(100))).Commit()
	wantError(t, "read of the future", err, rpctypes.ErrGRPCFutureRev)
	if empty := must(c.Txn(ctx).Commit())(t); !empty.Succeeded || empty.Header.Revision != 3 {
		t.Errorf("empty: %v", empty)
	}
}

func TestCompactAndHash(t *testing.T) {
	t.Parallel()
	s := serve(t, doorkv.Options{})
	c, ctx := s.client(t), context.Background()
	for i := range 20 {
		put(t, c, "a", fmt.Sprint(i))
	}
	before := must(c.HashKV(ctx, s.addr, 15))(t)
	must(c.Compact(ctx, 15, clientv3.WithCompactPhysical()))(t)
	if got := s.kv.Scrubbed(); got != 15 {
		t.Errorf("answered with history dropped up to %d, not 15", got)
	}
	after := must(c.HashKV(ctx, s.addr, 15))(t)
	if before.Hash != after.Hash || after.CompactRevision != 15 || after.HashRevision != 15 {
		t.Errorf("hash %d before, %d after; %v", before.Hash, after.Hash, after)
	}
	_, err := c.Get(ctx, "a", clientv3.WithRev(14))
	wantError(t, "read compacted", err, rpctypes.ErrGRPCCompacted)
	_, err = c.Compact(ctx, 15)
	wantError(t, "compact twice", err, rpctypes.ErrGRPCCompacted)
	w := <-c.Watch(ctx, "a", clientv3.WithRev(3))
	if w.CompactRevision != 15 || w.Err() != rpctypes.ErrCompacted {
		t.Errorf("watch of compacted history: %+v", w)
	}
}

// events reads n events from a watch.
func events(t testing.TB, ch clientv3.WatchChan, n int) (evs []*clientv3.Event) {
	t.Helper()
	deadline := time.After(10 * time.Second)
	for len(evs) < n {
		select {
		case r, ok := <-ch:
			if !ok || r.Err() != nil {
				t.Fatalf("watch ended: %v", r.Err())
			}
			evs = append(evs, r.Events...)
		case <-deadline:
			t.Fatalf("%d events after 10 s, want %d", len(evs), n)
		}
	}
	return evs
}

func TestWatch(t *testing.T) {
	t.Parallel()
	s := serve(t, doorkv.Options{ProgressInterval: 200 * time.Millisecond})
	c := s.client(t)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	put(t, c, "a", "1")
	put(t, c, "a", "2")
	past := c.Watch(ctx, "a", clientv3.WithRev(2), clientv3.WithPrevKV())
	evs := events(t, past, 2)
	if string(evs[0].Kv.Value) != "1" || evs[0].PrevKv != nil || string(evs[1].Kv.Value) != "2" || string(evs[1].PrevKv.Value) != "1" {
		t.Errorf("history: %v", evs)
	}
	must(c.Delete(ctx, "a"))(t)
	evs = events(t, past, 1)
	if evs[0].Type != mvccpb.DELETE || evs[0].Kv.ModRevision != 4 || string(evs[0].PrevKv.Value) != "2" {
		t.Errorf("delete: %v", evs[0])
	}

	// One response holds all of a revision, and filters leave out their kind.
	prefix := c.Watch(ctx, "p", clientv3.WithPrefix(), clientv3.WithCreatedNotify())
	if r := <-prefix; !r.Created || r.Header.Revision != 4 {
		t.Errorf("created: %+v", r)
	}
	onlyDeletes := c.Watch(ctx, "p", clientv3.WithPrefix(), clientv3.WithFilterPut(), clientv3.WithCreatedNotify())
	<-onlyDeletes
	must(c.Txn(ctx).Then(clientv3.OpPut("p1", ""), clientv3.OpPut("x", ""), clientv3.OpPut("p2", ""), clientv3.OpPut("p3", "")).Commit())(t)
	if r := <-prefix; len(r.Events) != 3 || r.Header.Revision != 5 {
		t.Errorf("%d events of one revision, header %d", len(r.Events), r.Header.Revision)
	}
	must(c.Delete(ctx, "p2"))(t)
	if evs := events(t, onlyDeletes, 1); evs[0].Type != mvccpb.DELETE || string(evs[0].Kv.Key) != "p2" {
		t.Errorf("only deletes: %v", evs)
	}

	// Progress, asked for and by itself.
	quiet := c.Watch(ctx, "quiet", clientv3.WithProgressNotify(), clientv3.WithCreatedNotify())
	<-quiet
	if r := <-quiet; !r.IsProgressNotify() || r.Header.Revision != 6 {
		t.Errorf("progress by itself: %+v", r)
	}
	asked := clientv3.WithRequireLeader(ctx)
	w := c.Watch(asked, "quiet2", clientv3.WithCreatedNotify())
	<-w
	rev := put(t, c, "y", "")
	if err := c.RequestProgress(asked); err != nil {
		t.Fatal(err)
	}
	if r := <-w; !r.IsProgressNotify() || r.Header.Revision != rev {
		t.Errorf("progress asked for at %d: %+v", rev, r)
	}

	// A watch has no progress to tell before the revision it was asked to begin at, not even the one right before it.
	atNext := clientv3.WithRequireLeader(metadata.AppendToOutgoingContext(ctx, "stream", "of its own"))
	next := c.Watch(atNext, "quiet3", clientv3.WithRev(rev+1), clientv3.WithProgressNotify(), clientv3.WithCreatedNotify())
	<-next
	if err := c.RequestProgress(atNext); err != nil {
		t.Fatal(err)
	}
	select {
	case r := <-next:
		t.Errorf("told of %d, asked to begin at %d", r.Header.Revision, rev+1)
	case <-time.After(500 * time.Millisecond): // two intervals
	}
	rev = put(t, c, "y", "")
	if r := <-next; !r.IsProgressNotify() || r.Header.Revision != rev {
		t.Errorf("progress at %d: %+v", rev, r)
	}

	// From a revision that is not there yet.
	future := c.Watch(ctx, "f", clientv3.WithRev(rev+2))
	put(t, c, "f", "too early")
	put(t, c, "f", "now")
	if evs := events(t, future, 1); string(evs[0].Kv.Value) != "now" {
		t.Errorf("future: %v", evs)
	}
}

// TestWatchWire looks at answers the client library hides.
func TestWatchWire(t *testing.T) {
	t.Parallel()
	s := serve(t, doorkv.Options{})
	c := s.client(t)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	stream := must(pb.NewWatchClient(c.ActiveConnection()).Watch(ctx))(t)
	create := func(r *pb.WatchCreateRequest) *pb.WatchResponse {
		t.Helper()
		if err := stream.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: r}}); err != nil {
			t.Fatal(err)
		}
		return must(stream.Recv())(t)
	}
	if r := create(&pb.WatchCreateRequest{Key: []byte("a"), WatchId: 7}); r.WatchId != 7 || !r.Created || r.Canceled {
		t.Errorf("chosen id: %v", r)
	}
	if r := create(&pb.WatchCreateRequest{Key: []byte("a"), WatchId: 7}); r.WatchId != -1 || !r.Created || !r.Canceled || r.CancelReason == "" {
		t.Errorf("id twice: %v", r)
	}
	if r := create(&pb.WatchCreateRequest{Key: []byte("b"), RangeEnd: []byte("a")}); r.WatchId != -1 || !r.Canceled {
		t.Errorf("inverted range: %v", r)
	}
	if r := create(&pb.WatchCreateRequest{Key: []byte("a"), StartRevision: -1}); r.WatchId != -1 || !r.Canceled || r.CancelReason != rpctypes.ErrCompacted.Error() {
		t.Errorf("negative revision: %v", r)
	}
	if r := create(&pb.WatchCreateRequest{RangeEnd: []byte{0}, Fragment: true}); r.WatchId != 0 || r.Canceled {
		t.Errorf("everything: %v", r)
	}
	cancelID := &pb.WatchRequest{RequestUnion: &pb.WatchRequest_CancelRequest{CancelRequest: &pb.WatchCancelRequest{WatchId: 7}}}
	if err := stream.Send(cancelID); err != nil {
		t.Fatal(err)
	}
	if r := must(stream.Recv())(t); r.WatchId != 7 || !r.Canceled || r.Created {
		t.Errorf("cancel: %v", r)
	}
	// A revision larger than a message comes in fragments, of which the last says so.
	var ops []clientv3.Op
	value := strings.Repeat("v", 1<<20)
	keys := []string{}
	for i := range 4 {
		keys = append(keys, fmt.Sprintf("k%d", i))
		put(t, c, keys[i], value)
		ops = append(ops, clientv3.OpPut(keys[i], "", clientv3.WithIgnoreValue()))
	}
	for range keys {
		must(stream.Recv())(t)
	}
	must(c.Txn(ctx).Then(ops...).Commit())(t)
	var got []string
	for {
		r := must(stream.Recv())(t)
		for _, e := range r.Events {
			got = append(got, string(e.Kv.Key))
		}
		if !r.Fragment {
			break
		}
	}
	if !slices.Equal(got, keys) {
		t.Errorf("fragments held %v", got)
	}
}

func TestManyWatchersOfOneKey(t *testing.T) {
	t.Parallel()
	s := serve(t, doorkv.Options{})
	c, ctx := s.client(t), context.Background()
	const watchers, writes = 500, 50
	var ready, done sync.WaitGroup
	for i := range watchers {
		ready.Add(1)
		done.Add(1)
		go func() {
			defer done.Done()
			// A few streams, many watches on each.
			wctx := clientv3.WithRequireLeader(context.WithValue(ctx, struct{ int }{i % 5}, 0))
			ch := c.Watch(wctx, "hot", clientv3.WithCreatedNotify())
			<-ch
			ready.Done()
			for j, e := range events(t, ch, writes) {
				if string(e.Kv.Value) != fmt.Sprint(j) {
					t.Errorf("watcher %d event %d: %s", i, j, e.Kv.Value)
					return
				}
			}
		}()
	}
	ready.Wait()
	for j := range writes {
		put(t, c, "hot", fmt.Sprint(j))
	}
	done.Wait()
}

// TestLeasesAreBoundedByMemory: every member has all leases in memory, and anybody may ask for one.
func TestLeasesAreBoundedByMemory(t *testing.T) {
	t.Parallel()
	s := serve(t, doorkv.Options{MaxLeaseBytes: 10 * 128})
	c, ctx := s.client(t), context.Background()
	var last clientv3.LeaseID
	for range 5 {
		must(c.Grant(ctx, 9_000_000_000))(t)
	}
	_, err := c.Grant(ctx, 3601)
	if status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "there are 5 of 10; from half on each has 3600 s at most") {
		t.Errorf("a long one: %v", err)
	}
	for range 5 {
		last = must(c.Grant(ctx, 1000))(t).ID
	}
	_, err = c.Grant(ctx, 1000)
	if status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "too many leases: there are 10") {
		t.Errorf("the eleventh: %v", err)
	}
	must(c.Revoke(ctx, last))(t)
	must(c.Grant(ctx, 1000))(t)
}

func TestLeases(t *testing.T) {
	t.Parallel()
	s := serve(t, doorkv.Options{})
	c := s.client(t)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	short := must(c.Grant(ctx, 1))(t)
	if short.TTL != 2 || short.ID <= 0 {
		t.Errorf("short lease: %v", short)
	}
	kept := must(c.Grant(ctx, 2))(t)
	gone := put(t, c, "gone", "", clientv3.WithLease(short.ID))
	put(t, c, "kept", "", clientv3.WithLease(kept.ID))
	alive := must(c.KeepAlive(ctx, kept.ID))(t)
	go func() {
		for range alive {
		}
	}()
	if ls := must(c.Leases(ctx))(t); len(ls.Leases) != 2 {
		t.Errorf("leases: %v", ls.Leases)
	}
	ttl := must(c.TimeToLive(ctx, kept.ID, clientv3.WithAttachedKeys()))(t)
	if ttl.GrantedTTL != 2 || ttl.TTL > 2 || ttl.TTL < 0 || len(ttl.Keys) != 1 || string(ttl.Keys[0]) != "kept" {
		t.Errorf("time to live: %+v", ttl)
	}
	w := c.Watch(ctx, "gone", clientv3.WithRev(gone+1))
	start := time.Now()
	if evs := events(t, w, 1); evs[0].Type != mvccpb.DELETE {
		t.Errorf("%v", evs)
	}
	if took := time.Since(start); took < time.Second || took > 10*time.Second {
		t.Errorf("a lease of 2 s ran out after %v", took)
	}
	time.Sleep(2 * time.Second)
	if got := must(c.Get(ctx, "kept"))(t); len(got.Kvs) != 1 || got.Kvs[0].Lease != int64(kept.ID) {
		t.Errorf("a kept lease ran out: %v", got.Kvs)
	}
	if once := must(c.KeepAliveOnce(ctx, kept.ID))(t); once.TTL != 2 {
		t.Errorf("keep alive: %v", once)
	}
	_, err := c.KeepAliveOnce(ctx, short.ID)
	wantError(t, "keep alive of a lease that is gone", err, rpctypes.ErrGRPCLeaseNotFound)
	if ttl := must(c.TimeToLive(ctx, short.ID))(t); ttl.TTL != -1 {
		t.Errorf("time to live of a lease that is gone: %+v", ttl)
	}
	must(c.Revoke(ctx, kept.ID))(t)
	if got := must(c.Get(ctx, "kept"))(t); len(got.Kvs) != 0 {
		t.Errorf("a revoked lease left %v", got.Kvs)
	}
	_, err = c.Grant(ctx, 10)
	if err != nil {
		t.Error(err)
	}
	lc := pb.NewLeaseClient(c.ActiveConnection())
	must(lc.LeaseGrant(ctx, &pb.LeaseGrantRequest{ID: 77, TTL: 60}))(t)
	_, err = lc.LeaseGrant(ctx, &pb.LeaseGrantRequest{ID: 77, TTL: 60})
	wantError(t, "lease twice", err, rpctypes.ErrGRPCLeaseExist)
}

func TestQuota(t *testing.T) {
	t.Parallel()
	s := serve(t, doorkv.Options{QuotaBytes: 20 << 10})
	c, ctx := s.client(t), context.Background()
	value := strings.Repeat("v", 4<<10)
	var err error
	var last int64
	for range 20 {
		var r *clientv3.PutResponse
		if r, err = c.Put(ctx, "a", value); err != nil {
			break
		}
		last = r.Header.Revision
	}
	wantError(t, "full", err, rpctypes.ErrGRPCNoSpace)
	if alarms := must(c.AlarmList(ctx))(t); len(alarms.Alarms) != 1 || alarms.Alarms[0].Alarm != pb.AlarmType_NOSPACE {
		t.Errorf("alarms: %v", alarms.Alarms)
	}
	if st := must(c.Status(ctx, s.addr))(t); len(st.Errors) != 1 || st.DbSizeQuota != 20<<10 || st.DbSize == 0 {
		t.Errorf("status: %v", st)
	}
	_, err = c.Grant(ctx, 10)
	wantError(t, "lease", err, rpctypes.ErrGRPCNoSpace)
	_, err = c.Txn(ctx).Then(clientv3.OpPut("b", "")).Commit()
	wantError(t, "txn", err, rpctypes.ErrGRPCNoSpace)
	must(c.Txn(ctx).Then(clientv3.OpDelete("b")).Commit())(t)
	must(c.Delete(ctx, "b"))(t)
	must(c.Compact(ctx, last))(t)
	must(c.Defragment(ctx, s.addr))(t)
	must(c.AlarmDisarm(ctx, &clientv3.AlarmMember{}))(t)
	put(t, c, "a", "room again")
	if alarms := must(c.AlarmList(ctx))(t); len(alarms.Alarms) != 0 {
		t.Errorf("alarms: %v", alarms.Alarms)
	}
}

// TestAnEmptyServerHasASizeAndAHash: clients check that they are not 0, and JSON leaves zeros out.
func TestAnEmptyServerHasASizeAndAHash(t *testing.T) {
	t.Parallel()
	s := serve(t, doorkv.Options{})
	c, ctx := s.client(t), context.Background()
	if st := must(c.Status(ctx, s.addr))(t); st.DbSize <= 0 || st.DbSizeInUse != st.DbSize {
		t.Errorf("an empty server: %d bytes, %d in use", st.DbSize, st.DbSizeInUse)
	}
	if h := must(c.HashKV(ctx, s.addr, 0))(t); h.Hash == 0 {
		t.Error("the hash of nothing is 0")
	}
	if h := must(pb.NewMaintenanceClient(c.ActiveConnection()).Hash(ctx, &pb.HashRequest{}))(t); h.Hash == 0 {
		t.Error("the hash of everything is 0")
	}
	var last int64
	for i := range 10 {
		put(t, c, "a", strings.Repeat("v", 100*i))
		put(t, c, "b", "v")
		last = must(c.Delete(ctx, "b"))(t).Header.Revision
	}
	full := must(c.Status(ctx, s.addr))(t).DbSize
	must(c.Compact(ctx, last, clientv3.WithCompactPhysical()))(t)
	must(c.Defragment(ctx, s.addr))(t)
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		st := must(c.Status(ctx, s.addr))(t)
		if st.DbSizeInUse != st.DbSize {
			t.Fatalf("%d of %d bytes are in use: nothing here waits for a defragmentation", st.DbSizeInUse, st.DbSize)
		}
		if st.DbSize < full-3000 { // the older values of a
			break
		}
		if time.Now().After(end) {
			t.Fatalf("without history: %d bytes, with it %d", st.DbSize, full)
		}
	}
}

func TestStatusMembersHealth(t *testing.T) {
	t.Parallel()
	s := serve(t, doorkv.Options{})
	c, ctx := s.client(t), context.Background()
	put(t, c, "a", "1")
	st := must(c.Status(ctx, s.addr))(t)
	if st.Version != "3.7.3" || st.StorageVersion != "3.7.0" || st.Leader != st.Header.MemberId || st.RaftIndex == 0 ||
		st.RaftAppliedIndex == 0 || st.RaftTerm == 0 || st.IsLearner || st.DbSizeQuota != 2<<30 || len(st.Errors) != 0 {
		t.Errorf("status: %v", st)
	}
	ms := must(c.MemberList(ctx))(t)
	if len(ms.Members) != 1 || ms.Members[0].ID != st.Header.MemberId || ms.Members[0].Name != "n1" {
		t.Errorf("members: %v", ms.Members)
	}
	if h := must(healthpb.NewHealthClient(c.ActiveConnection()).Check(ctx, &healthpb.HealthCheckRequest{}))(t); h.Status != healthpb.HealthCheckResponse_SERVING {
		t.Errorf("health: %v", h)
	}
	_, err := c.MoveLeader(ctx, 12345)
	wantError(t, "move leader", err, rpctypes.ErrGRPCBadLeaderTransferee)
	_, err = c.Downgrade(ctx, clientv3.DowngradeEnable, "3.6")
	wantError(t, "downgrade", err, rpctypes.ErrGRPCInvalidDowngradeTargetVersion)
}

// What etcdctl saves is a database of etcd's with its SHA-256 behind.
func TestSnapshotIsEtcds(t *testing.T) {
	t.Parallel()
	s := serve(t, doorkv.Options{})
	c, ctx := s.client(t), context.Background()
	for i := range 50 {
		put(t, c, fmt.Sprint(i), strings.Repeat("v", 5000))
	}
	r := must(c.SnapshotWithVersion(ctx))(t)
	b := must(io.ReadAll(r.Snapshot))(t)
	if len(b)%512 != sha256.Size || r.Version != "3.7.0" {
		t.Fatalf("%d bytes, version %q", len(b), r.Version)
	}
	if sum := sha256.Sum256(b[:len(b)-sha256.Size]); !bytes.Equal(sum[:], b[len(b)-sha256.Size:]) {
		t.Error("the checksum does not fit")
	}
	file := filepath.Join(t.TempDir(), "db")
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	f := must(etcdfile.Open(file))(t)
	defer f.Close()
	if !f.SHA256 || f.Revision != 51 || f.Head.StorageVersion != "3.7.0" {
		t.Errorf("%+v", f)
	}
}

func TestLockExcludes(t *testing.T) {
	t.Parallel()
	s := serve(t, doorkv.Options{})
	c := s.client(t)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	lc := lpb.NewLockClient(c.ActiveConnection())
	first := must(lc.Lock(ctx, &lpb.LockRequest{Name: []byte("m")}))(t)
	if !strings.HasPrefix(string(first.Key), "m/") {
		t.Errorf("key %q", first.Key)
	}
	got := make(chan []byte, 1)
	grant := must(c.Grant(ctx, 30))(t)
	go func() {
		r, err := lc.Lock(ctx, &lpb.LockRequest{Name: []byte("m"), Lease: int64(grant.ID)})
		if err != nil {
			t.Error(err)
		}
		got <- r.GetKey()
	}()
	select {
	case <-got:
		t.Fatal("two hold the lock")
	case <-time.After(100 * time.Millisecond):
	}
	// A caller that gives up leaves nothing behind.
	short, stop := context.WithTimeout(ctx, 100*time.Millisecond)
	defer stop()
	if _, err := lc.Lock(short, &lpb.LockRequest{Name: []byte("m")}); err == nil {
		t.Error("two hold the lock")
	}
	must(lc.Unlock(ctx, &lpb.UnlockRequest{Key: first.Key}))(t)
	second := <-got
	// The client library's mutex waits for the same keys.
	session := must(concurrency.NewSession(c))(t)
	m := concurrency.NewMutex(session, "m")
	if err := m.TryLock(ctx); err != concurrency.ErrLocked {
		t.Errorf("the client's mutex: %v", err)
	}
	must(lc.Unlock(ctx, &lpb.UnlockRequest{Key: second}))(t)
	deadline := time.Now().Add(5 * time.Second)
	for m.TryLock(ctx) != nil {
		if time.Now().After(deadline) {
			t.Fatal("a caller that gave up still holds its place")
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func TestElection(t *testing.T) {
	t.Parallel()
	s := serve(t, doorkv.Options{})
	c := s.client(t)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	ec := epb.NewElectionClient(c.ActiveConnection())
	name := []byte("e")
	if _, err := ec.Leader(ctx, &epb.LeaderRequest{Name: name}); err == nil || !strings.Contains(err.Error(), "election: no leader") {
		t.Errorf("nobody elected: %v", err)
	}
	obs := must(ec.Observe(ctx, &epb.LeaderRequest{Name: name}))(t)
	first := must(ec.Campaign(ctx, &epb.CampaignRequest{Name: name, Value: []byte("one")}))(t)
	if r := must(obs.Recv())(t); string(r.Kv.Value) != "one" {
		t.Errorf("observed %v", r)
	}
	elected := make(chan *epb.CampaignResponse, 1)
	go func() {
		r, err := ec.Campaign(ctx, &epb.CampaignRequest{Name: name, Value: []byte("two")})
		if err != nil {
			t.Error(err)
		}
		elected <- r
	}()
	must(ec.Proclaim(ctx, &epb.ProclaimRequest{Leader: first.Leader, Value: []byte("one again")}))(t)
	if r := must(obs.Recv())(t); string(r.Kv.Value) != "one again" {
		t.Errorf("observed %v", r)
	}
	select {
	case <-elected:
		t.Fatal("two lead")
	case <-time.After(100 * time.Millisecond):
	}
	must(ec.Resign(ctx, &epb.ResignRequest{Leader: first.Leader}))(t)
	<-elected
	if r := must(obs.Recv())(t); string(r.Kv.Value) != "two" {
		t.Errorf("observed %v", r)
	}
	if _, err := ec.Proclaim(ctx, &epb.ProclaimRequest{Leader: first.Leader}); err == nil || !strings.Contains(err.Error(), "election: not leader") {
		t.Errorf("proclaiming after resigning: %v", err)
	}
	if r := must(ec.Leader(ctx, &epb.LeaderRequest{Name: name}))(t); string(r.Kv.Value) != "two" {
		t.Errorf("leader %v", r)
	}
}

// TestShutdownEndsStreams: open watches must not hold the door open.
func TestShutdownEndsStreams(t *testing.T) {
	t.Parallel()
	s := serve(t, doorkv.Options{})
	c := s.client(t)
	stream := must(pb.NewWatchClient(c.ActiveConnection()).Watch(context.Background()))(t)
	if err := stream.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: &pb.WatchCreateRequest{Key: []byte("a")}}}); err != nil {
		t.Fatal(err)
	}
	must(stream.Recv())(t)
	health := must(healthpb.NewHealthClient(c.ActiveConnection()).Watch(context.Background(), &healthpb.HealthCheckRequest{}))(t)
	must(health.Recv())(t)
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	if err := s.door.Shutdown(ctx); err != nil {
		t.Errorf("shutdown: %v", err)
	}
	_, err := stream.Recv()
	wantError(t, "watch", err, rpctypes.ErrGRPCStopped)
}

// TestThreeMembers: every member serves everything, whichever leads.
func TestThreeMembers(t *testing.T) {
	t.Parallel()
	servers := serveThree(t, doorkv.Options{})
	var clients []*clientv3.Client
	leader := -1
	for i, s := range servers {
		clients = append(clients, s.client(t))
		if st := s.node.Status(); st.Leader == st.MemberID {
			leader = i
		}
	}
	if leader < 0 {
		t.Fatal("nobody leads")
	}
	a, b := clients[(leader+1)%3], clients[(leader+2)%3]
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()

	w := a.Watch(clientv3.WithRequireLeader(ctx), "w", clientv3.WithPrefix())
	grant := must(a.Grant(ctx, 3))(t)
	alive := must(a.KeepAlive(ctx, grant.ID))(t)
	go func() {
		for range alive {
		}
	}()
	must(b.Put(ctx, "leased", "", clientv3.WithLease(grant.ID)))(t)
	short := must(b.Grant(ctx, 2))(t)
	must(a.Put(ctx, "w/short", "", clientv3.WithLease(short.ID)))(t)
	for i := range 50 {
		value := fmt.Sprint(i)
		rev := put(t, a, "w/a", value)
		// What one member acknowledged, every other reads.
		for _, c := range clients {
			got := must(c.Get(ctx, "w/a"))(t)
			if string(got.Kvs[0].Value) != value || got.Header.Revision < rev {
				t.Fatalf("read %s at revision %d after %s at %d", got.Kvs[0].Value, got.Header.Revision, value, rev)
			}
		}
	}
	if ttl := must(b.TimeToLive(ctx, grant.ID, clientv3.WithAttachedKeys()))(t); ttl.TTL < 1 || ttl.GrantedTTL != 3 || len(ttl.Keys) != 1 {
		t.Errorf("time to live asked of a follower: %+v", ttl)
	}
	evs := events(t, w, 52)
	ended := false
	for i, e := range evs {
		ended = ended || string(e.Kv.Key) == "w/short" && e.Type == mvccpb.DELETE
		if i > 0 && e.Kv.ModRevision <= evs[i-1].Kv.ModRevision {
			t.Errorf("event %d out of order", i)
		}
	}
	if !ended { // where among the puts depends on how fast they were
		t.Errorf("the end of the short lease is not among the events")
	}

	// The leader goes; the others carry on, and kept leases live.
	hashes := map[uint32]bool{}
	rev := must(a.Get(ctx, "w/a"))(t).Header.Revision
	for i, c := range clients {
		must(c.Get(ctx, "w/a"))(t)
		hashes[must(c.HashKV(ctx, servers[i].addr, rev))(t).Hash] = true
	}
	if len(hashes) != 1 {
		t.Errorf("members differ: %v", hashes)
	}
	must(clients[leader].MoveLeader(ctx, servers[(leader+1)%3].node.Status().MemberID))(t)
	servers[leader].stop()
	deadline := time.Now().Add(10 * time.Second)
	for {
		pctx, done := context.WithTimeout(ctx, 2*time.Second)
		_, err := b.Put(pctx, "w/b", "")
		done()
		if err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("no writes 10 s after the leader went: %v", err)
		}
	}
	events(t, w, 1)
	time.Sleep(4 * time.Second)
	if got := must(b.Get(ctx, "leased"))(t); len(got.Kvs) != 1 {
		t.Error("a kept lease ran out with the change of leader")
	}
}

func TestTLSWithClientCertificates(t *testing.T) {
	t.Parallel()
	ca := certtest.NewAuthority("test")
	s := serve(t, doorkv.Options{TLS: ca.Server()})
	dial := func(certs ...tls.Certificate) error {
		c, err := clientv3.New(clientv3.Config{
			Endpoints: []string{s.addr}, Logger: zap.NewNop(), TLS: ca.Config(certs...),
		})
		if err != nil {
			return err
		}
		defer c.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		_, err = c.Put(ctx, "a", "1")
		return err
	}
	if err := dial(ca.Issue("client")); err != nil {
		t.Errorf("with a certificate: %v", err)
	}
	if err := dial(); err == nil {
		t.Error("a client without a certificate was served")
	}
}
