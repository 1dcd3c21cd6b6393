package engine

import (
	"context"
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

// own finds a table, and lets nobody else change its definition until the transaction ends. Others go on with its rows: the caller closes the table
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

// alter gives a table another definition in a moment in which nobody else uses it, and returns the table as it is then.
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

// build adds the indexes of a goal that the table does not have, beside the statements that use it, and reaches the goal in one step in the end. If the member
// ends meanwhile, the next leader drops the indexes (Engine.Clean).
func (s *Session) build(ctx *sql.Context, tx *txn.Tx, databaseName string, t *sqlmachine.Table, was *definition, to goal) error {
	meanwhile, fresh := was.copy(), []*indexDef{}
	states := slices.Clone(t.Indexes)
	for i := range to.def.indexes {
		if x := &to.def.indexes[i]; x.id > was.lastIndex {
			fresh = append(fresh, x)
			meanwhile.indexes = append(meanwhile.indexes, to.before(x))
			states = append(states, sqlpart.Index{ID: x.id, State: sqlpart.Building})
		}
	}
	meanwhile.lastIndex = to.def.lastIndex
	building, err := t, error(nil)
	if len(fresh) > 0 {
		if building, err = s.alter(tx, t, goal{def: meanwhile, indexes: states}, s.TableWait()); err != nil {
			return err
		}
	}
	for _, x := range fresh {
		if err == nil {
			err = s.fill(ctx, tx, databaseName, building, x)
		}
	}
	if err == nil && to.judge != nil {
		err = to.judge(building)
	}
	if err == nil {
		s.say("altering table")
		_, err = s.alter(tx, building, to, s.TableWait())
	}
	if err == nil || len(fresh) == 0 || errors.Is(err, txn.ErrTermOver) || errors.Is(err, txn.ErrUnknown) || errors.Is(err, txn.ErrEnded) {
		return err
	}
	without := was.copy()
	without.lastIndex = to.def.lastIndex
	if _, e := s.alter(tx, building, goal{def: without, indexes: slices.Clone(t.Indexes)}, txn.Wait{Time: cleanWait}); e != nil && !errors.Is(e, txn.ErrLockTimeout) {
		return errors.Join(err, e)
	}
	return err
}

// fill writes the entries of an index that is Building for the rows that are there.
func (s *Session) fill(ctx *sql.Context, tx *txn.Tx, databaseName string, building *sqlmachine.Table, x *indexDef) error {
	t, err := newTable(s.e, building, databaseName)
	if err != nil {
		return err
	}
	w := &t.all[slices.IndexFunc(t.all, func(w writtenIndex) bool { return w.def.id == x.id })]
	decode := func(key, value []byte) (sql.Row, error) {
		r, err := t.decode(key, value)
		if err != nil {
			return nil, t.damaged(err)
		}
		return r, t.weighable(r)
	}
	err = tx.Backfill(&txn.Backfill{
		Table: func() *sqlmachine.Table { return building },
		Index: x.id,
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

// leftHalfBuilt reports whether indexes of a table are Building. Whoever has the definition locked knows that nobody builds them.
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

// Clean drops indexes that a leader left half built, tables that it left half copied, and those of statements that could not take back what they had begun. The door calls it in each term,
// beside the clients: no statement reads such an index, and who builds one has its definition locked.
func (e *Engine) Clean(ctx context.Context, begin func() (*txn.Tx, error)) error {
	for _, d := range e.opt.Catalogue().Databases() {
		for _, t := range d.Tables() {
			if isCopy(t.Name) {
				if err := e.dropLeftCopy(d.Name, t, begin); err != nil {
					return err
				}
				continue
			}
			if !leftHalfBuilt(t) {
				continue
			}
			if err := e.dropHalfBuilt(d.Name, t.ID, begin); err != nil {
				return err
			}
		}
	}
	return nil
}

func (e *Engine) dropHalfBuilt(databaseName string, id uint64, begin func() (*txn.Tx, error)) error {
	tx, err := begin()
	if err != nil {
		return err
	}
	defer tx.Rollback()
	forEver := txn.Wait{Time: -1}
	if err := tx.LockDefinition(id, forEver); err != nil {
		return err
	}
	d := e.opt.Catalogue().Database(databaseName)
	if d == nil {
		return nil
	}
	for _, t := range d.Tables() {
		if t.ID != id || !leftHalfBuilt(t) {
			continue
		}
		decoded, err := e.table(t, databaseName)
		if err != nil {
			return err
		}
		s := e.NewSession(Client{})
		_, err = s.alter(tx, t, withoutHalfBuilt(t, decoded.def), forEver)
		return err
	}
	return nil
}
