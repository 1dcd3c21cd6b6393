package kv

import (
	"bytes"
	"context"
	"fmt"

	"go.etcd.io/etcd/api/v3/mvccpb"
	epb "go.etcd.io/etcd/server/v3/etcdserver/api/v3election/v3electionpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	kvmachine "github.com/holdfastdb/holdfast/doors/kv/machine"
	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
)

// electionServer is v3electionpb.Election: etcd's election recipe run by the server. A candidate is a key below the election's name, owned
// by a lease; the oldest key leads, and its value is the leader's proclamation.
type electionServer struct {
	epb.UnsafeElectionServer
	d *Door
}

var (
	errNotElected    = status.Error(codes.Unknown, "election: not leader")
	errNobodyElected = status.Error(codes.Unknown, "election: no leader")
	errNoLeaderKey   = status.Error(codes.Unknown, `"leader" field must be provided`)
)

func (s *electionServer) Campaign(ctx context.Context, r *epb.CampaignRequest) (*epb.CampaignResponse, error) {
	d := s.d
	lease, err := d.session(ctx, r.Lease)
	if err != nil {
		return nil, err
	}
	prefix := []byte(string(r.Name) + "/")
	key := fmt.Appendf(nil, "%s%x", prefix, lease)
	res, _, err := d.txn(ctx, &kvpart.Txn{
		Compare: created(key, 0),
		Then:    []kvpart.Op{{Put: &kvpart.Put{Key: key, Value: r.Value, Lease: lease}}},
		Else:    []kvpart.Op{{Range: &kvpart.Range{Key: key}}},
	})
	if err != nil {
		d.abandon(ctx, r.Lease, lease)
		return nil, err
	}
	leader := &epb.LeaderKey{Name: r.Name, Key: key, Rev: res.Revision, Lease: lease}
	if !res.Succeeded { // this lease is a candidate already
		kv := &res.Ops[0].Range.KVs[0]
		leader.Rev = kv.CreateRevision
		if !bytes.Equal(kv.Value, r.Value) {
			if _, err := s.proclaim(ctx, leader, r.Value); err != nil {
				s.withdraw(ctx, leader)
				return nil, err
			}
		}
	}
	if err := d.awaitTurn(ctx, prefix, leader.Rev-1); err != nil {
		if ctx.Err() != nil {
			s.withdraw(ctx, leader)
		}
		return nil, err
	}
	return &epb.CampaignResponse{Header: d.pbHeader(res.Revision), Leader: leader}, nil
}

// withdraw takes a candidate back although its caller may be gone.
func (s *electionServer) withdraw(ctx context.Context, leader *epb.LeaderKey) {
	_, _ = s.resign(context.WithoutCancel(ctx), leader)
}

// proclaim sets the leader's value if it still leads and returns the revision.
func (s *electionServer) proclaim(ctx context.Context, leader *epb.LeaderKey, value []byte) (int64, error) {
	res, _, err := s.d.txn(ctx, &kvpart.Txn{
		Compare: created(leader.Key, leader.Rev),
		Then:    []kvpart.Op{{Put: &kvpart.Put{Key: leader.Key, Value: value, Lease: leader.Lease}}},
	})
	if err != nil {
		return 0, err
	}
	if !res.Succeeded {
		return 0, errNotElected
	}
	return res.Revision, nil
}

func (s *electionServer) resign(ctx context.Context, leader *epb.LeaderKey) (int64, error) {
	res, _, err := s.d.txn(ctx, &kvpart.Txn{
		Compare: created(leader.Key, leader.Rev),
		Then:    []kvpart.Op{{Delete: &kvpart.DeleteRange{Key: leader.Key}}},
	})
	if err != nil {
		return 0, err
	}
	return res.Revision, nil
}

// checkLeaderKey refuses leader keys that etcd's client could not use later.
func checkLeaderKey(leader *epb.LeaderKey) error {
	if leader == nil {
		return errNoLeaderKey
	}
	return checkDelete(&kvpart.DeleteRange{Key: leader.Key})
}

func (s *electionServer) Proclaim(ctx context.Context, r *epb.ProclaimRequest) (*epb.ProclaimResponse, error) {
	if err := checkLeaderKey(r.Leader); err != nil {
		return nil, err
	}
	revision, err := s.proclaim(ctx, r.Leader, r.Value)
	if err != nil {
		return nil, err
	}
	return &epb.ProclaimResponse{Header: s.d.pbHeader(revision)}, nil
}

func (s *electionServer) Resign(ctx context.Context, r *epb.ResignRequest) (*epb.ResignResponse, error) {
	if err := checkLeaderKey(r.Leader); err != nil {
		return nil, err
	}
	revision, err := s.resign(ctx, r.Leader)
	if err != nil {
		return nil, err
	}
	return &epb.ResignResponse{Header: s.d.pbHeader(revision)}, nil
}

// leader returns the oldest candidate of the election and the revision it was read at; nil if there is none.
func (s *electionServer) leader(ctx context.Context, name []byte) (*kvpart.KeyValue, int64, error) {
	res, revision, err := s.d.rangeFor(ctx, firstCreated([]byte(string(name)+"/")))
	if err != nil {
		return nil, 0, err
	}
	if len(res.KVs) == 0 {
		return nil, revision, nil
	}
	return &res.KVs[0], revision, nil
}

func pbKV(kv *kvpart.KeyValue) *mvccpb.KeyValue {
	return &mvccpb.KeyValue{
		Key: kv.Key, Value: kv.Value, Version: kv.Version, Lease: kv.Lease,
		CreateRevision: kv.CreateRevision, ModRevision: kv.ModRevision,
	}
}

func (s *electionServer) Leader(ctx context.Context, r *epb.LeaderRequest) (*epb.LeaderResponse, error) {
	kv, revision, err := s.leader(ctx, r.Name)
	if err != nil {
		return nil, err
	}
	if kv == nil {
		return nil, errNobodyElected
	}
	return &epb.LeaderResponse{Header: s.d.pbHeader(revision), Kv: pbKV(kv)}, nil
}

// Observe sends the leader and every value it proclaims, then its successor, and so on.
func (s *electionServer) Observe(r *epb.LeaderRequest, stream epb.Election_ObserveServer) error {
	ctx := stream.Context()
	prefix := []byte(string(r.Name) + "/")
	send := func(kv *kvpart.KeyValue, revision int64) error {
		return stream.Send(&epb.LeaderResponse{Header: s.d.pbHeader(revision), Kv: pbKV(kv)})
	}
	for {
		kv, revision, err := s.leader(ctx, r.Name)
		if err != nil {
			return err
		}
		if kv == nil { // the first candidate from now on leads
			err := s.d.await(ctx, prefix, prefixEnd(prefix), revision+1, func(e *kvmachine.Event) (bool, error) {
				if e.Type == kvmachine.EventPut {
					first := e.KV
					kv, revision = &first, e.KV.ModRevision
				}
				return kv != nil, nil
			})
			if err != nil {
				return err
			}
		}
		if err := send(kv, revision); err != nil {
			return err
		}
		err = s.d.await(ctx, kv.Key, nil, revision+1, func(e *kvmachine.Event) (bool, error) {
			if e.Type == kvmachine.EventDelete {
				return true, nil
			}
			return false, send(&e.KV, e.KV.ModRevision)
		})
		if err != nil {
			return err
		}
	}
}
