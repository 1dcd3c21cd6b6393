package crash

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfastdb/holdfast/internal/proctest"
	"github.com/holdfastdb/holdfast/internal/wait"
)

// answers are the codes with which a server may say no. Anything else (Unavailable, Internal, Unknown, a deadline) means
// that it did not judge the request.
var answers = []codes.Code{codes.OK, codes.InvalidArgument, codes.NotFound, codes.OutOfRange, codes.FailedPrecondition,
	codes.ResourceExhausted, codes.AlreadyExists, codes.Unimplemented} // Unimplemented: RangeStream in an order of its own

// TestRandomRequests sends requests at every odd edge. Each gets an answer, members stay equal, and a restart replays to
// the same state.
func TestRandomRequests(t *testing.T) {
	processTest(t, true)
	t.Run("one", func(t *testing.T) { randomRequests(t, 1, count("RANDOM_ONE", 8_000, 1_000_000)) })
	t.Run("three", func(t *testing.T) { randomRequests(t, 3, count("RANDOM_THREE", 5_000, 1_000_000)) })
}

func randomRequests(t *testing.T, nodes, total int) {
	const senders = 16
	r := rng(t)
	c := start(t, nodes)
	began := time.Now()
	var mu sync.Mutex
	kinds, said, unanswered := map[string]int{}, map[codes.Code]int{}, 0
	var wg sync.WaitGroup
	for i := range senders {
		g := &generator{r: rand.New(rand.NewPCG(r.Uint64(), uint64(i))), seen: 1}
		cc := conn(t, c.Nodes[i%nodes].KV)
		wg.Go(func() {
			for range total / senders {
				ctx, cancel := context.WithTimeout(t.Context(), wait.Limit(t))
				what, q, err := g.send(ctx, cc)
				cancel()
				code := status.Code(err)
				mu.Lock()
				kinds[what]++
				said[code]++
				bad := !slices.Contains(answers, code)
				if bad {
					if unanswered++; unanswered <= 5 {
						t.Errorf("%s %v: %v", what, q, err)
					}
				}
				give := unanswered > 50
				mu.Unlock()
				if give {
					return
				}
			}
		})
	}
	wg.Wait()
	took := time.Since(began)
	ignoredAfterDelete(t, c)

	// Leases run out by themselves and change state; without any it stays as it is.
	dropLeases(t, c)
	before := hashes(t, c)
	for _, n := range c.Nodes {
		kill(t, n)
	}
	for _, n := range c.Nodes {
		if err := n.Start(); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.WaitReady(); err != nil {
		t.Fatal(err)
	}
	if after := hashes(t, c); after != before {
		t.Errorf("state hash %x, after the restart %x", before, after)
	}
	t.Logf("kinds %v, codes %v", kinds, said)
	refused := 0
	for code, n := range said {
		if code != codes.OK {
			refused += n
		}
	}
	summary(t, "random requests: %d nodes, %s sent in %s, %s refused, %d unanswered, members equal, equal after kill -9 of all",
		nodes, grouped(total/senders*senders), tenth(took), grouped(refused), unanswered)
}

// ignoredAfterDelete checks the one request etcd 3.7.3 dies of: refused by name, and nothing changes.
func ignoredAfterDelete(t *testing.T, c *proctest.Cluster) {
	t.Helper()
	kv := pb.NewKVClient(conn(t, c.Nodes[0].KV))
	ctx := wait.Context(t)
	if _, err := kv.Put(ctx, &pb.PutRequest{Key: []byte("b/3"), Value: []byte("stays")}); err != nil {
		t.Fatal(err)
	}
	_, err := kv.Txn(ctx, deletedThenIgnored())
	if status.Code(err) != codes.InvalidArgument || status.Convert(err).Message() != "etcdserver: key not found" {
		t.Errorf("a put that keeps the value of a key deleted before it: %v", err)
	}
	res, err := kv.Range(ctx, &pb.RangeRequest{Key: []byte("b/3")})
	if err != nil || len(res.Kvs) != 1 || string(res.Kvs[0].Value) != "stays" {
		t.Errorf("the refused Txn changed something: %v %v", res, err)
	}
}

func dropLeases(t *testing.T, c *proctest.Cluster) {
	t.Helper()
	lease := pb.NewLeaseClient(conn(t, c.Nodes[0].KV))
	all, err := lease.LeaseLeases(wait.Context(t), &pb.LeaseLeasesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range all.Leases {
		_, err := lease.LeaseRevoke(wait.Context(t), &pb.LeaseRevokeRequest{ID: l.ID})
		if err != nil && status.Code(err) != codes.NotFound {
			t.Fatalf("revoke %d: %v", l.ID, err)
		}
	}
}

// streamed reads a whole RangeStream: how many keys, how many bytes of values.
func streamed(ctx context.Context, kv pb.KVClient, q *pb.RangeRequest) (keys, bytes int, err error) {
	stream, err := kv.RangeStream(ctx, q, grpc.MaxCallRecvMsgSize(64<<20))
	if err != nil {
		return 0, 0, err
	}
	for {
		res, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return keys, bytes, nil
		}
		if err != nil {
			return keys, bytes, err
		}
		for _, one := range res.GetRangeResponse().GetKvs() {
			keys++
			bytes += len(one.Value)
		}
	}
}

// TestGenerator holds the generator to what it promises: the same seed draws the same requests, of every kind.
func TestGenerator(t *testing.T) {
	draw := func() string {
		g := &generator{r: rand.New(rand.NewPCG(1, 2)), seen: 100}
		var b strings.Builder
		for range 2000 {
			fmt.Fprint(&b, g.put(), g.rangeRequest(), g.deleteRange(), g.txn(3))
		}
		return b.String()
	}
	one := draw()
	if one != draw() {
		t.Error("two runs of one seed draw different requests")
	}
	for _, want := range []string{"ignore_value:true", "ignore_lease:true", "range_end:\"\\x00\"", "request_txn", "sort_order:-1", "target:5"} {
		if !strings.Contains(strings.ReplaceAll(one, ": ", ":"), want) {
			t.Errorf("2,000 draws without %s", want)
		}
	}
}
