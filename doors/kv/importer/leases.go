package importer

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// lease is one that both sides have. The import asks the source for the remaining time. The API cannot set it, only let a lease begin anew,
// so the target's lease never expires before the source's.
type lease struct {
	id, ttl int64     // ttl in seconds, as granted
	ends    time.Time // on the target, unless renewed
	next    time.Time // when the source is to be asked again
}

// ending is a lease that the source had no longer at a revision. It is revoked on the target once that revision is reached: the
// changes before it may give its keys to another lease.
type ending struct{ id, revision int64 }

// leases keeps the target's leases as the source's are. Safe for concurrent use.
type leases struct {
	source, target *side

	mu     sync.Mutex // guards what follows
	known  map[int64]*lease
	given  map[int64]struct{} // that the target has from this import or one before, as far as it was not taken away again
	ending []ending
	lost   bool // a lease has expired on the target that the source may have: its keys are gone and a pass must copy them again
}

func newLeases(source, target *side) *leases {
	return &leases{source: source, target: target, known: make(map[int64]*lease), given: make(map[int64]struct{})}
}

const (
	leaseWorkers = 16
	leaseTick    = 200 * time.Millisecond
	leaseListing = 2 * time.Second // how often the source is asked for leases that came and went
)

// each calls fn for every id, several at a time, and returns the first error.
func each(ctx context.Context, ids []int64, fn func(context.Context, int64) error) error {
	var wg sync.WaitGroup
	var mu sync.Mutex
	var first error
	slot := make(chan struct{}, leaseWorkers)
	for _, id := range ids {
		slot <- struct{}{}
		wg.Go(func() {
			defer func() { <-slot }()
			if err := fn(ctx, id); err != nil {
				mu.Lock()
				defer mu.Unlock()
				if first == nil {
					first = err
				}
			}
		})
	}
	wg.Wait()
	return first
}

// list returns a side's leases and the revision of the answer.
func (s *side) list(ctx context.Context) (ids []int64, revision int64, err error) {
	err = s.insist(ctx, "list leases", func(ctx context.Context) error {
		r, err := s.Leases(ctx)
		if err == nil {
			ids, revision = ids[:0], r.ResponseHeader.GetRevision()
			for _, l := range r.Leases {
				ids = append(ids, int64(l.ID))
			}
		}
		return err
	})
	return ids, revision, err
}

// timeToLive returns a lease's granted and remaining seconds, remaining < 0 if there is none, and the revision of the answer.
func (s *side) timeToLive(ctx context.Context, id int64) (granted, remaining, revision int64, err error) {
	err = s.insist(ctx, "read a lease", func(ctx context.Context) error {
		r, err := s.TimeToLive(ctx, clientv3.LeaseID(id))
		if errors.Is(err, rpctypes.ErrLeaseNotFound) {
			remaining = -1
			return nil
		}
		if err == nil {
			granted, remaining, revision = r.GrantedTTL, r.TTL, r.ResponseHeader.GetRevision()
		}
		return err
	})
	return granted, remaining, revision, err
}

// attached returns how many keys a lease of a side holds, 0 if there is no such lease.
func (s *side) attached(ctx context.Context, id int64) (keys int, err error) {
	err = s.insist(ctx, "read a lease", func(ctx context.Context) error {
		r, err := s.TimeToLive(ctx, clientv3.LeaseID(id), clientv3.WithAttachedKeys())
		if errors.Is(err, rpctypes.ErrLeaseNotFound) {
			return nil
		}
		if err == nil {
			keys = len(r.Keys)
		}
		return err
	})
	return keys, err
}

// ensure makes sure that the target has a lease, and reports whether the source still has it.
func (l *leases) ensure(ctx context.Context, id int64) (bool, error) {
	l.mu.Lock()
	_, known := l.known[id]
	l.mu.Unlock()
	if known {
		return true, nil
	}
	ttl, remaining, _, err := l.source.timeToLive(ctx, id)
	if err != nil || remaining < 0 {
		return false, err
	}
	ends, err := l.grant(ctx, id, ttl)
	if err != nil {
		return false, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.known[id] = &lease{id: id, ttl: ttl, ends: ends, next: time.Now()}
	return true, nil
}

// grant gives the target a lease and returns when it ends. One that is there from an earlier run is kept if it was granted for
// the same time.
func (l *leases) grant(ctx context.Context, id, ttl int64) (ends time.Time, err error) {
	l.mu.Lock()
	l.given[id] = struct{}{}
	l.mu.Unlock()
	granting := etcdserverpb.NewLeaseClient(l.target.ActiveConnection()) // the client library's Grant cannot name an id
	for {
		began := time.Now()
		err = l.target.insist(ctx, "grant a lease", func(ctx context.Context) error {
			_, err := granting.LeaseGrant(ctx, &etcdserverpb.LeaseGrantRequest{ID: id, TTL: ttl})
			return err
		})
		if !errors.Is(err, rpctypes.ErrLeaseExist) {
			return began.Add(time.Duration(ttl) * time.Second), err
		}
		granted, remaining, _, err := l.target.timeToLive(ctx, id)
		if err != nil {
			return ends, err
		}
		if remaining >= 0 && granted == ttl {
			return began.Add(time.Duration(remaining) * time.Second), nil
		}
		if err := l.revoke(ctx, id); err != nil {
			return ends, err
		}
	}
}

func (l *leases) revoke(ctx context.Context, id int64) error {
	err := l.target.insist(ctx, "revoke a lease", func(ctx context.Context) error {
		_, err := l.target.Revoke(ctx, clientv3.LeaseID(id))
		return err
	})
	if err != nil && !errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return err
	}
	l.mu.Lock()
	delete(l.given, id)
	l.mu.Unlock()
	return nil
}

// begin gives the target every lease of the source before a pass, and takes away what the source does not have.
func (l *leases) begin(ctx context.Context) error {
	ids, _, err := l.source.list(ctx)
	if err != nil {
		return err
	}
	theirs := make(map[int64]bool, len(ids))
	for _, id := range ids {
		theirs[id] = true
	}
	ours, _, err := l.target.list(ctx)
	if err != nil {
		return err
	}
	surplus := slices.DeleteFunc(slices.Clone(ours), func(id int64) bool { return theirs[id] })
	if err := each(ctx, surplus, l.revoke); err != nil {
		return err
	}
	// Nothing of an earlier pass counts any more: the target is asked what it has.
	l.mu.Lock()
	clear(l.known)
	l.ending, l.lost = nil, false
	for _, id := range ours {
		if theirs[id] {
			l.given[id] = struct{}{}
		}
	}
	l.mu.Unlock()
	return each(ctx, ids, func(ctx context.Context, id int64) error {
		_, err := l.ensure(ctx, id)
		return err
	})
}

// keep renews and gathers until ctx ends; a failure to reach a side for an outage ends it with an error.
func (l *leases) keep(ctx context.Context) error {
	tick := time.NewTicker(leaseTick)
	defer tick.Stop()
	var listed time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		err := each(ctx, l.due(time.Now()), l.follow)
		if err == nil && time.Since(listed) > leaseListing {
			listed = time.Now()
			err = l.compareLists(ctx)
		}
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// due returns the leases that are to be asked for now.
func (l *leases) due(now time.Time) (ids []int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, le := range l.known {
		if !now.Before(le.next) {
			ids = append(ids, id)
		}
	}
	return ids
}

// follow asks the source for a lease's remaining time and renews the target's if it would end earlier. It asks after a quarter of the
// lease's time and before half of the target's, so that a renewal in between is noticed in time.
func (l *leases) follow(ctx context.Context, id int64) error {
	_, remaining, _, err := l.source.timeToLive(ctx, id)
	if err != nil {
		return err
	}
	l.mu.Lock()
	le := l.known[id]
	if le == nil {
		l.mu.Unlock()
		return nil // taken away meanwhile
	}
	ttl := time.Duration(le.ttl) * time.Second
	slack := min(ttl/2, 2*time.Second)
	left := time.Until(le.ends)
	renew := remaining >= 0 && (left < time.Duration(remaining+1)*time.Second || left < slack)
	l.mu.Unlock()
	if renew {
		began := time.Now()
		err := l.target.insist(ctx, "renew a lease", func(ctx context.Context) error {
			_, err := l.target.KeepAliveOnce(ctx, clientv3.LeaseID(id))
			return err
		})
		if errors.Is(err, rpctypes.ErrLeaseNotFound) {
			l.forget(id)
			return nil
		}
		if err != nil {
			return err
		}
		left = ttl - time.Since(began)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	le.ends, le.next = now.Add(left), now.Add(max(leaseTick, min(ttl/4, left/2)))
	return nil
}

// refresh asks for the remaining time of every lease at once. A new or restarted leader of the source gives all leases their whole time
// back. A long lease would not be asked about until a quarter of it has passed.
func (l *leases) refresh(ctx context.Context) error {
	l.mu.Lock()
	ids := make([]int64, 0, len(l.known))
	for id := range l.known {
		ids = append(ids, id)
	}
	l.mu.Unlock()
	return each(ctx, ids, l.follow)
}

// forget notes that the target has let a lease end.
func (l *leases) forget(id int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.known[id]; ok {
		delete(l.known, id)
		l.lost = true
	}
}

// recheck forgets those leases of a batch that the target does not have.
func (l *leases) recheck(ctx context.Context, b *batch) error {
	for i := range b.ops {
		id := b.ops[i].lease
		if id == 0 {
			continue
		}
		_, remaining, _, err := l.target.timeToLive(ctx, id)
		if err != nil {
			return err
		}
		if remaining < 0 {
			l.forget(id)
		}
	}
	return nil
}

// compareLists finds leases that came to the source and such that it has no longer.
func (l *leases) compareLists(ctx context.Context) error {
	l.mu.Lock()
	before := make([]int64, 0, len(l.known))
	for id := range l.known {
		before = append(before, id)
	}
	l.mu.Unlock()
	ids, revision, err := l.source.list(ctx) // after reading the table: a lease it lacks now has ended
	if err != nil {
		return err
	}
	there := make(map[int64]bool, len(ids))
	for _, id := range ids {
		there[id] = true
	}
	l.mu.Lock()
	for _, id := range before {
		if !there[id] && l.known[id] != nil {
			delete(l.known, id)
			l.ending = append(l.ending, ending{id, revision})
		}
	}
	l.mu.Unlock()
	return each(ctx, ids, func(ctx context.Context, id int64) error {
		_, err := l.ensure(ctx, id)
		return err
	})
}

// settle is end at the cut-over, after which no change can take a key from a lease. A lease whose end only a later revision shows is
// revoked as well if it holds no key on the target. It may have ended before, and would otherwise live until its time is over. One that
// holds a key was there at the cut-over, and so has ended since. Unfollowed leases on the target are revoked as well: they ended between
// the list that named them and the question about their remaining time.
func (l *leases) settle(ctx context.Context, revision int64) error {
	if err := l.end(ctx, revision); err != nil {
		return err
	}
	ours, _, err := l.target.list(ctx)
	if err != nil {
		return err
	}
	l.mu.Lock()
	ours = slices.DeleteFunc(ours, func(id int64) bool {
		_, given := l.given[id]
		return !given || l.known[id] != nil
	})
	l.mu.Unlock()
	var bare []int64
	for _, id := range ours {
		keys, err := l.target.attached(ctx, id)
		if err != nil {
			return err
		}
		if keys == 0 {
			bare = append(bare, id)
		}
	}
	l.mu.Lock()
	l.ending = slices.DeleteFunc(l.ending, func(e ending) bool { return slices.Contains(bare, e.id) })
	l.mu.Unlock()
	return each(ctx, bare, l.revokeEnded)
}

// end revokes the leases that had ended at the source by the given revision.
func (l *leases) end(ctx context.Context, revision int64) error {
	l.mu.Lock()
	var due []int64
	l.ending = slices.DeleteFunc(l.ending, func(e ending) bool {
		if e.revision <= revision {
			due = append(due, e.id)
		}
		return e.revision <= revision
	})
	l.mu.Unlock()
	return each(ctx, due, l.revokeEnded)
}

// revokeEnded revokes a lease that the source does not list. A lagging member of the source may have listed too little, so it is
// asked once more.
func (l *leases) revokeEnded(ctx context.Context, id int64) error {
	_, remaining, _, err := l.source.timeToLive(ctx, id)
	if err != nil {
		return err
	}
	if remaining >= 0 {
		_, err := l.ensure(ctx, id)
		return err
	}
	return l.revoke(ctx, id)
}

// lostAny reports whether a pass has to bring keys back.
func (l *leases) lostAny() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lost
}

// size is how many leases both sides have.
func (l *leases) size() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.known)
}
