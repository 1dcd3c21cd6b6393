package kv_test

import (
	"context"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	epb "go.etcd.io/etcd/server/v3/etcdserver/api/v3election/v3electionpb"
	lpb "go.etcd.io/etcd/server/v3/etcdserver/api/v3lock/v3lockpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	doorkv "github.com/holdfastdb/holdfast/doors/kv"
)

// TestErrorsOfRecipesHaveTheCodesOfEtcd: etcd serves Lock and Election with its own client library, which loses the codes of errors. Its
// other services keep them.
func TestErrorsOfRecipesHaveTheCodesOfEtcd(t *testing.T) {
	t.Parallel()
	s := serve(t, doorkv.Options{})
	conn := s.client(t).ActiveConnection()
	ctx, lock, election := t.Context(), lpb.NewLockClient(conn), epb.NewElectionClient(conn)
	granted := must(pb.NewLeaseClient(conn).LeaseGrant(ctx, &pb.LeaseGrantRequest{TTL: 1000}))(t).ID
	must(election.Campaign(ctx, &epb.CampaignRequest{Name: []byte("held"), Lease: granted, Value: []byte("v")}))(t)
	const noLease, noKey = "etcdserver: requested lease not found", "etcdserver: key is not provided"
	for _, c := range []struct {
		name string
		do   func(context.Context) error
		code codes.Code
		text string
	}{
		{"lock with no such lease", func(ctx context.Context) error {
			_, err := lock.Lock(ctx, &lpb.LockRequest{Name: []byte("l"), Lease: 424242})
			return err
		}, codes.Unknown, noLease},
		{"unlock of no key", func(ctx context.Context) error { _, err := lock.Unlock(ctx, &lpb.UnlockRequest{}); return err }, codes.Unknown, noKey},
		{"campaign with no such lease", func(ctx context.Context) error {
			_, err := election.Campaign(ctx, &epb.CampaignRequest{Name: []byte("e"), Lease: 424242})
			return err
		}, codes.Unknown, noLease},
		{"proclaim without a leader", func(ctx context.Context) error {
			_, err := election.Proclaim(ctx, &epb.ProclaimRequest{})
			return err
		}, codes.Unknown, `"leader" field must be provided`},
		{"proclaim of no key", func(ctx context.Context) error {
			_, err := election.Proclaim(ctx, &epb.ProclaimRequest{Leader: &epb.LeaderKey{}})
			return err
		}, codes.Unknown, noKey},
		{"proclaim of another's key", func(ctx context.Context) error {
			_, err := election.Proclaim(ctx, &epb.ProclaimRequest{Leader: &epb.LeaderKey{Key: []byte("held/1"), Rev: 7}})
			return err
		}, codes.Unknown, "election: not leader"},
		{"resign of no key", func(ctx context.Context) error {
			_, err := election.Resign(ctx, &epb.ResignRequest{Leader: &epb.LeaderKey{}})
			return err
		}, codes.Unknown, noKey},
		{"leader of nothing", func(ctx context.Context) error {
			_, err := election.Leader(ctx, &epb.LeaderRequest{Name: []byte("none")})
			return err
		}, codes.Unknown, "election: no leader"},
		{"put with no such lease", func(ctx context.Context) error {
			_, err := pb.NewKVClient(conn).Put(ctx, &pb.PutRequest{Key: []byte("k"), Lease: 424242})
			return err
		}, codes.NotFound, noLease},
		{"delete of no key", func(ctx context.Context) error {
			_, err := pb.NewKVClient(conn).DeleteRange(ctx, &pb.DeleteRangeRequest{})
			return err
		}, codes.InvalidArgument, noKey},
	} {
		if got := status.Convert(c.do(ctx)); got.Code() != c.code || got.Message() != c.text {
			t.Errorf("%s: %v, want %v %q", c.name, got.Err(), c.code, c.text)
		}
	}
}

// TestACancelWithoutADowngradeIsAnswered: with the version of the cluster, as by etcd.
func TestACancelWithoutADowngradeIsAnswered(t *testing.T) {
	t.Parallel()
	s := serve(t, doorkv.Options{})
	conn := s.client(t).ActiveConnection()
	for range 2 {
		res, err := pb.NewMaintenanceClient(conn).Downgrade(t.Context(), &pb.DowngradeRequest{Action: pb.DowngradeRequest_CANCEL})
		if err != nil || res.Version != "3.7" || res.Header.GetRevision() != 1 {
			t.Fatalf("%v, %v", res, err)
		}
	}
}
