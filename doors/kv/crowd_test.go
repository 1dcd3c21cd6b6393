package kv

import (
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// TestIdleWatchesAreNeverCut: clients with a stream for each watch open as many as there is room for. Those that are refused come again, and none that
// is open is cut for them; each still hears of progress, and every connection may put.
func TestIdleWatchesAreNeverCut(t *testing.T) {
	t.Parallel()
	first := serveFake(t, newFakeMember(), Options{MaxCallBytes: 4 << 20})
	conns := []*grpc.ClientConn{first, dialAgain(t, first), dialAgain(t, first), dialAgain(t, first)}
	open := func(c *grpc.ClientConn) (pb.Watch_WatchClient, bool) {
		t.Helper()
		w, err := pb.NewWatchClient(c).Watch(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_ = w.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: &pb.WatchCreateRequest{Key: []byte("k")}}}) // Recv has the error
		r, err := w.Recv()
		if err != nil && status.Code(err) != codes.ResourceExhausted {
			t.Fatal(err)
		}
		if err == nil && r.Canceled {
			_ = w.CloseSend() // a stream without a watch is of no use
			return nil, false
		}
		return w, err == nil
	}
	var all []pb.Watch_WatchClient
	refused := 0
	for i := range 600 { // 256 streams have room, three quarters of them for one address
		if w, ok := open(conns[i%len(conns)]); ok {
			all = append(all, w)
		} else {
			refused++
		}
	}
	if len(all) < 170 || refused < 300 {
		t.Errorf("%d streams are open and %d were refused", len(all), refused)
	}
	for i, w := range all {
		if err := w.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_ProgressRequest{ProgressRequest: &pb.WatchProgressRequest{}}}); err != nil {
			t.Fatalf("stream %d of %d: %v", i, len(all), err)
		}
		if _, err := w.Recv(); err != nil {
			t.Fatalf("stream %d of %d was cut: %v", i, len(all), err)
		}
	}
	for _, c := range conns {
		if _, err := pb.NewKVClient(c).Put(t.Context(), putRequest); err != nil {
			t.Errorf("a put: %v", err)
		}
	}
}
