package txn

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/core/machine/machinetest"
	"github.com/holdfastdb/holdfast/core/node"
	"github.com/holdfastdb/holdfast/core/store"
	"github.com/holdfastdb/holdfast/core/worker/workertest"
	"github.com/holdfastdb/holdfast/doors/sql/lock"
	sqlmachine "github.com/holdfastdb/holdfast/doors/sql/machine"
	sqlpart "github.com/holdfastdb/holdfast/doors/sql/part"
	"github.com/holdfastdb/holdfast/internal/wait"
)

// world is a member whose commands are applied at once, by a machine that verifies, and its transactions.
type world struct {
	*workertest.Member
	t     testing.TB
	rig   *machinetest.Rig
	m     *sqlmachine.Machine
	w     *Worker
	opt   Options
	table *sqlmachine.Table

	full  atomic.Int32 // so many proposals more find the log full
	fence sync.Mutex   // a command of a term is applied, or never is, before a later term begins
}

// ProposeInTerm is Node.ProposeInTerm.
func (w *world) ProposeInTerm(ctx context.Context, number uint64, lane node.Lane, parts ...entry.Part) (*entry.Result, error) {
	w.fence.Lock()
	defer w.fence.Unlock()
	return w.Member.ProposeInTerm(ctx, number, lane, parts...)
}

// Lead makes the member lead in a term.
func (w *world) Lead(number uint64) {
	w.fence.Lock()
	defer w.fence.Unlock()
	w.Member.Lead(number)
}

// newWorld leads in term 5 and has a table "t".
func newWorld(t testing.TB, with ...func(*Options)) *world {
	t.Helper()
	m := sqlmachine.NewVerifying()
	w := &world{Member: workertest.New(), t: t, rig: machinetest.Open(t, store.NewMem(), m), m: m}
	w.OnPropose(func(parts []entry.Part) (*entry.Result, error) {
		if w.full.Load() > 0 {
			w.full.Add(-1)
			return nil, node.ErrOverloaded
		}
		results, err := w.rig.Try(parts)
		if err != nil {
			t.Errorf("a commit stops the member: %v", err)
			return nil, node.ErrUnknown
		}
		return results[0], nil
	})
	w.opt = Options{View: func() (store.View, error) { return w.rig.Store.NewView(), nil }, Newest: w.rig.Store.Get, Staged: m.Staged, LockBytes: 1 << 20, Verify: true}
	for _, change := range with {
		change(&w.opt)
	}
	w.w = New(w, w.opt)
	w.define(sqlpart.Change{Verb: sqlpart.CreateDatabase, Name: "d"}, sqlpart.Change{Verb: sqlpart.CreateTable, Name: "t"})
	w.table = m.Catalogue().Database("d").Table("t")
	w.Run(t, w.w.Run)
	w.lead(5)
	return w
}

// lead makes the member lead in a term, or follow in term 0, and waits until the worker knows.
func (w *world) lead(number uint64) {
	w.t.Helper()
	w.Lead(number)
	wait.Until(w.t, "the worker knows the term", func() bool {
		w.w.mu.Lock()
		defer w.w.mu.Unlock()
		return w.w.now == nil && number == 0 || w.w.now != nil && w.w.now.number == number
	})
}

func (w *world) define(changes ...sqlpart.Change) {
	w.t.Helper()
	res := w.rig.Apply(machinetest.Command(sqlpart.Machine, sqlpart.AppendPart(nil, &sqlpart.Part{Kind: sqlpart.Define, Changes: changes})))[0]
	if res.Rejection != nil {
		w.t.Fatal(res.Rejection)
	}
}

// patient waits for a lock as long as no test should take.
var patient = Wait{Time: 20 * time.Second}

// begin begins a transaction that uses the table.
func (w *world) begin() *Tx {
	w.t.Helper()
	x, err := w.w.Begin()
	if err == nil {
		err = x.UseTable(w.table.ID, w.table.Version, lock.IntentExclusive, patient)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return x
}

// set writes a row, or deletes it if the value is empty.
func (w *world) set(x *Tx, key, value string) error {
	_, exists, stored, err := x.LockRow(w.table.ID, 0, []byte(key), lock.Exclusive, patient)
	switch {
	case err != nil:
		return err
	case value != "":
		return x.Put(w.table.ID, 0, []byte(key), []byte(value), stored)
	case exists:
		return x.Delete(w.table.ID, 0, []byte(key), stored)
	}
	return nil
}

// get reads a row from the snapshot: "-" for no row.
func (w *world) get(x *Tx, key string) string {
	w.t.Helper()
	v, exists, err := x.Get(w.table.ID, 0, []byte(key))
	if err != nil {
		w.t.Fatal(err)
	}
	if !exists {
		return "-"
	}
	return string(v)
}

// committed reads a row as a new transaction does.
func (w *world) committed(key string) string {
	w.t.Helper()
	x := w.begin()
	defer x.Rollback()
	return w.get(x, key)
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// TestSnapshotsAndLocks: a consistent read sees one state and the transaction's own writes, a locking read sees what is newest.
func TestSnapshotsAndLocks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.begin()
	w.must(w.set(first, "a", "1"))
	w.must(w.set(first, "b", "1"))
	if w.get(first, "a") != "1" || w.committed("a") != "-" {
		t.Error("a write is not seen by its transaction, or is by another one")
	}
	w.must(first.Commit())
	x := w.begin()
	w.must(x.Snapshot())
	other := w.begin()
	w.must(w.set(other, "a", "2"))
	w.must(w.set(other, "c", "2"))
	w.must(other.Commit())
	if a, c := w.get(x, "a"), w.get(x, "c"); a != "1" || c != "-" {
		t.Errorf("the snapshot shows a=%s c=%s", a, c)
	}
	newest, exists, stored, err := x.LockRow(w.table.ID, 0, []byte("a"), lock.Exclusive, patient)
	if err != nil || !exists || string(newest) != "2" || stored != 1 {
		t.Errorf("the locking read shows %q %v %d %v", newest, exists, stored, err)
	}
	w.must(x.Put(w.table.ID, 0, []byte("a"), []byte("3"), stored))
	it, err := x.Scan(w.table.ID, 0, nil, nil)
	w.must(err)
	var got []string
	for ok := it.First(); ok; ok = it.Next() {
		v, err := it.Value()
		w.must(err)
		got = append(got, fmt.Sprintf("%s=%s", it.Key()[sqlmachine.PrefixBytes:], v))
	}
	w.must(it.Close())
	if fmt.Sprint(got) != "[a=3 b=1]" {
		t.Errorf("a scan shows %v", got)
	}
	w.must(x.Refresh())
	if c := w.get(x, "c"); c != "2" {
		t.Errorf("a new snapshot shows c=%s", c)
	}
	w.must(x.Commit())
	if a := w.committed("a"); a != "3" || w.table.Rows() != 3 {
		t.Errorf("a=%s, %d rows", a, w.table.Rows())
	}
	for _, err := range []error{x.Commit(), x.Put(1, 0, nil, nil, -1), x.Delete(1, 0, nil, -1), x.Snapshot(), w.set(x, "a", "4")} {
		if !errors.Is(err, ErrEnded) {
			t.Errorf("after the end: %v", err)
		}
	}
}

// TestStatementsAndSavepoints: what a statement wrote is taken back, its locks stay, but for those of rows that it has inserted.
func TestStatementsAndSavepoints(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	before := w.begin()
	w.must(w.set(before, "c", "1"))
	w.must(before.Commit())
	x := w.begin()
	w.must(w.set(x, "a", "1"))
	mark := x.Mark()
	w.must(w.set(x, "a", "2"))
	w.must(w.set(x, "b", "2"))
	w.must(w.set(x, "c", "2"))
	x.RollbackTo(mark)
	y := w.begin()
	if _, _, _, err := y.LockRow(w.table.ID, 0, []byte("b"), lock.Shared, Wait{}); err != nil {
		t.Errorf("the place of a row that was taken back: %v", err)
	}
	if _, _, _, err := y.LockRow(w.table.ID, 0, []byte("a"), lock.Shared, Wait{}); !errors.Is(err, ErrBusy) {
		t.Errorf("the lock of a row that was inserted before: %v", err)
	}
	if _, _, _, err := y.LockRow(w.table.ID, 0, []byte("c"), lock.Shared, Wait{}); !errors.Is(err, ErrBusy) {
		t.Errorf("the lock of a statement that was taken back: %v", err)
	}
	if _, _, _, err := y.LockRow(w.table.ID, 0, []byte("c"), lock.Shared, Wait{Time: time.Millisecond}); !errors.Is(err, ErrLockTimeout) {
		t.Errorf("waited for: %v", err)
	}
	interrupt := make(chan struct{})
	close(interrupt)
	if _, _, _, err := y.LockRow(w.table.ID, 0, []byte("c"), lock.Shared, Wait{Time: -1, Interrupt: interrupt}); !errors.Is(err, ErrInterrupted) {
		t.Errorf("interrupted: %v", err)
	}
	x.SetNextAuto(w.table.ID, 9)
	w.must(x.Commit())
	if a, b := w.committed("a"), w.committed("b"); a != "1" || b != "-" || w.table.NextAuto() != 9 {
		t.Errorf("a=%s b=%s, next value %d", a, b, w.table.NextAuto())
	}
	w.must(w.set(y, "b", "3")) // y goes on
	w.must(y.Commit())
	z := w.begin()
	z.SetNextAuto(w.table.ID, 20)
	w.must(z.Commit())
	if w.table.NextAuto() != 20 {
		t.Errorf("a commit of a next value alone: %d", w.table.NextAuto())
	}
}

// TestTheTermIsTheFence: a member that was deposed commits nothing and confirms nothing, and its locks end with its term.
func TestTheTermIsTheFence(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	writes, reads, waits := w.begin(), w.begin(), w.begin()
	w.must(w.set(writes, "a", "1"))
	if _, _, _, err := reads.LockRow(w.table.ID, 0, []byte("b"), lock.Shared, patient); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- w.set(waits, "a", "2") }()
	w.Depose(true)
	if err := reads.Commit(); !errors.Is(err, ErrTermOver) {
		t.Errorf("a commit that only locked: %v", err)
	}
	fresh := w.begin()
	if err := fresh.Snapshot(); !errors.Is(err, ErrTermOver) {
		t.Errorf("a consistent read: %v", err)
	}
	if plain, err := w.w.Begin(); err != nil || plain.Commit() != nil {
		t.Errorf("a transaction that did nothing: %v", err)
	}
	wait.Until(t, "it waits for the row", func() bool { return waits.t.locks.Waiting() == 1 })
	w.lead(0)
	if err := <-done; !errors.Is(err, ErrTermOver) {
		t.Errorf("a transaction that waits when the term ends: %v", err)
	}
	if _, err := w.w.Begin(); !errors.Is(err, ErrNotLeader) {
		t.Errorf("a member that follows: %v", err)
	}
	w.Depose(false)
	w.lead(7)
	if err := writes.Commit(); !errors.Is(err, ErrTermOver) {
		t.Errorf("a commit of an earlier term: %v", err)
	}
	if a := w.committed("a"); a != "-" {
		t.Errorf("a=%s", a)
	}
	again := w.begin()
	w.Lead(7) // news that changes nothing
	w.must(w.set(again, "a", "7"))
	w.must(again.Commit())
}

// TestAPlainReadIsConfirmedOnce: a transaction that has locked definitions alone has read nothing that its term must still hold for when it commits.
func TestAPlainReadIsConfirmedOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	x, err := w.w.Begin()
	w.must(err)
	w.must(x.UseTable(w.table.ID, w.table.Version, lock.Metadata, patient))
	before := w.Rounds()
	w.get(x, "a")
	w.must(x.Commit())
	if n := w.Rounds() - before; n != 1 {
		t.Errorf("a plain read took %d rounds", n)
	}
	x = w.alone()
	before = w.Rounds()
	w.must(x.Commit())
	if n := w.Rounds() - before; n != 1 {
		t.Errorf("a transaction that had a table for itself took %d rounds", n)
	}
}

// TestCommitsThatAreRefused leave nothing, and no lock.
func TestCommitsThatAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.full.Store(3)
	x := w.begin()
	w.must(w.set(x, "a", "1"))
	if err := x.Commit(); err != nil {
		t.Errorf("a log that is full for a moment: %v", err)
	}
	x = w.begin()
	w.must(w.set(x, "a", "2"))
	w.define(sqlpart.Change{Verb: sqlpart.AlterTable, Object: w.table.ID, Version: w.table.Version, Name: "t"}) // past its lock
	var rejected *entry.Rejection
	if err := x.Commit(); !errors.As(err, &rejected) || rejected.Code != sqlpart.StaleDefinition {
		t.Errorf("another definition: %v", err)
	}
	w.table = w.m.Catalogue().Database("d").Table("t")
	x = w.begin()
	if err := x.Put(w.table.ID, 0, []byte("big"), make([]byte, entry.MaxCommandBytes), -1); !errors.Is(err, ErrTooLarge) {
		t.Errorf("more than a command: %v", err)
	}
	w.must(w.set(x, "a", "3"))
	w.must(x.Commit())
	if a := w.committed("a"); a != "3" {
		t.Errorf("a=%s", a)
	}
}

// TestDeadlock: one of two is rolled back at once, and the other one goes on.
func TestDeadlock(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, b := w.begin(), w.begin()
	w.must(w.set(a, "a", "a"))
	w.must(w.set(b, "b", "a long value, so that the other one is lighter"))
	done := make(chan error, 1)
	go func() { done <- w.set(a, "b", "a") }()
	err := w.set(b, "a", "b")
	other := <-done
	if errors.Is(err, ErrDeadlock) == errors.Is(other, ErrDeadlock) {
		t.Fatalf("%v and %v", err, other)
	}
	if !errors.Is(other, ErrDeadlock) {
		t.Errorf("the heavier one was rolled back: %v", err)
	}
	w.must(b.Commit())
	if a, b := w.committed("a"), w.committed("b"); a != "b" || b == "-" {
		t.Errorf("a=%s b=%s", a, b)
	}
}

// TestIncrements: sixteen transactions at a time that add one to a row lose none.
func TestIncrements(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const clients, each = 16, 50
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			for range each {
				x := w.begin()
				v, _, stored, err := x.LockRow(w.table.ID, 0, []byte("k"), lock.Exclusive, patient)
				if err == nil {
					n, _ := strconv.Atoi(string(v))
					err = x.Put(w.table.ID, 0, []byte("k"), []byte(strconv.Itoa(n+1)), stored)
				}
				if err == nil {
					err = x.Commit()
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if k := w.committed("k"); k != strconv.Itoa(clients*each) {
		t.Errorf("%s increments are left of %d", k, clients*each)
	}
}

// TestBank: money moves between accounts in any order, terms change, and every snapshot has the same sum.
func TestBank(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const accounts, start = 8, 100
	x := w.begin()
	for i := range accounts {
		w.must(w.set(x, fmt.Sprint(i), strconv.Itoa(start)))
	}
	w.must(x.Commit())
	var moved, deadlocks, terms atomic.Int64
	over := make(chan struct{})
	var wg sync.WaitGroup
	for c := range 6 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(c), 6))
			for {
				select {
				case <-over:
					return
				default:
				}
				err := w.move(strconv.Itoa(r.IntN(accounts)), strconv.Itoa(r.IntN(accounts)), r.IntN(5))
				switch {
				case err == nil:
					moved.Add(1)
				case errors.Is(err, ErrDeadlock):
					deadlocks.Add(1)
				case errors.Is(err, ErrTermOver), errors.Is(err, ErrNotLeader):
					terms.Add(1)
				default:
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Go(func() { // one that reads
		for {
			select {
			case <-over:
				return
			default:
			}
			x, err := w.w.Begin()
			if err != nil {
				continue
			}
			sum := 0
			for i := range accounts {
				v, _, err := x.Get(w.table.ID, 0, []byte(strconv.Itoa(i)))
				if err != nil {
					sum = accounts * start // the term is over
					break
				}
				n, _ := strconv.Atoi(string(v))
				sum += n
			}
			if sum != accounts*start {
				t.Errorf("a snapshot has %d", sum)
			}
			x.Rollback()
		}
	})
	wg.Go(func() { // terms change
		for number := uint64(6); ; number++ {
			select {
			case <-over:
				return
			case <-time.After(time.Millisecond):
				w.Lead(number)
			}
		}
	})
	wait.Until(t, "money was moved", func() bool {
		return t.Failed() || moved.Load() >= 1500 && deadlocks.Load() > 0 && terms.Load() > 0
	})
	close(over)
	wg.Wait()
	t.Logf("%d moves, %d deadlocks, %d ended with their term", moved.Load(), deadlocks.Load(), terms.Load())
}

// move takes an amount from one account to another.
func (w *world) move(from, to string, amount int) error {
	x, err := w.w.Begin()
	if err != nil {
		return err
	}
	defer x.Rollback()
	if err := x.UseTable(w.table.ID, w.table.Version, lock.IntentExclusive, patient); err != nil {
		return err
	}
	for _, a := range []struct {
		name string
		by   int
	}{{from, -amount}, {to, amount}} {
		v, _, stored, err := x.LockRow(w.table.ID, 0, []byte(a.name), lock.Exclusive, patient)
		if err != nil {
			return err
		}
		if amount == 0 { // another one locks what this one wants next, on one processor too
			time.Sleep(10 * time.Microsecond)
		}
		n, _ := strconv.Atoi(string(v))
		if err := x.Put(w.table.ID, 0, []byte(a.name), []byte(strconv.Itoa(n+a.by)), stored); err != nil {
			return err
		}
	}
	return x.Commit()
}

// TestTooManyLocks: the locks of all transactions are bounded, and the transaction that gets no more goes on.
func TestTooManyLocks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	x := w.begin()
	var err error
	n := uint32(0)
	for ; err == nil && n < 1<<20; n++ {
		_, _, _, err = x.LockRow(w.table.ID, 0, binary.BigEndian.AppendUint32(nil, n), lock.Shared, Wait{}) // with patience it would lock the table
	}
	if !errors.Is(err, ErrTooManyLocks) || n < 1000 {
		t.Errorf("after %d locks: %v", n, err)
	}
	w.must(x.Commit())
	y := w.begin()
	w.must(w.set(y, "a", "1"))
	w.must(y.Commit())
}

// TestTheBoundOfLocksOutlivesATerm: the room for locks that the worker was told last is that of this term and of the next.
func TestTheBoundOfLocksOutlivesATerm(t *testing.T) {
	w := newWorld(t)
	full := func() bool {
		t.Helper()
		x, err := w.w.Begin()
		if err != nil {
			t.Fatal(err)
		}
		err = x.UseTable(w.table.ID, w.table.Version, lock.IntentExclusive, patient)
		held := w.w.HeldLocks()
		x.Rollback()
		if err != nil && !errors.Is(err, ErrTooManyLocks) {
			t.Fatal(err)
		}
		if err == nil && held == 0 {
			t.Error("a lock is held that nobody counts")
		}
		if left := w.w.HeldLocks(); left != 0 {
			t.Errorf("%d bytes of locks are held when all transactions have ended", left)
		}
		return err != nil
	}
	if full() {
		t.Fatal("the table of locks is full")
	}
	w.w.BoundLocks(1)
	if !full() {
		t.Error("a lock was granted without room for it")
	}
	w.lead(6)
	if !full() {
		t.Error("the next term has forgotten the bound")
	}
	w.w.BoundLocks(1 << 20)
	if full() {
		t.Error("the room was given back and is not there")
	}
	w.lead(0)
	if held := w.w.HeldLocks(); held != 0 {
		t.Errorf("a follower holds %d bytes of locks", held)
	}
}

// TestALockedRowIsReadWithoutAView: a row that is locked is read from the store, and opens a View only where a large transaction's rows are not in their places yet.
func TestALockedRowIsReadWithoutAView(t *testing.T) {
	t.Parallel()
	var views atomic.Int32
	s := newStaging(t, func(o *Options) {
		open := o.View
		o.View = func() (store.View, error) {
			views.Add(1)
			return open()
		}
	})
	x := s.begin()
	s.must(s.set(x, "a01", "old"))
	s.must(x.Commit())
	read := func(want string) {
		t.Helper()
		x := s.begin()
		value, exists, stored, err := x.LockRow(s.table.ID, 0, []byte("a01"), lock.Exclusive, patient)
		if s.must(err); !exists || string(value) != want || stored != len(want) {
			t.Errorf("a01 is %q (%v, %d bytes), and not %q", value, exists, stored, want)
		}
		if value, exists, err := x.Newest(s.table.ID, 0, []byte("a01")); err != nil || !exists || string(value) != want {
			t.Errorf("the newest a01 is %q (%v, %v), and not %q", value, exists, err, want)
		}
		x.Rollback()
	}
	views.Store(0)
	if read("old"); views.Load() > 0 {
		t.Errorf("%d views were opened for a row", views.Load())
	}
	s.held[sqlpart.Move].Store(true)
	large := s.begin()
	s.fill(large, "a", 12)
	done := make(chan error, 1)
	go func() { done <- large.Commit() }()
	wait.Until(t, "the large transaction is committed", func() bool {
		all := s.m.Staged().All
		return len(all) == 1 && all[0].Committed
	})
	y := s.begin() // the row waits for its piece, or is read from it
	if value, exists, err := y.Newest(s.table.ID, 0, []byte("a01")); err != nil || !exists || string(value) != "a row 1" {
		t.Errorf("behind the commit the newest a01 is %q (%v, %v)", value, exists, err)
	}
	y.Rollback()
	s.held[sqlpart.Move].Store(false)
	s.must(<-done)
	read("a row 1")
}
