package restore

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/holdfastdb/holdfast/objstore"
	"github.com/holdfastdb/holdfast/sqlite/replica"
)

// Entry is a file of a replica as a person sees it.
type Entry struct {
	replica.File
	Name  string
	Owner uint64 // node id; 0: Litestream's
	Pages uint32 // size of the database behind it
	// Place is the file's role in the replica. It is in its chain or a level of it, an orphan beside the chain, or ahead of a gap.
	Place string
	Wrong string // why it could not be read; "": it was
}

// The places of an entry.
const (
	Counts = ""
	Orphan = "orphan"
	Ahead  = "ahead"
)

// List describes every file of a replica, by level, then by TXID, and the chain. A file that cannot be read says so.
func List(ctx context.Context, r *replica.Replica) (*replica.Chain, []Entry, error) {
	c, err := r.Read(ctx)
	var fault *replica.Fault
	if err != nil && !errors.As(err, &fault) {
		return nil, nil, err
	}
	var all []Entry
	for place, files := range map[string][]replica.File{Counts: c.Files, Orphan: c.Orphans, Ahead: c.Ahead} { // any order: they are sorted
		for _, f := range files {
			all = append(all, Entry{File: f, Name: r.Name(f), Place: place})
		}
	}
	slices.SortFunc(all, func(a, b Entry) int { return replica.ByPlace(a.File, b.File) })
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wait sync.WaitGroup
	slots := make(chan struct{}, 8)
	for i := range all {
		slots <- struct{}{}
		wait.Go(func() {
			defer func() { <-slots }()
			e := &all[i]
			h, t, err := r.Stat(ctx, e.File)
			var fault *replica.Fault
			switch {
			case errors.As(err, &fault):
				e.Wrong = fault.Reason
			case errors.Is(err, objstore.ErrAbsent):
				e.Wrong = "it is not there"
			case err != nil:
				cancel(err) // the first is returned
			default:
				e.Owner, e.Pages, e.Pre, e.Post, e.Time = h.NodeID, h.Commit, h.PreApplyChecksum, t.PostApplyChecksum, timeOf(h)
			}
		})
	}
	wait.Wait()
	return c, all, context.Cause(ctx)
}
