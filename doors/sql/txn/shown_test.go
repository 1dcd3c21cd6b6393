package txn

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/core/clock"
	"github.com/holdfastdb/holdfast/core/entry"
	emember "github.com/holdfastdb/holdfast/core/entry/member"
	"github.com/holdfastdb/holdfast/core/machine"
	"github.com/holdfastdb/holdfast/core/node"
	"github.com/holdfastdb/holdfast/core/store"
	"github.com/holdfastdb/holdfast/doors/sql/lock"
	sqlmachine "github.com/holdfastdb/holdfast/doors/sql/machine"
	sqlpart "github.com/holdfastdb/holdfast/doors/sql/part"
	"github.com/holdfastdb/holdfast/internal/wait"
)

// TestShown: what a transaction does is seen from outside while its goroutine waits, and so are the locks.
func TestShown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one, two := w.begin(), w.begin()
	w.must(w.set(one, "a", "1234"))
	if s := one.Show(); s.State != Active || s.Rows != 1 || s.Bytes == 0 || s.Age <= 0 || s.ID == 0 || s.View != nil {
		t.Errorf("a transaction that has written: %+v", s)
	}
	done := make(chan error, 1)
	go func() { done <- w.set(two, "a", "2") }()
	wait.Until(t, "the other one waits", func() bool { return two.Show().State == Waiting && two.Show().Waits > 0 })
	all, more := w.w.Locks(100)
	var lines []string
	for _, l := range all {
		lines = append(lines, fmt.Sprintf("%s %d/%d %s %s %d %d", l.On, l.Table, l.Index, l.Key, l.Mode, l.Holder, l.Waiter))
	}
	slices.Sort(lines)
	id := w.table.ID
	want := []string{fmt.Sprintf("row %d/0 a exclusive %d 0", id, one.Show().ID), fmt.Sprintf("row %d/0 a exclusive %d %d", id, one.Show().ID, two.Show().ID),
		fmt.Sprintf("table %d/0  intent exclusive %d 0", id, one.Show().ID), fmt.Sprintf("table %d/0  intent exclusive %d 0", id, two.Show().ID)}
	slices.Sort(want)
	if !slices.Equal(lines, want) || more {
		t.Errorf("locks, more %v:\n%q\nwant\n%q", more, lines, want)
	}
	w.must(one.Commit())
	w.must(<-done)
	if s := two.Show(); s.State != Active || s.Waits != 0 {
		t.Errorf("it waits no more: %+v", s)
	}
	w.must(two.LockRange(id, 0, []byte("m"), nil, lock.Shared, patient))
	all, _ = w.w.Locks(100)
	if !slices.ContainsFunc(all, func(l Locked) bool { return l.On == Range && string(l.Key) == "m" && l.To == nil && l.Table == id }) {
		t.Errorf("no range in %+v", all)
	}
	two.Rollback()
	three := w.begin()
	w.must(w.set(three, "b", "3"))
	w.must(three.Prepare([]byte("x")))
	if left := w.w.Left(); len(left) != 1 || left[0].State != Prepared || string(left[0].Name) != "x" || left[0].ID != three.Show().ID {
		t.Errorf("left: %+v", left)
	}
	_, err := w.w.EndPrepared([]byte("x"), true)
	w.must(err)
	if left := w.w.Left(); len(left) != 0 {
		t.Errorf("left: %+v", left)
	}
}

// offsetClock is the machine's clock, moved forward by hand.
type offsetClock struct {
	clock.Clock
	by atomic.Int64
}

func (c *offsetClock) Wall() time.Time     { return c.Clock.Wall().Add(time.Duration(c.by.Load())) }
func (c *offsetClock) Mono() time.Duration { return c.Clock.Mono() + time.Duration(c.by.Load()) }

// TestASnapshotLivesAsItsTransactionReads: on a whole member whose clock is moved by hand. The snapshot of a transaction that has only read outlives any age
// and what is written meanwhile, until it pins more than it may; that of one that has locked a row ends after its time, and its transaction with it.
func TestASnapshotLivesAsItsTransactionReads(t *testing.T) {
	t.Parallel()
	hand := &offsetClock{Clock: clock.Real()}
	m := sqlmachine.New()
	n, err := node.Start(context.Background(), node.Config{Dir: t.TempDir(), Clock: hand, Machines: []machine.Machine{m}, Lanes: []node.LaneSpec{{Number: 3, Name: "sql"}}},
		node.StartOptions{Name: "n1"})
	if err != nil {
		t.Fatal(err)
	}
	view := func() (store.View, error) { return n.View() }
	w := New(n, Options{View: view, Snapshot: n.View, Staged: m.Staged, Lane: 3, LockBytes: 1 << 20})
	ended := make(chan struct{})
	go func() { defer close(ended); w.Run() }()
	t.Cleanup(func() { n.Stop(); <-ended })
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	wait.Until(t, "the worker leads", func() bool { return w.Term() != 0 })
	define := func(parts ...entry.Part) {
		t.Helper()
		res, err := n.Propose(context.Background(), node.LaneSystem, parts...)
		if must(err); res.Rejection != nil {
			t.Fatal(res.Rejection)
		}
	}
	_, id := n.IDs()
	define(entry.Part{Machine: entry.MachineMember, Body: emember.AppendPart(nil, &emember.Part{RaiseLevel: &emember.RaiseLevel{Level: n.KnownLevel(), Members: []uint64{id}}})})
	define(entry.Part{Machine: sqlpart.Machine, Body: sqlpart.AppendPart(nil, &sqlpart.Part{Kind: sqlpart.Define, Changes: []sqlpart.Change{
		{Verb: sqlpart.CreateDatabase, Name: "d"}, {Verb: sqlpart.CreateTable, Name: "t"}}})})
	table := m.Catalogue().Database("d").Table("t")
	begin := func(mode lock.Mode) *Tx {
		t.Helper()
		x, err := w.Begin()
		must(err)
		must(x.UseTable(table.ID, table.Version, mode, patient))
		return x
	}
	write := func(key string, value []byte) {
		t.Helper()
		x := begin(lock.IntentExclusive)
		_, _, stored, err := x.LockRow(table.ID, 0, []byte(key), lock.Exclusive, patient)
		must(err)
		must(x.Put(table.ID, 0, []byte(key), value, stored))
		must(x.Commit())
	}
	read := func(x *Tx) (string, error) {
		v, _, err := x.Get(table.ID, 0, []byte("a"))
		return string(v), err
	}
	later := func(d time.Duration) {
		t.Helper()
		probe, err := n.View() // without a word it lives for ViewAge: once it has ended, the member has looked at all
		must(err)
		defer probe.Close()
		hand.by.Add(int64(d))
		wait.Until(t, "the member looks at its views", func() bool {
			_, _, err := probe.Get(nil, []byte("x"))
			return errors.Is(err, node.ErrViewEnded)
		})
	}
	write("a", []byte("first"))
	dump, writer, idle := begin(lock.Metadata), begin(lock.Metadata), begin(lock.Metadata)
	dump.LimitView(ViewLimit{Age: node.ViewAge, Bytes: 20 << 20})
	for _, x := range []*Tx{dump, writer, idle} {
		if v, err := read(x); v != "first" || err != nil {
			t.Fatalf("%q %v", v, err)
		}
	}
	if s := dump.Show(); s.View == nil || s.View.Index != n.Status().Applied {
		t.Errorf("the snapshot of %+v is not of %d", s, n.Status().Applied)
	}
	must(writer.UseTable(table.ID, table.Version, lock.IntentExclusive, patient)) // it begins to write, its snapshot open
	later(node.ViewAge + time.Minute)
	if _, err := read(writer); !errors.Is(err, ErrTooOld) {
		t.Errorf("a transaction that writes has a snapshot of 11 minutes: %v", err)
	}
	if _, err := read(writer); !errors.Is(err, ErrEnded) {
		t.Errorf("it goes on: %v", err)
	}
	later(24 * time.Hour)
	block := make([]byte, 1<<20)
	for i := range 12 {
		block[0] = byte(i)
		write("big", block) // 11 MiB are replaced, which is less than it may pin
	}
	write("a", []byte("second"))
	if v, err := read(dump); v != "first" || err != nil {
		t.Errorf("the snapshot of one that reads shows %q after a day: %v", v, err)
	}
	dump.LimitView(ViewLimit{Age: node.ViewAge, Bytes: 1})
	later(time.Hour)
	if _, err := dump.Scan(table.ID, 0, nil, nil); !errors.Is(err, ErrTooOld) {
		t.Errorf("it pins more than it may: %v", err)
	}
	idle.Rollback()
	if c := n.ViewCounts(); c.TooOld != 1+3 || c.TooLarge != 1 || c.Open != 0 {
		t.Errorf("counted: %+v", c)
	}
}
