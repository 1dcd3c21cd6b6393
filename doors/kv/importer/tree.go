package importer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// treeWriters is how many writes to the target are under way at a time.
	treeWriters = 32
	// treeSlack is the extra lifetime of nodes with a TTL on the target while the source is followed. An expiry there is an event and
	// removes the node here, but a refresh that gives it more time is no event.
	treeSlack = 10 * time.Minute
	// treeLook is how often nodes with a TTL are compared with the source's, so that none expires here that lives there.
	treeLook = 2 * time.Minute
)

// tree is the v2 keys of an import. Like the rest it compares and repairs. A pass lists both sides whole, in one answer as the API has it,
// so the source's v2 keys are in memory here too.
//
// Hidden nodes (a name that begins with _) appear only in a listing of themselves: those that the operator names are roots of their own.
type tree struct {
	source, target *treeSide
	count          *counters
	note           func(format string, args ...any)
	roots          []string
	mortal         atomic.Bool // nodes with a TTL were seen
}

// newTree returns nil if there is nothing to copy: the source has no v2 API, or nothing in it and the target none.
func newTree(ctx context.Context, source, target *treeSide, hidden []string, resume bool) (*tree, error) {
	t := &tree{source: source, target: target, roots: []string{"/"}}
	for _, h := range hidden {
		if h = path.Clean("/" + h); !hiddenBelow("/", h) {
			return nil, fmt.Errorf("%s: not hidden: no name in it begins with _", h)
		}
		t.roots = append(t.roots, h)
	}
	theirs, err := source.top(ctx)
	if errors.Is(err, errNoTree) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	switch ours, err := target.top(ctx); {
	case errors.Is(err, errNoTree) && theirs == 0 && len(hidden) == 0:
		return nil, nil
	case err != nil:
		return nil, err
	case ours > 0 && !resume:
		return nil, fmt.Errorf("%w: it holds v2 keys", ErrNotEmpty)
	}
	return t, nil
}

// pass makes the target's nodes at and below root the source's, and returns the source's index at which they were. With exact
// set, nodes have the same time to live as there, else a little longer.
func (t *tree) pass(ctx context.Context, root string, exact bool) (index uint64, nodes int, err error) {
	theirs, ours := map[string]treeNode{}, map[string]treeNode{}
	if index, err = t.source.list(ctx, root, theirs); err != nil {
		return 0, 0, err
	}
	if _, err = t.target.list(ctx, root, ours); err != nil {
		return 0, 0, err
	}
	return index, len(theirs), t.repair(ctx, theirs, ours, exact)
}

// repair writes what differs: first what has to go, then directories that would not come by themselves, then keys.
func (t *tree) repair(ctx context.Context, theirs, ours map[string]treeNode, exact bool) error {
	var gone []string
	var dirs, keys, times []treeNode
	parents := map[string]bool{}
	for key := range theirs {
		parents[path.Dir(key)] = true
	}
	for _, key := range slices.Sorted(maps.Keys(ours)) {
		n, ok := theirs[key]
		if ok && n.Dir == ours[key].Dir {
			continue
		}
		if len(gone) == 0 || !strings.HasPrefix(key, gone[len(gone)-1]+"/") { // sorted: a directory's nodes come right behind it, or are gone anyway
			gone = append(gone, key)
		}
	}
	for _, n := range theirs {
		have, ok := ours[n.Key]
		if n.TTL > 0 {
			t.mortal.Store(true)
		}
		left := n.TTL
		if n.TTL > 0 && !exact {
			n.TTL += int64(treeSlack / time.Second)
		}
		switch ok = ok && have.Dir == n.Dir; {
		case n.Dir && !ok && (n.TTL > 0 || !parents[n.Key]):
			dirs = append(dirs, n)
		case n.Dir && !ok: // setting its keys makes it
		case !n.Dir && (!ok || n.Value != have.Value):
			keys = append(keys, n)
		case sameTime(left, have.TTL, exact):
		case n.Dir || n.TTL > 0:
			times = append(times, n)
		default: // a refresh cannot remove a TTL
			keys = append(keys, n)
		}
	}
	for _, step := range []func() error{
		func() error { return eachNode(ctx, gone, t.target.remove) },
		func() error { return eachNode(ctx, dirs, t.target.put) },
		func() error { return eachNode(ctx, keys, t.target.put) },
		func() error { return eachNode(ctx, times, t.target.retime) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	t.count.tree.Add(int64(len(gone) + len(dirs) + len(keys)))
	return nil
}

// sameTime reports whether a node's time to live can stay as it is. Seconds are rounded, and listing takes time, so it allows
// for a difference.
func sameTime(theirs, ours int64, exact bool) bool {
	const slack = int64(treeSlack / time.Second)
	switch {
	case (theirs > 0) != (ours > 0):
		return false
	case theirs == 0:
		return true
	case exact:
		return ours >= theirs-2 && ours <= theirs+2
	}
	return ours >= theirs+slack/2 && ours <= theirs+2*slack
}

// eachNode does fn for all, several at a time, and returns the first error.
func eachNode[T any](ctx context.Context, all []T, fn func(context.Context, T) error) error {
	var wg sync.WaitGroup
	var once sync.Once
	var first error
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	slot := make(chan struct{}, treeWriters)
	for _, n := range all {
		slot <- struct{}{}
		if ctx.Err() != nil {
			break
		}
		wg.Go(func() {
			defer func() { <-slot }()
			if err := fn(ctx, n); err != nil {
				once.Do(func() { first = err; cancel() })
			}
		})
	}
	wg.Wait()
	if first == nil {
		first = context.Cause(ctx)
	}
	return first
}

// hiddenBelow reports whether a listing of root would leave key out.
func hiddenBelow(root, key string) bool {
	return strings.Contains(strings.TrimPrefix(key, strings.TrimSuffix(root, "/")), "/_")
}

// finish makes both sides the same once writing to the source has ended, compares them and reports.
func (t *tree) finish(ctx context.Context, r *Report) error {
	for attempt := 1; ; attempt++ {
		for _, root := range t.roots {
			if _, _, err := t.pass(ctx, root, true); err != nil && (ctx.Err() != nil || attempt == attempts) {
				return err // else the write was refused, because another client changed the target
			}
		}
		var d Difference
		r.Nodes = 0
		var index uint64
		for _, root := range t.roots {
			theirs, ours := map[string]treeNode{}, map[string]treeNode{}
			at, err := t.source.list(ctx, root, theirs)
			if err != nil {
				return err
			}
			if _, err := t.target.list(ctx, root, ours); err != nil {
				return err
			}
			compareNodes(theirs, ours, &d)
			r.Nodes += len(theirs)
			index = max(index, at)
		}
		if d.Count > 0 && attempt < attempts {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(leaseTick):
			}
			continue
		}
		now, err := t.source.list(ctx, "/_", map[string]treeNode{}) // only its index is wanted
		if err != nil {
			return err
		}
		r.Tree, r.TreeIndex, r.TreeAhead = true, index, now-min(index, now)
		for _, line := range d.First {
			r.Difference.add("%s", line)
		}
		r.Difference.Count += d.Count - len(d.First)
		return nil
	}
}

// compareNodes counts the differences. The remaining lifetimes may differ by the time between the two listings.
func compareNodes(theirs, ours map[string]treeNode, d *Difference) {
	const apart = 5
	kind := func(n treeNode) string {
		if n.Dir {
			return "a directory"
		}
		return "a key"
	}
	for _, key := range slices.Sorted(maps.Keys(theirs)) {
		a := theirs[key]
		switch b, ok := ours[key]; {
		case !ok:
			d.add("v2 %q: only on the source", key)
		case a.Dir != b.Dir:
			d.add("v2 %q: %s on the source, %s on the target", key, kind(a), kind(b))
		case a.Value != b.Value:
			d.add("v2 %q: %d bytes on the source, other %d on the target", key, len(a.Value), len(b.Value))
		case (a.TTL > 0) != (b.TTL > 0) || b.TTL < a.TTL-apart || b.TTL > a.TTL+apart:
			d.add("v2 %q: %d s left on the source, %d s on the target", key, a.TTL, b.TTL)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(ours)) {
		if _, ok := theirs[key]; !ok {
			d.add("v2 %q: only on the target", key)
		}
	}
}
