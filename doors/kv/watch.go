package kv

import (
	"context"
	"errors"
	"io"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"

	eident "github.com/holdfastdb/holdfast/core/entry/ident"
	"github.com/holdfastdb/holdfast/doors/kv/auth"
	"github.com/holdfastdb/holdfast/doors/kv/etcderr"
	kvmachine "github.com/holdfastdb/holdfast/doors/kv/machine"
	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
	"github.com/holdfastdb/holdfast/doors/kv/watch"
)

// watchService is etcdserverpb.Watch with answers of our own: the events of a revision are encoded once and shared by all
// streams that send them.
var watchService = grpc.ServiceDesc{
	ServiceName: pb.Watch_ServiceDesc.ServiceName,
	HandlerType: (*any)(nil),
	Streams:     []grpc.StreamDesc{{StreamName: "Watch", Handler: handleWatch, ServerStreams: true, ClientStreams: true}},
	Metadata:    pb.Watch_ServiceDesc.Metadata,
}

// handleWatch writes the stream's answers; a second goroutine reads the client's requests. A client may stop sending and go on
// listening, so the stream ends when its writer does.
func handleWatch(srv any, stream grpc.ServerStream) error {
	d := srv.(*Door)
	st := watch.NewStream(d.hub, &clientSink{d: d, stream: stream, turns: streamed(stream.Context()), archived: d.ackSession(stream.Context()) != nil})
	defer st.Close()
	ctx, cancel := context.WithCancelCause(stream.Context())
	defer cancel(nil)
	go func() {
		if err := d.readWatch(ctx, stream, st); err != nil {
			cancel(err)
		}
	}()
	err := st.Write(ctx, d.opts.ProgressInterval)
	if errors.Is(err, context.Canceled) {
		return rpctypes.ErrGRPCWatchCanceled
	}
	return err
}

func (d *Door) readWatch(ctx context.Context, stream grpc.ServerStream, st *watch.Stream) error {
	for {
		var req pb.WatchRequest
		if err := stream.RecvMsg(&req); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		switch r := req.RequestUnion.(type) {
		case *pb.WatchRequest_CreateRequest:
			if r.CreateRequest != nil && !d.createWatch(ctx, st, r.CreateRequest) {
				return nil
			}
		case *pb.WatchRequest_CancelRequest:
			if r.CancelRequest == nil || !st.Cancel(r.CancelRequest.WatchId) {
				continue
			}
			revision, _ := d.kv.Revision()
			if !st.Tell(ctx, &watch.Answer{ID: r.CancelRequest.WatchId, Canceled: true, Revision: revision}) {
				return nil
			}
		case *pb.WatchRequest_ProgressRequest:
			if r.ProgressRequest != nil {
				st.Ask()
			}
		}
	}
}

// createWatch answers a create request and starts the watch. False means that the stream has ended.
func (d *Door) createWatch(ctx context.Context, st *watch.Stream, r *pb.WatchCreateRequest) bool {
	current, _ := d.kv.Revision()
	a := &watch.Answer{ID: watch.Broadcast, Created: true, Canceled: true, Revision: current}
	if r.StartRevision < 0 {
		a.Reason = rpctypes.ErrCompacted.Error()
		return st.Tell(ctx, a)
	}
	w := &watch.Watcher{Key: r.Key, End: r.RangeEnd, PrevKV: r.PrevKv, Fragment: r.Fragment, Progress: r.ProgressNotify, Start: r.StartRevision}
	if len(w.Key) == 0 {
		w.Key = []byte{0} // the smallest key
	}
	if reason := d.mayWatch(ctx, w); reason != nil {
		a.Reason = reason.Error()
		return st.Tell(ctx, a)
	}
	for _, f := range r.Filters {
		w.NoPuts = w.NoPuts || f == pb.WatchCreateRequest_NOPUT
		w.NoDeletes = w.NoDeletes || f == pb.WatchCreateRequest_NODELETE
	}
	from, cost := client(ctx), w.Cost()
	if from != nil && !from.Hold(cost) {
		a.Reason = tooMany
		return st.Tell(ctx, a)
	}
	w.Ended = func() { giveBack(from, cost) }
	if err := st.Register(w, r.WatchId); err != nil {
		w.Ended()
		a.Reason = err.Error()
		return st.Tell(ctx, a)
	}
	// A watch from now on begins right after the revision its announcement names, so that a client that comes back to
	// that revision misses nothing.
	first := r.StartRevision
	if first == 0 {
		first = current + 1
	}
	a.ID, a.Canceled = w.ID(), false
	if !st.Tell(ctx, a) {
		return false
	}
	st.Start(w, first)
	return true
}

// mayWatch judges a watch once, when it begins: like etcd's it goes on when the permission is taken away.
func (d *Door) mayWatch(ctx context.Context, w *watch.Watcher) error {
	return d.users.Reading(ctx, func(a *auth.Access) error { return a.May(eident.Read, w.Key, w.End) }, nil, nil)
}

// watchAnswer is a WatchResponse without its events.
type watchAnswer struct {
	header
	id                int64
	created, canceled bool
	compact           int64
	reason            string
	fragment          bool
}

func (a *watchAnswer) size() int {
	return sizeMessage(a.header.size()) + sizeUint(uint64(a.id)) + sizeBool(a.created) + sizeBool(a.canceled) +
		sizeUint(uint64(a.compact)) + sizeBytes([]byte(a.reason)) + sizeBool(a.fragment)
}

func (a *watchAnswer) append(b []byte) []byte {
	b = a.header.append(b)
	b = appendUint(b, 2, uint64(a.id))
	b = appendBool(b, 3, a.created)
	b = appendBool(b, 4, a.canceled)
	b = appendUint(b, 5, uint64(a.compact))
	b = appendBytes(b, 6, []byte(a.reason))
	return appendBool(b, 7, a.fragment)
}

// clientSink sends a stream's answers to its client. It belongs to the stream's writer.
type clientSink struct {
	d        *Door
	stream   grpc.ServerStream
	turns    *inTurn // nil: the client speaks gRPC
	archived bool    // its client wants archived events only
}

// Ready implements watch.Sink.
func (s *clientSink) Ready(ctx context.Context, n int64) error { return s.turns.ready(ctx, n) }

// await waits until the log up to index is archived, for as long as the stream lives.
func (s *clientSink) await(index uint64) error {
	ctx := s.stream.Context()
	err := s.d.node.Archived(ctx, index)
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return etcderr.Of(err)
}

// Answer implements watch.Sink.
func (s *clientSink) Answer(a *watch.Answer) error {
	revision := a.Revision
	if revision == 0 && a.Compact == 0 { // the end of a watch whose history is gone has none, as in etcd
		revision, _ = s.d.kv.Revision()
	}
	if s.archived {
		index := s.d.archivedIndexOf(revision)
		if a.Compact != 0 { // it tells of an entry that has no revision
			index = s.d.node.ReadIndex()
		}
		if err := s.await(index); err != nil {
			return err
		}
	}
	began, times := time.Now(), &s.d.counts.WatchProgress
	if a.Created || a.Canceled {
		times = &s.d.counts.WatchControl
	}
	err := s.stream.SendMsg(&watchAnswer{header: s.d.header(revision, 0), id: a.ID, created: a.Created, canceled: a.Canceled, compact: a.Compact,
		reason: a.Reason})
	times.Since(began)
	return err
}

// Events implements watch.Sink.
func (s *clientSink) Events(w *watch.Watcher, batches []*watch.Batch, upTo int64) error {
	began := time.Now()
	a := &watchAnswer{header: s.d.header(upTo, 0), id: w.ID()}
	parts := make(mem.BufferSlice, 1, 1+len(batches))
	size, events := a.size(), 0
	for _, b := range batches {
		if enc := s.encode(w, b); len(enc) > 0 {
			parts = append(parts, mem.SliceBuffer(enc))
			size += len(enc)
			events += b.Wanted(w)
		}
	}
	if len(parts) == 1 {
		return nil // filtered out
	}
	if s.archived {
		if err := s.await(s.d.archivedIndexOf(upTo)); err != nil {
			return err
		}
	}
	s.d.hub.Counts.Events.Add(uint64(events))
	defer s.d.counts.WatchSent(began, events)
	if limit := s.d.opts.MaxRequestBytes + 512<<10; w.Fragment && size >= limit {
		return s.fragments(w, a, batches, limit)
	}
	parts[0] = mem.SliceBuffer(a.append(make([]byte, 0, a.size())))
	return s.stream.SendMsg(prepared{parts})
}

// encode returns the events of b as w wants them. That is one of the two shared encodings, or one of its own if its filters remove some
// events.
func (s *clientSink) encode(w *watch.Watcher, b *watch.Batch) []byte {
	if b.Cut(w) {
		var enc []byte
		for i := range b.Events {
			if w.Wants(&b.Events[i]) {
				enc = s.appendEvent(enc, w.PrevKV, &b.Events[i])
			}
		}
		return enc
	}
	return b.Encoding(w.PrevKV, s)
}

// Encode implements watch.Encoder.
func (s *clientSink) Encode(events []kvmachine.Event, withPrev bool) []byte {
	n := 0
	for i := range events {
		n += sizeMessage(sizeEvent(&events[i], nil)) // the values before them make it grow
	}
	enc := make([]byte, 0, n)
	for i := range events {
		enc = s.appendEvent(enc, withPrev, &events[i])
	}
	return enc
}

func (s *clientSink) appendEvent(b []byte, withPrev bool, e *kvmachine.Event) []byte {
	if withPrev {
		return appendEvent(b, e, previous(s.d.kv, e))
	}
	return appendEvent(b, e, nil)
}

// fragments sends an answer that is too large in pieces of less than limit bytes, but at least one event each.
func (s *clientSink) fragments(w *watch.Watcher, a *watchAnswer, batches []*watch.Batch, limit int) error {
	a.fragment = true
	head := a.append(nil)
	piece := append([]byte(nil), head...)
	for _, b := range batches {
		for i := range b.Events {
			if !w.Wants(&b.Events[i]) {
				continue
			}
			enc := s.appendEvent(nil, w.PrevKV, &b.Events[i])
			if len(piece) > len(head) && len(piece)+len(enc) >= limit {
				if err := s.stream.SendMsg(prepared{mem.BufferSlice{mem.SliceBuffer(piece)}}); err != nil {
					return err
				}
				piece = append(make([]byte, 0, len(head)+len(enc)), head...)
			}
			piece = append(piece, enc...)
		}
	}
	// The last piece says that it is the last: the same header without the fragment field.
	a.fragment = false
	last := append(a.append(nil), piece[len(head):]...)
	return s.stream.SendMsg(prepared{mem.BufferSlice{mem.SliceBuffer(last)}})
}

// previous is the value of e's key before e, where there was one.
func previous(kv reader, e *kvmachine.Event) *kvpart.KeyValue {
	if e.Type == kvmachine.EventPut && e.KV.CreateRevision == e.KV.ModRevision {
		return nil
	}
	prev, err := kv.Previous(e.KV.Key, e.KV.ModRevision)
	if err != nil {
		return nil // compacted: etcd leaves it out too
	}
	return prev
}
