package growth

import (
	"context"
	"fmt"
	"math/rand/v2"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

func leaseExperiments() []experiment {
	var all []experiment
	for _, n := range []int{10_000, 100_000} {
		all = append(all, experiment{name: fmt.Sprintf("%d leases", n), nodes: 1, run: func(ctx context.Context, b *bed) ([]Figure, error) { return b.leases(ctx, n) }})
	}
	return all
}

// leases grants beside many that are there. All of them outlast the measurement.
func (b *bed) leases(ctx context.Context, n int) ([]Figure, error) {
	grant := func(ctx context.Context, w int, _ *rand.Rand) error {
		_, err := pb.NewLeaseClient(b.conns[w%len(b.conns)]).LeaseGrant(ctx, &pb.LeaseGrantRequest{TTL: 3600})
		return err
	}
	err := together(fillers, func(w int) error {
		for range n / fillers {
			if err := grant(ctx, w, nil); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	f, err := b.paced(ctx, fmt.Sprintf("grant beside %d leases, 50/s", n), 2, 50, grant)
	return []Figure{f}, err
}
