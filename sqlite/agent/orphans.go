package agent

import (
	"context"
	"slices"

	"github.com/holdfastdb/holdfast/sqlite/replica"
)

// removeOrphans removes those of a fenced owner's files that lie behind the fence. A file counts as stored behind a gap when it is there: the file in
// the gap may be there too, with its answer lost. Then both are part of the chain, and the new owner goes on from them. So the chain is read first.
func (d *database) removeOrphans(ctx context.Context, mine []replica.File) error {
	c, err := d.target.Replica.Read(ctx)
	if err != nil {
		return err
	}
	return d.target.Replica.Remove(ctx, orphans(c, mine)...)
}

// orphans are those of files of level 0 that are no part of a chain, and never will be: it has passed them.
func orphans(c *replica.Chain, files []replica.File) (gone []replica.File) {
	for _, f := range files {
		if f.Max <= c.Head.TXID && !slices.ContainsFunc(c.Files, func(g replica.File) bool { return g.Level == 0 && g.Min == f.Min && g.Max == f.Max }) {
			gone = append(gone, f)
		}
	}
	return gone
}
