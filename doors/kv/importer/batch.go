package importer

import (
	"context"
	"errors"
	"sync"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// op is one change of the target: a put, or with gone set a delete.
type op struct {
	key, value []byte
	lease      int64
	gone       bool
}

func (o *op) size() int { return len(o.key) + len(o.value) + 16 }

// A batch becomes one Txn. Both limits are etcd's defaults with room to spare: 128 operations, 1.5 MiB.
const (
	batchOps   = 128
	batchBytes = 1 << 20
)

// batch gathers changes that are written as one. A later change of a key replaces the earlier one. The target goes from one state of the
// source to a later one and may skip those between. One goroutine.
type batch struct {
	ops   []op
	at    map[string]int // key → place in ops
	bytes int
}

// fits reports whether more operations fit in, counted as if all were new.
func (b *batch) fits(ops, bytes int) bool {
	return len(b.ops)+ops <= batchOps && (b.bytes+bytes <= batchBytes || len(b.ops) == 0)
}

func (b *batch) add(o op) {
	if i, ok := b.at[string(o.key)]; ok {
		b.bytes += o.size() - b.ops[i].size()
		b.ops[i] = o
		return
	}
	if b.at == nil {
		b.at = make(map[string]int, batchOps)
	}
	b.at[string(o.key)] = len(b.ops)
	b.ops = append(b.ops, o)
	b.bytes += o.size()
}

// writer brings batches to the target. Safe for concurrent use, as long as no two batches at a time share a key.
type writer struct {
	target *side
	leases *leases
	count  *counters
}

// write returns once the target has the batch. A key whose lease the source no longer has is written without it. The change that deletes
// the key, or gives it another lease, is still to come.
func (w *writer) write(ctx context.Context, b *batch) error {
	if len(b.ops) == 0 {
		return nil
	}
	for {
		ops := make([]clientv3.Op, 0, len(b.ops))
		for i := range b.ops {
			o := &b.ops[i]
			if o.gone {
				ops = append(ops, clientv3.OpDelete(string(o.key)))
				continue
			}
			id := clientv3.NoLease
			if o.lease != 0 {
				alive, err := w.leases.ensure(ctx, o.lease)
				if err != nil {
					return err
				}
				if alive {
					id = clientv3.LeaseID(o.lease)
				}
			}
			ops = append(ops, clientv3.OpPut(string(o.key), string(o.value), clientv3.WithLease(id)))
		}
		err := w.target.insist(ctx, "write", func(ctx context.Context) error {
			// A single change goes without the frame of a Txn: a value may be as large as the server takes at all.
			if len(ops) == 1 {
				_, err := w.target.Do(ctx, ops[0])
				return err
			}
			_, err := w.target.Txn(ctx).Then(ops...).Commit()
			return err
		})
		if errors.Is(err, rpctypes.ErrLeaseNotFound) {
			// A lease has expired on the target, which was down, or the import was too slow. Other keys attached to it are gone
			// too.
			if err := w.leases.recheck(ctx, b); err != nil {
				return err
			}
			continue
		}
		if err == nil {
			w.count.written(b)
		}
		return err
	}
}

// parallel writes batches of different keys, several at a time: the first copy is bound by the target's round trips else.
type parallel struct {
	w    *writer
	slot chan struct{}
	wg   sync.WaitGroup

	mu  sync.Mutex
	err error // the first failure, guarded by mu
}

func newParallel(w *writer) *parallel { return &parallel{w: w, slot: make(chan struct{}, 8)} }

// write takes ownership of b. An error may be that of an earlier batch.
func (p *parallel) write(ctx context.Context, b *batch) error {
	p.mu.Lock()
	err := p.err
	p.mu.Unlock()
	if err != nil {
		return err
	}
	p.slot <- struct{}{}
	p.wg.Go(func() {
		defer func() { <-p.slot }()
		if err := p.w.write(ctx, b); err != nil {
			p.mu.Lock()
			defer p.mu.Unlock()
			if p.err == nil {
				p.err = err
			}
		}
	})
	return nil
}

// wait returns once everything is written, or failed.
func (p *parallel) wait() error {
	p.wg.Wait()
	return p.err
}
