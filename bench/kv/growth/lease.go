package growth

import (
	"context"
	"fmt"
	"math/rand/v2"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
)

const (
	// keepers is how many streams keep leases alive at a time.
	keepers = 64
	keepRow = "keep-alive of %d leases, 64 streams"
)

func leaseExperiments() []experiment {
	var all []experiment
	for _, n := range []int{10_000, 100_000} {
		all = append(all, experiment{name: fmt.Sprintf("%d leases", n), nodes: 1, run: func(ctx context.Context, b *bed) ([]Figure, error) { return b.leases(ctx, n) }})
	}
	return all
}

// leases grants beside many that are there, and keeps those alive. All of them outlast the measurement.
func (b *bed) leases(ctx context.Context, n int) ([]Figure, error) {
	ids, err := b.grant(ctx, n)
	if err != nil {
		return nil, err
	}
	grants, err := b.paced(ctx, fmt.Sprintf("grant beside %d leases, 50/s", n), 2, 50, func(ctx context.Context, w int, _ *rand.Rand) error {
		_, err := pb.NewLeaseClient(b.conns[w%len(b.conns)]).LeaseGrant(ctx, &pb.LeaseGrantRequest{TTL: 3600})
		return err
	})
	if err != nil {
		return nil, err
	}
	kept, err := b.keep(ctx, fmt.Sprintf(keepRow, n), ids)
	return []Figure{grants, kept}, err
}

// grant makes n leases of an hour and returns their ids.
func (b *bed) grant(ctx context.Context, n int) ([]int64, error) {
	ids := make([]int64, n)
	return ids, together(fillers, func(w int) error {
		for i := w; i < n; i += fillers {
			res, err := pb.NewLeaseClient(b.conns[w%len(b.conns)]).LeaseGrant(ctx, &pb.LeaseGrantRequest{TTL: 3600})
			if err != nil {
				return err
			}
			ids[i] = res.ID
		}
		return nil
	})
}

// keep renews random leases on streams that stay open. Each stream sends its next request once it has the last answer.
func (b *bed) keep(ctx context.Context, row string, ids []int64) (Figure, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	streams := make([]grpc.BidiStreamingClient[pb.LeaseKeepAliveRequest, pb.LeaseKeepAliveResponse], keepers)
	for w := range streams {
		var err error
		if streams[w], err = pb.NewLeaseClient(b.conns[w%len(b.conns)]).LeaseKeepAlive(ctx); err != nil {
			return Figure{}, fmt.Errorf("%s: %w", row, err)
		}
	}
	return b.load(ctx, row, keepers, func(_ context.Context, w int, r *rand.Rand) error {
		id := ids[r.IntN(len(ids))]
		if err := streams[w].Send(&pb.LeaseKeepAliveRequest{ID: id}); err != nil {
			return err
		}
		res, err := streams[w].Recv()
		if err == nil && (res.ID != id || res.TTL != 3600) {
			err = fmt.Errorf("lease %x was answered with %x, %d s", id, res.ID, res.TTL)
		}
		return err
	})
}
