package growth

import (
	"context"
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

func valueExperiments() []experiment {
	var all []experiment
	for _, v := range []struct {
		name           string
		clients, bytes int
		keys           int
	}{{"10 KB", 64, 10_000, 2000}, {"100 KB", 16, 100_000, 200}, {"1 MB", 4, 1_000_000, 20}} {
		all = append(all, experiment{name: "values of " + v.name, nodes: 1, floor: true, run: func(ctx context.Context, b *bed) ([]Figure, error) {
			// One by one: the floor server has no Txn.
			bytes := value(b.rand(), v.bytes)
			err := together(conns, func(w int) error {
				for i := w; i < v.keys; i += conns {
					if _, err := b.kv(w).Put(ctx, &pb.PutRequest{Key: key("value/", i), Value: bytes}); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				return nil, err
			}
			put, err := b.load(ctx, fmt.Sprintf("put of %s, %d clients", v.name, v.clients), v.clients, b.puts("value/", v.keys, v.bytes, 0))
			if err != nil {
				return nil, err
			}
			get, err := b.load(ctx, fmt.Sprintf("get of %s, %d clients", v.name, v.clients), v.clients, b.gets("value/", v.keys, v.bytes))
			return []Figure{put, get}, err
		}})
	}
	return all
}
