package importer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// follower applies a feed. It belongs to one goroutine.
type follower struct {
	*run
	at    int64 // the revision the target stands for
	until int64 // apply nothing beyond; 0: no bound
	whole []op  // the revision that is being received
	rev   int64 // its number
	b     batch // whole revisions not yet written
	bRev  int64 // the last of them
	told  int64 // revision of the source's last progress notice: everything up to it has arrived
}

// errPass: following cannot go on from here; another pass is needed.
var errPass = errors.New("another pass is needed")

// follow applies changes after the given revision until stop is closed. It ends when the target stands for the revision that the source had
// after that, and returns this revision. errPass says that another pass must come first.
func (i *run) follow(ctx context.Context, after int64, stop <-chan struct{}) (int64, error) {
	f := &follower{run: i, at: after}
	broken := time.Time{}
	for {
		in := i.source.watch(ctx, f.at)
		err := f.take(ctx, in, stop)
		in.close()
		switch {
		case err == nil:
			return f.at, nil
		case ctx.Err() != nil:
			return f.at, ctx.Err()
		case errors.Is(err, rpctypes.ErrCompacted):
			return f.at, fmt.Errorf("%w: the source has compacted beyond revision %d", errPass, f.at)
		case !unavailable(err) && !errors.Is(err, rpctypes.ErrNoLeader) && !errors.Is(err, errCanceled):
			return f.at, err
		}
		// The stream broke. A revision that had arrived in part comes again.
		f.whole, f.rev, f.b, f.bRev, f.told = nil, 0, batch{}, 0, 0
		if f.at > after || broken.IsZero() {
			after, broken = f.at, time.Now()
		}
		if time.Since(broken) > outage {
			return f.at, fmt.Errorf("watch the source: nothing for %s: %w", outage, err)
		}
		select {
		case <-ctx.Done():
			return f.at, ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// errCanceled: the source ended the watch.
var errCanceled = errors.New("the source ended the watch")

// take applies what comes until the end is reached (nil) or the stream breaks.
func (f *follower) take(ctx context.Context, in *feed, stop <-chan struct{}) error {
	tick := time.NewTicker(leaseTick)
	defer tick.Stop()
	if f.until > 0 {
		stop = nil
	}
	for {
		if f.until > 0 && f.at >= f.until {
			return f.leases.end(ctx, f.at)
		}
		select {
		case messages, ok := <-in.changes:
			if !ok {
				return in.err
			}
			for _, r := range messages {
				if err := f.message(ctx, r); err != nil {
					return err
				}
			}
			if err := f.flush(ctx); err != nil {
				return err
			}
			f.count.behind(f.at)
		case <-tick.C:
			if f.leases.lostAny() {
				return fmt.Errorf("%w: the target has let a lease end", errPass)
			}
			if err := f.leases.end(ctx, f.at); err != nil {
				return err
			}
			if f.until > 0 {
				// Not every server counts its revisions by changes alone; it is asked how far its changes go.
				select {
				case in.ask <- struct{}{}:
				default:
				}
			}
		case <-stop:
			stop = nil
			revision, err := f.source.revision(ctx)
			if err != nil {
				return err
			}
			f.until = max(revision, f.at) // anything ahead of the answer was written since
		}
	}
}

// message takes one answer of the watch into the batch.
func (f *follower) message(ctx context.Context, r *etcdserverpb.WatchResponse) error {
	switch {
	case r.CompactRevision != 0:
		return rpctypes.ErrCompacted
	case r.Canceled:
		return fmt.Errorf("%w: %s", errCanceled, r.CancelReason)
	case r.Created:
		return nil
	case len(r.Events) == 0:
		f.told = r.GetHeader().GetRevision()
		return nil
	}
	for _, e := range r.Events {
		if e.Kv.ModRevision != f.rev {
			if err := f.complete(ctx); err != nil {
				return err
			}
			f.rev = e.Kv.ModRevision
		}
		if f.until == 0 || f.rev <= f.until {
			f.whole = append(f.whole, op{key: e.Kv.Key, value: e.Kv.Value, lease: e.Kv.Lease, gone: e.Type == mvccpb.Event_DELETE})
		}
	}
	if r.Fragment {
		return nil // the last revision goes on in the next message
	}
	return f.complete(ctx)
}

// complete moves a received revision into the batch, as a whole if it fits into one Txn at all.
func (f *follower) complete(ctx context.Context) error {
	if len(f.whole) == 0 {
		return nil
	}
	size := 0
	for i := range f.whole {
		size += f.whole[i].size()
	}
	if !f.b.fits(len(f.whole), size) {
		if err := f.flush(ctx); err != nil {
			return err
		}
	}
	for _, o := range f.whole {
		if !f.b.fits(1, o.size()) { // a revision of more than one Txn
			if err := f.writer.write(ctx, &f.b); err != nil {
				return err
			}
			f.b = batch{}
		}
		f.b.add(o)
	}
	f.whole, f.bRev = f.whole[:0], f.rev
	return nil
}

// flush writes the batch; the target then stands for its last revision.
func (f *follower) flush(ctx context.Context) error {
	if len(f.b.ops) > 0 {
		if err := f.writer.write(ctx, &f.b); err != nil {
			return err
		}
		f.count.followed(f.b.ops)
		f.b = batch{}
	}
	f.at = max(f.at, f.bRev)
	if len(f.whole) == 0 && f.told > f.at {
		f.at = f.told
		if f.until > 0 {
			f.at = min(f.at, f.until)
		}
	}
	return nil
}
