package kv_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	doorkv "github.com/holdfastdb/holdfast/doors/kv"
	"github.com/holdfastdb/holdfast/internal/certtest"
	"github.com/holdfastdb/holdfast/internal/wait"
)

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
	ctx, cancel := context.WithTimeout(context.Background(), wait.Limit(t))
	defer cancel()
	if err := s.door.Shutdown(ctx); err != nil {
		t.Errorf("shutdown: %v", err)
	}
	_, err := stream.Recv()
	wantError(t, "watch", err, rpctypes.ErrGRPCStopped)
}

// TestThreeMembers: every member serves everything, under any leader.
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
	grant := must(a.Grant(ctx, 8))(t)
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
		// A write that one member acknowledged is read at every other.
		for _, c := range clients {
			got := must(c.Get(ctx, "w/a"))(t)
			if string(got.Kvs[0].Value) != value || got.Header.Revision < rev {
				t.Fatalf("read %s at revision %d after %s at %d", got.Kvs[0].Value, got.Header.Revision, value, rev)
			}
		}
	}
	if ttl := must(b.TimeToLive(ctx, grant.ID, clientv3.WithAttachedKeys()))(t); ttl.TTL < 1 || ttl.GrantedTTL != 8 || len(ttl.Keys) != 1 {
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
	wait.Until(t, "another member leads", func() bool {
		st := servers[leader].node.Status()
		if st.Leader != st.MemberID {
			return st.Leader != 0 // on a busy machine it may have changed by itself
		}
		_, err := clients[leader].MoveLeader(ctx, servers[(leader+1)%3].node.Status().MemberID)
		return err == nil
	})
	servers[leader].stop()
	deadline := time.Now().Add(wait.Limit(t))
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
	time.Sleep(10 * time.Second)
	if got := must(b.Get(ctx, "leased"))(t); len(got.Kvs) != 1 {
		t.Error("a kept lease ran out with the change of leader")
	}
}

func TestTLSWithClientCertificates(t *testing.T) {
	t.Parallel()
	ca := certtest.NewAuthority("test")
	s := serve(t, doorkv.Options{TLS: ca.Server()})
	dial := func(patience time.Duration, certs ...tls.Certificate) error {
		c, err := clientv3.New(clientv3.Config{
			Endpoints: []string{s.addr}, Logger: zap.NewNop(), TLS: ca.Config(certs...),
		})
		if err != nil {
			return err
		}
		defer c.Close()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_, err = c.Put(ctx, "a", "1")
		return err
	}
	if err := dial(wait.Limit(t), ca.Issue("client")); err != nil {
		t.Errorf("with a certificate: %v", err)
	}
	if err := dial(2 * time.Second); err == nil {
		t.Error("a client without a certificate was served")
	}
}
