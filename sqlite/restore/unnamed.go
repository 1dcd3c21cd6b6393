package restore

import (
	"context"
	"errors"
	"slices"

	"github.com/holdfastdb/holdfast/sqlite/replica"
)

// unnamed returns whole files above level 0 that the manifest does not name yet. They end with a state of the chain, by its checksum. Where
// a named file is damaged an owner has acknowledged commits behind such a file.
func unnamed(ctx context.Context, r *replica.Replica, c *replica.Chain, bad map[string]bool) (own []replica.File, err error) {
	all, err := r.Unnamed(ctx, c)
	if err != nil {
		return nil, err
	}
	for _, f := range all {
		i := slices.IndexFunc(c.Files, func(o replica.File) bool { return o.Level == 0 && o.Max == f.Max && !bad[r.Name(o)] })
		if i < 0 || bad[r.Name(f)] {
			continue
		}
		_, theirs, err := stat(ctx, r, c.Files[i])
		if err == nil {
			_, ours, e := stat(ctx, r, f)
			if err = e; err == nil && ours.PostApplyChecksum == theirs.PostApplyChecksum {
				own = append(own, f)
			}
		}
		var fault *replica.Fault
		if err != nil && !errors.As(err, &fault) {
			return nil, err
		}
	}
	return own, nil
}
