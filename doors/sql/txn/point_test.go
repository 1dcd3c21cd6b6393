package txn

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/holdfastdb/holdfast/core/node"
	"github.com/holdfastdb/holdfast/core/store"
	"github.com/holdfastdb/holdfast/doors/sql/lock"
	sqlpart "github.com/holdfastdb/holdfast/doors/sql/part"
)

// listed is what a scan shows of some rows.
func listed(rows map[string]string) string {
	var all []string
	for _, key := range slices.Sorted(maps.Keys(rows)) {
		all = append(all, key+"="+rows[key])
	}
	return strings.Join(all, " ")
}

// countViews counts those of a world that are open.
func (s *staging) countViews() *int {
	n := new(int)
	open := s.w.opt.View
	s.w.opt.View = func() (store.View, error) {
		v, err := open()
		*n++
		return &countedView{v, n}, err
	}
	return n
}

type countedView struct {
	store.View
	open *int
}

func (v *countedView) Close() error {
	*v.open--
	return v.View.Close()
}

// TestBackToWhatWasStaged: whatever a transaction has staged and in what order, behind a way back it sees what it saw at that place, and commits that.
func TestBackToWhatWasStaged(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		s := newStaging(t)
		open := s.countViews()
		r := rand.New(rand.NewPCG(seed, 1))
		rows := map[string]string{}
		x := s.begin()
		for i := range 8 {
			key := fmt.Sprintf("k%02d", r.IntN(16))
			rows[key] = fmt.Sprint("old ", i)
			s.must(s.set(x, key, rows[key]))
		}
		s.must(x.Commit())
		before := listed(rows)
		x = s.begin()
		if r.IntN(2) == 0 {
			s.must(x.Snapshot())
		}
		type place struct {
			mark Mark
			rows map[string]string
		}
		places := []place{{Mark{}, maps.Clone(rows)}}
		back := 0
		for step := range 120 {
			switch n := r.IntN(20); {
			case n < 2:
				places = append(places, place{x.Mark(), maps.Clone(rows)})
			case n < 4:
				to := r.IntN(len(places))
				if err := x.RollbackTo(places[to].mark); err != nil {
					t.Fatalf("seed %d, step %d: %v", seed, step, err)
				}
				rows, places = maps.Clone(places[to].rows), places[:to+1]
				back++
				if got, want := s.scan(x), listed(rows); got != want {
					t.Fatalf("seed %d, step %d: behind a way back there is %s, want %s", seed, step, got, want)
				}
			case n < 5 && len(places) > 1:
				x.Passed(places[len(places)-1].mark)
				places = places[:len(places)-1]
			default:
				key, value := fmt.Sprintf("k%02d", r.IntN(16)), ""
				if delete(rows, key); r.IntN(4) > 0 {
					value = strings.Repeat(fmt.Sprint("new ", step, " "), 1+r.IntN(8))
					rows[key] = value
				}
				s.must(s.set(x, key, value))
			}
		}
		if got := s.seen(); got != before {
			t.Errorf("seed %d: others see %s, want %s", seed, got, before)
		}
		if r.IntN(4) == 0 { // the next leader has what is staged, and drops it
			s.lead(6)
			x.Rollback()
			rows = nil
			if got := s.seen(); got != before {
				t.Errorf("seed %d: at the next leader there is %s, want %s", seed, got, before)
			}
		} else {
			s.must(x.Commit())
			if got, want := s.seen(), listed(rows); got != want {
				t.Errorf("seed %d: committed was %s, want %s", seed, got, want)
			}
		}
		if *open != 0 {
			t.Errorf("seed %d: %d views are open", seed, *open)
		}
		if back == 0 {
			t.Errorf("seed %d: that tested nothing", seed)
		}
	}
}

// TestLocksStayOnTheWayBack: rows that were there stay locked, one that another transaction has changed behind the snapshot too, and its snapshot shows what it
// showed. Places of rows that were inserted are free.
func TestLocksStayOnTheWayBack(t *testing.T) {
	t.Parallel()
	s := newStaging(t)
	x := s.begin()
	s.fill(x, "a", 6)
	s.must(x.Commit())
	x = s.begin()
	s.must(x.Snapshot())
	y := s.begin()
	s.must(s.set(y, "a01", "theirs"))
	s.must(y.Commit())
	before := s.scan(x)
	mark := x.Mark()
	for _, letter := range []string{"a", "b", "c"} {
		for i := range 6 {
			s.must(s.set(x, fmt.Sprintf("%s%02d", letter, i), fmt.Sprint("mine ", i)))
		}
	}
	if s.staged() != 1 {
		t.Fatal("nothing is staged")
	}
	s.must(x.RollbackTo(mark))
	if got := s.scan(x); got != before {
		t.Errorf("the snapshot shows %s, want %s", got, before)
	}
	if x.Restored() == 0 {
		t.Error("nothing was staged to take it back")
	}
	for key, want := range map[string]bool{"a00": true, "a01": true, "a05": true, "b00": false, "c05": false} { // any order: each by itself
		if s.busy(key) != want {
			t.Errorf("%s is locked: %v, want %v", key, !want, want)
		}
	}
	s.must(s.set(x, "a02", "mine at last"))
	s.must(x.Commit())
	if got, want := s.seen(), "a00=a row 0 a01=theirs a02=mine at last a03=a row 3 a04=a row 4 a05=a row 5"; got != want {
		t.Errorf("committed was %s, want %s", got, want)
	}
	if s.staged() != 0 || s.rowsLeft() != 0 {
		t.Errorf("%d transactions and %d rows are left", s.staged(), s.rowsLeft())
	}
}

// TestNoWayBack: where the log takes no pieces on the way back, and where no View of the place was to be had, the whole transaction is rolled back. Before the
// level of pieces the way back is the buffer's.
func TestNoWayBack(t *testing.T) {
	t.Parallel()
	s := newStaging(t)
	x := s.begin()
	s.must(s.set(x, "a", "1"))
	mark := x.Mark()
	s.fill(x, "b", 20)
	term := error(node.ErrSuperseded)
	s.fail(sqlpart.Stage, term)
	if err := x.RollbackTo(mark); !errors.Is(err, ErrTermOver) {
		t.Errorf("in a term that is over: %v", err)
	}
	s.fail(sqlpart.Stage, nil)
	x = s.begin()
	s.w.opt.Snapshot = func() (*node.View, error) { return nil, node.ErrTooManyViews }
	s.must(s.set(x, "a", "1"))
	mark = x.Mark()
	s.fill(x, "c", 20)
	s.w.opt.Snapshot = nil
	if err := x.RollbackTo(mark); !errors.Is(err, ErrPieces) {
		t.Errorf("without a view: %v", err)
	}
	if _, _, _, err := x.LockRow(s.table.ID, 0, []byte("a"), lock.Exclusive, patient); !errors.Is(err, ErrEnded) {
		t.Errorf("behind that: %v", err)
	}
	if s.seen() != "" || s.staged() != 0 {
		t.Errorf("there is %s, and %d are staged", s.seen(), s.staged())
	}
	s.fail(sqlpart.Stage, node.ErrLevel)
	x = s.begin()
	marks, want := []Mark{}, []string{}
	for i := range 20 {
		marks, want = append(marks, x.Mark()), append(want, s.scan(x))
		s.must(s.set(x, fmt.Sprintf("d%02d", i), "of one command"))
	}
	for i := len(marks) - 1; i >= 0; i -= 3 {
		s.must(x.RollbackTo(marks[i]))
		if got := s.scan(x); got != want[i] {
			t.Errorf("behind place %d there is %s, want %s", i, got, want[i])
		}
	}
	x.Rollback()
}
