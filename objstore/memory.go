package objstore

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// Memory is a Store in memory, for tests.
type Memory struct {
	mu      sync.Mutex
	objects map[string][]byte    // guarded by mu
	times   map[string]time.Time // of those that were put while there was a clock; guarded by mu
	now     func() time.Time     // guarded by mu; nil: no clock
	fail    error                // guarded by mu
}

// NewMemory returns an empty store.
func NewMemory() *Memory { return &Memory{objects: map[string][]byte{}, times: map[string]time.Time{}} }

// Clock gives all that is put from now on the time that now says, for List; nil: no time. It must be safe to call from any goroutine.
func (s *Memory) Clock(now func() time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = now
}

// keep stores a copy. The caller holds mu.
func (s *Memory) keep(name string, data []byte) {
	s.objects[name] = bytes.Clone(data)
	if s.now == nil {
		delete(s.times, name)
		return
	}
	s.times[name] = s.now()
}

// Fail makes every later call answer err; nil ends that.
func (s *Memory) Fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = err
}

// Objects returns a copy of all objects.
func (s *Memory) Objects() map[string][]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.objects) // the values are never changed
}

// Get implements Store.
func (s *Memory) Get(_ context.Context, name string) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil {
		return nil, s.fail
	}
	b, ok := s.objects[name]
	if !ok {
		return nil, fmt.Errorf("%s: %w", name, ErrAbsent)
	}
	return bytes.Clone(b), nil
}

// GetVersion implements Store.
func (s *Memory) GetVersion(ctx context.Context, name string) ([]byte, string, error) {
	b, err := s.Get(ctx, name)
	if err != nil {
		return nil, Absent, err
	}
	return b, hashVersion(b), nil
}

// PutIfMatch implements Store.
func (s *Memory) PutIfMatch(_ context.Context, o Object, was string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil {
		return Absent, s.fail
	}
	is := Absent
	if b, ok := s.objects[o.Name]; ok {
		is = hashVersion(b)
	}
	if is != was {
		return Absent, fmt.Errorf("put %s: %w", o.Name, ErrChanged)
	}
	s.keep(o.Name, o.Data)
	return hashVersion(o.Data), nil
}

// PutIfAbsent implements Store.
func (s *Memory) PutIfAbsent(_ context.Context, o Object) error {
	if err := checkName(o.Name); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil {
		return s.fail
	}
	if _, ok := s.objects[o.Name]; ok {
		return fmt.Errorf("put %s: %w", o.Name, ErrExists)
	}
	s.keep(o.Name, o.Data)
	return nil
}

// Put implements Store.
func (s *Memory) Put(_ context.Context, objects ...Object) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range objects {
		if err := checkName(o.Name); err != nil {
			return err
		}
		if s.fail != nil {
			return s.fail
		}
		s.keep(o.Name, o.Data)
	}
	return nil
}

// List implements Store. The names are those of one moment.
func (s *Memory) List(_ context.Context, prefix, after string) iter.Seq2[Listed, error] {
	return func(yield func(Listed, error) bool) {
		found, err := s.list(prefix, after)
		if err != nil {
			yield(Listed{}, err)
			return
		}
		for _, l := range found {
			if !yield(l, nil) {
				return
			}
		}
	}
}

func (s *Memory) list(prefix, after string) (found []Listed, err error) {
	begin, err := below(prefix)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil {
		return nil, s.fail
	}
	for name, b := range s.objects { // any order: they are sorted
		if strings.HasPrefix(name, begin) && name > after {
			found = append(found, Listed{name, int64(len(b)), s.times[name]})
		}
	}
	slices.SortFunc(found, func(a, b Listed) int { return strings.Compare(a.Name, b.Name) })
	return found, nil
}

// Delete implements Store.
func (s *Memory) Delete(_ context.Context, names ...string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range names {
		if err := checkName(name); err != nil {
			return err
		}
		if s.fail != nil {
			return s.fail
		}
		delete(s.objects, name)
		delete(s.times, name)
	}
	return nil
}

// DeleteAll implements Store.
func (s *Memory) DeleteAll(_ context.Context, prefix string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil {
		return s.fail
	}
	maps.DeleteFunc(s.objects, func(name string, _ []byte) bool { return strings.HasPrefix(name, prefix+"/") })
	return nil
}
