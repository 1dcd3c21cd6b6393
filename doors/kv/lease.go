package kv

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"io"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/holdfastdb/holdfast/core/entry"
	eident "github.com/holdfastdb/holdfast/core/entry/ident"
	"github.com/holdfastdb/holdfast/core/node"
	"github.com/holdfastdb/holdfast/doors/kv/auth"
	"github.com/holdfastdb/holdfast/doors/kv/etcderr"
	kvmachine "github.com/holdfastdb/holdfast/doors/kv/machine"
	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
)

// maxLeaseTTL is etcd's, in seconds.
const maxLeaseTTL = 9_000_000_000

// leaseServer is etcdserverpb.Lease. Grants and revocations are commands; renewals and remaining times are asked of the
// leader (doors/kv/lease), because they never enter the log.
type leaseServer struct {
	pb.UnimplementedLeaseServer
	d *Door
}

func (s *leaseServer) LeaseGrant(ctx context.Context, r *pb.LeaseGrantRequest) (*pb.LeaseGrantResponse, error) {
	if r.TTL > maxLeaseTTL {
		return nil, rpctypes.ErrGRPCLeaseTTLTooLarge
	}
	res, err := s.d.grant(ctx, r.ID, r.TTL)
	if err != nil {
		return nil, err
	}
	return &pb.LeaseGrantResponse{Header: s.d.pbHeader(res.Revision), ID: res.ID, TTL: res.TTL}, nil
}

// crowdedTTL, in seconds, is the longest lease granted once half of the room for leases is taken. The rest then goes to clients that keep
// renewing.
const crowdedTTL = 3600

// admitLease refuses a lease without room, here: members' room may differ, and is in no log.
func (d *Door) admitLease(ttl int64) error {
	n, room := int64(d.kv.LeaseCount()), d.opts.MaxLeaseBytes()/kvmachine.LeaseBytes
	switch {
	case n >= room:
		return status.Errorf(codes.ResourceExhausted,
			"etcdserver: too many leases: there are %d, and the least --memory of a member has room for %d; revoke some, or start the members with more", n, room)
	case n >= room/2 && ttl > crowdedTTL:
		return status.Errorf(codes.ResourceExhausted,
			"etcdserver: too many leases for one of %d s: there are %d of %d; from half on each has %d s at most", ttl, n, room, crowdedTTL)
	}
	return nil
}

// grant proposes a lease, if there is room for one; id 0 has one chosen.
func (d *Door) grant(ctx context.Context, id, ttl int64) (*kvpart.GrantResult, error) {
	if err := d.admitLease(ttl); err != nil {
		return nil, err
	}
	if err := d.admitWrite(ctx, leaseOverhead); err != nil {
		return nil, err
	}
	for id == 0 {
		id = randomID()
	}
	grant := kvpart.LeaseGrant{ID: id, TTL: max(ttl, d.opts.MinLeaseTTL)}
	res, err := d.propose(ctx, node.LaneSystem, &kvpart.Part{Grant: &grant})
	if err != nil {
		return nil, err
	}
	return res.Of(entry.MachineKV).(*kvpart.GrantResult), nil
}

// randomID returns a random positive id or, rarely, 0.
func randomID() int64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails: it stops the program instead
	return int64(binary.BigEndian.Uint64(b[:]) >> 1)
}

func (s *leaseServer) LeaseRevoke(ctx context.Context, r *pb.LeaseRevokeRequest) (*pb.LeaseRevokeResponse, error) {
	if err := s.d.admitChange(); err != nil {
		return nil, err
	}
	res, err := s.d.propose(ctx, node.LaneSystem, &kvpart.Part{Revoke: &kvpart.LeaseRevoke{IDs: []int64{r.ID}}})
	if err != nil {
		return nil, err
	}
	return &pb.LeaseRevokeResponse{Header: s.d.pbHeader(res.Of(entry.MachineKV).(*kvpart.RevokeResult).Revision)}, nil
}

func (s *leaseServer) LeaseTimeToLive(ctx context.Context, r *pb.LeaseTimeToLiveRequest) (*pb.LeaseTimeToLiveResponse, error) {
	d := s.d
	if err := d.node.Linearize(d.bounded(ctx)); err != nil {
		return nil, etcderr.Of(err)
	}
	if err := d.users.MayAsk(ctx); err != nil {
		return nil, err
	}
	t, err := d.askLease(ctx, kvpart.CallLeaseTTL, r.ID)
	if err != nil {
		return nil, err
	}
	resp := &pb.LeaseTimeToLiveResponse{Header: d.pbHeader(0), ID: r.ID, TTL: -1}
	// The leader may know of a lease that is not applied here yet; then it was granted after this request began.
	if _, ok := d.kv.Lease(r.ID); !ok || t.Granted == 0 {
		return resp, nil
	}
	resp.TTL, resp.GrantedTTL = t.Remaining, t.Granted
	if !r.Keys {
		return resp, nil
	}
	// Judged by the keys in this answer, not by those the lease has a moment later.
	err = d.users.Reading(ctx, (*auth.Access).Named, func() error {
		resp.Keys = d.kv.LeaseKeys(r.ID)
		return nil
	}, func(a *auth.Access) error {
		if a.Admin() == nil {
			return nil
		}
		for _, key := range resp.Keys {
			if err := a.May(eident.Read, key, nil); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return resp, nil
}

func (s *leaseServer) LeaseLeases(ctx context.Context, _ *pb.LeaseLeasesRequest) (*pb.LeaseLeasesResponse, error) {
	if err := s.d.node.Linearize(s.d.bounded(ctx)); err != nil {
		return nil, etcderr.Of(err)
	}
	d := s.d
	var all []kvmachine.Lease
	err := d.users.Reading(ctx, (*auth.Access).Named, func() error {
		all = d.kv.Leases()
		return nil
	}, func(a *auth.Access) error {
		// As in etcd, a user who may not read some key of one lease gets no list at all.
		for i := range all {
			if err := d.users.MayLease(a, eident.Read, all[i].ID); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	resp := &pb.LeaseLeasesResponse{Header: d.pbHeader(0)}
	for _, l := range all {
		resp.Leases = append(resp.Leases, &pb.LeaseStatus{ID: l.ID})
	}
	return resp, nil
}

// keepAliveWindow is how many renewals of one stream may be under way. A client with many leases renews them all on one stream, and each
// renewal waits for a round among the members. One by one, a hundred leases would take a hundred rounds.
const keepAliveWindow = 64

// keepAliveRequest is a LeaseKeepAliveRequest.
type keepAliveRequest struct{ id int64 }

func (r *keepAliveRequest) decode(b []byte) error {
	r.id = 0
	var f field
	var err error
	for len(b) > 0 {
		if b, err = f.next(b); err != nil {
			return err
		}
		if f.is(1, protowire.VarintType) {
			r.id = int64(f.num)
		}
	}
	return nil
}

// keepAliveAnswer is a LeaseKeepAliveResponse.
type keepAliveAnswer struct {
	header
	id, ttl int64
}

func (a *keepAliveAnswer) size() int {
	return sizeMessage(a.header.size()) + sizeUint(uint64(a.id)) + sizeUint(uint64(a.ttl))
}

func (a *keepAliveAnswer) append(b []byte) []byte {
	b = a.header.append(b)
	b = appendUint(b, 2, uint64(a.id))
	return appendUint(b, 3, uint64(a.ttl))
}

// renewal is one request of a keep-alive stream and, once done is closed, its answer.
type renewal struct {
	answer keepAliveAnswer
	err    error
	done   chan struct{}
}

// newAnswer makes the header of an answer. It is made before the lease is renewed, so that no answer says "renewed at a revision" at which the
// lease was gone already.
func (d *Door) newAnswer(id int64) keepAliveAnswer {
	revision, _ := d.kv.Revision()
	return keepAliveAnswer{header: d.header(revision, 0), id: id}
}

// LeaseKeepAlive answers in the order of the requests. While no renewal has to wait, one goroutine reads a request, renews the lease and
// sends the answer. Handing each renewal over cost a third of the CPU. From the first waiting renewal on, another goroutine reads, so that
// renewals wait together.
func (s *leaseServer) LeaseKeepAlive(stream pb.Lease_LeaseKeepAliveServer) error {
	var req keepAliveRequest
	for {
		if err := stream.RecvMsg(&req); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		answer := s.d.newAnswer(req.id)
		var ok bool
		if answer.ttl, ok = s.d.renewAtOnce(req.id); !ok {
			return s.keepTogether(stream, answer)
		}
		if err := stream.SendMsg(&answer); err != nil {
			return err
		}
	}
}

// renewAtOnce renews a lease if no other member has to confirm it: this member is alone, and need not know its clients.
func (d *Door) renewAtOnce(id int64) (ttl int64, ok bool) {
	if enabled, _ := d.users.Catalogue(); enabled || d.opts.Leases == nil {
		return 0, false
	}
	return d.opts.Leases.RenewAtOnce(id)
}

// keepTogether goes on with a stream whose request for first was read last.
func (s *leaseServer) keepTogether(stream grpc.ServerStream, first keepAliveAnswer) error {
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	asked := make(chan *renewal, keepAliveWindow)
	received := make(chan error, 1)
	go func() {
		defer close(asked)
		received <- s.receiveKeepAlives(ctx, stream, first, asked)
	}()
	for r := range asked {
		select {
		case <-r.done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if r.err != nil {
			return r.err
		}
		if err := stream.SendMsg(&r.answer); err != nil {
			return err
		}
	}
	return <-received
}

func (s *leaseServer) receiveKeepAlives(ctx context.Context, stream grpc.ServerStream, next keepAliveAnswer, asked chan<- *renewal) error {
	for {
		r := &renewal{answer: next, done: make(chan struct{})}
		select {
		case asked <- r:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		go func() {
			defer close(r.done)
			if r.err = s.d.mayRenew(ctx, r.answer.id); r.err != nil {
				return
			}
			t, err := s.d.askLease(ctx, kvpart.CallLeaseKeepAlive, r.answer.id)
			r.answer.ttl, r.err = t.Remaining, err // 0 tells the client that the lease is gone
		}()
		var req keepAliveRequest
		if err := stream.RecvMsg(&req); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		next = s.d.newAnswer(req.id)
	}
}

// mayRenew: keeping a lease alive keeps its keys, so the user must be permitted to write them.
func (d *Door) mayRenew(ctx context.Context, lease int64) error {
	return d.users.Reading(ctx, func(a *auth.Access) error { return d.users.MayLease(a, eident.Write, lease) }, nil, nil)
}

// askLease calls the leader about a lease. While leadership changes hands, or the leader has too many calls at once, it
// asks again until the request's deadline; asking twice does no harm.
func (d *Door) askLease(ctx context.Context, service string, id int64) (kvpart.LeaseTime, error) {
	bound := d.bounded(ctx)
	req := kvpart.AppendLeaseID(make([]byte, 0, 8), id)
	for {
		b, err := d.node.Call(bound, service, req)
		if err == nil {
			t, err := kvpart.DecodeLeaseTime(b)
			return t, etcderr.Of(err)
		}
		retry := errors.Is(err, node.ErrNotLeader) || errors.Is(err, node.ErrSuperseded) || errors.Is(err, node.ErrOverloaded)
		if !retry || bound.Err() != nil {
			return kvpart.LeaseTime{}, etcderr.Of(err)
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-bound.Done():
			return kvpart.LeaseTime{}, etcderr.Of(err)
		case <-ctx.Done():
			return kvpart.LeaseTime{}, etcderr.Of(ctx.Err())
		}
	}
}
