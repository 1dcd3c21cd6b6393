package litestream

import (
	"context"

	"github.com/holdfastdb/holdfast/objstore"
	"github.com/holdfastdb/holdfast/sqlite/litestream/conf"
	"github.com/holdfastdb/holdfast/sqlite/replica"
)

// openStore returns where a replica lies. Nothing is read yet.
func openStore(r conf.Replica) (objstore.Store, error) {
	if r.Bucket == nil {
		var opts []objstore.Option
		if r.Mode != 0 {
			opts = append(opts, objstore.ExactMode(r.Mode))
		}
		return objstore.NewFile(r.Dir, opts...), nil
	}
	b := r.Bucket
	return objstore.OpenBucket(objstore.Bucket{Name: b.Name, Prefix: b.Prefix, Region: b.Region, Endpoint: b.Endpoint,
		AccessKeyID: b.AccessKeyID, SecretAccessKey: b.SecretAccessKey, PathStyle: b.PathStyle, SkipVerify: b.SkipVerify})
}

// openReplica returns a replica in either of Litestream's layouts.
func openReplica(ctx context.Context, r conf.Replica) (*replica.Replica, objstore.Store, error) {
	s, err := openStore(r)
	if err != nil {
		return nil, nil, err
	}
	of, err := replica.Detect(ctx, s, r.String())
	return of, s, err
}
