package importer

import (
	"context"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// feed is the source's changes after a revision. It uses the gRPC stream itself and not the client library's watcher, which queues events
// without bound. Here an unread message stays in the connection and slows the source down.
type feed struct {
	cancel  context.CancelFunc
	changes chan []*etcdserverpb.WatchResponse // all that has come since the last receive
	ask     chan struct{}                      // one value: ask the source how far it is
	done    chan struct{}
	err     error // why changes was closed; read after that
}

// gatherBytes is how much may wait to be written. One more message may wait behind it.
const gatherBytes = 4 << 20

// watch begins after the given revision. A broken stream is for the caller to begin anew.
func (s *side) watch(ctx context.Context, after int64) *feed {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx)) // a member that is cut off says so
	f := &feed{cancel: cancel, changes: make(chan []*etcdserverpb.WatchResponse), ask: make(chan struct{}, 1), done: make(chan struct{})}
	received := make(chan *etcdserverpb.WatchResponse)
	go func() {
		defer close(received)
		f.err = rpctypes.Error(receive(ctx, s, after, received, f.ask))
	}()
	go func() {
		defer close(f.done)
		defer close(f.changes)
		f.gather(ctx, received)
	}()
	return f
}

// gather hands over the received events in as few pieces as the consumer's pace allows. A server sends a message for each revision, and a
// write for each would be slower than the source. It ends when received is closed.
func (f *feed) gather(ctx context.Context, received <-chan *etcdserverpb.WatchResponse) {
	var have []*etcdserverpb.WatchResponse
	size := 0
	for {
		in, out := received, f.changes
		if size > gatherBytes {
			in = nil
		}
		if len(have) == 0 {
			out = nil
		}
		select {
		case r, ok := <-in:
			if !ok {
				return // the gathered events come again with the next stream
			}
			have = append(have, r)
			for _, e := range r.Events {
				size += len(e.Kv.Key) + len(e.Kv.Value) + 100
			}
		case out <- have:
			have, size = nil, 0
		case <-ctx.Done():
			in = received
			for range in { // until the receiver has ended
			}
			return
		}
	}
}

func receive(ctx context.Context, s *side, after int64, to chan<- *etcdserverpb.WatchResponse, ask <-chan struct{}) error {
	stream, err := etcdserverpb.NewWatchClient(s.ActiveConnection()).Watch(ctx)
	if err != nil {
		return err
	}
	create := &etcdserverpb.WatchCreateRequest{Key: []byte(firstKey), RangeEnd: []byte(allKeys), StartRevision: after + 1,
		ProgressNotify: true, Fragment: true}
	if err := stream.Send(&etcdserverpb.WatchRequest{RequestUnion: &etcdserverpb.WatchRequest_CreateRequest{CreateRequest: create}}); err != nil {
		return err
	}
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-ask:
				// A failed send shows as an error of Recv as well.
				_ = stream.Send(&etcdserverpb.WatchRequest{RequestUnion: &etcdserverpb.WatchRequest_ProgressRequest{
					ProgressRequest: &etcdserverpb.WatchProgressRequest{}}})
			}
		}
	}()
	for {
		r, err := stream.Recv()
		if err != nil {
			return err
		}
		select {
		case to <- r:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// close ends the stream and waits for its goroutine.
func (f *feed) close() {
	f.cancel()
	<-f.done
}
