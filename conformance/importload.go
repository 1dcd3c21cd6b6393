package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// importLoad is the source's clients.
type importLoad struct {
	c      *clientv3.Client
	ctx    context.Context // not ended by stop: a call that was begun is finished
	ended  atomic.Bool
	wg     sync.WaitGroup
	writes atomic.Int64
}

func newImportLoad(c *clientv3.Client) *importLoad {
	return &importLoad{c: c, ctx: context.Background()}
}

// fill writes what the deployment holds before the move: keys of all sizes, and leases with and without keys.
func (l *importLoad) fill() error {
	for i := 0; i < 3000; i += 100 {
		var ops []clientv3.Op
		for j := range 100 {
			ops = append(ops, clientv3.OpPut(fmt.Sprintf("old/%05d", i+j), strings.Repeat("v", (i+j)%600)))
		}
		if _, err := l.c.Txn(l.ctx).Then(ops...).Commit(); err != nil {
			return err
		}
	}
	for i := range 20 {
		lease, err := l.c.Grant(l.ctx, int64(600+i))
		if err != nil {
			return err
		}
		for j := range i % 4 {
			if _, err := l.c.Put(l.ctx, fmt.Sprintf("old/leased/%d/%d", i, j), "x", clientv3.WithLease(lease.ID)); err != nil {
				return err
			}
		}
	}
	if _, err := l.c.Put(l.ctx, "old/large", strings.Repeat("z", 1<<20)); err != nil {
		return err
	}
	_, err := l.c.Put(l.ctx, "\x00binary\xff", "\x00\xff")
	return err
}

// each runs fn until stop, with a pause after each time, and counts those without an error.
func (l *importLoad) each(pause time.Duration, fn func(r *rand.Rand) error) {
	r := rand.New(rand.NewPCG(1, uint64(pause)))
	l.wg.Go(func() {
		for !l.ended.Load() {
			if fn(r) == nil {
				l.writes.Add(1)
			}
			time.Sleep(pause)
		}
	})
}

// start runs the clients until stop, those of the v2 API as well if the servers have it. Errors of single writes do not matter: what counts is what the source holds in the end.
func (l *importLoad) start(trees []v2Client) {
	if len(trees) > 0 {
		l.startV2(trees)
	}
	key := func(r *rand.Rand) string { return fmt.Sprintf("hot/%d", r.IntN(400)) }
	value := func(r *rand.Rand) string { return strings.Repeat("n", r.IntN(300)) + fmt.Sprint(r.Int()) }
	for i := range 4 {
		l.each(time.Duration(i+1)*time.Millisecond, func(r *rand.Rand) error {
			_, err := l.c.Put(l.ctx, key(r), value(r))
			return err
		})
	}
	l.each(6*time.Millisecond, func(r *rand.Rand) error { // several keys at one revision
		_, err := l.c.Txn(l.ctx).Then(clientv3.OpPut("pair/a", value(r)), clientv3.OpPut("pair/b", value(r)), clientv3.OpDelete(key(r))).Commit()
		return err
	})
	l.each(200*time.Millisecond, func(r *rand.Rand) error { // a revision of more changes than a Txn takes
		_, err := l.c.Delete(l.ctx, "hot/", clientv3.WithPrefix())
		return err
	})
	l.each(50*time.Millisecond, func(r *rand.Rand) error { // leases that run out by themselves while the import looks
		lease, err := l.c.Grant(l.ctx, int64(2+r.IntN(4)))
		if err == nil {
			_, err = l.c.Put(l.ctx, fmt.Sprintf("short/%d", r.IntN(100)), "x", clientv3.WithLease(lease.ID))
		}
		return err
	})
	kept, err := l.c.Grant(l.ctx, 2) // shorter than the import lasts: it lives on the target only if it is renewed there
	if err == nil {
		_, err = l.c.Put(l.ctx, "kept", "x", clientv3.WithLease(kept.ID))
	}
	if err == nil {
		l.each(500*time.Millisecond, func(*rand.Rand) error {
			_, err := l.c.KeepAliveOnce(l.ctx, kept.ID)
			return err
		})
	}
	l.each(100*time.Millisecond, func(r *rand.Rand) error { // revoked; its keys moved to another lease or to none before
		lease, err := l.c.Grant(l.ctx, 100)
		if err != nil {
			return err
		}
		for _, k := range []string{"moved/a", "moved/b", "moved/c"} {
			if _, err := l.c.Put(l.ctx, k, "x", clientv3.WithLease(lease.ID)); err != nil {
				return err
			}
		}
		if _, err := l.c.Put(l.ctx, "moved/a", "free"); err != nil {
			return err
		}
		_, err = l.c.Revoke(l.ctx, lease.ID)
		return err
	})
	l.each(300*time.Millisecond, func(*rand.Rand) error { // the revision that is being copied may go
		res, err := l.c.Get(l.ctx, "x")
		if err == nil {
			_, err = l.c.Compact(l.ctx, res.Header.Revision-20)
		}
		return err
	})
}

// stop ends the clients and says how much they wrote. It may be called twice.
func (l *importLoad) stop() int64 {
	l.ended.Store(true)
	l.wg.Wait()
	return l.writes.Load()
}
