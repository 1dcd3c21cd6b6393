package kv_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/metadata"

	doorkv "github.com/holdfastdb/holdfast/doors/kv"
	"github.com/holdfastdb/holdfast/internal/wait"
)

// events reads n events from a watch.
func events(t testing.TB, ch clientv3.WatchChan, n int) (evs []*clientv3.Event) {
	t.Helper()
	deadline := time.After(wait.Limit(t))
	for len(evs) < n {
		select {
		case r, ok := <-ch:
			if !ok || r.Err() != nil {
				t.Fatalf("watch ended: %v", r.Err())
			}
			evs = append(evs, r.Events...)
		case <-deadline:
			t.Fatalf("%d events after 10 s, want %d", len(evs), n)
		}
	}
	return evs
}

func TestWatch(t *testing.T) {
	t.Parallel()
	s := serve(t, doorkv.Options{ProgressInterval: 200 * time.Millisecond})
	c := s.client(t)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	put(t, c, "a", "1")
	put(t, c, "a", "2")
	past := c.Watch(ctx, "a", clientv3.WithRev(2), clientv3.WithPrevKV())
	evs := events(t, past, 2)
	if string(evs[0].Kv.Value) != "1" || evs[0].PrevKv != nil || string(evs[1].Kv.Value) != "2" || string(evs[1].PrevKv.Value) != "1" {
		t.Errorf("history: %v", evs)
	}
	must(c.Delete(ctx, "a"))(t)
	evs = events(t, past, 1)
	if evs[0].Type != mvccpb.DELETE || evs[0].Kv.ModRevision != 4 || string(evs[0].PrevKv.Value) != "2" {
		t.Errorf("delete: %v", evs[0])
	}

	// One response holds all of a revision, and filters leave out their kind.
	prefix := c.Watch(ctx, "p", clientv3.WithPrefix(), clientv3.WithCreatedNotify())
	if r := <-prefix; !r.Created || r.Header.Revision != 4 {
		t.Errorf("created: %+v", r)
	}
	onlyDeletes := c.Watch(ctx, "p", clientv3.WithPrefix(), clientv3.WithFilterPut(), clientv3.WithCreatedNotify())
	<-onlyDeletes
	must(c.Txn(ctx).Then(clientv3.OpPut("p1", ""), clientv3.OpPut("x", ""), clientv3.OpPut("p2", ""), clientv3.OpPut("p3", "")).Commit())(t)
	if r := <-prefix; len(r.Events) != 3 || r.Header.Revision != 5 {
		t.Errorf("%d events of one revision, header %d", len(r.Events), r.Header.Revision)
	}
	must(c.Delete(ctx, "p2"))(t)
	if evs := events(t, onlyDeletes, 1); evs[0].Type != mvccpb.DELETE || string(evs[0].Kv.Key) != "p2" {
		t.Errorf("only deletes: %v", evs)
	}

	// Progress, asked for and by itself.
	quiet := c.Watch(ctx, "quiet", clientv3.WithProgressNotify(), clientv3.WithCreatedNotify())
	<-quiet
	if r := <-quiet; !r.IsProgressNotify() || r.Header.Revision != 6 {
		t.Errorf("progress by itself: %+v", r)
	}
	asked := clientv3.WithRequireLeader(ctx)
	w := c.Watch(asked, "quiet2", clientv3.WithCreatedNotify())
	<-w
	rev := put(t, c, "y", "")
	if err := c.RequestProgress(asked); err != nil {
		t.Fatal(err)
	}
	if r := <-w; !r.IsProgressNotify() || r.Header.Revision != rev {
		t.Errorf("progress asked for at %d: %+v", rev, r)
	}

	// A watch has no progress to tell before the revision it was asked to begin at, not even the one right before it.
	atNext := clientv3.WithRequireLeader(metadata.AppendToOutgoingContext(ctx, "stream", "of its own"))
	next := c.Watch(atNext, "quiet3", clientv3.WithRev(rev+1), clientv3.WithProgressNotify(), clientv3.WithCreatedNotify())
	<-next
	if err := c.RequestProgress(atNext); err != nil {
		t.Fatal(err)
	}
	select {
	case r := <-next:
		t.Errorf("told of %d, asked to begin at %d", r.Header.Revision, rev+1)
	case <-time.After(500 * time.Millisecond): // two intervals
	}
	rev = put(t, c, "y", "")
	if r := <-next; !r.IsProgressNotify() || r.Header.Revision != rev {
		t.Errorf("progress at %d: %+v", rev, r)
	}

	// From a revision that is not there yet.
	future := c.Watch(ctx, "f", clientv3.WithRev(rev+2))
	put(t, c, "f", "too early")
	put(t, c, "f", "now")
	if evs := events(t, future, 1); string(evs[0].Kv.Value) != "now" {
		t.Errorf("future: %v", evs)
	}
}

// TestWatchWire looks at answers the client library hides.
func TestWatchWire(t *testing.T) {
	t.Parallel()
	s := serve(t, doorkv.Options{})
	c := s.client(t)
	ctx, cancel := context.WithTimeout(context.Background(), wait.Limit(t))
	defer cancel()
	stream := must(pb.NewWatchClient(c.ActiveConnection()).Watch(ctx))(t)
	create := func(r *pb.WatchCreateRequest) *pb.WatchResponse {
		t.Helper()
		if err := stream.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: r}}); err != nil {
			t.Fatal(err)
		}
		return must(stream.Recv())(t)
	}
	if r := create(&pb.WatchCreateRequest{Key: []byte("a"), WatchId: 7}); r.WatchId != 7 || !r.Created || r.Canceled {
		t.Errorf("chosen id: %v", r)
	}
	if r := create(&pb.WatchCreateRequest{Key: []byte("a"), WatchId: 7}); r.WatchId != -1 || !r.Created || !r.Canceled || r.CancelReason == "" {
		t.Errorf("id twice: %v", r)
	}
	if r := create(&pb.WatchCreateRequest{Key: []byte("b"), RangeEnd: []byte("a")}); r.WatchId != -1 || !r.Canceled {
		t.Errorf("inverted range: %v", r)
	}
	if r := create(&pb.WatchCreateRequest{Key: []byte("a"), StartRevision: -1}); r.WatchId != -1 || !r.Canceled || r.CancelReason != rpctypes.ErrCompacted.Error() {
		t.Errorf("negative revision: %v", r)
	}
	if r := create(&pb.WatchCreateRequest{RangeEnd: []byte{0}, Fragment: true}); r.WatchId != 0 || r.Canceled {
		t.Errorf("everything: %v", r)
	}
	cancelID := &pb.WatchRequest{RequestUnion: &pb.WatchRequest_CancelRequest{CancelRequest: &pb.WatchCancelRequest{WatchId: 7}}}
	if err := stream.Send(cancelID); err != nil {
		t.Fatal(err)
	}
	if r := must(stream.Recv())(t); r.WatchId != 7 || !r.Canceled || r.Created {
		t.Errorf("cancel: %v", r)
	}
	// A revision larger than a message comes in fragments, of which the last says so.
	var ops []clientv3.Op
	value := strings.Repeat("v", 1<<20)
	keys := []string{}
	for i := range 4 {
		keys = append(keys, fmt.Sprintf("k%d", i))
		put(t, c, keys[i], value)
		ops = append(ops, clientv3.OpPut(keys[i], "", clientv3.WithIgnoreValue()))
	}
	for range keys {
		must(stream.Recv())(t)
	}
	must(c.Txn(ctx).Then(ops...).Commit())(t)
	var got []string
	for {
		r := must(stream.Recv())(t)
		for _, e := range r.Events {
			got = append(got, string(e.Kv.Key))
		}
		if !r.Fragment {
			break
		}
	}
	if !slices.Equal(got, keys) {
		t.Errorf("fragments held %v", got)
	}
}

func TestManyWatchersOfOneKey(t *testing.T) {
	t.Parallel()
	s := serve(t, doorkv.Options{})
	c, ctx := s.client(t), context.Background()
	const watchers, writes = 500, 50
	var ready, done sync.WaitGroup
	for i := range watchers {
		ready.Add(1)
		done.Add(1)
		go func() {
			defer done.Done()
			// A few streams, many watches on each.
			wctx := clientv3.WithRequireLeader(context.WithValue(ctx, struct{ int }{i % 5}, 0))
			ch := c.Watch(wctx, "hot", clientv3.WithCreatedNotify())
			<-ch
			ready.Done()
			for j, e := range events(t, ch, writes) {
				if string(e.Kv.Value) != fmt.Sprint(j) {
					t.Errorf("watcher %d event %d: %s", i, j, e.Kv.Value)
					return
				}
			}
		}()
	}
	ready.Wait()
	for j := range writes {
		put(t, c, "hot", fmt.Sprint(j))
	}
	done.Wait()
}
