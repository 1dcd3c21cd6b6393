package kv

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	epb "go.etcd.io/etcd/server/v3/etcdserver/api/v3election/v3electionpb"
	lpb "go.etcd.io/etcd/server/v3/etcdserver/api/v3lock/v3lockpb"
	"google.golang.org/grpc"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/tap"

	"github.com/holdfastdb/holdfast/doors/kv/etcderr"
	"github.com/holdfastdb/holdfast/serve/port"
)

// header stamps an answer. A term of 0 stands for the current one.
func (d *Door) header(revision int64, term uint64) header {
	s := d.node.Status()
	if term == 0 {
		term = s.Term
	}
	return header{cluster: s.ClusterID, member: s.MemberID, revision: revision, term: term}
}

// pbHeader is header for the generated messages; revision 0 stands for the current one.
func (d *Door) pbHeader(revision int64) *pb.ResponseHeader {
	if revision == 0 {
		revision, _ = d.kv.Revision()
	}
	s := d.node.Status()
	return &pb.ResponseHeader{ClusterId: s.ClusterID, MemberId: s.MemberID, Revision: revision, RaftTerm: s.Term}
}

// followLeader notes when a lost leader is missed, and ends streams that require one when there has been none for NoLeaderTimeout.
// It sleeps while nothing changes.
func (d *Door) followLeader() {
	var missed, alone <-chan time.Time
	var last uint64 // the leader seen last
	for ended := false; ; {
		changed := d.node.LeaderChanged()
		leader := d.node.Status().Leader
		if leader != 0 && leader != last {
			last = leader
			d.counts.LeaderChanges.Inc()
		}
		switch {
		case leader != 0:
			missed, alone, ended = nil, nil, false
			d.led.Store(true)
		case alone == nil && !ended:
			missed, alone = time.After(d.opts.NoLeaderTimeout/3), time.After(d.opts.NoLeaderTimeout)
		}
		select {
		case <-changed:
		case <-missed:
			missed = nil
			d.led.Store(false)
		case <-alone:
			next := make(chan struct{})
			close(*d.leaderless.Swap(&next))
			alone, ended = nil, true
		case <-d.stopping:
			return
		case <-d.node.StoppedC():
			return
		}
	}
}

// missesLeader reports whether this member has been without a leader for an election timeout, or never had one. Rejected: to ask only
// whether there is one now. A member forgets a leader whose process has ended at once, and that is when the clients of that process come
// here. Refused in the milliseconds before there is a new leader, their watches would end: etcd's client does not retry after "no leader". An
// etcd believes in its leader for an election timeout too.
func (d *Door) missesLeader() bool { return d.node.Status().Leader == 0 && !d.led.Load() }

// requiresLeader reports whether the client asked not to be served by a member that has lost its leader.
func requiresLeader(ctx context.Context) bool {
	v := metadata.ValueFromIncomingContext(ctx, rpctypes.MetadataRequireLeaderKey)
	return len(v) > 0 && v[0] == rpctypes.MetadataHasLeader
}

// admit is called first for every unary request. onLearner reports whether a learner may serve it.
func (d *Door) admit(ctx context.Context, onLearner bool) error {
	s := d.node.Status()
	if s.Learner && !onLearner {
		return rpctypes.ErrGRPCNotSupportedForLearner
	}
	if s.Leader == 0 && requiresLeader(ctx) && d.missesLeader() {
		return rpctypes.ErrGRPCNoLeader
	}
	return nil
}

// guardUnary admits requests of the generated services. The hot handlers call admit themselves.
func (d *Door) guardUnary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	switch req.(type) {
	case *healthpb.HealthCheckRequest:
	case *pb.StatusRequest:
		if err := d.admit(ctx, true); err != nil {
			return nil, err
		}
	default:
		if err := d.admit(ctx, false); err != nil {
			return nil, err
		}
	}
	switch req.(type) {
	case *lpb.LockRequest, *epb.CampaignRequest: // they wait for other clients
		staying, err := stay(ctx, true)
		if err != nil {
			return nil, err
		}
		defer staying.Left()
	}
	resp, err := handler(ctx, req)
	if err != nil && onClientLibrary(info.FullMethod) {
		return nil, etcderr.ThroughClient(err)
	}
	if err == nil && d.ackSession(ctx) != nil && !aboutMembers(info.FullMethod) {
		err = d.shown(ctx)
	}
	return resp, err
}

// onClientLibrary reports whether etcd serves a method with its own client library, which has other error codes.
func onClientLibrary(method string) bool {
	return strings.HasPrefix(method, "/"+lpb.Lock_ServiceDesc.ServiceName+"/") || strings.HasPrefix(method, "/"+epb.Election_ServiceDesc.ServiceName+"/")
}

// client is the account of the connection a call came on; nil for one inside this process.
func client(ctx context.Context) *port.From {
	if p, ok := peer.FromContext(ctx); ok {
		from, _ := p.Addr.(*port.From)
		return from
	}
	return nil
}

// refuseCrowd is called before a call gets a goroutine.
func (d *Door) refuseCrowd(ctx context.Context, info *tap.Info) (context.Context, error) {
	if d.port.Crowded() {
		if from := client(ctx); from != nil && from.Crowded(d.stays[info.FullMethodName]) {
			return ctx, rpctypes.ErrGRPCRequestTooManyRequests
		}
	}
	return d.judgeLevel(ctx, info)
}

// stay has a call's connection hold a call that stays open: a stream, or one that waits for other clients. whole: its request has come whole.
// The result is nil for a call of this process itself.
func stay(ctx context.Context, whole bool) (*port.Staying, error) {
	from := client(ctx)
	if from == nil {
		return nil, nil
	}
	staying, ok := from.Stay(whole)
	if !ok {
		return nil, rpctypes.ErrGRPCRequestTooManyRequests
	}
	return staying, nil
}

// giveBack releases what a connection was charged; nil does nothing.
func giveBack(from *port.From, n int64) {
	if from != nil {
		from.GiveBack(n)
	}
}

// guardStream admits streams and ends those that require a leader when it is lost, and all when the door shuts down.
func (d *Door) guardStream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	switch info.FullMethod {
	case healthpb.Health_Watch_FullMethodName, pb.Maintenance_Snapshot_FullMethodName: // learners serve these too
	default:
		if d.node.Status().Learner {
			return rpctypes.ErrGRPCNotSupportedForLearner
		}
	}
	staying, err := stay(ss.Context(), !info.IsClientStream)
	if err != nil {
		return err
	}
	defer staying.Left()
	ctx, cancel := context.WithCancelCause(ss.Context())
	defer cancel(nil)
	var leaderless <-chan struct{}
	if requiresLeader(ctx) {
		leaderless = *d.leaderless.Load()
		if d.missesLeader() {
			return rpctypes.ErrGRPCNoLeader
		}
	}
	if n, ok := asker(ctx); ok {
		if out := d.port.Streamed(n); out != nil {
			turns := &inTurn{ServerStream: &boundStream{ServerStream: ss, ctx: ctx}, out: out}
			ss, ctx = turns, context.WithValue(ctx, inTurnKey{}, turns)
		}
	}
	ended := make(chan error, 1)
	go func() {
		if isCompressed(ctx) {
			inflating := &inflatedStream{ServerStream: ss, d: d, from: client(ctx)}
			defer inflating.end()
			ss = inflating
		}
		ended <- handler(srv, d.archived(&boundStream{ServerStream: ss, ctx: ctx, staying: staying}, info.FullMethod))
	}()
	var reason error
	select {
	case err := <-ended:
		if onClientLibrary(info.FullMethod) {
			return etcderr.ThroughClient(err)
		}
		return err
	case <-leaderless:
		reason = rpctypes.ErrGRPCNoLeader
	case <-d.stopping:
		reason = rpctypes.ErrGRPCStopped
	case <-d.node.StoppedC():
		reason = rpctypes.ErrGRPCStopped
	}
	cancel(reason)
	return reason
}

// boundStream is a stream whose context the door can end.
type boundStream struct {
	grpc.ServerStream
	ctx     context.Context
	staying *port.Staying
}

func (s *boundStream) Context() context.Context { return s.ctx }

// RecvMsg notes when the client has ended its side.
func (s *boundStream) RecvMsg(m any) error {
	err := s.ServerStream.RecvMsg(m)
	if errors.Is(err, io.EOF) {
		s.staying.Whole()
	}
	return err
}
