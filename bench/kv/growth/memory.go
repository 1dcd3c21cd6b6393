package growth

import (
	"context"
	"fmt"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

func memoryExperiments() []experiment {
	return []experiment{
		{name: "memory of 10,000 keys", nodes: 3, run: func(ctx context.Context, b *bed) ([]Figure, error) {
			if err := b.fill(ctx, "key/", 10_000, 100); err != nil {
				return nil, err
			}
			if _, err := b.load(ctx, "put", 64, b.puts("key/", 10_000, 100, 0)); err != nil {
				return nil, err
			}
			after, err := b.resident("memory: 10,000 keys, right after puts, the largest of three members")
			if err != nil {
				return nil, err
			}
			if err := sleep(ctx, time.Minute); err != nil {
				return nil, err
			}
			rested, err := b.resident("memory: 10,000 keys, a minute after puts, the largest of three members")
			return append(after, rested...), err
		}},
		{name: "memory of 10,000 watchers", nodes: 1, run: func(ctx context.Context, b *bed) ([]Figure, error) {
			s, err := watch(ctx, b.conns[0])
			if err != nil {
				return nil, err
			}
			defer s.end()
			for i := range 10_000 {
				if err := s.create(key("watched/", i), nil, 0); err != nil {
					return nil, err
				}
				if err := s.await(1, 0); err != nil {
					return nil, err
				}
			}
			return b.resident("memory: 10,000 watchers")
		}},
		{name: "memory of 100,000 leases", nodes: 1, run: func(ctx context.Context, b *bed) ([]Figure, error) {
			err := together(fillers, func(w int) error {
				for range 100_000 / fillers {
					if _, err := pb.NewLeaseClient(b.conns[w%len(b.conns)]).LeaseGrant(ctx, &pb.LeaseGrantRequest{TTL: 3600}); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				return nil, err
			}
			return b.resident("memory: 100,000 leases")
		}},
		{name: "memory after reads", nodes: 1, run: rest},
	}
}

// resident is the largest member's memory at the moment.
func (b *bed) resident(row string) ([]Figure, error) {
	rss, err := b.rss()
	return []Figure{{Row: row, RSS: rss}}, err
}

// rest reads ten gigabytes and leaves the server alone for a minute.
func rest(ctx context.Context, b *bed) ([]Figure, error) {
	if err := b.fill(ctx, "list/", listed, listedBytes); err != nil {
		return nil, err
	}
	if err := sleep(ctx, time.Minute); err != nil {
		return nil, err
	}
	before, err := b.resident("memory: idle beside 10k × 1.5 KB")
	if err != nil {
		return nil, err
	}
	const lists = 10_000_000_000 / (listed * listedBytes)
	err = together(4, func(w int) error {
		read := b.reads([]byte("list/"), end("list/"), listed)
		for range lists / 4 {
			if err := read(ctx, w, nil); err != nil {
				return fmt.Errorf("list: %w", err)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	at, err := b.resident("memory: at the end of 10 GB of reads")
	if err != nil {
		return nil, err
	}
	if err := sleep(ctx, time.Minute); err != nil {
		return nil, err
	}
	after, err := b.resident("memory: 60 s after 10 GB of reads")
	return append(append(before, at...), after...), err
}
