package crash

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfastdb/holdfast/internal/proctest"
	"github.com/holdfastdb/holdfast/internal/wait"
)

// TestCatchUp brings back a member that is far behind, once killed and once paused, while others go on writing.
func TestCatchUp(t *testing.T) {
	processTest(t, true)
	t.Run("killed", func(t *testing.T) {
		catchUp(t, count("BEHIND_MB", 24, 1024), func(n *proctest.Node) error { return n.Kill() }, func(n *proctest.Node) error { return n.Start() })
	})
	t.Run("paused", func(t *testing.T) {
		catchUp(t, count("PAUSED_MB", 24, 512), func(n *proctest.Node) error { return n.Pause() }, func(n *proctest.Node) error { return n.Resume() })
	})
}

func catchUp(t *testing.T, megabytes int, down, up func(*proctest.Node) error) {
	const valueBytes = 100 << 10
	r := rng(t)
	c := start(t, 3, "--kv-quota", "0")
	leader, err := c.WaitLeader(wait.Limit(t))
	if err != nil {
		t.Fatal(err)
	}
	behind := other(r, c, leader)
	var endpoints []string
	for _, n := range c.Nodes {
		if n != behind {
			endpoints = append(endpoints, n.KV)
		}
	}
	cli := dial(t, endpoints...)
	if err := down(behind); err != nil {
		t.Fatal(err)
	}
	fill(t, cli, r, megabytes<<20/valueBytes, valueBytes)
	time.Sleep(seconds("CATCHUP_SETTLE", 0, 10))

	probe := seconds("CATCHUP_PROBE", 1, 15)
	before := paced(t, cli, probe, nil)
	began := time.Now()
	if err := up(behind); err != nil {
		t.Fatal(err)
	}
	caught := make(chan struct{})
	var took time.Duration
	go func() {
		defer close(caught)
		eventually(t, func() bool {
			there, err := behind.Status(t.Context())
			here, err2 := leader.Status(t.Context())
			return err == nil && err2 == nil && there.Header.Revision+200 > here.Header.Revision && there.Header.Revision > 0
		})
		took = time.Since(began)
	}()
	during := paced(t, cli, wait.Limit(t), caught)
	after := paced(t, cli, probe, nil) // the tail of the work: compaction, the store's flush
	hashes(t, c)
	p99, was := quantile(during, 0.99), quantile(before, 0.99)
	// Below a few milliseconds a factor says more about the scheduler than about the server.
	if bar := max(barOf(2*was), barOf(2*time.Millisecond)); p99 > bar {
		t.Errorf("put p99 during the catch-up %s, before %s: more than twice", tenth(p99), tenth(was))
	}
	summary(t, "catch-up: %s behind, caught up in %s, puts of the others p99 %s before, %s during (%d puts), %s after", sizeMB(megabytes),
		tenth(took), tenth(was), tenth(p99), len(during), tenth(quantile(after, 0.99)))
}

func sizeMB(n int) string { return fmt.Sprintf("%d MB", n) }

// fill writes n different random values, eight at a time, over 1,000 keys at most so that history grows as well.
func fill(t *testing.T, cli *clientv3.Client, r *rand.Rand, n, size int) {
	t.Helper()
	values := noise(r, size+n)
	next := make(chan int, n)
	for i := range n {
		next <- i
	}
	close(next)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range next {
				if err := untilAnswered(t, func(ctx context.Context) error {
					_, err := cli.Put(ctx, fmt.Sprintf("fill/%04d", i%1000), values[i:i+size])
					return err
				}); err != nil {
					t.Error("fill:", err)
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

// untilAnswered repeats a request that was refused or lost, for as long as the test's run allows.
func untilAnswered(t *testing.T, do func(context.Context) error) (err error) {
	ctx := t.Context()
	for end := time.Now().Add(wait.Limit(t)); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		one, cancel := context.WithTimeout(ctx, 10*time.Second)
		err = do(one)
		cancel()
		if err == nil || ctx.Err() != nil {
			return err
		}
	}
	return err
}

// paced sends 200 small puts per second at fixed times for d, or until done is closed. It returns their latencies from the time each was
// due: a server that stops answering is not excused from the puts it delayed.
func paced(t *testing.T, cli *clientv3.Client, d time.Duration, done <-chan struct{}) []time.Duration {
	t.Helper()
	const every = 5 * time.Millisecond
	var mu sync.Mutex
	var took []time.Duration
	var wg sync.WaitGroup
	began := time.Now()
	for i := 0; ; i++ {
		due := began.Add(time.Duration(i) * every)
		if due.Sub(began) > d {
			break
		}
		select {
		case <-done:
			wg.Wait()
			return took
		case <-time.After(time.Until(due)):
		}
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), wait.Limit(t))
			defer cancel()
			_, err := cli.Put(ctx, fmt.Sprintf("paced/%02d", i%50), "v")
			mu.Lock()
			defer mu.Unlock()
			took = append(took, time.Since(due))
			if err != nil && !excused(err) {
				t.Errorf("put beside the catch-up: %v", err)
			}
		})
	}
	wg.Wait()
	return took
}
