package crash

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/holdfastdb/holdfast/internal/proctest"
	"github.com/holdfastdb/holdfast/internal/wait"
)

// TestOverload has one client push 1 MiB values as fast as it can. Other clients must not notice: leases live, health checks
// are answered, memory keeps to the budget, and what is too much is refused as such.
func TestOverload(t *testing.T) {
	processTest(t, false)
	t.Run("one", func(t *testing.T) { overload(t, 1) })
	t.Run("three", func(t *testing.T) { overload(t, 3) })
}

func overload(t *testing.T, nodes int) {
	const budgetMB = 256
	lasts := seconds("OVERLOAD_SECONDS", 2, 30)
	c := start(t, nodes, "--memory", fmt.Sprintf("%dMiB", budgetMB), "--kv-quota", "0")
	entry := c.Nodes[0]
	others := dial(t, c.Endpoints()...)
	leases := keepLeases(t, others, 100, 6*time.Second)

	stop := make(chan struct{})
	var watch sync.WaitGroup
	var peak int64
	watch.Go(func() { peak = peakRSS(t, c, stop) })
	var health []time.Duration
	watch.Go(func() { health = probeHealth(t, entry, stop) })

	var taken, refused, other atomic.Int64
	var push sync.WaitGroup
	pusher := dial(t, entry.KV)
	value := noise(rng(t), 1<<20-1024)
	ctx, cancel := context.WithTimeout(t.Context(), lasts)
	defer cancel()
	for i := range 128 {
		push.Go(func() {
			for seq := 0; ctx.Err() == nil; seq++ {
				opCtx, cancel := context.WithTimeout(t.Context(), wait.Limit(t))
				_, err := pusher.Put(opCtx, fmt.Sprintf("big/%03d/%d", i, seq%2), value)
				cancel()
				switch code, known := errorCode(err); {
				case err == nil:
					taken.Add(1)
				case known && code == codes.ResourceExhausted || excused(err):
					refused.Add(1)
				default:
					if other.Add(1) <= 3 {
						t.Errorf("a value that was too much was answered with: %v", err)
					}
				}
			}
		})
	}
	push.Wait()
	close(stop)
	watch.Wait()
	logSteps(t, c)
	dead := leases.finish(t, others)

	worst := quantile(health, 1)
	if bar := barOf(500 * time.Millisecond); worst >= bar {
		t.Errorf("health took %s, bar %s", tenth(worst), bar)
	}
	bar := int64(budgetMB) << 20
	if !long {
		bar += bar / 10 // pages the kernel has not taken back, while other packages' tests use the machine
	}
	if peak > bar {
		t.Errorf("RSS %d MB with --memory %dMiB, bar %d MB", peak>>20, budgetMB, bar>>20)
	}
	if taken.Load() == 0 {
		t.Error("no value was taken at all")
	}
	summary(t, "overload: %d nodes, 128 writers of 1 MiB for %s, %s taken, %s refused, %d other answers, %d of 100 kept leases dead, "+
		"health p50 %s worst %s (%d), peak RSS %d MB of %d", nodes, lasts, grouped(int(taken.Load())), grouped(int(refused.Load())), other.Load(), dead,
		tenth(quantile(health, 0.5)), tenth(worst), len(health), peak>>20, budgetMB)
}

// errorCode is the gRPC code of an error of the client library, which turns etcd's own texts into its own type.
func errorCode(err error) (codes.Code, bool) {
	var e rpctypes.EtcdError
	if errors.As(err, &e) {
		return e.Code(), true
	}
	s, ok := status.FromError(err)
	return s.Code(), ok
}

// peakRSS samples every member until stop is closed and returns the most any had. The kernel's own high-water mark
// counts pages of exec and restart as well, so it is not used.
func peakRSS(t *testing.T, c *proctest.Cluster, stop <-chan struct{}) (peak int64) {
	for {
		for _, n := range c.Nodes {
			if rss, err := n.RSS(); err == nil {
				peak = max(peak, rss)
			} else if n.Running() {
				t.Error(err)
				return peak
			}
		}
		select {
		case <-stop:
			return peak
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// probeHealth asks the gRPC health service ten times a second until stop is closed.
func probeHealth(t *testing.T, node *proctest.Node, stop <-chan struct{}) (took []time.Duration) {
	cli := healthpb.NewHealthClient(conn(t, node.KV))
	for {
		began := time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), wait.Limit(t))
		res, err := cli.Check(ctx, &healthpb.HealthCheckRequest{})
		cancel()
		took = append(took, time.Since(began))
		if excused(err) {
			err, res = nil, &healthpb.HealthCheckResponse{Status: healthpb.HealthCheckResponse_SERVING}
		}
		if err != nil || res.Status != healthpb.HealthCheckResponse_SERVING {
			t.Errorf("health under load: %v %v", res.GetStatus(), err)
		}
		select {
		case <-stop:
			return took
		case <-time.After(100 * time.Millisecond):
		}
	}
}
