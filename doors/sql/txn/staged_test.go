package txn

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/core/node"
	"github.com/holdfastdb/holdfast/core/store"
	"github.com/holdfastdb/holdfast/doors/sql/lock"
	sqlmachine "github.com/holdfastdb/holdfast/doors/sql/machine"
	sqlpart "github.com/holdfastdb/holdfast/doors/sql/part"
	"github.com/holdfastdb/holdfast/internal/wait"
)

// small has transactions staged from some rows on, and moved a row or two at a time.
func small(o *Options) { o.StageBytes, o.PieceBytes = 120, 50 }

// staging is a world whose commands can be held up by their kind.
type staging struct {
	*world
	held  [sqlpart.Move + 1]atomic.Bool
	met   [sqlpart.Move + 1]atomic.Int32 // so many of a kind were held up, or went on
	let   [sqlpart.Move + 1]atomic.Int32 // so many of those that are held up go on
	fails [sqlpart.Move + 1]atomic.Pointer[error]
}

func newStaging(t *testing.T, with ...func(*Options)) *staging {
	s := &staging{world: newWorld(t, append([]func(*Options){small}, with...)...)}
	s.OnPropose(func(parts []entry.Part) (*entry.Result, error) {
		var p sqlpart.Part
		if err := p.Decode(parts[0].Body); err != nil {
			t.Error(err)
		}
		s.met[p.Kind].Add(1)
		if err := s.fails[p.Kind].Load(); err != nil {
			return nil, *err
		}
		if s.held[p.Kind].Load() && s.let[p.Kind].Add(-1) < 0 {
			return nil, node.ErrOverloaded
		}
		results, err := s.rig.Try(parts)
		if err != nil {
			t.Errorf("%s stops the member: %v", p.String(), err)
			return nil, node.ErrUnknown
		}
		return results[0], nil
	})
	return s
}

func (s *staging) fail(kind sqlpart.Kind, err error) {
	if err == nil {
		s.fails[kind].Store(nil)
		return
	}
	s.fails[kind].Store(&err)
}

// fill writes so many rows, with a letter before their numbers.
func (s *staging) fill(x *Tx, letter string, n int) {
	s.t.Helper()
	for i := range n {
		s.must(s.set(x, fmt.Sprintf("%s%02d", letter, i), fmt.Sprint(letter, " row ", i)))
	}
}

// scan lists the keys that a transaction sees from its snapshot, forwards and backwards.
func (s *staging) scan(x *Tx) string {
	s.t.Helper()
	it, err := x.Scan(s.table.ID, 0, nil, nil)
	s.must(err)
	defer it.Close()
	return s.walk(it)
}

func (s *staging) newest(x *Tx) string {
	s.t.Helper()
	it, err := x.ScanNewest(s.table.ID, 0, nil, nil)
	s.must(err)
	defer it.Close()
	return s.walk(it)
}

func (s *staging) walk(it store.Iter) string {
	s.t.Helper()
	var there, back []string
	for ok := it.First(); ok; ok = it.Next() {
		v, err := it.Value()
		s.must(err)
		there = append(there, fmt.Sprintf("%s=%s", it.Key()[sqlmachine.PrefixBytes:], v))
	}
	for ok := it.Last(); ok; ok = it.Prev() {
		v, err := it.Value()
		s.must(err)
		back = append(back, fmt.Sprintf("%s=%s", it.Key()[sqlmachine.PrefixBytes:], v))
	}
	s.must(it.Error())
	slices.Reverse(back)
	if !slices.Equal(there, back) {
		s.t.Errorf("forwards %v, backwards %v", there, back)
	}
	return strings.Join(there, " ")
}

// seen is a scan of a new transaction.
func (s *staging) seen() string {
	s.t.Helper()
	x := s.begin()
	defer x.Rollback()
	if n := s.newest(x); n != s.scan(x) {
		s.t.Errorf("the newest rows are %s, and a snapshot has %s", n, s.scan(x))
	}
	return s.scan(x)
}

// busy reports whether a row is locked by another transaction.
func (s *staging) busy(key string) bool {
	s.t.Helper()
	x := s.begin()
	defer x.Rollback()
	_, _, _, err := x.LockRow(s.table.ID, 0, []byte(key), lock.Exclusive, Wait{})
	if err != nil && !errors.Is(err, ErrBusy) {
		s.t.Error(err)
	}
	return err != nil
}

func (s *staging) staged() int { return len(s.m.Staged().All) }

// rowsLeft counts all rows of the store in the spaces of what is staged.
func (s *staging) rowsLeft() (n int) {
	s.t.Helper()
	for _, space := range []string{"p", "x"} {
		it, err := s.rig.Store.NewIter([]byte("s"+space), []byte{'s', space[0] + 1})
		s.must(err)
		for ok := it.First(); ok; ok = it.Next() {
			n++
		}
		s.must(it.Close())
	}
	return n
}

// TestALargeTransaction: it sees its own rows, nobody else does before it commits, and everybody sees all of them from then on.
func TestALargeTransaction(t *testing.T) {
	t.Parallel()
	s := newStaging(t)
	x := s.begin()
	s.must(s.set(x, "b00", "old"))
	s.must(s.set(x, "b01", "goes"))
	s.must(s.set(x, "c", "stays"))
	s.must(x.Commit())
	const before = "b00=old b01=goes c=stays"
	x = s.begin()
	s.fill(x, "a", 12)
	s.fill(x, "b", 1)
	s.must(s.set(x, "b01", ""))
	s.must(s.set(x, "a03", "again"))
	s.must(s.set(x, "a04", "")) // which it has inserted and staged
	s.must(s.set(x, "a05", ""))
	s.must(s.set(x, "a05", "anew"))
	if s.staged() != 1 || x.own.Bytes() > 200 {
		t.Fatalf("%d transactions are staged, and the buffer has %d bytes", s.staged(), x.own.Bytes())
	}
	const after = "a00=a row 0 a01=a row 1 a02=a row 2 a03=again a05=anew a06=a row 6 a07=a row 7 a08=a row 8 a09=a row 9 a10=a row 10 " +
		"a11=a row 11 b00=b row 0 c=stays"
	if got := s.scan(x); got != after {
		t.Errorf("the transaction sees %s", got)
	}
	if got := s.newest(x); got != after {
		t.Errorf("the transaction sees as newest %s", got)
	}
	if a, b := s.get(x, "a00"), s.get(x, "b01"); a != "a row 0" || b != "-" {
		t.Errorf("the transaction sees a00=%s b01=%s", a, b)
	}
	if v, exists, err := x.Newest(s.table.ID, 0, []byte("a00")); string(v) != "a row 0" || !exists || err != nil {
		t.Errorf("a row of its own: %q %v %v", v, exists, err)
	}
	if got := s.seen(); got != before {
		t.Errorf("others see %s", got)
	}
	if !s.busy("a00") || !s.busy("b00") || !s.busy("a04") || s.busy("c") || s.busy("d") {
		t.Error("others lock what is staged, or do not get what is not")
	}
	held := x.owner.Held()
	s.must(x.Commit())
	if got := s.seen(); got != after {
		t.Errorf("when it has committed there is %s", got)
	}
	if s.staged() != 0 || s.rowsLeft() != 0 || s.busy("a00") {
		t.Errorf("%d transactions, %d rows, and a lock %v are left", s.staged(), s.rowsLeft(), s.busy("a00"))
	}
	if s.table.Rows() != 13 {
		t.Errorf("the table counts %d rows", s.table.Rows())
	}
	if held > 12 {
		t.Errorf("it held %d locks, with its rows in the log", held)
	}
}

// TestRowsOnTheMove: a transaction that has committed is seen whole by every later view, and not at all by an earlier one, while its rows move, and its rows
// alone are locked. The next leader goes on with all of it.
func TestRowsOnTheMove(t *testing.T) {
	t.Parallel()
	s := newStaging(t)
	x := s.begin()
	s.must(s.set(x, "a01", "old"))
	s.must(s.set(x, "a02", "goes"))
	s.must(x.Commit())
	early := s.begin()
	s.must(early.Snapshot())
	x = s.begin()
	s.must(s.set(x, "a02", ""))
	s.fill(x, "a", 2)
	s.fill(x, "b", 12)
	x.SetNextAuto(s.table.ID, 77)
	s.held[sqlpart.Move].Store(true)
	done := make(chan error, 1)
	go func() { done <- x.Commit() }()
	after := "a00=a row 0 a01=a row 1"
	for i := range 12 {
		after += fmt.Sprintf(" b%02d=b row %d", i, i)
	}
	moving := func(when string) {
		t.Helper()
		if got := s.seen(); got != after {
			t.Errorf("%s: a new view has %s", when, got)
		}
		if got := s.committed("a02"); got != "-" {
			t.Errorf("%s: a row that was deleted is %s", when, got)
		}
		if !s.busy("a01") || !s.busy("a02") || !s.busy("b11") || s.busy("c") {
			t.Errorf("%s: a row on the move is free, or another one is not", when)
		}
		y := s.begin()
		s.must(s.set(y, "z"+when, "1"))
		s.must(y.Commit())
		y = s.begin()
		s.must(s.set(y, "z"+when, ""))
		s.must(y.Commit())
		if s.table.NextAuto() != 77 {
			t.Errorf("%s: the next value is %d", when, s.table.NextAuto())
		}
		y, err := s.w.Begin()
		s.must(err)
		if err := y.UseTable(s.table.ID, s.table.Version, lock.Exclusive, Wait{}); !errors.Is(err, ErrBusy) {
			t.Errorf("%s: a change of the definition is let in: %v", when, err)
		}
		if err := y.UseTable(s.table.ID, s.table.Version, lock.Metadata, Wait{}); err != nil {
			t.Errorf("%s: a reader is not let in: %v", when, err)
		}
		y.Rollback()
	}
	wait.Until(t, "rows are on the move", func() bool { return s.met[sqlpart.Move].Load() > 0 })
	moving("the same term")
	if got := s.scan(early); got != "a01=old a02=goes" {
		t.Errorf("an earlier view has %s", got)
	}
	s.lead(6)
	if err := <-done; err != nil {
		t.Errorf("a commit whose rows were on the move when the term ended: %v", err)
	}
	moving("the next term")
	s.must(s.rig.Applier.Load())
	s.table = s.m.Catalogue().Database("d").Table("t")
	moving("after a start")
	s.held[sqlpart.Move].Store(false)
	wait.Until(t, "all rows are moved", func() bool { return s.staged() == 0 })
	if got := s.seen(); got != after || s.rowsLeft() != 0 {
		t.Errorf("in the end there is %s, and %d rows are staged", got, s.rowsLeft())
	}
	wait.Until(t, "the rows are free", func() bool { return !s.busy("b11") })
	if got := s.scan(early); got != "a01=old a02=goes" {
		t.Errorf("an earlier view has %s", got)
	}
}

// TestAViewBetweenTwoStates: a view that is opened while a transaction commits and some of its rows move has all of them or none.
func TestAViewBetweenTwoStates(t *testing.T) {
	t.Parallel()
	var meanwhile atomic.Pointer[func()] // before the next view is opened
	s := newStaging(t, func(o *Options) {
		open := o.View
		o.View = func() (store.View, error) {
			if do := meanwhile.Swap(nil); do != nil {
				(*do)()
			}
			return open()
		}
	})
	x := s.begin()
	s.fill(x, "a", 12)
	s.held[sqlpart.Move].Store(true)
	s.let[sqlpart.Move].Store(2)
	done := make(chan error, 1)
	do := func() {
		go func() { done <- x.Commit() }()
		wait.Until(t, "some of the rows are moved", func() bool { return s.met[sqlpart.Move].Load() > 2 })
	}
	y := s.begin()
	meanwhile.Store(&do)
	if got := s.scan(y); got != "" && !strings.HasSuffix(got, "a11=a row 11") {
		t.Errorf("the view has %s", got)
	}
	s.held[sqlpart.Move].Store(false)
	s.must(<-done)
}

// TestStagedAndNotCommitted: what was staged goes with its transaction, and the next leader drops what one before has left.
func TestStagedAndNotCommitted(t *testing.T) {
	t.Parallel()
	s := newStaging(t)
	x := s.begin()
	s.fill(x, "a", 12)
	if s.staged() != 1 {
		t.Fatalf("%d are staged", s.staged())
	}
	x.Rollback()
	if s.staged() != 0 || s.rowsLeft() != 0 || s.seen() != "" || s.busy("a00") {
		t.Errorf("%d are staged, %d rows; %s", s.staged(), s.rowsLeft(), s.seen())
	}
	x = s.begin()
	s.must(s.set(x, "b", "1"))
	mark := x.Mark()
	s.fill(x, "a", 12)
	s.must(x.RollbackTo(mark))
	if n := s.rowsLeft(); n != 2 { // the transaction and the row before the mark
		t.Errorf("a statement that is staged in part leaves %d rows", n)
	}
	x.Rollback()
	if s.staged() != 0 || s.rowsLeft() != 0 || s.seen() != "" {
		t.Errorf("%d are staged, %d rows; %s", s.staged(), s.rowsLeft(), s.seen())
	}
	x = s.begin()
	s.fill(x, "a", 12)
	mark = x.Mark()
	s.must(s.set(x, "z", "1"))
	s.must(x.RollbackTo(mark)) // the statement itself is in memory
	s.fill(x, "a", 6)
	s.must(x.Commit())
	if got := s.seen(); strings.Contains(got, "z") || !strings.HasPrefix(got, "a00=a row 0 ") || s.table.Rows() != 12 {
		t.Errorf("%s, %d rows", got, s.table.Rows())
	}
	x = s.begin()
	s.fill(x, "b", 12)
	s.held[sqlpart.Decide].Store(true)
	s.lead(6)
	if got := s.seen(); strings.Contains(got, "b") {
		t.Errorf("the next term has %s", got)
	}
	if !s.busy("b00") || s.busy("b99") {
		t.Error("what is staged is free before it is dropped, or another row is not")
	}
	s.held[sqlpart.Decide].Store(false)
	wait.Until(t, "what was left is dropped", func() bool { return s.rowsLeft() == 0 })
	wait.Until(t, "its rows are free", func() bool { return !s.busy("b00") })
	if err := x.Commit(); !errors.Is(err, ErrTermOver) {
		t.Errorf("a transaction of an earlier term: %v", err)
	}
	y := s.begin()
	s.fill(y, "b", 12)
	s.must(y.Commit())
	if s.table.Rows() != 24 || s.rowsLeft() != 0 {
		t.Errorf("%d rows, %d staged", s.table.Rows(), s.rowsLeft())
	}
}

// TestWhatCannotBeStaged: beyond the bound, before the level, and while the log takes no more.
func TestWhatCannotBeStaged(t *testing.T) {
	t.Parallel()
	s := newStaging(t, func(o *Options) { o.MaxBytes, o.MostBytes = 1000, 600 })
	x := s.begin()
	var err error
	for i := 0; err == nil && i < 100; i++ {
		err = s.set(x, fmt.Sprintf("a%02d", i), "some value")
	}
	if !errors.Is(err, ErrTooLarge) || s.staged() != 1 {
		t.Errorf("more than may be staged: %v, %d staged", err, s.staged())
	}
	s.must(x.Commit())
	if n := s.table.Rows(); n < 8 || n > 60 {
		t.Errorf("%d rows fit", n)
	}
	s.fail(sqlpart.Stage, node.ErrLevel)
	x = s.begin()
	s.fill(x, "b", 12)
	if s.staged() != 0 || x.own.Bytes() < 200 {
		t.Errorf("before the level %d are staged, and the buffer has %d bytes", s.staged(), x.own.Bytes())
	}
	s.must(x.Commit())
	s.fail(sqlpart.Stage, nil)
	if got := s.seen(); !strings.Contains(got, "b11=b row 11") {
		t.Errorf("there is %s", got)
	}
	x = s.begin()
	big := x.Put(s.table.ID, 0, []byte("big"), make([]byte, 2000), -1)
	if !errors.Is(big, ErrTooLarge) {
		t.Errorf("a row that fits into no command: %v", big)
	}
	x.Rollback()
	rejection := &entry.Rejection{Code: sqlpart.NotStaged}
	x = s.begin()
	s.fill(x, "c", 12)
	s.fail(sqlpart.Decide, rejection)
	go func() { // to drop it has to succeed
		wait.Until(t, "the commit was refused", func() bool { return s.met[sqlpart.Decide].Load() > 0 })
		s.fail(sqlpart.Decide, nil)
	}()
	if err := x.Commit(); err == nil {
		t.Error("a commit that was refused has no error")
	}
}

// TestStagingMakesRoomForLocks: a transaction that has written its rows needs no locks for them.
func TestStagingMakesRoomForLocks(t *testing.T) {
	t.Parallel()
	s := newStaging(t, func(o *Options) { o.LockBytes, o.StageBytes = 8<<10, 1<<20 })
	x := s.begin()
	for i := range 500 {
		s.must(s.set(x, fmt.Sprintf("%03d", i), "v"))
	}
	s.must(x.Commit())
	if s.table.Rows() != 500 || s.w.HeldLocks() != 0 {
		t.Errorf("%d rows, locks of %d bytes are left", s.table.Rows(), s.w.HeldLocks())
	}
}

// TestDeadlockOverStagedRows: two transactions that wait for each other's staged rows are a circle like any other.
func TestDeadlockOverStagedRows(t *testing.T) {
	t.Parallel()
	s := newStaging(t)
	a, b := s.begin(), s.begin()
	s.fill(a, "a", 12)
	s.fill(b, "b", 14)
	done := make(chan error, 1)
	go func() { done <- s.set(a, "b00", "a") }()
	err := s.set(b, "a00", "b")
	other := <-done
	if errors.Is(err, ErrDeadlock) == errors.Is(other, ErrDeadlock) {
		t.Fatalf("%v and %v", err, other)
	}
	for x, err := range map[*Tx]error{a: other, b: err} { // any order: one of them
		if err == nil {
			s.must(x.Commit())
		}
	}
	if s.table.Rows() == 0 || s.rowsLeft() != 0 {
		t.Errorf("%d rows, %d staged", s.table.Rows(), s.rowsLeft())
	}
}

// TestStagedAgainstAModel: transactions of any size one after the other, whose reads, walks and ends are those of a map, over rows on the move and leaders
// that change.
func TestStagedAgainstAModel(t *testing.T) {
	t.Parallel()
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 36))
		s := newStaging(t)
		now := map[string]string{}
		term := uint64(5)
		for range 12 {
			x := s.begin()
			mine := maps.Clone(now)
			var it store.Iter
			for step := range 1 + r.IntN(60) {
				key := fmt.Sprintf("%02d", r.IntN(40))
				switch r.IntN(6) {
				case 0, 1, 2:
					mine[key] = fmt.Sprint("value ", step)
					s.must(s.set(x, key, mine[key]))
				case 3:
					delete(mine, key)
					s.must(s.set(x, key, ""))
				case 4:
					want, there := mine[key]
					if !there {
						want = "-"
					}
					if got := s.get(x, key); got != want {
						t.Fatalf("seed %d: %s is %s, want %s", seed, key, got, want)
					}
				default: // an iterator that lives over writes and stages
					if it == nil {
						var err error
						it, err = x.Scan(s.table.ID, 0, nil, nil)
						s.must(err)
					}
					if !it.Valid() || r.IntN(2) == 0 {
						it.SeekGE(keyOf(s.table.ID, 0, key))
					}
					for range r.IntN(3) {
						s.walkOne(seed, it, mine, r.IntN(2) == 0)
					}
				}
			}
			if got, want := s.scan(x), modelOf(mine); got != want {
				t.Fatalf("seed %d: the transaction sees %s, want %s", seed, got, want)
			}
			if it != nil {
				s.must(it.Close())
			}
			if r.IntN(4) == 0 {
				x.Rollback()
			} else {
				s.must(x.Commit())
				now = mine
			}
			if got, want := s.seen(), modelOf(now); got != want {
				t.Fatalf("seed %d: there is %s, want %s", seed, got, want)
			}
			if s.table.Rows() != uint64(len(now)) || s.rowsLeft() != 0 {
				t.Fatalf("seed %d: %d rows of %d, %d staged", seed, s.table.Rows(), len(now), s.rowsLeft())
			}
			if r.IntN(4) == 0 {
				term++
				s.lead(term)
			}
		}
		s.Stop()
	}
}

// walkOne moves an iterator that is somewhere by one row.
func (s *staging) walkOne(seed uint64, it store.Iter, rows map[string]string, ahead bool) {
	s.t.Helper()
	if !it.Valid() {
		return
	}
	keys := slices.Sorted(maps.Keys(rows))
	from := string(it.Key()[sqlmachine.PrefixBytes:])
	at, there := slices.BinarySearch(keys, from) // it may have been deleted meanwhile
	ok, want := false, at
	if ahead {
		ok = it.Next()
		if there {
			want++
		}
	} else {
		ok, want = it.Prev(), at-1
	}
	if ok != (want >= 0 && want < len(keys)) || ok && string(it.Key()[sqlmachine.PrefixBytes:]) != keys[want] {
		s.t.Fatalf("seed %d: from %s (ahead %v) the iterator came to %v %q", seed, from, ahead, ok, it.Key())
	}
	if !ok {
		return
	}
	if v, err := it.Value(); err != nil || string(v) != rows[keys[want]] {
		s.t.Fatalf("seed %d: %s is %q, %v", seed, keys[want], v, err)
	}
}

func modelOf(rows map[string]string) string {
	var all []string
	for _, k := range slices.Sorted(maps.Keys(rows)) {
		all = append(all, k+"="+rows[k])
	}
	return strings.Join(all, " ")
}
