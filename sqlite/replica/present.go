package replica

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/superfly/ltx"
)

// Present lists the objects below the replica's prefix and divides files. here are there with their known size; each other one has a fault.
func (r *Replica) Present(ctx context.Context, files []File) (here []File, faults []*Fault, err error) {
	sizes := map[string]int64{}
	for l, err := range r.Objects(ctx) {
		if err != nil {
			return nil, nil, err
		}
		sizes[l.Name] = l.Size
	}
	for _, f := range files {
		name := r.Name(f)
		switch size, ok := sizes[name]; {
		case !ok:
			faults = append(faults, &Fault{Name: name, Reason: "it is not there", Absent: true})
		case size != f.Size || size < FenceSize:
			faults = append(faults, &Fault{Name: name, Reason: fmt.Sprintf("it has %d bytes, and not what was written there", size)})
		default:
			here = append(here, f)
		}
	}
	return here, faults, nil
}

// Unnamed returns the files above level 0 that exist but are not in the chain, up to its head. An owner stores such a file before its
// manifest names it. The checksums of a file tell whether it is of this chain, or of an owner that was fenced.
func (r *Replica) Unnamed(ctx context.Context, c *Chain) (files []File, err error) {
	for l, err := range r.Objects(ctx) {
		if err != nil {
			return nil, err
		}
		f, ok := r.layout.Parse(l.Name)
		if !ok || f.Level == 0 || f.Max > c.Head.TXID ||
			slices.ContainsFunc(c.Files, func(o File) bool { return o.Level == f.Level && o.Min == f.Min && o.Max == f.Max }) {
			continue
		}
		f.Size = l.Size
		files = append(files, f)
	}
	return files, nil
}

// Reach is the TXID up to which files lead from an empty database, counting those that end at or before most. Each must begin at most one
// behind its predecessor's end. 0: none of them has the whole database.
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
