package sim

import (
	"context"
	"errors"
	"time"

	"github.com/holdfastdb/holdfast/core/node"
	"github.com/holdfastdb/holdfast/core/store"
	"github.com/holdfastdb/holdfast/doors/sql/lock"
	sqlmachine "github.com/holdfastdb/holdfast/doors/sql/machine"
	sqlpart "github.com/holdfastdb/holdfast/doors/sql/part"
	"github.com/holdfastdb/holdfast/doors/sql/txn"
	"github.com/holdfastdb/holdfast/sim"
)

// client has one session after the other, with a transaction each. It stays with a member until that does not lead any more, so that a member that
// was deposed and has not noticed is asked too.
type client struct {
	b     *book
	id    int
	home  *sim.Member // nil: none
	pause time.Duration
}

// next opens a session. The next one follows when it ends, or when the client gives up.
func (c *client) next() {
	b := c.b
	w, r := b.w, b.r
	if b.done {
		return
	}
	if h := c.home; h == nil || h.Node() == nil || b.workers[h] == nil || b.workers[h].process != h.Process() {
		c.home = w.Members()[r.IntN(len(w.Members()))]
	}
	h, wk := c.home, b.workers[c.home]
	if h.Node() == nil || wk == nil || wk.process != h.Process() || h.Node().ClusterLevel() < sqlpart.Level {
		c.home = nil
		w.After(sim.Between(r, 5*time.Millisecond, 60*time.Millisecond), c.next)
		return
	}
	ended, gone := false, make(chan struct{})
	end := func() {
		if !ended {
			ended = true
			w.After(sim.Around(r, c.pause), c.next)
		}
	}
	patience := sim.Between(r, 300*time.Millisecond, 2*time.Second)
	if r.IntN(2) == 0 {
		patience = sim.Between(r, 2*time.Second, 8*time.Second)
	}
	w.After(patience, func() {
		if ended {
			return
		}
		c.home = nil
		end()
		if close(gone); h.Process() == wk.process {
			h.Hear(func() {}) // its session may wait for that
		}
	})
	h.Go(time.Hour, func(context.Context) {
		defer end()
		if !ended {
			c.session(h, wk, gone)
		}
	})
}

// session runs one transaction. gone is closed when the client gives up.
func (c *client) session(h *sim.Member, wk *worker, gone chan struct{}) {
	b := c.b
	x, err := wk.Begin()
	if err != nil {
		if !errors.Is(err, txn.ErrNotLeader) {
			b.w.Fail(sim.WrongOutcome, "%s begins no transaction: %v", h.Name(), err)
		}
		c.home = nil
		return
	}
	wk.open++
	t := &transaction{b: b, c: c, h: h, x: x, n: len(b.txs) + 1, began: b.w.Now(), gone: gone, own: map[int]*shown{}}
	t.point = &point{by: t}
	b.txs = append(b.txs, t)
	defer func() {
		wk.open--
		x.Rollback()
	}()
	switch db := machineOf(h).Catalogue().Database(dbName); {
	case db == nil:
		t.define("creates the tables", creation()...)
	case b.r.IntN(40) == 0:
		t.alter()
	case b.r.IntN(30) == 0:
		t.index()
	default:
		t.run()
	}
}

// goesOn reports whether a transaction goes on after an error, without the statement that has got it.
func goesOn(err error) bool {
	return errors.Is(err, txn.ErrLockTimeout) || errors.Is(err, txn.ErrBusy) || errors.Is(err, txn.ErrTooManyLocks)
}

// noEffect reports whether an error says that a transaction had no effect.
func noEffect(err error) bool {
	for _, known := range []error{txn.ErrTermOver, txn.ErrDeadlock, txn.ErrOverloaded, txn.ErrInterrupted, txn.ErrPieces, txn.ErrRanges, node.ErrStopped, node.ErrLevel,
		store.ErrReplaced, store.ErrClosed, context.DeadlineExceeded} {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}

const dbName = "db"

// The tables.
const (
	accounts = "accounts" // number → money
	lists    = "lists"    // number → the transactions that have appended, in order
	users    = "users"    // AUTO_INCREMENT → who has inserted it, and a name; index 1 is unique: name → AUTO_INCREMENT
	marks    = "marks"    // a transaction → nothing: each one that writes inserts its own row
	numbered = "numbered" // a number that the table has given → the transaction
	wheel    = "wheel"    // a spoke → how often the wheel was turned; every spoke has the same
	seats    = "seats"    // number of a table, and a transaction → nothing
	painted  = "painted"  // number → colour; index 1 comes and goes
	jobs     = "jobs"     // number → the transaction that has posted it; of jobs that wait
	taken    = "taken"    // number of a job → the transaction that has taken it
	parents  = "parents"  // number → a transaction
	children = "children" // number → parent; index 1: parent and number
)

var tableNames = []string{accounts, lists, users, marks, numbered, wheel, seats, painted, jobs, taken, parents, children}

// byName is the index of names.
const byName = 1

// creation is what makes all tables.
func creation() []sqlpart.Change {
	changes := []sqlpart.Change{{Verb: sqlpart.CreateDatabase, Name: dbName}}
	for _, name := range tableNames {
		c := sqlpart.Change{Verb: sqlpart.CreateTable, Name: name}
		switch name {
		case users:
			c.Indexes = []sqlpart.Index{{ID: byName, State: sqlpart.Public}}
		case children:
			c.Indexes = []sqlpart.Index{{ID: byParent, State: sqlpart.Public}}
		}
		changes = append(changes, c)
	}
	return changes
}

// define makes changes of the catalogue.
func (t *transaction) define(what string, changes ...sqlpart.Change) {
	t.defineBy(t.x, what, changes...)
}

// defineBy makes them in a transaction, and reports whether they were made.
func (t *transaction) defineBy(x *txn.Tx, what string, changes ...sqlpart.Change) bool {
	_, err := x.Define(changes)
	t.trace("%s: %v", what, err)
	switch {
	case err == nil:
		t.b.w.Count(Altered, 1)
	case noEffect(err), errors.Is(err, txn.ErrUnknown):
	case changes[0].Verb == sqlpart.CreateDatabase && rejected(err, sqlpart.DatabaseExists): // another client was faster
	default:
		t.b.w.Fail(sim.WrongOutcome, "%s: %s %s: %v", t.h.Name(), t, what, err)
	}
	return err == nil
}

// alter changes the definition of a table, and sometimes the next value of AUTO_INCREMENT.
func (t *transaction) alter() {
	r := t.b.r
	name := tableNames[r.IntN(len(tableNames))]
	if err := t.x.LockDefinition(table(t.h, name).ID, t.wait()); err != nil {
		t.failed(err)
		return
	}
	table, err := t.use(name, lock.Exclusive)
	if err != nil {
		t.failed(err)
		return
	}
	c := sqlpart.Change{Verb: sqlpart.AlterTable, Object: table.ID, Version: table.Version, Name: name, Indexes: table.Indexes, Definition: []byte(t.String())}
	if name == users && r.IntN(2) == 0 {
		c.NextAuto = table.NextAuto() + r.Uint64N(20)
	}
	t.define("alters "+name, c)
}

// table looks a table up as the member has it.
func table(h *sim.Member, name string) *sqlmachine.Table {
	return machineOf(h).Catalogue().Database(dbName).Table(name)
}
