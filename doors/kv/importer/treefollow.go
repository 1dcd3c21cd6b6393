package importer

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
)

// treePoll is how long one long poll waits. The header of an empty answer names the index up to which there was no event. So the import's
// position stays within the source's history even if nothing visible happens.
const treePoll = 20 * time.Second

// errTreePass: following cannot go on from here; another pass is needed.
var errTreePass = errors.New("another pass is needed")

// follow copies a root and applies changes until stop is closed. Ending early is an error.
//
// It waits for one event after the other by waitIndex. A stream would need fewer requests. But the original sends only one event of its
// history on a stream, so events between two streams would be lost.
func (t *tree) follow(ctx context.Context, root string, stop <-chan struct{}) error {
	for first := true; ; first = false {
		began := time.Now()
		index, nodes, err := t.pass(ctx, root, false)
		if err != nil && (ctx.Err() != nil || first) {
			return err
		}
		if err != nil { // a write was refused, because the target has changed since it was listed
			continue
		}
		if first && (nodes > 0 || root != "/") {
			t.note("copied %d v2 nodes of %s at index %d in %s; following", nodes, root, index, time.Since(began).Round(time.Millisecond))
		}
		if err := t.apply(ctx, root, index, stop); !errors.Is(err, errTreePass) {
			return err
		}
	}
}

// apply applies events after index until stop is closed (nil).
func (t *tree) apply(ctx context.Context, root string, index uint64, stop <-chan struct{}) error {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	// The source keeps a thousand events: they are fetched while others are written, and as many are held here at most.
	events := make(chan treeAnswer, 1000)
	var failed error // why events was closed; read after that
	wg.Go(func() {
		defer close(events)
		failed = t.poll(ctx, root, index, events)
	})
	look := time.NewTimer(treeLook)
	defer look.Stop()
	for {
		select {
		case <-stop:
			return nil
		case <-look.C:
			if t.mortal.Load() {
				return errTreePass
			}
			look.Reset(treeLook)
		case e, ok := <-events:
			if !ok {
				return failed
			}
			batch := []treeAnswer{e}
			for len(events) > 0 {
				batch = append(batch, <-events)
			}
			if err := t.write(ctx, root, batch); err != nil {
				if ctx.Err() != nil {
					return ctx.Err()
				}
				// Events are applied in order, so only another client of the target can be the reason.
				return fmt.Errorf("%w: %w", errTreePass, err)
			}
			t.count.changes.Add(int64(len(batch)))
			t.count.tree.Add(int64(len(batch)))
		}
	}
}

// poll waits for events after index and hands them over.
func (t *tree) poll(ctx context.Context, root string, index uint64, to chan<- treeAnswer) error {
	since := time.Time{} // when the source stopped answering
	for {
		waiting, cancel := context.WithTimeout(ctx, treePoll)
		a, err := t.source.request(waiting, http.MethodGet, root,
			url.Values{"wait": {"true"}, "recursive": {"true"}, "waitIndex": {strconv.FormatUint(index+1, 10)}})
		ended := waiting.Err() != nil
		cancel()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case a != nil && a.Code == treeCleared:
			return fmt.Errorf("%w: the source no longer has the events after index %d", errTreePass, index)
		case err == nil && a.Action != "":
			since = time.Time{}
			index = a.Node.Index
			select {
			case to <- *a:
			case <-ctx.Done():
				return ctx.Err()
			}
			continue
		case a != nil && a.Code == 0 && (ended || err == nil): // nothing happened
			since = time.Time{}
			index = max(index, a.index)
			continue
		}
		if since.IsZero() {
			since = time.Now()
		}
		if err == nil {
			err = a.refusal()
		}
		if time.Since(since) > outage {
			return fmt.Errorf("watch %s at the source: no answer for %s: %w", root, outage, err)
		}
		t.source.next.Add(1)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// write applies events in order. Between two events that remove something or concern a directory, only keys are set. The last value of each
// key counts, and the order of the keys does not matter.
func (t *tree) write(ctx context.Context, root string, events []treeAnswer) error {
	at := map[string]int{}
	var keys []treeNode
	set := func() error {
		err := eachNode(ctx, keys, t.target.put)
		clear(at)
		keys = keys[:0]
		return err
	}
	for i := range events {
		n := events[i].Node.mortal()
		if n.Key != root && strings.HasPrefix(root, n.Key+"/") {
			n.Key = root // the end of a directory above
		} else if hiddenBelow(root, n.Key) {
			continue // the history shows what a listing hides
		}
		if n.TTL > 0 {
			t.mortal.Store(true)
			n.TTL += int64(treeSlack / time.Second)
		}
		gone := events[i].Action == "delete" || events[i].Action == "expire" || events[i].Action == "compareAndDelete"
		if !gone && !n.Dir {
			if j, ok := at[n.Key]; ok {
				keys[j] = n
			} else {
				at[n.Key] = len(keys)
				keys = append(keys, n)
			}
			continue
		}
		if err := set(); err != nil {
			return err
		}
		var err error
		switch {
		case gone:
			err = t.target.remove(ctx, n.Key)
		case events[i].Action == "set": // a key may have been replaced by a directory
			if err = t.target.remove(ctx, n.Key); err == nil {
				err = t.target.put(ctx, n)
			}
		default:
			err = t.target.put(ctx, n)
		}
		if err != nil {
			return err
		}
	}
	return set()
}
