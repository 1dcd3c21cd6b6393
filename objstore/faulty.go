package objstore

import (
	"context"
	"iter"
	"math"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/holdfastdb/holdfast/internal/task"
)

// Faults says how a Faulty store behaves. The chances are of each call, between 0 and 1, and add up to 1 at most: the rest goes well. The
// zero value is a store without faults.
type Faults struct {
	// Refused is the chance that nothing is done, answered 429.
	Refused float64
	// Before is the chance that nothing is done, answered 500.
	Before float64
	// After is the chance that the request is carried out but answered 500.
	After float64
	// Repeated is the chance that the request arrives twice, as when a client has lost the first answer. A conditional upload takes effect
	// and is then refused (412) because of its own object.
	Repeated float64
	// Half is the chance that the first half is done, answered 500. An upload leaves half an object under the whole one's name, which S3
	// and this package's files never do. Of several objects the first half is there, and a list ends early. An object is read as a whole or
	// not at all.
	Half float64
	// Delay is how long a request and its answer are on their way at most, together. A caller whose context ends meanwhile is
	// answered at once, and of the uploads it leaves behind one in two takes effect later.
	Delay time.Duration
}

// Faulty wraps a store that fails by a seed: with the same calls in the same order, the same ones go wrong. Safe for concurrent
// use.
type Faulty struct {
	under Store
	tasks task.Runner

	mu     sync.Mutex
	rng    *rand.Rand // guarded by mu
	faults Faults     // guarded by mu
}

var _ Store = (*Faulty)(nil)

// NewFaulty wraps under. It waits in tasks: the simulation's, or task.Goroutines.
func NewFaulty(under Store, seed uint64, tasks task.Runner, f Faults) *Faulty {
	return &Faulty{under: under, tasks: tasks, rng: rand.New(rand.NewPCG(seed, 0)), faults: f}
}

// Set changes how the store behaves from the next call on.
func (s *Faulty) Set(f Faults) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = f
}

// halfOf is the object that a half upload leaves.
func halfOf(o Object) Object {
	o.Data = o.Data[:len(o.Data)/2]
	return o
}

// Get implements Store.
func (s *Faulty) Get(ctx context.Context, name string) ([]byte, error) {
	return sendRead(ctx, s, name, func(ctx context.Context) ([]byte, error) { return s.under.Get(ctx, name) })
}

// GetVersion implements Store.
func (s *Faulty) GetVersion(ctx context.Context, name string) ([]byte, string, error) {
	type versioned struct {
		data    []byte
		version string
	}
	v, err := sendRead(ctx, s, name, func(ctx context.Context) (v versioned, err error) {
		v.data, v.version, err = s.under.GetVersion(ctx, name)
		return v, err
	})
	return v.data, v.version, err
}

// PutIfMatch implements Store.
func (s *Faulty) PutIfMatch(ctx context.Context, o Object, was string) (string, error) {
	return send(ctx, s, request[string]{verb: "put", name: o.Name, changesState: true,
		do: func(ctx context.Context) (string, error) { return s.under.PutIfMatch(ctx, o, was) },
		doHalf: func(ctx context.Context) (string, error) {
			if _, err := s.under.PutIfMatch(ctx, halfOf(o), was); err != nil {
				return Absent, err
			}
			return Absent, failure("put", o.Name, http.StatusInternalServerError)
		}})
}

// PutIfAbsent implements Store.
func (s *Faulty) PutIfAbsent(ctx context.Context, o Object) error {
	return sendWrite(ctx, s, "put", o.Name, func(ctx context.Context) error { return s.under.PutIfAbsent(ctx, o) },
		func(ctx context.Context) error {
			if err := s.under.PutIfAbsent(ctx, halfOf(o)); err != nil {
				return err
			}
			return failure("put", o.Name, http.StatusInternalServerError)
		})
}

// Put implements Store.
func (s *Faulty) Put(ctx context.Context, objects ...Object) error {
	if len(objects) == 0 {
		return nil
	}
	return sendWrite(ctx, s, "put", objects[0].Name, func(ctx context.Context) error { return s.under.Put(ctx, objects...) },
		func(ctx context.Context) error { return s.putHalf(ctx, objects) })
}

// putHalf puts half of one object, or the first half of several, and says which.
func (s *Faulty) putHalf(ctx context.Context, objects []Object) error {
	n := len(objects) / 2
	failed := failure("put", objects[n].Name, http.StatusInternalServerError)
	if n == 0 {
		if err := s.under.Put(ctx, halfOf(objects[0])); err != nil {
			return err
		}
		return failed
	}
	if err := s.under.Put(ctx, objects[:n]...); err != nil {
		return err
	}
	p := &Partial{Done: make([]bool, len(objects)), Err: failed}
	for i := range n {
		p.Done[i] = true
	}
	return p
}

// List implements Store. Its fate is drawn when it begins, and only its beginning is delayed.
func (s *Faulty) List(ctx context.Context, prefix, after string) iter.Seq2[Listed, error] {
	return func(yield func(Listed, error) bool) {
		end, err := send(ctx, s, request[int]{verb: "list", name: prefix,
			do:     func(context.Context) (int, error) { return math.MaxInt, nil },
			doHalf: func(context.Context) (int, error) { return s.number(10), nil }})
		if err != nil {
			yield(Listed{}, err)
			return
		}
		for l, err := range s.under.List(ctx, prefix, after) {
			if end == 0 {
				yield(Listed{}, failure("list", prefix, http.StatusInternalServerError))
				return
			}
			if end--; !yield(l, err) {
				return
			}
		}
	}
}

// Delete implements Store.
func (s *Faulty) Delete(ctx context.Context, names ...string) error {
	if len(names) == 0 {
		return nil
	}
	return sendWrite(ctx, s, "delete", names[0], func(ctx context.Context) error { return s.under.Delete(ctx, names...) },
		func(ctx context.Context) error {
			if err := s.under.Delete(ctx, names[:len(names)/2]...); err != nil {
				return err
			}
			return failure("delete", names[len(names)/2], http.StatusInternalServerError)
		})
}

// DeleteAll implements Store. Half of it is nothing.
func (s *Faulty) DeleteAll(ctx context.Context, prefix string) error {
	return sendWrite(ctx, s, "delete", prefix, func(ctx context.Context) error { return s.under.DeleteAll(ctx, prefix) },
		func(context.Context) error { return failure("delete", prefix, http.StatusInternalServerError) })
}
