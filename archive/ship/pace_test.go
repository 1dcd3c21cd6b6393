package ship

import (
	"context"
	"errors"
	"io"
	"iter"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfastdb/holdfast/objstore"
)

var errAnswerLost = errors.New("the answer is lost")

// unsteady is a store of which every second request fails. Half of those that fail have taken effect.
type unsteady struct {
	*objstore.Memory
	mu sync.Mutex
	r  *rand.Rand // guarded by mu
}

// judge reports whether a request takes effect, and what is answered.
func (s *unsteady) judge() (effect bool, err error) {
	time.Sleep(5 * time.Millisecond)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch s.r.IntN(4) {
	case 0:
		return false, errDown
	case 1:
		return true, errAnswerLost
	}
	return true, nil
}

func (s *unsteady) PutIfAbsent(ctx context.Context, o objstore.Object) error {
	effect, lost := s.judge()
	if !effect {
		return lost
	}
	if err := s.Memory.PutIfAbsent(ctx, o); err != nil && lost == nil {
		return err
	}
	return lost
}

func (s *unsteady) Get(ctx context.Context, name string) ([]byte, error) {
	if _, err := s.judge(); err != nil {
		return nil, err
	}
	return s.Memory.Get(ctx, name)
}

func (s *unsteady) Open(ctx context.Context, name string, off, n int64) (io.ReadCloser, error) {
	if _, err := s.judge(); err != nil {
		return nil, err
	}
	return s.Memory.Open(ctx, name, off, n)
}

func (s *unsteady) List(ctx context.Context, prefix, after string) iter.Seq2[objstore.Listed, error] {
	if _, err := s.judge(); err != nil {
		return func(yield func(objstore.Listed, error) bool) { yield(objstore.Listed{}, err) }
	}
	return s.Memory.List(ctx, prefix, after)
}

// TestAnUnsteadyStoreIsKeptUpWith: with a store that fails every second request, waiting callers hear within seconds, however long it goes
// on. One request of many has no luck five times over: what has arrived behind it must not wait for ever longer pauses.
func TestAnUnsteadyStoreIsKeptUpWith(t *testing.T) {
	for seed := range uint64(5) {
		synctest.Test(t, func(t *testing.T) {
			h, s := newHistory(), &unsteady{Memory: objstore.NewMemory(), r: seeded(seed)}
			m := newMember(h)
			run(t, m, s, Options{Memory: 18 << 20})
			m.Lead(h.elect())
			until(t, "shipping begins", func() bool { return m.ArchivedIndex() > 0 })
			type mark struct {
				index uint64
				at    time.Time
			}
			var waiting []mark // for the archive, in order
			var sum, worst time.Duration
			heard := 0
			for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(10 * time.Millisecond) {
				h.add(10, 1024) // a mebibyte a second
				m.want(h.last())
				waiting = append(waiting, mark{h.last(), time.Now()})
				for len(waiting) > 0 && waiting[0].index <= m.ArchivedIndex() {
					late := time.Since(waiting[0].at)
					sum, worst = sum+late, max(worst, late)
					heard++
					waiting = waiting[1:]
				}
			}
			if average := sum / time.Duration(max(heard, 1)); heard < 5000 || average > 3*time.Second || worst > 20*time.Second {
				t.Errorf("seed %d: %d of %d heard, after %v on average, %v at most", seed, heard, heard+len(waiting), average, worst)
			}
		})
	}
}
