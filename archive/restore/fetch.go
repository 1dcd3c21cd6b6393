package restore

import (
	"context"
	"errors"
	"time"

	"github.com/holdfastdb/holdfast/internal/task"
	"github.com/holdfastdb/holdfast/objstore"
)

const (
	// fetchAtOnce and fetchBytes bound the read-ahead of an archive's reader: one object of any size is always fetched.
	fetchAtOnce = 8
	fetchBytes  = 24 << 20
	// A failed read is repeated after each of some pauses: a missing object may arrive within seconds.
	fetchTries = 4
	fetchPause = 250 * time.Millisecond
	// namesAtOnce is how many names of a list are held. A directory is read as a whole for each such page.
	namesAtOnce = 8192
)

// get reads an object, again if that fails. Final at once are objstore.ErrAbsent and ctx's error.
func (a *Archive) get(ctx context.Context, name string) (b []byte, err error) {
	pause := fetchPause
	for try := 1; ; try++ {
		b, err = a.store.Get(ctx, name)
		if err == nil || errors.Is(err, objstore.ErrAbsent) || ctx.Err() != nil || try == fetchTries {
			return b, err
		}
		a.tasks.Wait(pause, ctx.Done())
		pause *= 4
	}
}

// names are those of a list, page by page.
type names struct {
	a             *Archive
	prefix, after string
	upTo          string // "": all of the prefix; else those before this one
	page          []objstore.Listed
	ended         bool
}

// next returns the next name; false after the last.
func (n *names) next(ctx context.Context) (objstore.Listed, bool, error) {
	pause := fetchPause
	for try := 1; len(n.page) == 0 && !n.ended; try++ {
		err := n.fill(ctx)
		if err != nil && len(n.page) == 0 {
			if ctx.Err() != nil || try == fetchTries {
				return objstore.Listed{}, false, err
			}
			a := n.a
			a.tasks.Wait(pause, ctx.Done())
			pause *= 4
		}
	}
	if len(n.page) == 0 {
		return objstore.Listed{}, false, nil
	}
	l := n.page[0]
	n.page = n.page[1:]
	return l, true, nil
}

// fill reads a page. The names read before an error are good.
func (n *names) fill(ctx context.Context) error {
	n.page = n.page[:0]
	for l, err := range n.a.store.List(ctx, n.prefix, n.after) {
		switch {
		case err != nil:
			return err
		case n.upTo != "" && l.Name >= n.upTo:
			n.ended = true
			return nil
		case len(n.page) == namesAtOnce:
			return nil
		}
		n.page = append(n.page, l)
		n.after = l.Name
	}
	n.ended = true
	return nil
}

// ahead does jobs beside its caller and hands out what came of them in their order. It belongs to one goroutine.
type ahead[T any] struct {
	a *Archive
	// job returns the next job and about how many bytes it brings into memory; nil: there is none.
	job func(ctx context.Context) (do func(ctx context.Context) T, bytes int64, err error)

	begun []*begun[T]
	bytes int64
	ended bool
	held  *begun[T] // has no room yet
}

type begun[T any] struct {
	do    func(ctx context.Context) T
	bytes int64
	done  chan struct{}
	is    T
}

// next returns the outcome of the next job; false after the last.
func (q *ahead[T]) next(ctx context.Context) (is T, ok bool, err error) {
	if err := q.fill(ctx); err != nil || len(q.begun) == 0 {
		return is, false, err
	}
	first := q.begun[0]
	if q.a.tasks.Wait(task.Forever, first.done, ctx.Done()) != 0 {
		return is, false, ctx.Err()
	}
	q.begun = q.begun[1:]
	q.bytes -= first.bytes
	return first.is, true, nil
}

func (q *ahead[T]) fill(ctx context.Context) error {
	for len(q.begun) < fetchAtOnce {
		if q.held == nil && !q.ended {
			do, bytes, err := q.job(ctx)
			switch {
			case err != nil:
				return err
			case do == nil:
				q.ended = true
			default:
				q.held = &begun[T]{do: do, bytes: bytes, done: make(chan struct{})}
			}
		}
		if q.held == nil || len(q.begun) > 0 && q.bytes+q.held.bytes > fetchBytes {
			return nil
		}
		j := q.held
		q.held = nil
		q.begun = append(q.begun, j)
		q.bytes += j.bytes
		q.a.tasks.Go(func() {
			j.is = j.do(ctx)
			close(j.done)
		})
	}
	return nil
}
