package format

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/holdfastdb/holdfast/internal/task"
	"github.com/holdfastdb/holdfast/objstore"
)

// shipper is the least that ships: it cuts its log in its own way, has several objects in flight, and trusts the store's answers.
type shipper struct {
	store  objstore.Store
	log    []Entry
	rng    *rand.Rand
	tip    Tip // of what is known to be in the archive
	made   *Encoder
	flight []made // after tip, in order
}

type made struct {
	name string
	data []byte
	tip  Tip
	sure bool // it is there
}

var errOtherHistory = errors.New("another history")

// step makes an object or sends one of those that are made. A store's failures that may be transient are no error: the same object is
// sent again later.
func (s *shipper) step(ctx context.Context) error {
	if s.made == nil {
		s.made = NewEncoder(s.tip, MaxBytes)
	}
	if len(s.flight) < 4 && s.made.Tip().Last < uint64(len(s.log)) && s.rng.IntN(2) == 0 {
		for range 1 + s.rng.IntN(3) {
			if next := s.made.Tip().Last; next < uint64(len(s.log)) {
				if ok, err := s.made.Append(s.log[next]); !ok || err != nil {
					return fmt.Errorf("append: %t, %w", ok, err)
				}
			}
		}
		state := s.made.Tip().Last * 3 // as good as any that follows from the log
		name, data := s.made.Finish(state)
		s.flight = append(s.flight, made{name: name, data: data, tip: s.made.Tip()})
	}
	if len(s.flight) == 0 {
		return nil
	}
	m := &s.flight[s.rng.IntN(len(s.flight))] // they arrive in any order
	if !m.sure {
		switch err := s.store.PutIfAbsent(ctx, objstore.Object{Name: m.name, Data: m.data}); {
		case err == nil:
			m.sure = true
		case errors.Is(err, objstore.ErrExists):
			return s.compare(ctx, m)
		}
	}
	s.moveOn()
	return nil
}

// moveOn takes the gapless objects for archived.
func (s *shipper) moveOn() {
	for len(s.flight) > 0 && s.flight[0].sure {
		s.tip, s.flight = s.flight[0].tip, s.flight[1:]
	}
}

// compare reads the object under the name of m. An object that ends elsewhere is as good: the shipper continues after it, and leaves its
// own uploads in flight behind it as they are.
func (s *shipper) compare(ctx context.Context, m *made) error {
	b, err := s.store.Get(ctx, m.name)
	if err != nil {
		return nil // the next attempt finds it again
	}
	span, err := DecodeSpan(m.name, b)
	if err != nil {
		return err
	}
	for ent := range span.Entries() {
		if ent.Index > uint64(len(s.log)) || !ent.Equal(s.log[ent.Index-1]) {
			return fmt.Errorf("%w: %s, entry %d", errOtherHistory, m.name, ent.Index)
		}
	}
	for i := range s.flight {
		if &s.flight[i] == m {
			m.sure = true
			if m.tip != span.Tip() {
				m.tip, s.flight, s.made = span.Tip(), s.flight[:i+1], NewEncoder(span.Tip(), MaxBytes)
			}
			break
		}
	}
	s.moveOn()
	return nil
}

// history is a log of n entries; those after fork belong to another history for each seed.
func history(n, fork int, seed uint64) (log []Entry) {
	rng := rand.New(rand.NewPCG(1, 1))
	for i := range n {
		if i == fork {
			rng = rand.New(rand.NewPCG(seed, 2))
		}
		log = append(log, Entry{Index: uint64(i + 1), Term: uint64(1 + i/10), Data: fmt.Appendf(nil, "%x", rng.Uint64N(1<<40))})
	}
	return log
}

// chain reads the archive from its beginning, name after name, to the first that is not there. With an error it returns the part in front
// of the fault.
func chain(s objstore.Store) (entries []Entry, err error) {
	for tip := beginning; ; {
		name := SpanName(tip.Timeline, tip.Last+1)
		b, err := s.Get(context.Background(), name)
		if errors.Is(err, objstore.ErrAbsent) {
			return entries, nil
		}
		if err != nil {
			return entries, err
		}
		span, err := DecodeSpan(name, b)
		if err == nil {
			err = span.Follows(tip)
		}
		if err != nil {
			return entries, err
		}
		entries = slices.AppendSeq(entries, span.Entries())
		tip = span.Tip()
	}
}

// ship has shippers take turns over a store that fails, until each has archived its log or stopped.
func ship(t *testing.T, seed uint64, f objstore.Faults, logs ...[]Entry) (*objstore.Memory, []error) {
	t.Helper()
	memory, rng := objstore.NewMemory(), rand.New(rand.NewPCG(seed, 3))
	faulty := objstore.NewFaulty(memory, seed, task.Goroutines{}, f)
	var all []*shipper
	for i, log := range logs {
		all = append(all, &shipper{store: faulty, log: log, rng: rand.New(rand.NewPCG(seed, uint64(i)+10)), tip: beginning})
	}
	ended := make([]error, len(all))
	done := func(i int) bool { return ended[i] != nil || all[i].tip.Last >= uint64(len(all[i].log)) }
	for turn := 0; ; turn++ {
		if turn > 100_000 {
			t.Fatalf("seed %d: the shippers get nowhere", seed)
		}
		left := false
		for i := range all {
			left = left || !done(i)
		}
		if !left {
			return memory, ended
		}
		i := rng.IntN(len(all))
		for range 1 + rng.IntN(8) { // the other one pauses
			if !done(i) {
				ended[i] = all[i].step(context.Background())
			}
		}
	}
}

// TestTwoShippersMakeOneArchive, with any cuts of the log, any faults of the store, and any order of arrival. Neither stops, and the chain
// holds every entry once. An object beside the chain belongs to the same history.
func TestTwoShippersMakeOneArchive(t *testing.T) {
	log, beside := history(120, -1, 0), 0
	for seed := range uint64(200) {
		f := objstore.Faults{Refused: 0.1, Before: 0.05, After: 0.1, Repeated: 0.1}
		memory, ended := ship(t, seed, f, log, log)
		if err := errors.Join(ended...); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if got, err := chain(memory); err != nil || !equalEntries(got, log) {
			t.Fatalf("seed %d: the chain has %d entries of %d: %v", seed, len(got), len(log), err)
		}
		last := uint64(0)
		for l, err := range memory.List(context.Background(), TimelineName(beginning.Timeline), "") {
			if err != nil {
				t.Fatal(err)
			}
			span, err := DecodeSpan(l.Name, memory.Objects()[l.Name])
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			for ent := range span.Entries() {
				if !ent.Equal(log[ent.Index-1]) {
					t.Fatalf("seed %d: %s has another entry %d", seed, l.Name, ent.Index)
				}
			}
			if span.First <= last {
				beside++
			}
			last = max(last, span.Last)
		}
	}
	if beside == 0 {
		t.Error("no two spans overlap in any run: this test shows nothing")
	}
}

// TestTwoHistoriesAreNeverMixed: of two shippers whose logs differ from some entry on at least one stops and names the entry. The chain is
// of one of them. If both stop, the chain may end at an object of the other one, and does not go over it.
func TestTwoHistoriesAreNeverMixed(t *testing.T) {
	const n, fork = 30, 4
	cut := 0
	for seed := range uint64(1000) {
		a, b := history(n, fork, 1), history(n, fork, 2)
		memory, ended := ship(t, seed, objstore.Faults{After: 0.1, Repeated: 0.1}, a, b)
		if ended[0] == nil && ended[1] == nil {
			t.Fatalf("seed %d: both have archived", seed)
		}
		for i, err := range ended {
			if err != nil && !errors.Is(err, errOtherHistory) {
				t.Errorf("seed %d: shipper %d stopped with %v", seed, i, err)
			}
		}
		got, err := chain(memory)
		if !equalEntries(got, a[:len(got)]) && !equalEntries(got, b[:len(got)]) {
			t.Errorf("seed %d: the archive has entries of both", seed)
		}
		if err != nil {
			fault(t, err)
			cut++
		}
	}
	if cut == 0 {
		t.Error("no chain meets an object of the other history: this test shows nothing of what holds them apart")
	}
}

// TestHalfAnObjectIsNotAnotherHistory: a store that leaves half an object stops its shippers with a fault that names it.
func TestHalfAnObjectIsNotAnotherHistory(t *testing.T) {
	log, halves := history(60, -1, 0), 0
	for seed := range uint64(50) {
		_, ended := ship(t, seed, objstore.Faults{Half: 0.05}, log)
		if err := ended[0]; err != nil {
			fault(t, err)
			halves++
		}
	}
	if halves == 0 {
		t.Error("no object was halved: this test shows nothing")
	}
}
