package crash

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfastdb/holdfast/internal/wait"
)

// TestHotSet reads a small hot set while it is being overwritten all the time. Unread versions must not make the newest ones slow to find.
func TestHotSet(t *testing.T) {
	processTest(t, true)
	const keys, hot, perTxn, txnsPerSecond = 100_000, 1_000, 100, 200
	lasts := seconds("HOT_SECONDS", 3, 60)
	c := start(t, 1, "--kv-quota", "0")
	cli, reader := dial(t, c.Nodes[0].KV), dial(t, c.Nodes[0].KV)
	loadKeys(t, cli, keys)
	time.Sleep(seconds("HOT_SETTLE", 1, 10))

	// The hot keys lie together, from hotFrom on: a range of a hundred of them sees every version of them.
	const hotFrom = 40_000
	r := rng(t)
	rest := hotRanges(t, reader, r, hotFrom, hot, seconds("HOT_REST", 1, 10), nil)

	done := make(chan struct{})
	var sent, late atomic.Int64
	var wg sync.WaitGroup
	wg.Go(func() {
		defer close(done)
		began := time.Now()
		var inFlight sync.WaitGroup
		room := make(chan struct{}, 64) // no more than this many Txns wait for answers at once
		for i := 0; ; i++ {
			due := began.Add(time.Duration(i) * time.Second / txnsPerSecond)
			if due.Sub(began) > lasts {
				break
			}
			time.Sleep(time.Until(due))
			room <- struct{}{}
			if time.Since(due) > time.Second {
				late.Add(1)
			}
			inFlight.Go(func() {
				defer func() { <-room }()
				var ops []clientv3.Op
				for k := range perTxn {
					ops = append(ops, clientv3.OpPut(smallKey(hotFrom+(i*perTxn+k)%hot), fmt.Sprintf("%064d", i)))
				}
				ctx, cancel := context.WithTimeout(t.Context(), wait.Limit(t))
				defer cancel()
				if _, err := cli.Txn(ctx).Then(ops...).Commit(); err != nil && !excused(err) {
					t.Errorf("update: %v", err)
					return
				}
				sent.Add(perTxn)
			})
		}
		inFlight.Wait()
	})
	began := time.Now()
	busy := hotRanges(t, reader, r, hotFrom, hot, wait.Limit(t), done)
	wg.Wait()
	rate := float64(sent.Load()) / time.Since(began).Seconds()

	p50, was := quantile(busy, 0.5), quantile(rest, 0.5)
	if bar := barOf(2 * was); p50 > bar {
		t.Errorf("p50 of a range under updates %s, at rest %s: more than twice", tenth(p50), tenth(was))
	}
	if rate < 0.95*perTxn*txnsPerSecond && long {
		t.Errorf("only %.0f updates/s of %d: the load was not what it should be (%d Txns late)", rate, perTxn*txnsPerSecond, late.Load())
	}
	tenths := len(busy) / 10
	summary(t, "hot set: %.0f updates/s for %s, range of 100 p50 %s at rest, %s under updates (%s in the first tenth, %s in the last), p99 %s and %s",
		rate, lasts, tenth(was), tenth(p50), tenth(quantile(busy[:tenths], 0.5)), tenth(quantile(busy[len(busy)-tenths:], 0.5)),
		tenth(quantile(rest, 0.99)), tenth(quantile(busy, 0.99)))
}

// hotRanges reads a hundred keys from a random place of the hot set again and again, for d or until done is closed.
func hotRanges(t *testing.T, cli *clientv3.Client, r *rand.Rand, hotFrom, hot int, d time.Duration, done <-chan struct{}) (took []time.Duration) {
	t.Helper()
	for began := time.Now(); time.Since(began) < d; {
		select {
		case <-done:
			return took
		default:
		}
		from := hotFrom + r.IntN(hot-100)
		ctx, cancel := context.WithTimeout(t.Context(), wait.Limit(t))
		one := time.Now()
		res, err := cli.Get(ctx, smallKey(from), clientv3.WithRange(smallKey(from+100)))
		took = append(took, time.Since(one))
		cancel()
		if excused(err) {
			continue
		}
		if err != nil || len(res.Kvs) != 100 {
			t.Fatalf("range of 100 hot keys: %d keys, %v", len(res.Kvs), err)
		}
		time.Sleep(2 * time.Millisecond) // the reader must not be the load
	}
	return took
}
