package crash

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfastdb/holdfast/internal/proctest"
	"github.com/holdfastdb/holdfast/internal/wait"
)

// The most memory of the whole process with --memory 128MiB.
const memoryBar = 256 << 20

// TestMillionKeys restarts a server with a million small keys: quickly, and within memory.
func TestMillionKeys(t *testing.T) {
	processTest(t, false)
	keys := count("KEYS", 100_000, 1_000_000)
	restarts := count("RESTARTS", 1, 5)
	c := start(t, 1, "--memory", "128MiB")
	node := c.Nodes[0]
	cli := dial(t, node.KV)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	var loading int64
	wg.Go(func() { loading = peakRSS(t, c, stop) })
	began := time.Now()
	loadKeys(t, cli, keys)
	took := time.Since(began)
	close(stop)
	wg.Wait()

	var slowest time.Duration
	var peak int64
	for i := range restarts {
		if i%2 == 0 { // the log holds what the store has not flushed
			kill(t, node)
		} else if err := node.Term(wait.Limit(t)); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if err := c.Restart(node); err != nil {
			t.Fatal(err)
		}
		slowest = max(slowest, time.Since(began))
		res, err := cli.Get(wait.Context(t), "", clientv3.WithFromKey(), clientv3.WithCountOnly())
		if err != nil || res.Count != int64(keys) {
			t.Fatalf("%d of %d keys after the restart: %v", res.Count, keys, err)
		}
		n, bytes, err := streamed(wait.Context(t), pb.NewKVClient(conn(t, node.KV)), &pb.RangeRequest{Key: []byte{0}, RangeEnd: []byte{0}})
		if err != nil || n != keys || bytes != keys*64 {
			t.Errorf("RangeStream of everything: %d keys, %d bytes, %v", n, bytes, err)
		}
		rss, err := node.PeakRSS()
		if err != nil {
			t.Fatal(err)
		}
		peak = max(peak, rss)
	}
	if bar := barOf(5 * time.Second); slowest > bar {
		t.Errorf("ready %s after the start, bar %s", tenth(slowest), bar)
	}
	if max(peak, loading) > memoryBar {
		t.Errorf("RSS %d MB after the restart, %d MB while loading, bar %d MB", peak>>20, loading>>20, memoryBar>>20)
	}
	summary(t, "million keys: %s keys of 8 bytes with 64-byte values written in %s, ready %s after a start (slowest of %d), peak RSS %d MB while loading, "+
		"%d MB after restarts and reading all, with --memory 128MiB", grouped(keys), tenth(took), tenth(slowest), restarts, loading>>20, peak>>20)
}

// loadKeys writes 8-byte keys with 64-byte values, a hundred to a Txn.
func loadKeys(t *testing.T, cli *clientv3.Client, keys int) {
	t.Helper()
	next := make(chan int, keys/100+1)
	for from := 0; from < keys; from += 100 {
		next <- from
	}
	close(next)
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for from := range next {
				var ops []clientv3.Op
				for i := from; i < min(from+100, keys); i++ {
					ops = append(ops, clientv3.OpPut(smallKey(i), fmt.Sprintf("%064d", i)))
				}
				if err := untilAnswered(t, func(ctx context.Context) error {
					_, err := cli.Txn(ctx).Then(ops...).Commit()
					return err
				}); err != nil {
					t.Error("load keys:", err)
					return
				}
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

func smallKey(i int) string { return fmt.Sprintf("%08d", i) }

// TestTooMuchAtOnce asks for more than the memory holds: in one answer, and by unread watches.
func TestTooMuchAtOnce(t *testing.T) {
	processTest(t, false)
	megabytes := count("ATONCE_MB", 96, 1024)
	c := start(t, 1, "--memory", "128MiB", "--kv-quota", "0")
	node := c.Nodes[0]
	stop := make(chan struct{})
	var wg sync.WaitGroup
	var peak int64
	wg.Go(func() { peak = peakRSS(t, c, stop) })

	cli := dial(t, node.KV)
	idle := slowWatchers(t, node, 8)
	const valueBytes = 1<<20 - 1024
	value := noise(rng(t), valueBytes)
	for i := range megabytes {
		if err := untilAnswered(t, putOnce(cli, fmt.Sprintf("huge/%05d", i), value)); err != nil {
			t.Fatal(err)
		}
	}
	kv := pb.NewKVClient(conn(t, node.KV))
	all := &pb.RangeRequest{Key: []byte("huge/"), RangeEnd: []byte("huge0")}
	refused := 0
	for range 4 {
		wg.Go(func() {
			_, err := kv.Range(wait.Context(t), all)
			if status.Code(err) != codes.ResourceExhausted || !strings.Contains(status.Convert(err).Message(), "RangeStream") {
				t.Errorf("a Range of %d MB: %v", megabytes, err)
			}
		})
		refused++
	}
	n, bytes, err := streamed(wait.Context(t), kv, all)
	if err != nil || n != megabytes || bytes != megabytes*valueBytes {
		t.Errorf("RangeStream of %d MB: %d keys, %d bytes, %v", megabytes, n, bytes, err)
	}
	res, err := kv.Range(wait.Context(t), &pb.RangeRequest{Key: all.Key, RangeEnd: all.RangeEnd, CountOnly: true})
	if err != nil || res.Count != int64(megabytes) {
		t.Errorf("counting the same: %v %v", res, err)
	}
	seen := idle()
	close(stop)
	wg.Wait()
	if peak > memoryBar {
		t.Errorf("RSS %d MB, bar %d MB", peak>>20, memoryBar>>20)
	}
	summary(t, "too much at once: %d MB under 8 watches nobody read (%d events each then), %d Ranges of all refused, RangeStream gave all, peak RSS %d MB "+
		"with --memory 128MiB", megabytes, seen, refused, peak>>20)
}

// slowWatchers opens watches on huge/ and does not read them. The returned func then reads one whole, fails the test if
// it misses, repeats or reorders anything, and returns how many events it had.
func slowWatchers(t *testing.T, node *proctest.Node, n int) func() int {
	t.Helper()
	var streams []pb.Watch_WatchClient
	for range n {
		// A connection each: their windows are what the server may have under way.
		stream, err := pb.NewWatchClient(conn(t, node.KV)).Watch(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := stream.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{
			CreateRequest: &pb.WatchCreateRequest{Key: []byte("huge/"), RangeEnd: []byte("huge0"), Fragment: true}}}); err != nil {
			t.Fatal(err)
		}
		streams = append(streams, stream)
	}
	for _, s := range streams {
		if res, err := s.Recv(); err != nil || !res.Created {
			t.Fatalf("watch: %v %v", res, err)
		}
	}
	return func() (events int) {
		res, err := pb.NewKVClient(conn(t, node.KV)).Range(wait.Context(t), &pb.RangeRequest{Key: []byte("huge/"), RangeEnd: []byte("huge0"), CountOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		for int64(events) < res.Count {
			got, err := streams[0].Recv()
			if err != nil || got.Canceled {
				t.Errorf("a watch read late ends after %d of %d events: %v %v", events, res.Count, got.GetCancelReason(), err)
				return events
			}
			for _, ev := range got.Events {
				if want := fmt.Sprintf("huge/%05d", events); string(ev.Kv.Key) != want {
					t.Fatalf("a watch read late shows %s, want %s", ev.Kv.Key, want)
				}
				events++
			}
		}
		return events
	}
}
