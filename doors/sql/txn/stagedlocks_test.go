package txn

import (
	"errors"
	"fmt"
	"testing"

	"github.com/holdfastdb/holdfast/doors/sql/lock"
	sqlmachine "github.com/holdfastdb/holdfast/doors/sql/machine"
	sqlpart "github.com/holdfastdb/holdfast/doors/sql/part"
	"github.com/holdfastdb/holdfast/internal/wait"
)

// TestARangeWaitsForStagedRows: a range is not to be had while another transaction has staged a row in it, even though that row's lock was given back. It
// waits for the transaction, over its move and over the end of its term, and finds what it has committed. Other ranges are free.
func TestARangeWaitsForStagedRows(t *testing.T) {
	t.Parallel()
	s := newStaging(t)
	x := s.begin()
	s.fill(x, "b", 12)
	span := func(y *Tx, from, to string, wait Wait) error {
		return y.LockRange(s.table.ID, 0, []byte(from), []byte(to), lock.Shared, wait)
	}
	reader := s.begin()
	for _, mode := range []lock.Mode{lock.Shared, lock.Exclusive} {
		if err := reader.LockRange(s.table.ID, 0, []byte("b"), []byte("c"), mode, Wait{}); !errors.Is(err, ErrBusy) {
			t.Errorf("a range with staged rows, %v: %v", mode, err)
		}
	}
	s.must(span(reader, "a", "b", Wait{}))
	s.must(span(reader, "b99", "c", Wait{}))
	s.must(span(x, "b", "c", Wait{})) // the rows are its own
	s.must(s.set(x, "b05", "again"))  // which no range of another one keeps it from
	s.held[sqlpart.Move].Store(true)
	done := make(chan error, 1)
	go func() { done <- x.Commit() }()
	wait.Until(t, "rows are on the move", func() bool { return s.met[sqlpart.Move].Load() > 0 })
	if err := span(reader, "b", "c", Wait{}); !errors.Is(err, ErrBusy) {
		t.Errorf("a range with rows on the move: %v", err)
	}
	s.lead(6)
	s.must(<-done)
	reader = s.begin()
	if err := span(reader, "b", "c", Wait{}); !errors.Is(err, ErrBusy) {
		t.Errorf("a range with rows on the move in the next term: %v", err)
	}
	got := s.later(func() error { return span(reader, "b", "c", patient) })
	s.held[sqlpart.Move].Store(false)
	s.must(<-got)
	if now := s.newest(reader); len(now) == 0 || s.rowsLeft() != 0 {
		t.Errorf("behind it there is %q, and %d rows are staged", now, s.rowsLeft())
	}
	if !s.busy("b05") || !s.busy("b50") || s.busy("a") {
		t.Error("a row of the range is free, or another one is not")
	}
}

// TestARangeAndWhatIsStagedBehindIt: who wants to write in a range waits for its reader, staged or not, and a reader of what a transaction has locked waits
// for its end although the lock of the row becomes a staged row meanwhile.
func TestARangeAndWhatIsStagedBehindIt(t *testing.T) {
	t.Parallel()
	s := newStaging(t)
	reader, x := s.begin(), s.begin()
	s.must(reader.LockRange(s.table.ID, 0, []byte("b"), []byte("c"), lock.Shared, Wait{}))
	s.fill(x, "a", 12)
	if s.staged() != 1 {
		t.Fatal("nothing is staged")
	}
	if _, _, _, err := x.LockRow(s.table.ID, 0, []byte("b00"), lock.Exclusive, Wait{}); !errors.Is(err, ErrBusy) {
		t.Errorf("a row of a range that another one reads: %v", err)
	}
	reader.Rollback()
	s.must(s.set(x, "b00", "v"))
	reader = s.begin()
	got := s.later(func() error { return reader.LockRange(s.table.ID, 0, []byte("b"), []byte("c"), lock.Shared, patient) })
	wait.Until(t, "the reader waits", func() bool { return s.w.Waiting() == 1 })
	s.fill(x, "c", 12) // b00 is staged by now, and its lock given back
	if held, err := x.holds(append(sqlmachine.AppendPrefix(nil, s.table.ID, 0), "b00"...)); !held || err != nil {
		t.Errorf("the row is not staged: %v %v", held, err)
	}
	select {
	case err := <-got:
		t.Errorf("the range was granted: %v", err)
	default:
	}
	s.must(x.Commit())
	s.must(<-got)
	reader.Rollback()
	if n := s.w.HeldLocks(); n != 0 {
		t.Errorf("%d bytes of locks are left", n)
	}
}

// TestWhatIsWrittenIsStagedBeforeATableIsLocked: a transaction that writes many small rows gives their locks back by staging them, so that others write the
// table's other rows meanwhile. One that only reads them with locks takes the table.
func TestWhatIsWrittenIsStagedBeforeATableIsLocked(t *testing.T) {
	t.Parallel()
	for _, small := range []bool{false, true} {
		s := newStaging(t, func(o *Options) { o.LockBytes, o.StageBytes, o.PieceBytes, o.Verify = 1<<30, 4<<20, 1<<20, false })
		x := s.begin()
		x.small = small // as before the level
		for i := range tooManyKeys + triedEvery {
			if s.must(s.set(x, fmt.Sprintf("%06d", i), "v")); x.owner.Held() > manyKeys+10 {
				t.Fatalf("it holds %d locks", x.owner.Held())
			}
		}
		other, err := s.w.Begin()
		s.must(err)
		err = other.UseTable(s.table.ID, s.table.Version, lock.IntentExclusive, Wait{})
		if small != errors.Is(err, ErrBusy) || small != (s.staged() == 0) {
			t.Errorf("before the level %v: another writer is told %v, and %d are staged", small, err, s.staged())
		}
		if !small {
			s.must(s.set(other, "another", "v"))
			s.must(other.Commit())
		}
		other.Rollback()
		s.must(x.Commit())
		if n := s.table.Rows(); n < tooManyKeys+triedEvery {
			t.Errorf("%d rows", n)
		}
	}
}

// TestATableAsAWholeWaitsForWhatIsStaged: LOCK TABLES, and a transaction that has locked many rows, find nothing staged in the table that they get, which a
// leader before may have left. A transaction under the table's lock is staged as any other, and writes what it has staged again.
func TestATableAsAWholeWaitsForWhatIsStaged(t *testing.T) {
	t.Parallel()
	s := newStaging(t)
	x := s.begin()
	s.fill(x, "a", 12)
	s.held[sqlpart.Decide].Store(true)
	s.lead(6)
	h := s.hold(nil)
	if err := h.LockTable(s.table.ID, lock.Shared, Wait{}); !errors.Is(err, ErrBusy) {
		t.Errorf("a table with rows that a leader before has staged: %v", err)
	}
	got := s.later(func() error { return h.LockTable(s.table.ID, lock.Exclusive, patient) })
	s.held[sqlpart.Decide].Store(false)
	s.must(<-got)
	if n := s.rowsLeft(); n != 0 {
		t.Errorf("%d rows are staged", n)
	}
	x, err := h.Begin()
	s.must(err)
	s.must(x.UseTable(s.table.ID, s.table.Version, lock.IntentExclusive, Wait{}))
	s.fill(x, "b", 12)
	s.must(s.set(x, "b03", "again"))
	s.must(x.Commit())
	h.Release()
	if got := s.committed("b03"); got != "again" || s.table.Rows() != 12 {
		t.Errorf("b03 is %s, and there are %d rows", got, s.table.Rows())
	}
	many := s.begin()
	s.must(s.set(many, "c", "1"))
	s.must(many.lockAll(s.table.ID, many.tables[s.table.ID], Wait{}))
	s.fill(many, "d", 12)
	s.must(s.set(many, "d03", "again"))
	if s.staged() != 1 {
		t.Error("a transaction that has the table is not staged")
	}
	s.must(many.Commit())
	if got := s.committed("d03"); got != "again" || s.table.Rows() != 25 || s.w.HeldLocks() != 0 {
		t.Errorf("d03 is %s, there are %d rows, and locks of %d bytes", got, s.table.Rows(), s.w.HeldLocks())
	}
}

// TestAStagedTransactionWrites: its commit writes, whether or not anything is in memory: FLUSH TABLES WITH READ LOCK keeps it out.
func TestAStagedTransactionWrites(t *testing.T) {
	t.Parallel()
	s := newStaging(t)
	x := s.begin()
	s.fill(x, "a", 12)
	s.must(x.stage())
	if x.own.Bytes() != 0 || !x.Writes() {
		t.Errorf("with %d bytes in memory it writes: %v", x.own.Bytes(), x.Writes())
	}
	x.Rollback()
}

// TestPreparedBesideRanges: what a prepared transaction keeps locked is waited for by whoever locks a range over it, in the next term too. Ranges themselves are
// not kept: a transaction that has locked some cannot be prepared.
func TestPreparedBesideRanges(t *testing.T) {
	t.Parallel()
	s := newStaging(t)
	x := s.begin()
	for key, mode := range map[string]lock.Mode{"b05": lock.Shared, "c05": lock.Exclusive} { // any order
		_, _, _, err := x.LockRow(s.table.ID, 0, []byte(key), mode, Wait{})
		s.must(err)
	}
	s.must(s.set(x, "d05", "written"))
	s.must(x.Prepare([]byte("name")))
	for _, term := range []string{"the same term", "the next term"} {
		for _, c := range []struct {
			from, to string
			mode     lock.Mode
			busy     bool
		}{{"b", "c", lock.Shared, false}, {"b", "c", lock.Exclusive, true}, {"c", "d", lock.Shared, true}, {"d", "e", lock.Shared, true}, {"e", "f", lock.Exclusive, false},
			{"a", "z", lock.Shared, true}} {
			y := s.begin()
			if err := y.LockRange(s.table.ID, 0, []byte(c.from), []byte(c.to), c.mode, Wait{}); c.busy != errors.Is(err, ErrBusy) {
				t.Errorf("%s: the range %s to %s, %v: %v", term, c.from, c.to, c.mode, err)
			}
			y.Rollback()
		}
		s.lead(6)
	}
	_, err := s.w.EndPrepared([]byte("name"), true)
	s.must(err)
	y := s.begin()
	s.must(y.LockRange(s.table.ID, 0, []byte("a"), []byte("z"), lock.Exclusive, Wait{}))
	s.must(s.set(y, "e", "1"))
	y.Rollback()
	if n := s.w.HeldLocks(); n != 0 || s.committed("e") != "-" {
		t.Errorf("locks of %d bytes are left, and e is %s", n, s.committed("e"))
	}
}
