package growth

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

func watcherExperiments() []experiment {
	var all []experiment
	for _, n := range []int{1000, 10_000, 50_000} {
		all = append(all, experiment{name: fmt.Sprintf("%d watchers", n), nodes: 1, run: func(ctx context.Context, b *bed) ([]Figure, error) { return b.watchers(ctx, n) }})
	}
	return all
}

// putsPerSecond is the load beside watchers and a delete.
const putsPerSecond = 500

// watchers opens watches on one stream, and puts beside them what none of them watches.
func (b *bed) watchers(ctx context.Context, n int) ([]Figure, error) {
	if err := b.fill(ctx, "watched/", n, 64); err != nil {
		return nil, err
	}
	s, err := watch(ctx, b.conns[0])
	if err != nil {
		return nil, err
	}
	defer s.end()
	opened, err := b.times(fmt.Sprintf("%d watches opened on one stream", n), 1, func() error {
		sent := make(chan error, 1)
		go func() {
			for i := range n {
				if err := s.create(key("watched/", i), nil, 0); err != nil {
					sent <- err
					return
				}
			}
			sent <- nil
		}()
		if err := s.await(n, 0); err != nil {
			return err
		}
		return <-sent
	})
	if err != nil {
		return nil, err
	}
	put, err := b.paced(ctx, fmt.Sprintf("put beside %d watchers, 500/s", n), 4, putsPerSecond, b.puts("beside/", 1000, 64, 1))
	if err != nil {
		return nil, err
	}
	// Each of them still works.
	err = together(1, func(int) error {
		if _, err := b.put(ctx, key("watched/", n-1), []byte("end")); err != nil {
			return err
		}
		return s.await(0, 1)
	})
	return []Figure{opened, put}, err
}

// puts writes random keys below a prefix. Workers below skip leave the first connection to others.
func (b *bed) puts(prefix string, of, bytes, skip int) do {
	v := value(b.rand(), bytes)
	return func(ctx context.Context, w int, r *rand.Rand) error {
		_, err := b.kv(w+skip).Put(ctx, &pb.PutRequest{Key: key(prefix, r.IntN(of)), Value: v})
		return err
	}
}

// reads reads an interval, or one key if to is nil, and counts what came.
func (b *bed) reads(from, to []byte, want int) do {
	return func(ctx context.Context, w int, r *rand.Rand) error {
		res, err := b.kv(w).Range(ctx, &pb.RangeRequest{Key: from, RangeEnd: to})
		if err == nil && len(res.Kvs) != want {
			err = fmt.Errorf("%d keys instead of %d", len(res.Kvs), want)
		}
		return err
	}
}

// gets reads one random key at a time.
func (b *bed) gets(prefix string, of, bytes int) do {
	return func(ctx context.Context, w int, r *rand.Rand) error {
		res, err := b.kv(w).Range(ctx, &pb.RangeRequest{Key: key(prefix, r.IntN(of))})
		if err == nil && (len(res.Kvs) != 1 || len(res.Kvs[0].Value) != bytes) {
			err = fmt.Errorf("not one key with %d bytes", bytes)
		}
		return err
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
