package kv_test

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	epb "go.etcd.io/etcd/server/v3/etcdserver/api/v3election/v3electionpb"
	lpb "go.etcd.io/etcd/server/v3/etcdserver/api/v3lock/v3lockpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	doorkv "github.com/holdfastdb/holdfast/doors/kv"
	"github.com/holdfastdb/holdfast/internal/wait"
)

// TestLeasesAreBoundedByMemory: every member has all leases in memory, and any client may ask for one.
func TestLeasesAreBoundedByMemory(t *testing.T) {
	t.Parallel()
	s := serve(t, doorkv.Options{MaxLeaseBytes: func() int64 { return 10 * 128 }})
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
	start := time.Now()
	short := must(c.Grant(ctx, 1))(t)
	if short.TTL != 2 || short.ID <= 0 {
		t.Errorf("short lease: %v", short)
	}
	const keep = 6 // seconds; kept alive every two
	kept := must(c.Grant(ctx, keep))(t)
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
	if ttl.GrantedTTL != keep || ttl.TTL > keep || ttl.TTL < 0 || len(ttl.Keys) != 1 || string(ttl.Keys[0]) != "kept" {
		t.Errorf("time to live: %+v", ttl)
	}
	w := c.Watch(ctx, "gone", clientv3.WithRev(gone+1))
	if evs := events(t, w, 1); evs[0].Type != mvccpb.DELETE {
		t.Errorf("%v", evs)
	}
	if took := time.Since(start); took < 2*time.Second {
		t.Errorf("a lease of 2 s ran out after %v", took)
	}
	time.Sleep(time.Until(start.Add((keep + 2) * time.Second)))
	if got := must(c.Get(ctx, "kept"))(t); len(got.Kvs) != 1 || got.Kvs[0].Lease != int64(kept.ID) {
		t.Errorf("a kept lease ran out: %v", got.Kvs)
	}
	if once := must(c.KeepAliveOnce(ctx, kept.ID))(t); once.TTL != keep {
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

// TestKeepAlivesAreAnsweredInOrder: of one stream, whether the member is alone and answers at once or asks others, and whether clients say who
// they are. A client that has ended its side gets all of its answers.
func TestKeepAlivesAreAnsweredInOrder(t *testing.T) {
	t.Parallel()
	ask := func(t *testing.T, s *server, users bool) {
		c, ctx := s.client(t), context.Background()
		var ids []int64
		for range 10 {
			ids = append(ids, int64(must(c.Grant(ctx, 1000))(t).ID))
		}
		ids = append(ids, 4711) // no such lease
		if users {
			must(c.RoleAdd(ctx, "root"))(t)
			must(c.UserAdd(ctx, "root", "pw"))(t)
			must(c.UserGrantRole(ctx, "root", "root"))(t)
			must(c.AuthEnable(ctx))(t)
			res := must(c.Authenticate(ctx, "root", "pw"))(t)
			ctx = metadata.AppendToOutgoingContext(ctx, "token", res.Token)
		}
		stream := must(pb.NewLeaseClient(c.ActiveConnection()).LeaseKeepAlive(ctx))(t)
		const n = 500
		for i := range n {
			if err := stream.Send(&pb.LeaseKeepAliveRequest{ID: ids[i%len(ids)]}); err != nil {
				t.Fatal(err)
			}
		}
		if err := stream.CloseSend(); err != nil {
			t.Fatal(err)
		}
		for i := range n {
			res := must(stream.Recv())(t)
			ttl := int64(1000)
			if i%len(ids) == len(ids)-1 {
				ttl = 0
			}
			if res.ID != ids[i%len(ids)] || res.TTL != ttl || res.Header.Revision != 1 || res.Header.RaftTerm == 0 {
				t.Fatalf("answer %d: %v, want lease %d with %d s", i, res, ids[i%len(ids)], ttl)
			}
		}
		if _, err := stream.Recv(); err != io.EOF {
			t.Errorf("behind the last answer: %v", err)
		}
	}
	t.Run("alone", func(t *testing.T) { ask(t, serve(t, doorkv.Options{}), false) })
	t.Run("users", func(t *testing.T) { ask(t, serve(t, doorkv.Options{}), true) })
	t.Run("three", func(t *testing.T) { ask(t, serveThree(t, doorkv.Options{})[0], false) })
}

// TestAKeepAliveStreamOutlivesUsers: a stream whose renewals were answered at once is asked who it is from when authentication begins.
func TestAKeepAliveStreamOutlivesUsers(t *testing.T) {
	t.Parallel()
	s := serve(t, doorkv.Options{})
	c, ctx := s.client(t), context.Background()
	id := int64(must(c.Grant(ctx, 1000))(t).ID)
	put(t, c, "kept", "", clientv3.WithLease(clientv3.LeaseID(id)))
	stream := must(pb.NewLeaseClient(c.ActiveConnection()).LeaseKeepAlive(ctx))(t)
	renew := func() (*pb.LeaseKeepAliveResponse, error) {
		if err := stream.Send(&pb.LeaseKeepAliveRequest{ID: id}); err != nil {
			return nil, err
		}
		return stream.Recv()
	}
	if res := must(renew())(t); res.TTL != 1000 {
		t.Errorf("renewed: %v", res)
	}
	must(c.RoleAdd(ctx, "root"))(t)
	must(c.UserAdd(ctx, "root", "pw"))(t)
	must(c.UserGrantRole(ctx, "root", "root"))(t)
	must(c.AuthEnable(ctx))(t)
	_, err := renew()
	wantError(t, "a stream of nobody", err, rpctypes.ErrGRPCUserEmpty)
}

func TestLockExcludes(t *testing.T) {
	t.Parallel()
	s := serve(t, doorkv.Options{})
	c := s.client(t)
	ctx, cancel := context.WithTimeout(context.Background(), wait.Limit(t))
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
	deadline := time.Now().Add(wait.Limit(t))
	for m.TryLock(ctx) != nil {
		if time.Now().After(deadline) {
			t.Fatal("a caller that gave up still holds its place")
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// TestGivenUpAtAnyTime: a caller without a lease of its own gives up, also while its key is being made. Nothing of it stands in the way of
// others.
func TestGivenUpAtAnyTime(t *testing.T) {
	t.Parallel()
	s := serve(t, doorkv.Options{})
	c := s.client(t)
	ctx, cancel := context.WithTimeout(context.Background(), wait.Limit(t))
	defer cancel()
	lc, ec := lpb.NewLockClient(c.ActiveConnection()), epb.NewElectionClient(c.ActiveConnection())
	first := must(lc.Lock(ctx, &lpb.LockRequest{Name: []byte("g")}))(t)
	leader := must(ec.Campaign(ctx, &epb.CampaignRequest{Name: []byte("h"), Value: []byte("first")}))(t)
	for i := range 100 {
		short, stop := context.WithTimeout(ctx, time.Duration(i)*50*time.Microsecond)
		if i%2 == 0 {
			if _, err := lc.Lock(short, &lpb.LockRequest{Name: []byte("g")}); err == nil {
				t.Error("two hold the lock")
			}
		} else if _, err := ec.Campaign(short, &epb.CampaignRequest{Name: []byte("h"), Value: []byte("other")}); err == nil {
			t.Error("two are elected")
		}
		stop()
	}
	must(lc.Unlock(ctx, &lpb.UnlockRequest{Key: first.Key}))(t)
	must(ec.Resign(ctx, &epb.ResignRequest{Leader: leader.Leader}))(t)
	wait.Until(t, "keys of callers that gave up are gone", func() bool {
		return must(c.Get(ctx, "g/", clientv3.WithRange("i"), clientv3.WithCountOnly()))(t).Count == 0
	})
}

func TestElection(t *testing.T) {
	t.Parallel()
	s := serve(t, doorkv.Options{})
	c := s.client(t)
	ctx, cancel := context.WithTimeout(context.Background(), wait.Limit(t))
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
