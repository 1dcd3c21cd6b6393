package kv

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	eident "github.com/holdfastdb/holdfast/core/entry/ident"
	"github.com/holdfastdb/holdfast/doors/kv/auth"
	"github.com/holdfastdb/holdfast/doors/kv/etcderr"
	kvmachine "github.com/holdfastdb/holdfast/doors/kv/machine"
	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
	"github.com/holdfastdb/holdfast/doors/kv/watch"
)

// await watches [key, end) from revision from on, as a client would. It calls fn with every event until fn reports that it has seen enough,
// or ctx ends. It is how locks and elections wait.
func (d *Door) await(ctx context.Context, key, end []byte, from int64, fn func(e *kvmachine.Event) (done bool, err error)) error {
	a, err := d.users.Access(ctx)
	if err == nil {
		err = a.May(eident.Read, key, end)
	}
	if err != nil {
		return err
	}
	st := watch.NewStream(d.hub, &awaitSink{fn: fn})
	defer st.Close()
	w := &watch.Watcher{Key: key, End: end}
	if err := st.Register(w, 0); err != nil {
		return err
	}
	st.Start(w, from)
	err = st.Write(ctx, d.opts.ProgressInterval)
	if errors.Is(err, errSeenEnough) {
		return nil
	}
	return etcderr.Of(err)
}

var (
	errSeenEnough = errors.New("seen enough")
	errLostWatch  = status.Error(codes.Unknown, "lost watcher waiting for delete")
)

type awaitSink struct {
	fn func(e *kvmachine.Event) (bool, error)
}

// Ready implements watch.Sink.
func (*awaitSink) Ready(context.Context, int64) error { return nil }

// Answer is called only when a compaction has overtaken the watch.
func (*awaitSink) Answer(a *watch.Answer) error {
	if a.Canceled {
		return errLostWatch
	}
	return nil
}

// Events implements watch.Sink.
func (s *awaitSink) Events(_ *watch.Watcher, batches []*watch.Batch, _ int64) error {
	for _, b := range batches {
		for i := range b.Events {
			if done, err := s.fn(&b.Events[i]); err != nil {
				return err
			} else if done {
				return errSeenEnough
			}
		}
	}
	return nil
}

// awaitTurn returns once no key under prefix that was created at or before maxCreate is left: the way etcd's recipes queue for a lock. Each
// waiter watches only its predecessor, so a release wakes one.
func (d *Door) awaitTurn(ctx context.Context, prefix []byte, maxCreate int64) error {
	for {
		last := kvpart.Range{Key: prefix, End: prefixEnd(prefix), Order: kvpart.SortDescend, Target: kvpart.SortByCreate, Limit: 1, MaxCreate: maxCreate}
		res, revision, err := d.rangeFor(ctx, &last)
		if err != nil {
			return err
		}
		if len(res.KVs) == 0 {
			return nil
		}
		err = d.await(ctx, res.KVs[0].Key, nil, revision+1, func(e *kvmachine.Event) (bool, error) {
			return e.Type == kvmachine.EventDelete, nil
		})
		if err != nil {
			return err
		}
	}
}

// prefixEnd is the end of the range of keys that begin with prefix.
func prefixEnd(prefix []byte) []byte {
	end := append([]byte(nil), prefix...)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i] < 0xff {
			end[i]++
			return end[:i+1]
		}
	}
	return []byte{0}
}

// rangeFor answers a linearizable Range that a recipe makes for its client, with the client's permissions.
func (d *Door) rangeFor(ctx context.Context, r *kvpart.Range) (res *kvpart.RangeResult, revision int64, err error) {
	if err := d.node.Linearize(d.bounded(ctx)); err != nil {
		return nil, 0, etcderr.Of(err)
	}
	err = d.users.Reading(ctx, func(a *auth.Access) error { return a.May(eident.Read, r.Key, r.End) }, func() (err error) {
		res, revision, err = d.read(r, d.opts.MaxAnswerBytes/3)
		return etcderr.Of(err)
	}, nil)
	return res, revision, err
}
