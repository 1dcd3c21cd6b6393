package crash

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/holdfastdb/holdfast/internal/proctest"
	"github.com/holdfastdb/holdfast/internal/wait"
)

// crowdBar is the most that the process may have in TestCrowdsBesideLeasesAndWriters, as the kernel counts it.
const crowdBar = 300_000_000

// everyDoor turns every door on at addresses of the test.
var everyDoor = []string{"--saga", "{saga}", "--tlog", "{tlog}", "--sql", "{sql}"}

// idleStream is a stream with idle watches. Its owner reads it until it ends.
type idleStream struct {
	pb.Watch_WatchClient
}

// crowd is clients that watch and hear nothing. Its methods are called by one goroutine.
type crowd struct {
	t       *testing.T
	streams []*idleStream
}

// connect opens a connection whose buffers are small: the test has thousands.
func (c *crowd) connect(at string) *grpc.ClientConn {
	cc, err := grpc.NewClient(at, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithReadBufferSize(1<<10), grpc.WithWriteBufferSize(1<<10))
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { cc.Close() })
	return cc
}

// watch opens streams on a connection, each with so many watches on unwritten keys.
func (c *crowd) watch(cc *grpc.ClientConn, streams, watches int) {
	for range streams {
		w, err := pb.NewWatchClient(cc).Watch(c.t.Context())
		if err != nil {
			c.t.Fatal(err)
		}
		n := len(c.streams)
		for i := range watches {
			key := fmt.Appendf(nil, "/registry/idle/%05d/%02d", n, i)
			if err := w.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: &pb.WatchCreateRequest{Key: key}}}); err != nil {
				c.t.Fatalf("watch %d of stream %d: %v", i, n, err)
			}
		}
		for i := range watches {
			if r, err := w.Recv(); err != nil || r.Canceled {
				c.t.Fatalf("watch %d of stream %d is refused: %v, %s", i, n, err, r.GetCancelReason())
			}
		}
		c.streams = append(c.streams, &idleStream{Watch_WatchClient: w})
	}
}

// allOpen asks every stream for progress: one that was cut does not answer.
func (c *crowd) allOpen(when string) {
	for i, s := range c.streams {
		if err := s.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_ProgressRequest{ProgressRequest: &pb.WatchProgressRequest{}}}); err != nil {
			c.t.Fatalf("stream %d of %d %s: %v", i, len(c.streams), when, err)
		}
		r, err := s.Recv()
		if err != nil || r.Canceled || len(r.Events) > 0 {
			c.t.Fatalf("stream %d of %d was cut %s: %v, %v", i, len(c.streams), when, r, err)
		}
	}
}

// writers put by 64 clients at once, over 8 connections, until stop is called, which returns how many puts there were a second. None may fail.
func writers(t *testing.T, node *proctest.Node) (stop func() float64) {
	var puts, over atomic.Int64
	var wg sync.WaitGroup
	began := time.Now()
	value := make([]byte, 64)
	for i := range 8 {
		kv := pb.NewKVClient(conn(t, node.KV))
		for j := range 8 {
			wg.Go(func() {
				for n := 0; over.Load() == 0; n++ {
					key := fmt.Appendf(nil, "put/%02d/%05d", i*8+j, n%1000)
					if _, err := kv.Put(wait.Context(t), &pb.PutRequest{Key: key, Value: value}); err != nil {
						t.Errorf("put %d of a writer: %v", n, err)
						return
					}
					puts.Add(1)
				}
			})
		}
	}
	return func() float64 {
		over.Store(1)
		wg.Wait()
		return float64(puts.Load()) / time.Since(began).Seconds()
	}
}

// TestCrowdsBesideLeasesAndWriters, with --memory 256MiB and every door on. 1,000 streams of ten idle watches on 100 connections, 1,000
// connections of one, 100,000 leases and 64 writers fit at once, all from one address. Nothing is refused and nothing is cut, in any order
// of arrival. A short run has fewer leases, since 100,000 take half a minute beside writers, and measures no rates.
func TestCrowdsBesideLeasesAndWriters(t *testing.T) {
	processTest(t, false)
	beside(t)
	for _, leasesFirst := range []bool{false, true} {
		if leasesFirst && !long {
			break
		}
		t.Run(fmt.Sprintf("leasesFirst=%v", leasesFirst), func(t *testing.T) { crowdsBeside(t, leasesFirst) })
	}
}

func crowdsBeside(t *testing.T, leasesFirst bool) {
	leases := count("CROWD_LEASES", 10_000, 100_000)
	c := start(t, 1, append(slices.Clone(everyDoor), "--memory", "256MiB")...)
	node := c.Nodes[0]
	stop := make(chan struct{})
	var wg sync.WaitGroup
	var peak int64
	wg.Go(func() { peak = peakRSS(t, c, stop) })

	measure := seconds("CROWD_SECONDS", 0, 10) // a rate is measured over a time; a short run measures none
	alone := writers(t, node)
	time.Sleep(measure)
	rateAlone := alone()

	busy := writers(t, node)
	idle := &crowd{t: t}
	grant := func() { grantAll(t, node, leases, 3000) }
	if leasesFirst {
		grant()
	}
	for range 100 {
		idle.watch(idle.connect(node.KV), 10, 10)
	}
	for range 1000 {
		idle.watch(idle.connect(node.KV), 1, 1)
	}
	if !leasesFirst {
		grant()
	}
	rateBusy := busy()
	rest := writers(t, node)
	idle.allOpen("beside leases and writers")
	time.Sleep(measure)
	rateBeside := rest()
	idle.allOpen("after the writers")
	var lent, calls int64
	if !eventually(t, func() bool { // caches lend within a second
		now := claimsOf(t, node)
		lent = now.Lent
		held, _, share := now.of(t, "leases")
		var callsShare int64
		calls, _, callsShare = now.of(t, "calls")
		return lent >= held-share+calls-callsShare
	}) {
		t.Errorf("caches lend %d bytes: %+v", lent, claimsOf(t, node))
	}
	close(stop)
	wg.Wait()
	if peak > crowdBar {
		t.Errorf("RSS %d MB with --memory 256MiB, bar %d MB", peak/1e6, crowdBar/1_000_000)
	}
	all, err := pb.NewLeaseClient(conn(t, node.KV)).LeaseLeases(context.WithoutCancel(t.Context()), &pb.LeaseLeasesRequest{})
	if err != nil || len(all.Leases) != leases {
		t.Errorf("%d leases of %d, %v", len(all.GetLeases()), leases, err)
	}
	summary(t, "crowds: 1,000 streams of ten idle watches on 100 connections and 1,000 connections of one, %s leases and 64 writers with --memory 256MiB and every door on, "+
		"leases first: %v: open calls hold %.1f MB, caches lend %.1f MB, peak RSS %d MB (10^6)", grouped(leases), leasesFirst, float64(calls)/1e6, float64(lent)/1e6, peak/1e6)
	if measure > 0 {
		summary(t, "crowds: puts of 64 clients: %s/s alone, %s/s while the crowds come, %s/s beside them", grouped(int(rateAlone)), grouped(int(rateBusy)), grouped(int(rateBeside)))
	}
}
