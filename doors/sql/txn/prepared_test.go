package txn

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/holdfastdb/holdfast/core/node"
	"github.com/holdfastdb/holdfast/doors/sql/lock"
	sqlpart "github.com/holdfastdb/holdfast/doors/sql/part"
	"github.com/holdfastdb/holdfast/internal/wait"
)

// names lists what is prepared.
func (s *staging) names() string {
	s.t.Helper()
	all, err := s.w.Prepared()
	s.must(err)
	return fmt.Sprintf("%s", all)
}

// end decides a prepared transaction.
func (s *staging) end(name string, commits bool) error {
	_, err := s.w.EndPrepared([]byte(name), commits)
	return err
}

// shared reports whether a row may be locked shared.
func (s *staging) shared(key string) bool {
	s.t.Helper()
	x := s.begin()
	defer x.Rollback()
	_, _, _, err := x.LockRow(s.table.ID, 0, []byte(key), lock.Shared, Wait{})
	if err != nil && !errors.Is(err, ErrBusy) {
		s.t.Error(err)
	}
	return err == nil
}

// TestPrepared: a prepared transaction keeps its rows and all of its locks over leaders and starts, nobody sees it, and it can be committed or rolled back.
func TestPrepared(t *testing.T) {
	t.Parallel()
	for _, rows := range []int{2, 20} {
		for _, commits := range []bool{true, false} {
			s := newStaging(t)
			x := s.begin()
			s.must(s.set(x, "r1", "read"))
			s.must(s.set(x, "r2", "read for update"))
			s.must(x.Commit())
			x = s.begin()
			s.fill(x, "a", rows)
			if v, _, _, err := x.LockRow(s.table.ID, 0, []byte("r1"), lock.Shared, patient); err != nil || string(v) != "read" {
				t.Fatal(string(v), err)
			}
			if _, _, _, err := x.LockRow(s.table.ID, 0, []byte("r2"), lock.Exclusive, patient); err != nil {
				t.Fatal(err)
			}
			x.SetNextAuto(s.table.ID, 50)
			s.must(x.Prepare([]byte("one")))
			if err := x.Commit(); !errors.Is(err, ErrEnded) {
				t.Errorf("its session commits it: %v", err)
			}
			kept := func(when string) {
				t.Helper()
				if got := s.seen(); strings.Contains(got, "a") && got != "r1=read r2=read for update" {
					t.Errorf("%s: others see %s", when, got)
				}
				if !s.busy("a00") || !s.busy("a01") || !s.busy("r1") || !s.busy("r2") || s.busy("c") {
					t.Errorf("%s: a row is free that it has locked, or another one is not", when)
				}
				if !s.shared("r1") || s.shared("r2") || s.shared("a00") {
					t.Errorf("%s: a row that it has read is not shared, or one that it has written is", when)
				}
				if s.names() != "[one]" {
					t.Errorf("%s: prepared are %s", when, s.names())
				}
				y, err := s.w.Begin()
				s.must(err)
				if err := y.UseTable(s.table.ID, s.table.Version, lock.Exclusive, Wait{}); !errors.Is(err, ErrBusy) {
					t.Errorf("%s: a change of the definition is let in: %v", when, err)
				}
				y.Rollback()
			}
			kept("the same term")
			s.lead(6)
			kept("the next term")
			s.must(s.rig.Applier.Load())
			s.table = s.m.Catalogue().Database("d").Table("t")
			s.lead(7)
			kept("after a start")
			other := s.begin()
			s.must(s.set(other, "o", "1"))
			if err := other.Prepare([]byte("one")); !errors.Is(err, ErrPrepared) || s.busy("o") || s.names() != "[one]" {
				t.Errorf("a second one of the name: %v, and prepared are %s", err, s.names())
			}
			if err := s.end("two", true); !errors.Is(err, ErrNotPrepared) {
				t.Errorf("one that nobody has prepared: %v", err)
			}
			s.must(s.end("one", commits))
			if err := s.end("one", commits); !errors.Is(err, ErrNotPrepared) {
				t.Errorf("it is decided twice: %v", err)
			}
			got := s.seen()
			if strings.Contains(got, "a01=a row 1") != commits || s.busy("a00") || s.busy("r1") || s.busy("r2") || s.rowsLeft() != 0 || s.names() != "[]" {
				t.Errorf("committed %v: there is %s, %d rows are staged, prepared are %s", commits, got, s.rowsLeft(), s.names())
			}
			if s.table.NextAuto() != 50 {
				t.Errorf("the next value is %d", s.table.NextAuto())
			}
			s.Stop()
		}
	}
}

// TestPreparedWithoutWrites: a transaction that has only locked, or done nothing at all, can be prepared too.
func TestPreparedWithoutWrites(t *testing.T) {
	t.Parallel()
	s := newStaging(t)
	x := s.begin()
	if _, _, _, err := x.LockRow(s.table.ID, 0, []byte("r"), lock.Exclusive, patient); err != nil {
		t.Fatal(err)
	}
	s.must(x.Prepare([]byte("locks")))
	s.must(s.begin().Prepare([]byte("nothing")))
	s.lead(6)
	if s.names() != "[locks nothing]" || !s.busy("r") {
		t.Errorf("prepared are %s", s.names())
	}
	s.must(s.end("locks", true))
	s.must(s.end("nothing", true))
	if s.busy("r") || s.rowsLeft() != 0 {
		t.Errorf("%d rows are left", s.rowsLeft())
	}
}

// TestAPreparedTransactionWaitsForTheLog: a decision that the log did not take has no effect, and can be asked for again.
func TestAPreparedTransactionWaitsForTheLog(t *testing.T) {
	t.Parallel()
	s := newStaging(t)
	x := s.begin()
	s.fill(x, "a", 12)
	s.must(x.Prepare([]byte("one")))
	s.held[sqlpart.Move].Store(true)
	done := make(chan error, 1)
	go func() { done <- s.end("one", true) }()
	wait.Until(t, "its rows move", func() bool { return s.met[sqlpart.Move].Load() > 0 })
	s.lead(6) // which goes on
	s.must(<-done)
	if got := s.seen(); !strings.Contains(got, "a11=a row 11") || !s.busy("a00") {
		t.Errorf("there is %s", got)
	}
	s.held[sqlpart.Move].Store(false)
	wait.Until(t, "all rows are moved", func() bool { return s.rowsLeft() == 0 })
	s.lead(0)
	if err := s.end("one", true); !errors.Is(err, ErrNotLeader) {
		t.Errorf("a follower: %v", err)
	}
	if _, err := s.w.Prepared(); !errors.Is(err, ErrNotLeader) {
		t.Errorf("a follower: %v", err)
	}
}

// TestPreparedWithTables: a lock on all rows of a table at once is kept over the end of a term, as a range.
func TestPreparedWithTables(t *testing.T) {
	t.Parallel()
	for _, exclusive := range []bool{false, true} {
		s := newStaging(t)
		x := s.begin()
		s.fill(x, "b", 2)
		s.must(x.Commit())
		x = s.begin()
		u := x.tables[s.table.ID]
		u.keys.exclusive = exclusive
		s.must(x.lockAll(s.table.ID, u, Wait{}))
		s.must(x.Prepare([]byte("one")))
		for _, term := range []string{"the same term", "the next term", "one behind"} {
			y := s.begins(lock.IntentShared)
			if y != nil {
				_, _, _, err := y.LockRow(s.table.ID, 0, []byte("b01"), lock.Shared, Wait{})
				if errors.Is(err, ErrBusy) != exclusive {
					t.Errorf("exclusive %v, %s: a reader of a row has %v", exclusive, term, err)
				}
				y.Rollback()
			} else if !exclusive {
				t.Errorf("%s: the table is closed to readers", term)
			}
			if y := s.begins(lock.IntentExclusive); y != nil {
				for _, key := range []string{"a", "b01", "c"} {
					if _, _, _, err := y.LockRow(s.table.ID, 0, []byte(key), lock.Exclusive, Wait{}); !errors.Is(err, ErrBusy) {
						t.Errorf("exclusive %v, %s: a writer of %s has %v", exclusive, term, key, err)
					}
				}
				y.Rollback()
			} else if term != "the same term" {
				t.Errorf("exclusive %v, %s: the table is closed to writers", exclusive, term)
			}
			s.lead(s.w.Term() + 1)
		}
		s.must(s.end("one", true))
		y := s.begin()
		s.must(s.set(y, "a", "free"))
		s.must(y.Commit())
		if n := s.w.HeldLocks(); n != 0 || s.rowsLeft() != 0 {
			t.Errorf("exclusive %v: locks of %d bytes and %d rows are left", exclusive, n, s.rowsLeft())
		}
	}
}

// begins begins a transaction that locks the table in a mode; nil: another one has it.
func (s *staging) begins(mode lock.Mode) *Tx {
	s.t.Helper()
	x, err := s.w.Begin()
	s.must(err)
	if err := x.UseTable(s.table.ID, s.table.Version, mode, Wait{}); errors.Is(err, ErrBusy) {
		x.Rollback()
		return nil
	} else if err != nil {
		s.t.Fatal(err)
	}
	return x
}

// TestPreparedRanges: the ranges that a prepared transaction has locked stay locked, at the next leader too: nobody writes in them, and behind an exclusive one
// nobody locks a row. Where a member's build does not keep ranges, the transaction is rolled back.
func TestPreparedRanges(t *testing.T) {
	t.Parallel()
	for _, commits := range []bool{true, false} {
		s := newStaging(t)
		x := s.begin()
		s.must(x.LockRange(s.table.ID, 0, []byte("c"), []byte("e"), lock.Shared, Wait{}))
		s.must(x.LockRange(s.table.ID, 0, []byte("m"), nil, lock.Exclusive, Wait{}))
		s.must(s.set(x, "n", "written"))
		other := s.begin()
		s.must(other.LockRange(s.table.ID, 0, []byte("c"), []byte("d"), lock.Shared, Wait{}))
		s.must(x.Prepare([]byte("one")))
		other.Rollback()
		for range 3 {
			for _, c := range []struct {
				key  string
				mode lock.Mode
				busy bool
			}{{"b", lock.Exclusive, false}, {"c", lock.Exclusive, true}, {"d", lock.Exclusive, true}, {"d", lock.Shared, false}, {"e", lock.Exclusive, false},
				{"l", lock.Exclusive, false}, {"m", lock.Shared, true}, {"n", lock.Shared, true}, {"z", lock.Exclusive, true}} {
				y := s.begin()
				if _, _, _, err := y.LockRow(s.table.ID, 0, []byte(c.key), c.mode, Wait{}); errors.Is(err, ErrBusy) != c.busy {
					t.Errorf("term %d: %s, %v: %v", s.w.Term(), c.key, c.mode, err)
				}
				y.Rollback()
			}
			y := s.begin()
			if _, _, _, err := y.LockRow(s.table.ID, 1, []byte("d"), lock.Exclusive, Wait{}); err != nil {
				t.Errorf("term %d: the same key of another index: %v", s.w.Term(), err)
			}
			y.Rollback()
			s.lead(s.w.Term() + 1)
		}
		s.must(s.end("one", commits))
		y := s.begin()
		s.must(s.set(y, "d", "1"))
		y.Rollback()
		if n := s.w.HeldLocks(); n != 0 || s.rowsLeft() != 0 {
			t.Errorf("locks of %d bytes and %d rows are left", n, s.rowsLeft())
		}
		x = s.begin()
		s.must(x.LockRange(s.table.ID, 0, nil, nil, lock.Shared, Wait{}))
		s.fail(sqlpart.Decide, node.ErrLevel)
		if err := x.Prepare([]byte("two")); !errors.Is(err, ErrRanges) {
			t.Errorf("below the level of ranges: %v", err)
		}
		s.fail(sqlpart.Decide, nil)
		x = s.begin()
		for i := range sqlpart.MaxRanges / sqlpart.MaxKey {
			s.must(x.LockRange(s.table.ID, 0, append(make([]byte, sqlpart.MaxKey-10), byte(i)), append(make([]byte, sqlpart.MaxKey-10), byte(i), 1), lock.Shared, Wait{}))
		}
		if err := x.Prepare([]byte("three")); !errors.Is(err, ErrTooManyLocks) {
			t.Errorf("with too many ranges: %v", err)
		}
		if n := s.w.HeldLocks(); n != 0 || s.rowsLeft() != 0 {
			t.Errorf("locks of %d bytes and %d rows are left", n, s.rowsLeft())
		}
	}
}

// TestPreparedBesideItsSession: a session that keeps something locked beyond its transactions meets what it has prepared as any other session does, whether or
// not somebody waits for it already.
func TestPreparedBesideItsSession(t *testing.T) {
	t.Parallel()
	for _, awaited := range []bool{false, true} {
		s := newStaging(t)
		h := s.hold(nil)
		s.must(h.LockName("n", 1, Wait{}))
		x, err := h.Begin()
		s.must(err)
		s.must(x.UseTable(s.table.ID, s.table.Version, lock.IntentExclusive, Wait{}))
		s.must(s.set(x, "a", "v"))
		got := make(<-chan error)
		other := s.begin()
		if awaited {
			got = s.later(func() error { return s.set(other, "a", "w") })
			wait.Until(t, "the other one waits", func() bool { return s.w.Waiting() == 1 })
		} else {
			other.Rollback()
		}
		s.must(x.Prepare([]byte("one")))
		y, err := h.Begin()
		s.must(err)
		s.must(y.UseTable(s.table.ID, s.table.Version, lock.IntentExclusive, Wait{}))
		if _, _, _, err := y.LockRow(s.table.ID, 0, []byte("a"), lock.Exclusive, Wait{}); !errors.Is(err, ErrBusy) {
			t.Errorf("awaited %v: the row is the session's: %v", awaited, err)
		}
		y.Rollback()
		if err := h.LockTable(s.table.ID, lock.Exclusive, Wait{}); !errors.Is(err, ErrBusy) {
			t.Errorf("awaited %v: the table is the session's: %v", awaited, err)
		}
		s.must(s.end("one", true))
		if awaited {
			s.must(<-got)
			s.must(other.Commit())
		}
		h.Release()
		if n := s.w.HeldLocks(); n != 0 || s.rowsLeft() != 0 {
			t.Errorf("locks of %d bytes and %d rows are left", n, s.rowsLeft())
		}
	}
}
