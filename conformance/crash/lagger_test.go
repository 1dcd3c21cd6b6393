package crash

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// segment is what one watch was told without a gap, over as many connections as it took: from a revision on.
type segment struct {
	from, to int64 // to is after the last revision it must have been told of
	events   map[int64]string
	order    []int64
}

// lagger follows c/, stops now and then and goes on after the last revision it has seen. Where a compaction was faster it
// begins anew at the revision it is given. The patient one leaves going on to the client library.
type lagger struct {
	patient bool
	// edge, if it is there, is where each of its watches begins, instead of going on: the oldest revision that may be asked for.
	edge *atomic.Int64
	// floor, if it is there, is below what no watch may be told of anything. A member that has not applied the compaction yet
	// may still serve it.
	floor    *atomic.Int64
	next     int64
	segments []segment
	opened   int
	ended    int // by compactions
	wrong    []string
	at       atomic.Int64 // the last revision seen
	began    atomic.Int64 // where the present watch of one with an edge began
}

func (l *lagger) run(ctx context.Context, cli *clientv3.Client, r *rand.Rand) {
	for ctx.Err() == nil {
		lasts := between(r, 10*time.Millisecond, 600*time.Millisecond)
		if l.patient {
			lasts = time.Hour
		}
		short, cancel := context.WithTimeout(ctx, lasts)
		l.follow(short, cli)
		cancel()
		if !l.patient {
			select {
			case <-ctx.Done():
			case <-time.After(between(r, 0, 400*time.Millisecond)):
			}
		}
	}
}

func (l *lagger) follow(ctx context.Context, cli *clientv3.Client) {
	l.opened++
	if l.edge != nil && l.edge.Load() > 0 {
		l.segments[len(l.segments)-1].to = l.next
		l.next = l.edge.Load()
		l.at.Store(0)
		l.began.Store(l.next)
		l.segments = append(l.segments, segment{from: l.next})
	}
	gone := int64(0)
	if l.floor != nil {
		gone = l.floor.Load()
	}
	s := &l.segments[len(l.segments)-1]
	if s.events == nil {
		s.events = map[int64]string{}
	}
	for res := range cli.Watch(clientv3.WithRequireLeader(ctx), "c/", clientv3.WithPrefix(), clientv3.WithRev(l.next)) {
		if err := res.Err(); err != nil {
			if !errors.Is(err, rpctypes.ErrCompacted) {
				return
			}
			if gone = 0; res.CompactRevision <= l.next {
				l.wrong = append(l.wrong, fmt.Sprintf("a watch from %d ended for a compaction at %d", l.next, res.CompactRevision))
			}
			s.to, l.next = l.next, res.CompactRevision
			l.ended++
			l.segments = append(l.segments, segment{from: l.next})
			return
		}
		if l.next < gone && len(res.Events) > 0 {
			l.wrong = append(l.wrong, fmt.Sprintf("a watch from %d was told of events, though history was compacted to %d before", l.next, gone))
		}
		gone = 0
		for _, e := range res.Events {
			rev := e.Kv.ModRevision
			if n := len(s.order); n == 0 || s.order[n-1] != rev {
				s.order = append(s.order, rev)
			}
			value := string(e.Kv.Value)
			if e.Type == mvccpb.DELETE {
				value = ""
			}
			s.events[rev] += did(string(e.Kv.Key), value)
			l.next = rev + 1
			l.at.Store(rev)
		}
	}
}

func reopened(all []*lagger) (n int) {
	for _, l := range all {
		n += l.opened
	}
	return n
}
