package importer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Options are an import's options.
type Options struct {
	From, To Endpoint
	// Resume lets the target hold keys and leases; those that the source lacks are deleted there.
	Resume bool
	// Hidden are v2 nodes whose names begin with _: no listing shows them, so they are copied only if they are named.
	Hidden   []string
	Progress *Progress
}

// Report is how an import ended.
type Report struct {
	Revision   int64 // of the source at the cut-over
	Ahead      int64 // revisions that the source has made since: its clients' writes that the target lacks
	Keys       int64
	Bytes      int64 // of keys and values
	Leases     int
	Written    int64 // puts and deletes the target has taken, all passes and following
	Followed   int64 // changes of the source after the copy
	Passes     int
	Difference Difference

	Tree      bool   // the source has the v2 API, and what follows is of it
	Nodes     int    // keys and directories
	TreeIndex uint64 // of the source at the cut-over
	TreeAhead uint64 // changes that the source has made since
}

// ErrNotEmpty: the target holds keys or leases, and Options.Resume is not set.
var ErrNotEmpty = errors.New("the target is not empty")

// run is one import. Its fields do not change while it runs.
type run struct {
	source, target *side
	leases         *leases
	writer         *writer
	count          *counters
	show           *Progress
	tree           *tree // nil: no v2 keys are copied
}

// attempts bounds how often the end is tried when the source goes on being written to.
const attempts = 5

// Run copies and follows until stop is closed, then goes on to the revision the source is at, compares both sides there and reports. A
// report with a Difference is no error. Ending ctx gives up at once; copied keys stay, for a run with Resume.
func Run(ctx context.Context, stop <-chan struct{}, o Options) (*Report, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	source, err := dial(ctx, "source", o.From)
	if err != nil {
		return nil, err
	}
	defer source.Close()
	target, err := dial(ctx, "target", o.To)
	if err != nil {
		return nil, err
	}
	defer target.Close()
	i := &run{source: source, target: target, leases: newLeases(source, target), count: new(counters), show: o.Progress}
	i.writer = &writer{target: target, leases: i.leases, count: i.count}
	if err := i.begin(ctx, o.Resume); err != nil {
		return nil, err
	}
	source2, target2 := newTreeSide(source, o.From), newTreeSide(target, o.To)
	defer source2.close()
	defer target2.close()
	if i.tree, err = newTree(ctx, source2, target2, o.Hidden, o.Resume); err != nil {
		return nil, err
	}
	background := make(chan struct{})
	go func() {
		defer close(background)
		i.report(ctx)
	}()
	kept := make(chan struct{})
	go func() {
		defer close(kept)
		if err := i.leases.keep(ctx); err != nil {
			cancel(err) // if renewing ends, leases would expire on the target
		}
	}()
	var following sync.WaitGroup
	if i.tree != nil {
		i.tree.count, i.tree.note = i.count, i.show.note
		for _, root := range i.tree.roots {
			following.Go(func() {
				if err := i.tree.follow(ctx, root, stop); err != nil {
					cancel(err)
				}
			})
		}
	}
	r, err := i.copyAndFollow(ctx, stop)
	if err != nil {
		cancel(err)
	}
	following.Wait()
	if err == nil && ctx.Err() == nil && i.tree != nil {
		err = i.tree.finish(ctx, r)
	}
	if err == nil {
		err = ctx.Err() // following the tree has failed
	}
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	cancel(nil)
	<-background
	<-kept
	i.show.end()
	return r, err
}

// begin refuses an import that would do harm.
func (i *run) begin(ctx context.Context, resume bool) error {
	_, _, theirs, err := i.source.position(ctx)
	if err != nil {
		return err
	}
	_, keys, ours, err := i.target.position(ctx)
	if err != nil {
		return err
	}
	if theirs == ours {
		return fmt.Errorf("source and target are the same cluster, %x", ours)
	}
	leases, _, err := i.target.list(ctx)
	if err != nil {
		return err
	}
	if (keys > 0 || len(leases) > 0) && !resume {
		return fmt.Errorf("%w: it holds %d keys and %d leases", ErrNotEmpty, keys, len(leases))
	}
	return nil
}

// report shows progress until ctx ends.
func (i *run) report(ctx context.Context) {
	tick := time.NewTicker(i.show.every())
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if i.count.at.Load() > 0 {
			if revision, err := i.source.revision(ctx); err == nil { // after an error the line shows the last known revision
				i.count.revision.Store(revision)
			}
		}
		i.show.show(i)
	}
}

// revision is position without counting, which costs etcd a walk over all keys.
func (s *side) revision(ctx context.Context) (revision int64, err error) {
	err = s.insist(ctx, "read the revision", func(ctx context.Context) error {
		r, err := s.Get(ctx, firstKey, clientv3.WithCountOnly())
		if err == nil {
			revision = r.Header.Revision
		}
		return err
	})
	return revision, err
}

// copyAndFollow is the import: passes until the source can be followed, following until the end, the comparison.
func (i *run) copyAndFollow(ctx context.Context, stop <-chan struct{}) (*Report, error) {
	r := new(Report)
	for {
		began, written := time.Now(), i.count.puts.Load()
		revision, err := i.pass(ctx)
		r.Passes++
		if errors.Is(err, rpctypes.ErrCompacted) {
			i.show.note("the source has compacted revision %d while it was read: comparing once more", revision)
			continue
		}
		if err != nil {
			return nil, err
		}
		i.show.note("copied %d keys and %d leases at revision %d in %s, %d of them written; following", i.count.looked.Load(), i.leases.size(),
			revision, time.Since(began).Round(time.Millisecond), i.count.puts.Load()-written)
		i.count.behind(revision)
		err = i.finish(ctx, revision, stop, r)
		if errors.Is(err, errPass) {
			i.show.note("%v", err)
			continue
		}
		if err != nil {
			return nil, err
		}
		r.Written, r.Followed = i.count.puts.Load()+i.count.deletes.Load(), i.count.changes.Load()
		return r, nil
	}
}

// finish follows to the end and compares. A comparison can meet differences that only time resolves: a lease that has just ended or ends
// during the listing, a revision just compacted. It is then repeated a little later.
func (i *run) finish(ctx context.Context, at int64, stop <-chan struct{}, r *Report) error {
	for attempt := 1; ; attempt++ {
		var err error
		if at, err = i.follow(ctx, at, stop); err != nil {
			return err
		}
		// Leases without keys come and go without a revision, so the cut-over looks for them once more.
		if err := i.leases.compareLists(ctx); err != nil {
			return err
		}
		if err := i.leases.settle(ctx, at); err != nil {
			return err
		}
		if err := i.leases.refresh(ctx); err != nil {
			return err
		}
		if i.leases.lostAny() {
			return fmt.Errorf("%w: the target has let a lease end", errPass)
		}
		there, err := i.target.revision(ctx)
		if err != nil {
			return err
		}
		i.show.note("comparing both sides at revision %d of the source", at)
		r.Revision = at
		r.Keys, r.Bytes, r.Difference, err = i.compare(ctx, at, there)
		compacted := errors.Is(err, rpctypes.ErrCompacted)
		if err != nil && !compacted {
			return err
		}
		if !compacted {
			if r.Leases, err = i.compareLeases(ctx, at, &r.Difference); err != nil {
				return err
			}
		}
		now, err := i.source.revision(ctx)
		if err != nil {
			return err
		}
		r.Ahead = now - at
		if !compacted && r.Difference.Count == 0 {
			return nil
		}
		if attempt == attempts {
			if compacted {
				return errors.New("compare: the source compacts each revision before it can be read; make it keep its history longer")
			}
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(leaseTick):
		}
	}
}

// Write prints the report for a person.
func (r *Report) Write(w io.Writer) {
	fmt.Fprintf(w, "cut-over at revision %d of the source: %d changes followed, %d writes to the target\n", r.Revision, r.Followed, r.Written)
	nodes := ""
	if r.Tree {
		nodes = fmt.Sprintf(", %d v2 nodes", r.Nodes)
	}
	if r.Difference.Count == 0 {
		fmt.Fprintf(w, "the same on both sides: %d keys (%s), %d leases%s\n", r.Keys, size(r.Bytes), r.Leases, nodes)
	} else {
		fmt.Fprintf(w, "NOT the same: %d differences in %d keys and %d leases%s\n", r.Difference.Count, r.Keys, r.Leases, nodes)
		for _, line := range r.Difference.First {
			fmt.Fprintf(w, "  %s\n", line)
		}
		if more := r.Difference.Count - len(r.Difference.First); more > 0 {
			fmt.Fprintf(w, "  and %d more\n", more)
		}
	}
	if r.Ahead > 0 {
		fmt.Fprintf(w, "the source has made %d revisions since: what its clients wrote then is not on the target\n", r.Ahead)
	}
	if r.TreeAhead > 0 {
		fmt.Fprintf(w, "the source has made %d changes of v2 keys since: they are not on the target\n", r.TreeAhead)
	}
}
