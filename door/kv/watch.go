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

	"github.com/holdfastdb/holdfast/door/kv/auth"
	eident "github.com/holdfastdb/holdfast/entry/ident"
	mkv "github.com/holdfastdb/holdfast/machine/kv"
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
	st := newWatchStream(d.hub, &clientSink{d: d, stream: stream})
	defer st.close()
	ctx, cancel := context.WithCancelCause(stream.Context())
	defer cancel(nil)
	go func() {
		if err := d.readWatch(ctx, stream, st); err != nil {
			cancel(err)
		}
	}()
	err := st.write(ctx, d.opts.ProgressInterval)
	if errors.Is(err, context.Canceled) {
		return rpctypes.ErrGRPCWatchCanceled
	}
	return err
}

func (d *Door) readWatch(ctx context.Context, stream grpc.ServerStream, st *watchStream) error {
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
			if r.CancelRequest == nil || !st.cancel(r.CancelRequest.WatchId) {
				continue
			}
			revision, _ := d.kv.Revision()
			a := &watchAnswer{header: header{revision: revision}, id: r.CancelRequest.WatchId, canceled: true}
			if !send(ctx, st.control, a) {
				return nil
			}
		case *pb.WatchRequest_ProgressRequest:
			if r.ProgressRequest != nil {
				st.ask()
			}
		}
	}
}

// send hands a to the writer; false means that the stream has ended.
func send(ctx context.Context, to chan<- *watchAnswer, a *watchAnswer) bool {
	select {
	case to <- a:
		return true
	case <-ctx.Done():
		return false
	}
}

// createWatch answers a create request and starts the watch. False means that the stream has ended.
func (d *Door) createWatch(ctx context.Context, st *watchStream, r *pb.WatchCreateRequest) bool {
	current, _ := d.kv.Revision()
	a := &watchAnswer{header: header{revision: current}, id: broadcastID, created: true, canceled: true}
	if r.StartRevision < 0 {
		a.reason = rpctypes.ErrCompacted.Error()
		return send(ctx, st.control, a)
	}
	w := &watcher{key: r.Key, end: r.RangeEnd, prevKV: r.PrevKv, fragment: r.Fragment, progress: r.ProgressNotify, start: r.StartRevision}
	if len(w.key) == 0 {
		w.key = []byte{0} // the smallest key
	}
	if reason := d.mayWatch(ctx, w); reason != nil {
		a.reason = reason.Error()
		return send(ctx, st.control, a)
	}
	for _, f := range r.Filters {
		w.noPuts = w.noPuts || f == pb.WatchCreateRequest_NOPUT
		w.noDeletes = w.noDeletes || f == pb.WatchCreateRequest_NODELETE
	}
	from := client(ctx)
	if from != nil && !from.Hold(w.cost()) {
		a.reason = tooMany
		return send(ctx, st.control, a)
	}
	w.from = from
	if err := st.register(w, r.WatchId); err != nil {
		giveBack(from, w.cost())
		a.reason = err.Error()
		return send(ctx, st.control, a)
	}
	// A watch from now on begins right after the revision its announcement names, so that a client that comes back to
	// that revision misses nothing.
	first := r.StartRevision
	if first == 0 {
		first = current + 1
	}
	a.id, a.canceled = w.id, false
	if !send(ctx, st.control, a) {
		return false
	}
	st.start(w, first)
	return true
}

// cost is about what a watch takes in memory: its key is one of the hub's map as well.
func (w *watcher) cost() int64 { return 600 + 2*int64(len(w.key)+len(w.end)) }

// mayWatch judges a watch once, when it begins: like etcd's it goes on when the permission is taken away.
func (d *Door) mayWatch(ctx context.Context, w *watcher) error {
	return d.users.Reading(ctx, func(a *auth.Access) error { return a.May(eident.Read, w.key, w.end) }, nil, nil)
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
	d      *Door
	stream grpc.ServerStream
}

func (s *clientSink) answer(a *watchAnswer) error {
	if a.revision == 0 && a.compact == 0 { // the end of a watch whose history is gone has none, as in etcd
		a.revision, _ = s.d.kv.Revision()
	}
	a.header = s.d.header(a.revision, 0)
	began, times := time.Now(), &s.d.counts.WatchProgress
	if a.created || a.canceled {
		times = &s.d.counts.WatchControl
	}
	err := s.stream.SendMsg(a)
	times.Since(began)
	return err
}

func (s *clientSink) events(w *watcher, batches []*batch, upTo int64) error {
	began := time.Now()
	a := &watchAnswer{header: s.d.header(upTo, 0), id: w.id}
	parts := make(mem.BufferSlice, 1, 1+len(batches))
	size, events := a.size(), 0
	for _, b := range batches {
		if enc := s.encode(w, b); len(enc) > 0 {
			parts = append(parts, mem.SliceBuffer(enc))
			size += len(enc)
			events += b.wanted(w)
		}
	}
	if len(parts) == 1 {
		return nil // filtered out
	}
	s.d.hub.counts.events.Add(uint64(events))
	defer s.d.counts.WatchSent(began, events)
	if limit := s.d.opts.MaxRequestBytes + 512<<10; w.fragment && size >= limit {
		return s.fragments(w, a, batches, limit)
	}
	parts[0] = mem.SliceBuffer(a.append(make([]byte, 0, a.size())))
	return s.stream.SendMsg(prepared{parts})
}

// encode returns the events of b as w wants them: one of the two shared encodings, or one of its own if its filters take
// out a part.
func (s *clientSink) encode(w *watcher, b *batch) []byte {
	if (w.noPuts && b.puts > 0) || (w.noDeletes && b.deletes > 0) {
		var enc []byte
		for i := range b.events {
			if w.wants(&b.events[i]) {
				enc = s.appendEvent(enc, w.prevKV, &b.events[i])
			}
		}
		return enc
	}
	if w.prevKV {
		b.withPrev.Do(func() {
			for i := range b.events {
				b.encodedPrev = s.appendEvent(b.encodedPrev, true, &b.events[i])
			}
		})
		return b.encodedPrev
	}
	b.plain.Do(func() {
		n := 0
		for i := range b.events {
			n += sizeMessage(sizeEvent(&b.events[i], nil))
		}
		b.encoded = make([]byte, 0, n)
		for i := range b.events {
			b.encoded = s.appendEvent(b.encoded, false, &b.events[i])
		}
	})
	return b.encoded
}

func (s *clientSink) appendEvent(b []byte, withPrev bool, e *mkv.Event) []byte {
	if withPrev {
		return appendEvent(b, e, previous(s.d.kv, e))
	}
	return appendEvent(b, e, nil)
}

// fragments sends an answer that is too large in pieces of less than limit bytes, but at least one event each.
func (s *clientSink) fragments(w *watcher, a *watchAnswer, batches []*batch, limit int) error {
	a.fragment = true
	head := a.append(nil)
	piece := append([]byte(nil), head...)
	for _, b := range batches {
		for i := range b.events {
			if !w.wants(&b.events[i]) {
				continue
			}
			enc := s.appendEvent(nil, w.prevKV, &b.events[i])
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
