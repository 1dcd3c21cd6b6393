package engine

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/holdfastdb/holdfast/doors/sql/lock"
	sqlmachine "github.com/holdfastdb/holdfast/doors/sql/machine"
	sqlpart "github.com/holdfastdb/holdfast/doors/sql/part"
	"github.com/holdfastdb/holdfast/doors/sql/txn"
	"github.com/holdfastdb/holdfast/doors/sql/wire"
)

// How indexes are built beside the statements that use their table; txn/backfill.go has the rules.

// own finds a table, and lets no other session change its definition until the transaction ends. Others go on with its rows: the caller closes the table
// (lockTable) for the moment of the change. Nil: there is none.
func (s *Session) own(databaseName, name string) (*sqlmachine.Table, error) {
	tx, err := s.transaction()
	if err != nil {
		return nil, err
	}
	find := func() *sqlmachine.Table {
		s.cat = nil
		return tableOf(s.catalogue().Database(nameOf(databaseName)), nameOf(name))
	}
	for t := find(); t != nil; {
		if err := s.mayUseLocked(nameOf(databaseName), nameOf(name), lock.Exclusive); err != nil {
			return nil, err
		}
		if err := tx.LockDefinition(t.ID, s.TableWait()); err != nil {
			return nil, err
		}
		now := find()
		if now == nil || now.ID == t.ID {
			return now, nil
		}
		t = now
	}
	return nil, nil
}

// lockTable locks a table's definition and rows against everybody else.
func (s *Session) lockTable(tx *txn.Tx, t *sqlmachine.Table) error {
	return lockTable(tx, t, s.TableWait())
}

func lockTable(tx *txn.Tx, t *sqlmachine.Table, wait txn.Wait) error {
	if err := tx.LockDefinition(t.ID, wait); err != nil {
		return err
	}
	return tx.CloseTable(t.ID, t.Version, wait)
}

// goal is what an ALTER TABLE makes of a table.
type goal struct {
	def      *definition
	database *sqlmachine.Database // of the table from then on
	name     string
	indexes  []sqlpart.Index
	// from has of each column the place that it has in the table now, -1 of a new one. Nil: all columns stay where they are.
	from []int
	// judge judges the rows that are there, with indexes built, before the goal is reached. The table stays as it is from then on. Nil: there is nothing to judge.
	judge func(t *sqlmachine.Table) error
	// nextAuto of the table; 0: it stays.
	nextAuto uint64
}

// alter gives a table another definition in a moment in which no other session uses it, and returns the table as it is then.
func (s *Session) alter(tx *txn.Tx, t *sqlmachine.Table, to goal, wait txn.Wait) (*sqlmachine.Table, error) {
	y := tx.Beside()
	defer y.Rollback()
	if err := lockTable(y, t, wait); err != nil {
		return nil, err
	}
	slices.SortFunc(to.indexes, func(a, b sqlpart.Index) int { return int(a.ID) - int(b.ID) })
	c := sqlpart.Change{Verb: sqlpart.AlterTable, Object: t.ID, Version: t.Version, Database: t.Database, Name: t.Name, Definition: to.def.append(nil), Indexes: to.indexes, NextAuto: to.nextAuto}
	if to.database != nil {
		c.Database, c.Name = to.database.ID, to.name
	}
	defined, err := change(y, c)
	if err != nil {
		return nil, err
	}
	altered := *t
	altered.Version, altered.Definition, altered.Indexes = defined.Version, c.Definition, c.Indexes
	altered.Database, altered.Name = c.Database, c.Name
	s.cat = nil
	return &altered, nil
}

// goesOn reports whether another leader can reach the goal. It cannot where rows are judged by what the statement alone knows, or where the next value of
// AUTO_INCREMENT was drawn from rows that others go on writing between the terms: then the indexes are dropped.
func (g *goal) goesOn() bool { return g.judge == nil && g.nextAuto == 0 }

// before is an index of the goal with the columns where they are now. Each of them is there.
func (g *goal) before(x *indexDef) indexDef {
	n := *x
	if g.from == nil {
		return n
	}
	n.parts = slices.Clone(n.parts)
	for i := range n.parts {
		n.parts[i].column = g.from[n.parts[i].column]
	}
	return n
}

// cleanWait is for how long a statement that was ended waits to take back what it has begun. The next statement that defines, and the next leader, do it where
// that is not enough.
const cleanWait = time.Second

// build adds the indexes of a goal that the table does not have, beside the statements that use it, and reaches the goal in one step in the end. If the leader
// changes meanwhile, the next one goes on (resume.go).
func (s *Session) build(ctx *sql.Context, tx *txn.Tx, databaseName string, t *sqlmachine.Table, was *definition, to goal) error {
	meanwhile, states, fresh := was.copy(), slices.Clone(t.Indexes), 0
	for i := range to.def.indexes {
		if x := &to.def.indexes[i]; x.id > was.lastIndex {
			fresh++
			meanwhile.indexes = append(meanwhile.indexes, to.before(x))
			states = append(states, sqlpart.Index{ID: x.id, State: sqlpart.Building})
		}
	}
	meanwhile.lastIndex = to.def.lastIndex
	if fresh == 0 {
		_, err := s.reach(tx, t, to)
		return err
	}
	building, err := s.alter(tx, t, goal{def: meanwhile, indexes: states}, s.TableWait())
	if err != nil {
		return err
	}
	noted := to.goesOn()
	if noted {
		if err = tx.WriteNotes(building, map[txn.Note][]byte{txn.GoalNote: to.note(building.Version), txn.PlaceNote: nil}); err != nil {
			noted = false
		}
	}
	if err == nil {
		_, err = s.finish(ctx, tx, databaseName, building, to, progress{})
	}
	switch {
	case err == nil:
		return nil
	case noted && errors.Is(err, txn.ErrTermOver):
		return errors.Join(errHandedOn, err)
	case endsTerm(err):
		return err
	}
	if _, e := s.takeBack(tx, databaseName, building, txn.Wait{Time: cleanWait}); e != nil && !errors.Is(e, txn.ErrLockTimeout) {
		return errors.Join(err, e)
	}
	return err
}

// errHandedOn is for the client of a build whose leader leads no more.
var errHandedOn = wire.Errorf(wire.ErrInterrupted, "Query execution was interrupted: the leader changed, and the next one goes on with the build; SHOW INDEX has the index when it is there")

// endsTerm reports whether an error says that the transaction is over, so that nothing can be taken back any more.
func endsTerm(err error) bool {
	return errors.Is(err, txn.ErrTermOver) || errors.Is(err, txn.ErrUnknown) || errors.Is(err, txn.ErrEnded)
}

// finish writes what is missing of the indexes that are Building, from a place on, and reaches the goal. It returns the table as it is then.
func (s *Session) finish(ctx *sql.Context, tx *txn.Tx, databaseName string, building *sqlmachine.Table, to goal, at progress) (*sqlmachine.Table, error) {
	for _, state := range building.Indexes { // in the order of their ids
		if state.State != sqlpart.Building || state.ID < at.index || state.ID == at.index && at.done {
			continue
		}
		var from []byte
		if state.ID == at.index {
			from = at.from
		}
		if err := s.fill(ctx, tx, databaseName, building, state.ID, from); err != nil {
			return nil, err
		}
	}
	reached, err := s.reach(tx, building, to)
	if err == nil {
		_ = tx.WriteNotes(reached, map[txn.Note][]byte{txn.GoalNote: nil, txn.PlaceNote: nil}) // they say nothing of a later version
	}
	return reached, err
}

// reach makes the table what the goal says, if its rows keep to that.
func (s *Session) reach(tx *txn.Tx, t *sqlmachine.Table, to goal) (*sqlmachine.Table, error) {
	if to.judge != nil {
		if err := to.judge(t); err != nil {
			return nil, err
		}
	}
	s.say("altering table")
	return s.alter(tx, t, to, s.TableWait())
}

// takeBack drops the indexes that are Building, and returns the table without them. The notes go first: if the table cannot be had in time, the next leader
// drops the indexes.
func (s *Session) takeBack(tx *txn.Tx, databaseName string, t *sqlmachine.Table, wait txn.Wait) (*sqlmachine.Table, error) {
	decoded, err := s.e.table(t, databaseName)
	if err != nil {
		return nil, err
	}
	if err := tx.WriteNotes(t, map[txn.Note][]byte{txn.GoalNote: nil, txn.PlaceNote: nil}); err != nil {
		return nil, err
	}
	return s.alter(tx, t, withoutHalfBuilt(t, decoded.def), wait)
}

// fill writes the entries of an index that is Building for the rows that are there, from a key on.
func (s *Session) fill(ctx *sql.Context, tx *txn.Tx, databaseName string, building *sqlmachine.Table, id uint64, from []byte) error {
	t, err := newTable(s.e, building, databaseName)
	if err != nil {
		return err
	}
	w := &t.all[slices.IndexFunc(t.all, func(w writtenIndex) bool { return w.def.id == id })]
	x := w.def
	decode := func(key, value []byte) (sql.Row, error) {
		r, err := t.decode(key, value)
		if err != nil {
			return nil, t.damaged(err)
		}
		return r, t.weighable(r)
	}
	err = tx.Backfill(&txn.Backfill{
		Table: func() *sqlmachine.Table { return building },
		Index: id,
		From:  from,
		Note:  func(next []byte) []byte { return progress{index: id, from: next, done: next == nil}.note() },
		Wait:  s.TableWait(),
		Entry: func(key, value []byte) (entry, entryValue []byte, sole bool, err error) {
			if err := ctx.Err(); err != nil {
				return nil, nil, false, err
			}
			r, err := decode(key, value)
			if err != nil {
				return nil, nil, false, err
			}
			e, err := t.entry(ctx, w, r, key)
			return e.key, e.value, e.sole, err
		},
		Progress: func(rows uint64) {
			s.say(fmt.Sprintf("building index %s: %d of about %d rows", x.name, rows, max(rows, building.Rows())))
		},
	})
	var twice *txn.Duplicate
	if !errors.As(err, &twice) {
		return err
	}
	r, err := decode(twice.Key, twice.Value)
	if err != nil {
		return err
	}
	return wire.Errorf(1062, "%s", t.duplicate(ctx, x.name, x.parts, r))
}

// say tells others what the statement does at present.
func (s *Session) say(state string) {
	if s.state != nil {
		s.state(state)
	}
}

// leftHalfBuilt reports whether indexes of a table are Building. A caller that has the definition locked knows that no session builds them.
func leftHalfBuilt(t *sqlmachine.Table) bool {
	return slices.ContainsFunc(t.Indexes, func(x sqlpart.Index) bool { return x.State == sqlpart.Building })
}

// withoutHalfBuilt is a table's definition without the indexes that are Building, and the others.
func withoutHalfBuilt(t *sqlmachine.Table, def *definition) goal {
	g := goal{def: def.copy(), indexes: []sqlpart.Index{}}
	for _, x := range t.Indexes {
		if x.State == sqlpart.Public {
			g.indexes = append(g.indexes, x)
			continue
		}
		g.def.indexes = slices.DeleteFunc(g.def.indexes, func(d indexDef) bool { return d.id == x.ID })
	}
	return g
}
