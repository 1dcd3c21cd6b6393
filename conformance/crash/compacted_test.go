package crash

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfastdb/holdfast/internal/wait"
)

// TestWatchOverCompaction compacts history right behind and beneath watches while members are killed. A watch is told of everything from
// its beginning, in order and once, or it ends with the revision that history begins at. No event is left out silently, and no watch is
// refused existing history.
func TestWatchOverCompaction(t *testing.T) {
	processTest(t, true)
	beside(t)
	t.Run("one", func(t *testing.T) { watchOverCompaction(t, 1, count("COMPACTED_KILLS_ONE", 3, 60)) })
	t.Run("three", func(t *testing.T) { watchOverCompaction(t, 3, count("COMPACTED_KILLS_THREE", 3, 60)) })
}

func watchOverCompaction(t *testing.T, nodes, kills int) {
	r := rng(t)
	c := start(t, nodes)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w := &churn{told: map[int64]string{}}
	watching, stopWatching := context.WithCancel(ctx)
	defer stopWatching()
	var watchers []*lagger
	var writing, watched sync.WaitGroup
	writes, stopWrites := context.WithCancel(ctx)
	defer stopWrites()
	for i := range 8 {
		own := rand.New(rand.NewPCG(uint64(seed), uint64(i)))
		cli := dialEager(t, c.Endpoints()...)
		writing.Go(func() { w.write(writes, cli, i, own) })
		l := &lagger{patient: i == 0, next: 1, segments: []segment{{from: 1}}}
		if i >= 6 {
			l.edge = &w.compacted
		}
		if nodes == 1 {
			l.floor = &w.compacted
		}
		watchers = append(watchers, l)
		own = rand.New(rand.NewPCG(uint64(seed), uint64(100+i)))
		follow := dialEager(t, c.Endpoints()...)
		watched.Go(func() { l.run(watching, follow, own) })
	}
	compact := dialEager(t, c.Endpoints()...)
	own := rand.New(rand.NewPCG(uint64(seed), 200))
	writing.Go(func() { w.compact(writes, compact, own) })

	bulk, pushed := dialEager(t, c.Endpoints()...), noise(r, 512<<10)
	writing.Go(func() { w.push(writes, bulk, pushed) })

	k := &killer{r: r, c: c}
	for k.kills < kills {
		time.Sleep(between(r, 200*time.Millisecond, 900*time.Millisecond))
		victims := k.strike(t)
		before := w.acked.Load()
		k.revive(t, victims)
		if err := c.WaitReady(); err != nil {
			t.Fatal(err)
		}
		if !eventually(t, func() bool { return w.acked.Load() > before+10 }) {
			t.Fatalf("no write was acknowledged in 20 s after kill %d, though all members are ready", k.kills)
		}
	}
	stopWrites()
	writing.Wait()
	edge := w.finish(t, compact, bulk, pushed)
	eventually(t, func() bool {
		return !slices.ContainsFunc(watchers, func(l *lagger) bool {
			return l.edge != nil && l.began.Load() < edge || l.at.Load() < w.top.Load()
		})
	})
	stopWatching()
	watched.Wait()
	top := settle(t, c)
	events, ended, faults := w.judge(t, watchers)
	if nodes > 1 {
		hashes(t, c)
	}
	summary(t, "watch over compaction: %d kills (%d of the leader), %d nodes, %s writes up to revision %s, %d compactions, %s events in %d watches "+
		"reopened %d times, %d ended by a compaction, %d faults", k.kills, k.leaders, nodes, grouped(int(w.acked.Load())), grouped(int(top)),
		w.compactions.Load(), grouped(events), len(watchers), reopened(watchers), ended, faults)
}

// churn is writes and compactions. Few keys are written and deleted again and again, so that a compaction drops much.
type churn struct {
	acked, compactions atomic.Int64
	top, compacted     atomic.Int64 // highest revision acknowledged, and highest one a compaction was acknowledged to

	mu   sync.Mutex
	told map[int64]string // what each acknowledged revision did, as text; guarded by mu
}

// write writes until ctx ends: a put, a delete, or a Txn of two keys, all of keys with one writer.
func (w *churn) write(ctx context.Context, cli *clientv3.Client, id int, r *rand.Rand) {
	for seq := 0; ctx.Err() == nil; seq++ {
		a, b, value := fmt.Sprintf("c/%d/%d", id, r.IntN(3)), fmt.Sprintf("c/%d/x", id), fmt.Sprintf("%d.%d", id, seq)
		opCtx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		ops, text := []clientv3.Op{clientv3.OpPut(a, value)}, did(a, value)
		switch r.IntN(4) {
		case 0:
			ops, text = []clientv3.Op{clientv3.OpDelete(a)}, did(a, "")
		case 1:
			ops, text = append(ops, clientv3.OpPut(b, value)), text+did(b, value)
		}
		res, err := cli.Txn(opCtx).Then(ops...).Commit()
		cancel()
		if err != nil {
			time.Sleep(5 * time.Millisecond)
			continue
		}
		if d := res.Responses[0].GetResponseDeleteRange(); d != nil && d.Deleted == 0 {
			continue // it changed nothing and has no revision of its own
		}
		raise(&w.top, res.Header.Revision)
		w.acked.Add(1)
		w.mu.Lock()
		w.told[res.Header.Revision] = text
		w.mu.Unlock()
	}
}

// did is one event as text; no value stands for a deletion.
func did(key, value string) string { return key + "=" + value + " " }

// compact compacts until ctx ends, up to the newest revision or some way behind it.
func (w *churn) compact(ctx context.Context, cli *clientv3.Client, r *rand.Rand) {
	for ctx.Err() == nil {
		time.Sleep(between(r, 5*time.Millisecond, 150*time.Millisecond))
		to := w.top.Load()
		switch r.IntN(8) {
		case 0: // as it is
		case 1:
			to -= r.Int64N(100)
		default: // history stays long
			to -= 500 + r.Int64N(1000)
		}
		var options []clientv3.CompactOption
		if r.IntN(3) == 0 {
			options = append(options, clientv3.WithCompactPhysical())
		}
		opCtx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		if _, err := cli.Compact(opCtx, to, options...); err == nil {
			w.compactions.Add(1)
			raise(&w.compacted, to)
		}
		cancel()
	}
}

// push writes large values elsewhere until ctx ends: the newest events leave memory, and watches that begin far back read what is
// on disk.
func (w *churn) push(ctx context.Context, cli *clientv3.Client, value string) {
	for i := 0; ctx.Err() == nil; i++ {
		opCtx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		if res, err := cli.Put(opCtx, fmt.Sprintf("b/%d", i%8), value); err == nil {
			raise(&w.top, res.Header.Revision)
		}
		cancel()
		time.Sleep(40 * time.Millisecond)
	}
}

// finish writes some more, lets it leave memory, and compacts to the middle of it. A watch that begins there gets its events from disk,
// from the last kept revision on. It returns that revision.
func (w *churn) finish(t *testing.T, cli, bulk *clientv3.Client, value string) (edge int64) {
	t.Helper()
	put := func(cli *clientv3.Client, key, value string) (rev int64) {
		res, err := cli.Put(wait.Context(t), key, value)
		if err != nil {
			t.Fatal(err)
		}
		raise(&w.top, res.Header.Revision)
		return res.Header.Revision
	}
	more := func(i int) (rev int64) {
		key, value := fmt.Sprintf("c/end/%d", i%2), fmt.Sprintf("end.%d", i)
		rev = put(cli, key, value)
		w.told[rev] = did(key, value)
		return rev
	}
	for i := range 10 {
		if rev := more(i); i < 5 {
			edge = rev
		}
	}
	for i := range 20 {
		put(bulk, fmt.Sprintf("b/%d", i%8), value)
	}
	if _, err := cli.Compact(wait.Context(t), edge, clientv3.WithCompactPhysical()); err != nil {
		t.Fatal(err)
	}
	raise(&w.compacted, edge)
	more(10)
	return edge
}

// judge compares each watch's events with the acknowledged writes and with the other watches' events.
func (w *churn) judge(t *testing.T, watchers []*lagger) (events, ended, faults int) {
	t.Helper()
	fault := func(format string, args ...any) {
		if faults++; faults <= 10 {
			t.Errorf(format, args...)
		}
	}
	all := maps.Clone(w.told) // and what took effect without an answer
	for i, l := range watchers {
		for _, text := range l.wrong {
			fault("watch %d: %s", i, text)
		}
		ended += l.ended
		if l.segments[len(l.segments)-1].to = w.top.Load() + 1; l.edge != nil {
			l.segments[len(l.segments)-1].to = l.next // its last watch was not waited for
		}
		for _, s := range l.segments {
			events += len(s.events)
			if !slices.IsSorted(s.order) || len(s.order) != len(s.events) {
				fault("watch %d from %d: revisions out of order or repeated", i, s.from)
			}
			for rev, text := range s.events {
				if known, ok := all[rev]; ok && known != text {
					fault("watch %d from %d: revision %d is told as %q, it is %q", i, s.from, rev, text, known)
				} else if !ok {
					all[rev] = text
				}
				if rev < s.from {
					fault("watch %d from %d was told of revision %d", i, s.from, rev)
				}
			}
		}
	}
	for i, l := range watchers {
		for _, s := range l.segments {
			for rev := range all {
				if _, seen := s.events[rev]; !seen && rev >= s.from && rev < s.to {
					fault("watch %d from %d to %d was not told of revision %d: %q", i, s.from, s.to, rev, all[rev])
				}
			}
		}
	}
	return events, ended, faults
}
