package growth

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

const (
	listed      = 10_000 // keys in the lists here
	listedBytes = 1500   // of each value
	page        = 500
)

// past is a list that is read at a revision which is so many changes old.
type past struct{ versions, since int }

func pastExperiments() []experiment {
	var all []experiment
	for _, p := range []past{{1, 10}, {3, 10}, {6, 2000}, {6, 100_000}} {
		all = append(all, experiment{name: p.String(), nodes: 1, run: p.run})
	}
	return append(all, experiment{name: "list", nodes: 1, run: list})
}

func (p past) String() string {
	return fmt.Sprintf("pagination at a revision %d changes ago, %d versions a key", p.since, p.versions)
}

func (p past) run(ctx context.Context, b *bed) ([]Figure, error) {
	for range p.versions {
		if err := b.fill(ctx, "list/", listed, listedBytes); err != nil {
			return nil, err
		}
	}
	rev, err := b.put(ctx, []byte("now"), nil)
	if err != nil {
		return nil, err
	}
	if err := b.overwrite(ctx, "list/", listed, p.since, listedBytes); err != nil {
		return nil, err
	}
	whole, err := b.load(ctx, p.String(), 1, func(ctx context.Context, _ int, _ *rand.Rand) error { return b.paginate(ctx, rev) })
	if err != nil || p.since > 2000 {
		return []Figure{whole}, err
	}
	one, err := b.load(ctx, "limit=1"+strings.TrimPrefix(p.String(), "pagination"), 1, func(ctx context.Context, _ int, _ *rand.Rand) error {
		_, err := b.page(ctx, []byte("list/"), rev, 1)
		return err
	})
	return []Figure{whole, one}, err
}

// paginate reads the list at a revision, page by page, as Kubernetes' API server does.
func (b *bed) paginate(ctx context.Context, rev int64) error {
	from, n := []byte("list/"), 0
	for more := true; more; {
		res, err := b.page(ctx, from, rev, page)
		if err != nil {
			return err
		}
		if res.Count != int64(listed-n) {
			return fmt.Errorf("%d keys were left behind %d of %d", res.Count, n, listed)
		}
		n += len(res.Kvs)
		if more = res.More; more {
			from = append(res.Kvs[len(res.Kvs)-1].Key, 0)
		}
	}
	if n != listed {
		return fmt.Errorf("%d of %d keys", n, listed)
	}
	return nil
}

func (b *bed) page(ctx context.Context, from []byte, rev, limit int64) (*pb.RangeResponse, error) {
	res, err := b.kv(0).Range(ctx, &pb.RangeRequest{Key: from, RangeEnd: end("list/"), Revision: rev, Limit: limit})
	if err == nil && len(res.Kvs) == 0 {
		err = fmt.Errorf("an empty page behind %q", from)
	}
	return res, err
}

// list reads whole lists, by four clients at a time.
func list(ctx context.Context, b *bed) ([]Figure, error) {
	if err := b.fill(ctx, "list/", listed, listedBytes); err != nil {
		return nil, err
	}
	f, err := b.load(ctx, "list of 10k × 1.5 KB, 4 clients", 4, b.reads([]byte("list/"), end("list/"), listed))
	return []Figure{f}, err
}
