package agentsim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"

	"github.com/holdfastdb/holdfast/internal/task"
	"github.com/holdfastdb/holdfast/objstore"
)

// bucket is the store behind all faults. Requests that arrive there are judged.
type bucket struct {
	w     *world
	mem   *objstore.Memory
	calm  bool          // requests do not fail, and none is held
	slow  time.Duration // the extra time of every request
	upset int           // one of so many requests has a fate of its own; 0: none
}

func newBucket(w *world) *bucket { return &bucket{w: w, mem: objstore.NewMemory()} }

// outlet is the store as an agent's process reaches it. A request that was sent arrives although the process has ended.
type outlet struct {
	p *process
}

var _ objstore.Store = (*outlet)(nil)

var (
	errRefused = errors.New("503 Slow Down")
	errTimeout = errors.New("timeout")
	errCut     = errors.New("no route to the store")
)

// do sends a request. apply is called when it arrives at the store: never, once or twice.
func (o *outlet) do(ctx context.Context, what string, apply func() error) error {
	p := o.p
	w := p.m.w
	b := w.bucket
	if ctx.Err() != nil {
		return ctx.Err()
	}
	w.rep.Requests++
	answered := make(chan struct{})
	var result error
	answer := func(err error, after time.Duration) {
		w.after(after, func() {
			w.note("%s ← %s: %v", p.m.name, what, err)
			result = err
			close(answered)
		})
	}
	there, back := w.between(time.Millisecond, 20*time.Millisecond)+b.slow, w.between(time.Millisecond, 5*time.Millisecond)
	fate := 0
	if !b.calm && b.upset > 0 && w.chance(1, b.upset) {
		fate = 1 + w.rng.IntN(7)
	}
	if fate != 0 || p.m.cutOff > w.now || b.slow > 0 {
		w.upsets = append(w.upsets, w.now)
	}
	w.note("%s → %s", p.m.name, what)
	arrives := func(in time.Duration, then func(err error)) {
		w.after(in, func() {
			err := apply()
			w.note("the store has %s of %s: %v", what, p.m.name, err)
			then(err)
		})
	}
	nothing := func(error) {}
	switch {
	case p.m.cutOff > w.now && w.chance(1, 2):
		answer(errCut, there)
	case p.m.cutOff > w.now: // never answered
	case fate == 1:
		answer(errRefused, there)
	case fate == 2: // stored, and the answer says that it was not
		w.rep.Lost++
		arrives(there, func(error) { answer(errTimeout, back) })
	case fate == 3: // held, for longer than the caller waits sometimes
		w.rep.Held++
		arrives(w.between(100*time.Millisecond, 30*time.Second), func(err error) { answer(err, back) })
	case fate == 4: // never answered, and stored
		w.rep.Lost++
		arrives(there, nothing)
	case fate == 5: // never answered, and stored much later
		w.rep.Held++
		arrives(w.between(time.Second, 40*time.Second), nothing)
	case fate == 6: // a client that repeats by itself an upload whose answer was lost
		arrives(there, nothing)
		arrives(there+w.between(time.Millisecond, 2*time.Second), func(err error) { answer(err, back) })
	case fate == 7: // slow
		arrives(w.between(50*time.Millisecond, 2*time.Second), func(err error) { answer(err, back) })
	default:
		arrives(there, func(err error) { answer(err, back) })
	}
	if p.Wait(task.Forever, answered, ctx.Done()) == 1 {
		return fmt.Errorf("%s: %w", what, ctx.Err())
	}
	return result
}

// Get implements objstore.Store.
func (o *outlet) Get(ctx context.Context, name string) (data []byte, err error) {
	err = o.do(ctx, "get "+name, func() (err error) { data, err = o.p.m.w.bucket.mem.Get(ctx, name); return })
	return
}

// GetVersion implements objstore.Store.
func (o *outlet) GetVersion(ctx context.Context, name string) (data []byte, version string, err error) {
	err = o.do(ctx, "get "+name, func() (err error) { data, version, err = o.p.m.w.bucket.mem.GetVersion(ctx, name); return })
	return
}

// PutIfMatch implements objstore.Store.
func (o *outlet) PutIfMatch(ctx context.Context, obj objstore.Object, was string) (version string, err error) {
	err = o.do(ctx, "replace "+obj.Name, func() (err error) {
		if version, err = o.p.m.w.bucket.mem.PutIfMatch(ctx, obj, was); err == nil {
			o.p.m.w.ledger.replaced(o.p.m, obj.Name, obj.Data)
		}
		return
	})
	return
}

// Put implements objstore.Store. An agent never replaces what it does not know.
func (o *outlet) Put(context.Context, ...objstore.Object) error {
	o.p.m.w.fail(Names, "%s puts without a condition", o.p.m.name)
	return errRefused
}

// PutIfAbsent implements objstore.Store.
func (o *outlet) PutIfAbsent(ctx context.Context, obj objstore.Object) error {
	w := o.p.m.w
	return o.do(ctx, "put "+obj.Name, func() error {
		chain := w.ledger.before(obj.Name)
		err := w.bucket.mem.PutIfAbsent(ctx, obj)
		if err == nil {
			w.ledger.created(o.p.m, obj.Name, obj.Data, chain)
		}
		return err
	})
}

// PutFrom implements objstore.Store.
func (o *outlet) PutFrom(ctx context.Context, name string, size int64, r io.Reader, ifAbsent bool) error {
	if !ifAbsent {
		return o.Put(ctx)
	}
	data, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	if int64(len(data)) != size {
		o.p.m.w.fail(Names, "%s has %d bytes, and its upload says %d", name, len(data), size)
	}
	return o.PutIfAbsent(ctx, objstore.Object{Name: name, Data: data})
}

// Open implements objstore.Store.
func (o *outlet) Open(ctx context.Context, name string, off, n int64) (in io.ReadCloser, err error) {
	err = o.do(ctx, "read "+name, func() (err error) { in, err = o.p.m.w.bucket.mem.Open(ctx, name, off, n); return })
	return
}

// List implements objstore.Store.
func (o *outlet) List(ctx context.Context, prefix, after string) iter.Seq2[objstore.Listed, error] {
	return func(yield func(objstore.Listed, error) bool) {
		var found []objstore.Listed
		err := o.do(ctx, "list "+prefix, func() error {
			found = nil
			for l, err := range o.p.m.w.bucket.mem.List(ctx, prefix, after) {
				if err != nil {
					return err
				}
				found = append(found, l)
			}
			return nil
		})
		if err != nil {
			yield(objstore.Listed{}, err)
			return
		}
		for _, l := range found {
			if !yield(l, nil) {
				return
			}
		}
	}
}

// Delete implements objstore.Store.
func (o *outlet) Delete(ctx context.Context, names ...string) error {
	w := o.p.m.w
	return o.do(ctx, fmt.Sprintf("delete %v", names), func() error {
		w.ledger.deleting(o.p.m, names)
		err := w.bucket.mem.Delete(ctx, names...)
		w.ledger.deleted(o.p.m, names)
		return err
	})
}

// DeleteAll implements objstore.Store.
func (o *outlet) DeleteAll(context.Context, string) error {
	o.p.m.w.fail(Names, "%s deletes everything", o.p.m.name)
	return errRefused
}
