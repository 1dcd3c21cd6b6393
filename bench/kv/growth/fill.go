package growth

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// fillers is the number of concurrent fillers. batch is the most keys that a Txn of theirs puts (etcd's own limit is 128), and batchBytes
// the most bytes.
const (
	fillers    = 32
	batch      = 100
	batchBytes = 512 << 10
)

// key is the i-th of the keys below a prefix: they sort as they are numbered.
func key(prefix string, i int) []byte { return fmt.Appendf(nil, "%s%08d", prefix, i) }

// value draws bytes that no compression makes smaller.
func value(r *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := 0; i < n; i += 8 {
		x := r.Uint64()
		for k := i; k < min(i+8, n); k++ {
			b[k] = byte(x)
			x >>= 8
		}
	}
	return b
}

// fill puts n keys below prefix, in turn, with values of so many bytes.
func (b *bed) fill(ctx context.Context, prefix string, n, bytes int) error {
	return b.write(ctx, n, bytes, func(r *rand.Rand, i int) []byte { return key(prefix, i) })
}

// overwrite puts n random keys of the first of prefix, each in a revision of its own if alone.
func (b *bed) overwrite(ctx context.Context, prefix string, of, n, bytes int) error {
	return b.write(ctx, n, bytes, func(r *rand.Rand, i int) []byte { return key(prefix, r.IntN(of)) })
}

// write puts n values under the keys that name gives, many in one Txn. A Txn has a key once, so a repeated key is left out.
func (b *bed) write(ctx context.Context, n, bytes int, name func(r *rand.Rand, i int) []byte) error {
	per := min(batch, max(1, batchBytes/max(bytes, 1)))
	var next atomic.Int64
	return together(fillers, func(w int) error {
		r := rand.New(rand.NewPCG(b.seed, uint64(1000+w)))
		for {
			from := int(next.Add(int64(per))) - per
			if from >= n {
				return nil
			}
			txn, seen := &pb.TxnRequest{}, map[string]bool{}
			for i := from; i < min(from+per, n); i++ {
				k := name(r, i)
				if seen[string(k)] {
					continue
				}
				seen[string(k)] = true
				txn.Success = append(txn.Success, &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: k, Value: value(r, bytes)}}})
			}
			if _, err := b.kv(w).Txn(ctx, txn); err != nil {
				return fmt.Errorf("fill: %w", err)
			}
		}
	})
}

// together has n workers do f and returns the first error.
func together(n int, f func(worker int) error) error {
	var wg sync.WaitGroup
	errs := make(chan error, n)
	for w := range n {
		wg.Go(func() { errs <- f(w) })
	}
	wg.Wait()
	for range n {
		if err := <-errs; err != nil {
			return err
		}
	}
	return nil
}

// put returns the revision of one put.
func (b *bed) put(ctx context.Context, k, v []byte) (int64, error) {
	res, err := b.kv(0).Put(ctx, &pb.PutRequest{Key: k, Value: v})
	if err != nil {
		return 0, fmt.Errorf("put: %w", err)
	}
	return res.Header.Revision, nil
}

// end is what lies behind all keys of a prefix (etcd's clientv3.GetPrefixRangeEnd for prefixes that end in a letter or a slash).
func end(prefix string) []byte {
	e := []byte(prefix)
	e[len(e)-1]++
	return e
}
