package growth

import (
	"context"
	"fmt"
	"math/rand/v2"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

func countExperiments() []experiment {
	var all []experiment
	for _, n := range []int{10_000, 100_000, 1_000_000, 5_000_000} {
		all = append(all, experiment{name: fmt.Sprintf("count of %d keys", n), nodes: 1, full: n > 1_000_000,
			run: func(ctx context.Context, b *bed) ([]Figure, error) { return b.count(ctx, n) }})
	}
	return all
}

// getRow is what a request costs that neither counts nor lists.
const (
	getRow    = "get of one of %d keys, a client"
	getOneRow = "get beside deleted keys, a client"
)

// count asks for the number of keys in random intervals, alone and beside the first keys of a list.
func (b *bed) count(ctx context.Context, n int) ([]Figure, error) {
	if err := b.fill(ctx, "key/", n, 64); err != nil {
		return nil, err
	}
	one, err := b.load(ctx, fmt.Sprintf(getRow, n), 1, b.gets("key/", n, 64))
	if err != nil {
		return nil, err
	}
	out := []Figure{one}
	for _, c := range []struct {
		row   string
		limit int64 // 0: the count alone
	}{{"count of a random interval of %d keys", 0}, {"limit=1 of %d keys", 1}, {"first page of 500 of %d keys", 500}} {
		f, err := b.load(ctx, fmt.Sprintf(c.row, n), 1, func(ctx context.Context, _ int, r *rand.Rand) error {
			from := r.IntN(n / 2)
			to := from + n/4 + r.IntN(n/4)
			res, err := b.kv(0).Range(ctx, &pb.RangeRequest{Key: key("key/", from), RangeEnd: key("key/", to), CountOnly: c.limit == 0, Limit: c.limit})
			if err == nil && (res.Count != int64(to-from) || int64(len(res.Kvs)) != c.limit) {
				err = fmt.Errorf("%d counted and %d read of %d", res.Count, len(res.Kvs), to-from)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		out = append(out, f)
	}
	return out, nil
}

func deleteExperiments() []experiment {
	return []experiment{{name: "delete of 100,000 keys", nodes: 1, run: deleted}}
}

// deleted deletes many keys at once beside puts, and counts what is not there any more.
func deleted(ctx context.Context, b *bed) ([]Figure, error) {
	const n = 100_000
	if err := b.fill(ctx, "gone/", n, 100); err != nil {
		return nil, err
	}
	done := make(chan error, 1)
	go func() {
		if err := sleep(ctx, b.lasts/3); err != nil {
			done <- err
			return
		}
		res, err := b.kv(0).DeleteRange(ctx, &pb.DeleteRangeRequest{Key: []byte("gone/"), RangeEnd: end("gone/")})
		if err == nil && res.Deleted != n {
			err = fmt.Errorf("%d keys of %d were deleted", res.Deleted, n)
		}
		done <- err
	}()
	beside, err := b.paced(ctx, "put beside the delete of 100,000 keys, 500/s", 8, putsPerSecond, b.puts("beside/", 1000, 64, 1))
	if e := <-done; err == nil {
		err = e
	}
	if err != nil {
		return nil, err
	}
	if err := b.fill(ctx, "one/", 1, 64); err != nil {
		return nil, err
	}
	one, err := b.load(ctx, getOneRow, 1, b.gets("one/", 1, 64))
	if err != nil {
		return nil, err
	}
	counted, err := b.load(ctx, "count of 100,000 deleted keys", 1, func(ctx context.Context, _ int, _ *rand.Rand) error {
		res, err := b.kv(0).Range(ctx, &pb.RangeRequest{Key: []byte("gone/"), RangeEnd: end("gone/"), CountOnly: true})
		if err == nil && res.Count != 0 {
			err = fmt.Errorf("%d keys are left", res.Count)
		}
		return err
	})
	return []Figure{beside, one, counted}, err
}

// twenty reads twenty random keys in one Txn.
func (b *bed) twenty(of, bytes int) do {
	return func(ctx context.Context, w int, r *rand.Rand) error {
		txn := &pb.TxnRequest{}
		for range 20 {
			txn.Success = append(txn.Success, &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: &pb.RangeRequest{Key: key("key/", r.IntN(of))}}})
		}
		res, err := b.kv(w).Txn(ctx, txn)
		if err != nil {
			return err
		}
		for _, op := range res.Responses {
			if kvs := op.GetResponseRange().GetKvs(); len(kvs) != 1 || len(kvs[0].Value) != bytes {
				return fmt.Errorf("a key of a Txn is missing")
			}
		}
		return nil
	}
}
