package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// conns is how many connections the clients share.
const conns = 8

// warmup is how long a load runs before it is measured.
const warmup = 2 * time.Second

// load is clients that put, each waiting for its answer.
type load struct {
	addr    string
	clients int
	size    int
	keys    int // different ones, in turn
	limit   int // puts altogether; 0: until the time is over
	// window has begun and ended: called once each, on another goroutine.
	begins, ends func() error
}

// run puts for a window after the warm-up, or until the limit, and returns the times of the answers within, sorted.
func (l *load) run(ctx context.Context, window time.Duration) (took []time.Duration, seconds float64, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var kv [conns]pb.KVClient
	for i := range kv {
		c, err := grpc.NewClient("passthrough:///"+l.addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			return nil, 0, err
		}
		defer c.Close()
		kv[i] = pb.NewKVClient(c)
	}
	var mu sync.Mutex
	var next int
	var from, to time.Time // of the window; guarded by mu
	value := make([]byte, l.size)
	for i := range value {
		value[i] = byte(i * 7)
	}
	var wg sync.WaitGroup
	for i := range l.clients {
		wg.Go(func() {
			for ctx.Err() == nil {
				mu.Lock()
				n := next
				next++
				over := l.limit > 0 && n >= l.limit || !to.IsZero()
				mu.Unlock()
				if over {
					return
				}
				began := time.Now()
				_, err := kv[i%conns].Put(ctx, &pb.PutRequest{Key: fmt.Appendf(nil, "/bench/%09d", n%l.keys), Value: value})
				ended := time.Now()
				if err != nil {
					cancel(fmt.Errorf("put: %w", err))
					return
				}
				mu.Lock()
				if !from.IsZero() && began.After(from) && to.IsZero() {
					took = append(took, ended.Sub(began))
				}
				mu.Unlock()
			}
		})
	}
	if l.limit == 0 {
		sleep(ctx, warmup)
		if err := l.begins(); err != nil {
			cancel(err)
		}
		mu.Lock()
		from = time.Now()
		mu.Unlock()
		sleep(ctx, window)
		mu.Lock()
		to = time.Now()
		seconds = to.Sub(from).Seconds()
		mu.Unlock()
		if err := l.ends(); err != nil {
			cancel(err)
		}
	}
	wg.Wait()
	if ctx.Err() != nil {
		return nil, 0, context.Cause(ctx)
	}
	slices.Sort(took)
	return took, seconds, nil
}

// sleep waits for d, or for the end of ctx.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// quantile of sorted times, in milliseconds.
func quantile(sorted []time.Duration, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return ms(sorted[min(int(q*float64(len(sorted))), len(sorted)-1)])
}
