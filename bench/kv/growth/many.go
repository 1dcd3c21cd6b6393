package growth

import (
	"context"
	"fmt"
	"math/rand/v2"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

const million = 1_000_000

func manyExperiments() []experiment {
	return []experiment{
		{name: "a million keys of 1 KB", nodes: 1, run: func(ctx context.Context, b *bed) ([]Figure, error) { return b.many(ctx, 1000) }},
		{name: "a million keys of 100 B", nodes: 1, run: func(ctx context.Context, b *bed) ([]Figure, error) { return b.many(ctx, 100) }},
		{name: "Txn of 20 gets", nodes: 1, run: func(ctx context.Context, b *bed) ([]Figure, error) {
			if err := b.fill(ctx, "key/", 10_000, 64); err != nil {
				return nil, err
			}
			f, err := b.load(ctx, "Txn of 20 gets, 32 clients", 32, b.twenty(10_000, 64))
			return []Figure{f}, err
		}},
	}
}

// many reads and writes among a million keys, and reads them again right after the server was killed.
func (b *bed) many(ctx context.Context, bytes int) ([]Figure, error) {
	if err := b.fill(ctx, "key/", million, bytes); err != nil {
		return nil, err
	}
	what := fmt.Sprintf("of a million keys of %d B", bytes)
	var out []Figure
	if bytes >= 1000 {
		ranges, err := b.load(ctx, "range of 100 "+what+", 16 clients", 16, func(ctx context.Context, w int, r *rand.Rand) error {
			from := r.IntN(million - 100)
			res, err := b.kv(w).Range(ctx, &pb.RangeRequest{Key: key("key/", from), RangeEnd: key("key/", from+100)})
			if err == nil && len(res.Kvs) != 100 {
				err = fmt.Errorf("%d keys of 100", len(res.Kvs))
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		gets, err := b.load(ctx, "get "+what+", 64 clients", 64, b.gets("key/", million, bytes))
		if err != nil {
			return nil, err
		}
		out = append(out, ranges, gets)
	}
	puts, err := b.load(ctx, "put "+what+", 64 clients", 64, b.puts("key/", million, bytes, 0))
	if err != nil {
		return nil, err
	}
	out = append(out, puts)
	if bytes < 1000 {
		n := b.cluster.Nodes[0]
		if err := n.Kill(); err != nil {
			return nil, err
		}
		if err := b.cluster.Restart(n); err != nil {
			return nil, err
		}
		if err := b.connect(n); err != nil {
			return nil, err
		}
		after, err := b.measure(ctx, "get "+what+" after kill -9, 64 clients", 64, 0, b.gets("key/", million, bytes))
		if err != nil {
			return nil, err
		}
		out = append(out, after)
	}
	return out, nil
}
