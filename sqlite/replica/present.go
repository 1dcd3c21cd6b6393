package replica

import (
	"cmp"
	"context"
	"slices"

	"github.com/superfly/ltx"
)

// Present lists what is below the replica's prefix, and divides files into those that are there with the size that is known of them and those
// that are not. A file of fewer bytes than any LTX file has is not there, whatever is known of it.
func (r *Replica) Present(ctx context.Context, files []File) (here, gone []File, err error) {
	sizes := map[string]int64{}
	for l, err := range r.Objects(ctx) {
		if err != nil {
			return nil, nil, err
		}
		sizes[l.Name] = l.Size
	}
	for _, f := range files {
		if size, ok := sizes[r.Name(f)]; ok && size == f.Size && size >= FenceSize {
			here = append(here, f)
		} else {
			gone = append(gone, f)
		}
	}
	return here, gone, nil
}

// Reach is the TXID up to which files lead from an empty database, of those that are not behind most: each begins at most one behind where
// the one before it ends. 0: none of them has the whole database.
func Reach(files []File, most TXID) (at TXID) {
	sorted := slices.Clone(files)
	slices.SortFunc(sorted, func(a, b File) int { return cmp.Compare(a.Min, b.Min) })
	var furthest ltx.TXID
	for i := 0; ; {
		for ; i < len(sorted) && sorted[i].Min <= at+1; i++ {
			if sorted[i].Max <= most {
				furthest = max(furthest, sorted[i].Max)
			}
		}
		if furthest <= at {
			return at
		}
		at = furthest
	}
}
