package kv

import (
	"context"
	"fmt"

	lpb "go.etcd.io/etcd/server/v3/etcdserver/api/v3lock/v3lockpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/core/node"
	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
)

// lockServer is v3lockpb.Lock: etcd's mutex recipe run by the server. A lock is a key below its name, owned by a lease;
// the oldest key holds it. The keys are those etcd's client library makes, so both exclude each other.
type lockServer struct {
	lpb.UnsafeLockServer
	d *Door
}

// sessionTTL is the lease, in seconds, of a caller without one.
const sessionTTL = 60

var errSessionExpired = status.Error(codes.Unknown, "mutex: session is expired")

// session returns the caller's lease or a new one. A new one is not kept alive, as in etcd.
func (d *Door) session(ctx context.Context, lease int64) (int64, error) {
	if lease != 0 {
		return lease, nil
	}
	res, err := d.grant(ctx, 0, sessionTTL)
	if err != nil {
		return 0, err
	}
	return res.ID, nil
}

// abandon ends the lease of a caller without one whose Txn failed with an unknown outcome; no other client knows its key. Deleting the key
// would do nothing if that came before the Txn; revoking the lease works in either order. asked is the lease that the caller named.
func (d *Door) abandon(ctx context.Context, asked, lease int64) {
	if asked == 0 {
		_, _ = d.propose(context.WithoutCancel(ctx), node.LaneSystem, &kvpart.Part{Revoke: &kvpart.LeaseRevoke{IDs: []int64{lease}}})
	}
}

// txn proposes a Txn of the door's own.
func (d *Door) txn(ctx context.Context, t *kvpart.Txn) (*kvpart.TxnResult, uint64, error) {
	if err := d.admitWrite(ctx, costTxn(t)); err != nil {
		return nil, 0, err
	}
	res, err := d.propose(ctx, Lane, &kvpart.Part{Txn: t})
	if err != nil {
		return nil, 0, err
	}
	return res.Of(entry.MachineKV).(*kvpart.TxnResult), res.Term, nil
}

// deleteKey removes one key and returns the revision after it.
func (d *Door) deleteKey(ctx context.Context, key []byte) (int64, error) {
	res, err := d.propose(ctx, node.LaneSystem, &kvpart.Part{Delete: &kvpart.DeleteRange{Key: key}})
	if err != nil {
		return 0, err
	}
	return res.Of(entry.MachineKV).(*kvpart.DeleteResult).Revision, nil
}

// created is the condition that key was created at revision (0: does not exist).
func created(key []byte, revision int64) []kvpart.Compare {
	return []kvpart.Compare{{Key: key, Target: kvpart.CompareCreate, Int: revision}}
}

// firstCreated asks for the oldest key under prefix.
func firstCreated(prefix []byte) *kvpart.Range {
	return &kvpart.Range{Key: prefix, End: prefixEnd(prefix), Order: kvpart.SortAscend, Target: kvpart.SortByCreate, Limit: 1}
}

func (s *lockServer) Lock(ctx context.Context, r *lpb.LockRequest) (*lpb.LockResponse, error) {
	d := s.d
	lease, err := d.session(ctx, r.Lease)
	if err != nil {
		return nil, err
	}
	prefix := []byte(string(r.Name) + "/")
	key := fmt.Appendf(nil, "%s%x", prefix, lease)
	owner := kvpart.Op{Range: firstCreated(prefix)}
	res, _, err := d.txn(ctx, &kvpart.Txn{
		Compare: created(key, 0),
		Then:    []kvpart.Op{{Put: &kvpart.Put{Key: key, Lease: lease}}, owner},
		Else:    []kvpart.Op{{Range: &kvpart.Range{Key: key}}, owner},
	})
	if err != nil {
		d.abandon(ctx, r.Lease, lease)
		return nil, err
	}
	mine, revision := res.Revision, res.Revision
	if !res.Succeeded {
		mine = res.Ops[0].Range.KVs[0].CreateRevision
	}
	if kvs := res.Ops[1].Range.KVs; len(kvs) > 0 && kvs[0].CreateRevision != mine {
		if revision, err = s.wait(ctx, prefix, key, mine); err != nil {
			return nil, err
		}
	}
	return &lpb.LockResponse{Header: d.pbHeader(revision), Key: key}, nil
}

// wait queues behind the older keys and returns a revision at which key holds the lock. If waiting fails the key is
// withdrawn, even if the caller is gone.
func (s *lockServer) wait(ctx context.Context, prefix, key []byte, mine int64) (int64, error) {
	d := s.d
	err := d.awaitTurn(ctx, prefix, mine-1)
	var res *kvpart.RangeResult
	var revision int64
	if err == nil {
		res, revision, err = d.rangeFor(ctx, &kvpart.Range{Key: key})
	}
	if err != nil {
		_, _ = d.deleteKey(context.WithoutCancel(ctx), key)
		return 0, err
	}
	if len(res.KVs) == 0 {
		return 0, errSessionExpired // the lease ran out while its owner waited
	}
	return revision, nil
}

func (s *lockServer) Unlock(ctx context.Context, r *lpb.UnlockRequest) (*lpb.UnlockResponse, error) {
	if err := checkDelete(&kvpart.DeleteRange{Key: r.Key}); err != nil {
		return nil, err
	}
	revision, err := s.d.deleteKey(ctx, r.Key)
	if err != nil {
		return nil, err
	}
	return &lpb.UnlockResponse{Header: s.d.pbHeader(revision)}, nil
}
