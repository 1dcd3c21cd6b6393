package kv

import (
	"context"
	"errors"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	epb "go.etcd.io/etcd/server/v3/etcdserver/api/v3election/v3electionpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/doors/kv/etcderr"
	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
	"github.com/holdfastdb/holdfast/serve/ack"
)

// sessionKey finds the *ack.Session of a call, or a stream, whose answers wait for the archive. A call that does not wait has none.
type sessionKey struct{}

// judgeLevel gives a call that asks for the archive a session, before it gets a goroutine. The call is refused, and nothing has happened,
// if it asks for a level that there is not.
func (d *Door) judgeLevel(ctx context.Context, info *tap.Info) (context.Context, error) {
	asked := info.Header[ack.Metadata]
	if len(asked) == 0 && d.opts.Ack.Default == ack.Commit {
		return ctx, nil
	}
	last := ""
	if len(asked) > 0 {
		last = asked[len(asked)-1] // the gateway appends its own value to the client's
	}
	session, err := d.opts.Ack.Session(last)
	if err != nil {
		return ctx, status.Error(codes.InvalidArgument, "etcdserver: "+err.Error())
	}
	if session.Waits() {
		ctx = context.WithValue(ctx, sessionKey{}, &session)
	}
	return ctx, nil
}

// ackSession is that of a call, nil if its answers do not wait.
func (d *Door) ackSession(ctx context.Context) *ack.Session {
	if !d.opts.Ack.Archiving { // most servers: it costs a look
		return nil
	}
	s, _ := ctx.Value(sessionKey{}).(*ack.Session)
	return s
}

// written holds back the result of a command until it is archived, if the call's session asks for that. bound is the context that the call
// waits under.
func (d *Door) written(ctx, bound context.Context, res *entry.Result) error {
	s := d.ackSession(ctx)
	if s == nil {
		return nil
	}
	d.markNow()
	return d.gate(ctx, bound, func(ctx context.Context) error { return s.Written(ctx, d.node, res) })
}

// shown holds back an answer until all is archived that can be in it, if the call's session asks for that.
func (d *Door) shown(ctx context.Context) error {
	s := d.ackSession(ctx)
	if s == nil {
		return nil
	}
	index := d.markNow().index
	return d.gate(ctx, d.bounded(ctx), func(ctx context.Context) error { return s.Hold(ctx, d.node, index) })
}

// shownWith is shown for an answer that may hold room. Such an answer waits for the first time without its room, because an archive that is
// away must not take room from other clients. again says that the answer must be made anew. room is given back but for a nil error and no
// again.
func (d *Door) shownWith(ctx context.Context, room *room, waited *bool) (again bool, err error) {
	if d.ackSession(ctx) == nil {
		return false, nil
	}
	again = room != nil && !*waited && d.node.ArchivedIndex() < d.node.ReadIndex()
	if again {
		*waited = true
		room.giveBack()
	}
	if err = d.shown(ctx); err != nil {
		room.giveBack()
	}
	return again, err
}

// archivedAlready reports whether all that a serializable Range shows is archived, though not all of the log is, so that its answer need not
// wait. at is the revision that it read. revision is for the answer's header: the current one would tell of writes that are not archived.
//
// The range must be the same at the newest revision that is known to be archived. An older state is never shown: a session would miss its
// own writes for as long as they are on their way to the archive.
func (d *Door) archivedAlready(ctx context.Context, r *kvpart.Range, at int64) (revision int64, ok bool) {
	if d.ackSession(ctx) == nil {
		return 0, false
	}
	archived := d.node.ArchivedIndex()
	if archived >= d.node.ReadIndex() {
		return 0, false
	}
	known := min(d.marks.upTo(archived), at) // more may have been archived since the read
	if known == 0 {
		return 0, false
	}
	if r.Revision > 0 {
		return known, r.Revision <= known
	}
	same, err := d.unchanged(r.Key, r.End, known, at)
	return known, same && err == nil // a revision that is compacted meanwhile: the answer waits
}

// unchanged reports whether a range of keys is the same at two revisions: no key of it was put between them, and none is gone.
func (d *Door) unchanged(key, end []byte, from, to int64) (bool, error) {
	if from >= to {
		return true, nil
	}
	put, _, err := d.kv.Range(&kvpart.Range{Key: key, End: end, Revision: to, MinMod: from + 1, Limit: 1, KeysOnly: true}, d.opts.MaxAnswerBytes)
	if err != nil || len(put.KVs) > 0 {
		return false, err
	}
	now, _, err := d.kv.Range(&kvpart.Range{Key: key, End: end, Revision: to, CountOnly: true}, d.opts.MaxAnswerBytes)
	if err != nil {
		return false, err
	}
	was, _, err := d.kv.Range(&kvpart.Range{Key: key, End: end, Revision: from, CountOnly: true}, d.opts.MaxAnswerBytes)
	return err == nil && now.Count == was.Count, err
}

// gate waits under bound, and translates what comes of it.
func (d *Door) gate(ctx, bound context.Context, wait func(context.Context) error) error {
	if bound == ctx { // the client has a deadline of its own
		ahead, cancel := ack.Ahead(ctx)
		defer cancel()
		bound = ahead
	}
	err := wait(bound)
	var not *ack.NotArchived
	if errors.As(err, &not) {
		return notArchived(ctx, not)
	}
	return etcderr.Of(err)
}

// notArchived answers a write that has taken effect and is not archived. A client library must not send it again, so it is
// DeadlineExceeded. The exception is etcd's Go client, which repeats any such call, even a put, until its own deadline. That client names
// itself with each call. It takes every other code than Unavailable for the end.
func notArchived(ctx context.Context, err *ack.NotArchived) error {
	code := codes.DeadlineExceeded
	if len(metadata.ValueFromIncomingContext(ctx, rpctypes.MetadataClientAPIVersionKey)) > 0 {
		code = codes.Unknown
	}
	return status.Error(code, "etcdserver: "+err.Error())
}

// aboutMembers reports whether a call is about the members and not about the log's content. The operator of a cluster whose archive is away
// must still be able to make it. A change by such a call waits all the same.
func aboutMembers(method string) bool {
	return strings.HasPrefix(method, "/"+pb.Cluster_ServiceDesc.ServiceName+"/") || strings.HasPrefix(method, "/"+pb.Maintenance_ServiceDesc.ServiceName+"/") ||
		strings.HasPrefix(method, "/"+healthpb.Health_ServiceDesc.ServiceName+"/")
}

// archivedStream holds back the messages of a stream until all is archived that can be in them.
type archivedStream struct {
	grpc.ServerStream
	d    *Door
	once bool // it sends all of the state at its first message, and waits no longer than a call does
	sent bool
}

// archived gives a stream a gate, if its session asks for that and there is anything of the log in it.
func (d *Door) archived(ss grpc.ServerStream, method string) grpc.ServerStream {
	if d.ackSession(ss.Context()) == nil {
		return ss
	}
	switch method {
	case epb.Election_Observe_FullMethodName:
		return &archivedStream{ServerStream: ss, d: d}
	case pb.KV_RangeStream_FullMethodName, pb.Maintenance_Snapshot_FullMethodName:
		return &archivedStream{ServerStream: ss, d: d, once: true}
	}
	return ss // watches see to it themselves; renewals of leases and news of this member's health wait for nothing
}

// SendMsg implements grpc.ServerStream.
func (s *archivedStream) SendMsg(m any) error {
	switch ctx := s.Context(); {
	case !s.once:
		if err := s.d.node.Archived(ctx, s.d.node.ReadIndex()); err != nil {
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			return etcderr.Of(err)
		}
	case !s.sent:
		if err := s.d.shown(ctx); err != nil {
			return err
		}
		s.sent = true
	}
	return s.ServerStream.SendMsg(m)
}
