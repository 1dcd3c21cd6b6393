package turn

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func one() int { return 1 }

// piece is a long piece of work that takes d.
func piece(t *Turn, d time.Duration) {
	t.Long()
	time.Sleep(d)
}

// TestLongStatementsTakeTurns: of five statements that compute, as many do so at a time as there are places, and each gets on.
func TestLongStatementsTakeTurns(t *testing.T) {
	for _, places := range []int{0, 1, 3} {
		synctest.Test(t, func(t *testing.T) {
			all := New(func() int { return places })
			var mu sync.Mutex
			at, most, done := 0, 0, []int{}
			var wg sync.WaitGroup
			for i := range 5 {
				wg.Go(func() {
					time.Sleep(time.Duration(i) * time.Microsecond) // they come one behind the other
					mine := all.Turn()
					for range 30 {
						mine.Long()
						mu.Lock()
						at++
						most = max(most, at)
						mu.Unlock()
						time.Sleep(9 * time.Millisecond)
						mu.Lock()
						at--
						mu.Unlock()
					}
					mine.End()
					mu.Lock()
					done = append(done, i)
					mu.Unlock()
				})
			}
			wg.Wait()
			if most != max(1, places) {
				t.Errorf("%d places: %d statements computed at a time", places, most)
			}
			if places < 2 && !slices.Equal(done, []int{0, 1, 2, 3, 4}) {
				t.Errorf("%d places: they ended in the order %v", places, done)
			}
			if len(all.holders)+len(all.queue) != 0 {
				t.Errorf("%d places are held and %d waited for behind the end", len(all.holders), len(all.queue))
			}
		})
	}
}

// TestAHolderGoesOnForASlice: a statement that another one waits for goes on for its slice, and then behind the other.
func TestAHolderGoesOnForASlice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := New(one)
		a, b := all.Turn(), all.Turn()
		a.Long()
		began := time.Now()
		got := make(chan time.Duration, 1)
		var wg sync.WaitGroup
		wg.Go(func() { b.Long(); got <- time.Since(began); time.Sleep(time.Millisecond); b.End() })
		synctest.Wait()
		for time.Since(began) < slice-time.Millisecond {
			piece(a, time.Millisecond)
			if len(all.queue) != 1 {
				t.Fatalf("the other one is served after %v", time.Since(began))
			}
		}
		time.Sleep(2 * time.Millisecond)
		a.Long()
		a.End()
		if d := <-got; d < slice || d > slice+5*time.Millisecond {
			t.Errorf("the other one is served after %v", d)
		}
		wg.Wait()
	})
}

// TestAHolderThatWaitsGivesItsPlaceBack, and asks for one with its next row.
func TestAHolderThatWaitsGivesItsPlaceBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := New(one)
		a, b := all.Turn(), all.Turn()
		a.Long()
		a.Leave()
		b.Long() // the test would stand still
		went := false
		go func() { a.Step(); went = true; a.End() }()
		synctest.Wait()
		if went {
			t.Error("a statement that has been long goes on without a place")
		}
		b.End()
		synctest.Wait()
		if !went {
			t.Error("the place is not given on")
		}
		for range stepsOfAPiece - 1 {
			b.Step()
		}
		if len(all.holders) != 0 {
			t.Error("a short statement takes a place")
		}
		b.Step()
		if len(all.holders) != 1 {
			t.Error("a long statement takes none")
		}
		b.End()
	})
}

// TestAHolderThatStallsHoldsUpNobody: it waits for what its session did not foresee.
func TestAHolderThatStallsHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := New(one)
		stalled := all.Turn()
		stalled.Long()
		began := time.Now()
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				mine := all.Turn()
				for range 5 {
					piece(mine, time.Millisecond)
				}
				mine.End()
			})
		}
		wg.Wait()
		if d := time.Since(began); d < stall || d > 2*stall {
			t.Errorf("three short ones end after %v", d)
		}
		stalled.Long()
		stalled.End()
		if len(all.holders) != 0 {
			t.Errorf("%d places stay taken", len(all.holders))
		}
	})
}

// TestNoTurn: a transaction of the simulation takes none.
func TestNoTurn(*testing.T) {
	var none *Turn
	none.Step()
	none.Long()
	none.Leave()
	none.End()
}
