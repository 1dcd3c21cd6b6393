package kv

import (
	"context"
	"crypto/sha256"
	"errors"
	"hash"
	"regexp"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/core/node"
	"github.com/holdfastdb/holdfast/doors/kv/etcddata"
	"github.com/holdfastdb/holdfast/doors/kv/etcderr"
	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
)

// The versions by which clients decide what a server can do: those of the etcd whose behaviour this door has.
const (
	apiVersion     = "3.7.3"
	storageVersion = "3.7.0"
	clusterVersion = "3.7"
)

// APIVersion is the version of etcd whose API this door serves.
const APIVersion = apiVersion

// emptyBytes stands for the rows of a store without keys: counters, members, users. Clients of etcd take a database of 0 bytes
// for one that is not there.
const emptyBytes = 4 << 10

// size is the database size shown to etcd's clients: keys and values with history, and a constant part.
func (d *Door) size() int64 {
	size, _ := d.kv.Size()
	return size + emptyBytes
}

// maintenanceServer is etcdserverpb.Maintenance.
type maintenanceServer struct {
	pb.UnimplementedMaintenanceServer
	d *Door
}

func (s *maintenanceServer) Status(ctx context.Context, _ *pb.StatusRequest) (*pb.StatusResponse, error) {
	if err := s.d.users.MayAsk(ctx); err != nil {
		return nil, err
	}
	st := s.d.node.Status()
	size := s.d.size()
	resp := &pb.StatusResponse{
		Header:           s.d.pbHeader(0),
		Version:          apiVersion,
		DbSize:           size,
		DbSizeInUse:      size, // a compaction lowers both: there is no defragmentation
		DbSizeQuota:      s.d.opts.QuotaBytes,
		Leader:           st.Leader,
		RaftIndex:        st.Commit,
		RaftAppliedIndex: st.Applied,
		RaftTerm:         st.Term,
		IsLearner:        st.Learner,
		StorageVersion:   storageVersion,
		DowngradeInfo:    &pb.DowngradeInfo{},
	}
	if st.Leader == 0 {
		resp.Errors = append(resp.Errors, "etcdserver: no leader")
	}
	for _, a := range s.d.kv.Alarms() {
		resp.Errors = append(resp.Errors, pbAlarm(a).String())
	}
	return resp, nil
}

func pbAlarm(a kvpart.AlarmState) *pb.AlarmMember {
	return &pb.AlarmMember{MemberID: a.Member, Alarm: pb.AlarmType(a.Type)}
}

func (s *maintenanceServer) Alarm(ctx context.Context, r *pb.AlarmRequest) (*pb.AlarmResponse, error) {
	may := s.d.users.MayAdminister
	if r.Action == pb.AlarmRequest_GET {
		may = s.d.users.MayAsk
	}
	if err := may(ctx); err != nil {
		return nil, err
	}
	resp := &pb.AlarmResponse{}
	switch r.Action {
	case pb.AlarmRequest_GET:
		if err := s.d.node.Linearize(s.d.bounded(ctx)); err != nil {
			return nil, etcderr.Of(err)
		}
		for _, a := range s.d.kv.Alarms() {
			if r.Alarm == pb.AlarmType_NONE || r.Alarm == pb.AlarmType(a.Type) {
				resp.Alarms = append(resp.Alarms, pbAlarm(a))
			}
		}
	case pb.AlarmRequest_ACTIVATE, pb.AlarmRequest_DEACTIVATE:
		if r.Alarm != pb.AlarmType_NOSPACE && r.Alarm != pb.AlarmType_CORRUPT {
			break // as etcd: nothing to do
		}
		alarm := kvpart.Alarm{On: r.Action == pb.AlarmRequest_ACTIVATE, Member: r.MemberID, Type: kvpart.AlarmType(r.Alarm)}
		res, err := s.d.propose(ctx, node.LaneSystem, &kvpart.Part{Alarm: &alarm})
		if err != nil {
			return nil, err
		}
		for _, a := range res.Of(entry.MachineKV).(*kvpart.AlarmResult).Alarms {
			resp.Alarms = append(resp.Alarms, pbAlarm(a))
		}
	}
	resp.Header = s.d.pbHeader(0)
	return resp, nil
}

// Defragment answers at once, without a header as in etcd: there is nothing to do, space comes back by itself.
func (s *maintenanceServer) Defragment(ctx context.Context, _ *pb.DefragmentRequest) (*pb.DefragmentResponse, error) {
	began := time.Now()
	if err := s.d.users.MayAdminister(ctx); err != nil {
		return nil, err
	}
	s.d.counts.Defrag.Since(began)
	return &pb.DefragmentResponse{}, nil
}

// Hash is etcd's hash of a whole database file. Members here have no equal files, so it is the hash of the visible content.
func (s *maintenanceServer) Hash(ctx context.Context, _ *pb.HashRequest) (*pb.HashResponse, error) {
	if err := s.d.users.MayAdminister(ctx); err != nil {
		return nil, err
	}
	began := time.Now()
	sum, _, _, current, err := s.d.kv.HashKV(0)
	s.d.counts.Hash.Since(began)
	if err != nil {
		return nil, etcderr.Of(err)
	}
	return &pb.HashResponse{Header: s.d.pbHeader(current), Hash: sum}, nil
}

func (s *maintenanceServer) HashKV(ctx context.Context, r *pb.HashKVRequest) (*pb.HashKVResponse, error) {
	if err := s.d.users.MayAdminister(ctx); err != nil {
		return nil, err
	}
	began := time.Now()
	sum, at, compacted, current, err := s.d.kv.HashKV(r.Revision)
	s.d.counts.HashRev.Since(began)
	if err != nil {
		return nil, etcderr.Of(err)
	}
	return &pb.HashKVResponse{Header: s.d.pbHeader(current), Hash: sum, CompactRevision: compacted, HashRevision: at}, nil
}

// snapshotChunkBytes is the size of the pieces a snapshot leaves in.
const snapshotChunkBytes = 64 << 10

// Snapshot streams a database file of etcd's followed by the SHA-256 of all of it, as etcd does; etcdutl restores it. The file is made
// first, in the data directory. A second call waits until the first one's file is removed.
func (s *maintenanceServer) Snapshot(_ *pb.SnapshotRequest, stream pb.Maintenance_SnapshotServer) error {
	if err := s.d.users.MayAdminister(stream.Context()); err != nil {
		return err
	}
	began := time.Now()
	f, err := s.d.opts.SaveEtcd(stream.Context(), storageVersion, storageVersion)
	if errors.Is(err, etcddata.ErrNoRoom) {
		return status.Error(codes.ResourceExhausted, "etcdserver: "+err.Error())
	}
	if err != nil {
		return etcderr.Of(err)
	}
	defer f.Close()
	w := &snapshotWriter{stream: stream, sum: sha256.New(), buf: make([]byte, 0, snapshotChunkBytes), left: f.Size}
	if _, err := f.WriteTo(w); err != nil {
		return etcderr.Of(err)
	}
	if err := w.flush(); err != nil {
		return err
	}
	if err := w.send(w.sum.Sum(nil)); err != nil {
		return err
	}
	s.d.counts.Snapshot.Since(began)
	return nil
}

// snapshotWriter cuts a stream of writes into messages. It belongs to the handler's goroutine.
type snapshotWriter struct {
	stream pb.Maintenance_SnapshotServer
	sum    hash.Hash
	buf    []byte
	left   int64 // bytes of the file that were not sent yet
}

func (w *snapshotWriter) Write(p []byte) (int, error) {
	n := len(p)
	w.sum.Write(p)
	for len(p) > 0 {
		k := copy(w.buf[len(w.buf):cap(w.buf)], p)
		w.buf, p = w.buf[:len(w.buf)+k], p[k:]
		if len(w.buf) == cap(w.buf) {
			if err := w.flush(); err != nil {
				return 0, err
			}
		}
	}
	return n, nil
}

func (w *snapshotWriter) flush() error {
	if len(w.buf) == 0 {
		return nil
	}
	w.left -= int64(len(w.buf))
	err := w.send(w.buf)
	w.buf = w.buf[:0] // safe: the codec has copied it
	return err
}

func (w *snapshotWriter) send(blob []byte) error {
	return w.stream.Send(&pb.SnapshotResponse{RemainingBytes: uint64(max(w.left, 0)), Blob: blob, Version: storageVersion})
}

func (s *maintenanceServer) MoveLeader(ctx context.Context, r *pb.MoveLeaderRequest) (*pb.MoveLeaderResponse, error) {
	if err := s.d.users.MayAdminister(ctx); err != nil {
		return nil, err
	}
	if st := s.d.node.Status(); st.Leader != st.MemberID {
		return nil, rpctypes.ErrGRPCNotLeader
	}
	if err := s.d.node.TransferLeader(s.d.bounded(ctx), r.TargetID); err != nil {
		return nil, etcderr.Of(err)
	}
	return &pb.MoveLeaderResponse{}, nil
}

var versionForm = regexp.MustCompile(`^[0-9]+\.[0-9]+(\.[0-9]+)?$`)

// Downgrade is refused: the data directory is not etcd's, so no older etcd could take it over. None is ever in flight, so a cancel changes
// nothing; etcd answers it with the cluster's version, whether or not there was one to cancel.
func (s *maintenanceServer) Downgrade(ctx context.Context, r *pb.DowngradeRequest) (*pb.DowngradeResponse, error) {
	if err := s.d.users.MayAdminister(ctx); err != nil {
		return nil, err
	}
	switch r.Action {
	case pb.DowngradeRequest_CANCEL:
		return &pb.DowngradeResponse{Header: s.d.pbHeader(0), Version: clusterVersion}, nil
	case pb.DowngradeRequest_VALIDATE, pb.DowngradeRequest_ENABLE:
		if !versionForm.MatchString(r.Version) {
			return nil, rpctypes.ErrGRPCWrongDowngradeVersionFormat
		}
		return nil, rpctypes.ErrGRPCInvalidDowngradeTargetVersion
	}
	return nil, status.Error(codes.Unknown, "etcdserver: unknown method")
}
