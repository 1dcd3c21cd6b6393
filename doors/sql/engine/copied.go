package engine

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/types"

	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/doors/sql/lock"
	sqlmachine "github.com/holdfastdb/holdfast/doors/sql/machine"
	sqlpart "github.com/holdfastdb/holdfast/doors/sql/part"
	"github.com/holdfastdb/holdfast/doors/sql/txn"
	"github.com/holdfastdb/holdfast/doors/sql/wire"
	"github.com/holdfastdb/holdfast/internal/tuple"
)

// A copy makes the changes of rows that a definition cannot express. It is a second table, which no client sees. It is filled from the first one while
// others read that and none writes it. One command drops the first and gives the second its name. A copy that is left over is dropped whole.
// To rewrite rows where they are was rejected: half of it would be left where it ends early.

// copyName is the name of a copy. No client can give a table such a name, because it ends with a space.
func copyName(id uint64) string { return fmt.Sprintf("%s%d ", copyPrefix, id) }

const copyPrefix = "#copy-of-"

func isCopy(name string) bool {
	return strings.HasPrefix(name, copyPrefix) && strings.HasSuffix(name, " ")
}

// tableOf is a table that clients see, nil: there is none, or no database.
func tableOf(d *sqlmachine.Database, name string) *sqlmachine.Table {
	if d == nil || isCopy(name) {
		return nil
	}
	return d.Table(name)
}

// carryOut reaches the goal of an ALTER TABLE: by the definition alone where that is enough.
func (s *Session) carryOut(ctx *sql.Context, tx *txn.Tx, a *alteration) error {
	defer func() { s.altered = nil }()
	builds := false
	for i := range a.def.indexes {
		x := &a.def.indexes[i]
		if x.id <= a.t.def.lastIndex {
			continue
		}
		builds = true
		for _, p := range x.parts {
			a.anew = a.anew || a.columns[p.column].from < 0 // rows have no such column before the goal is reached
		}
	}
	if err := a.judgeAlgorithm(builds); err != nil {
		return err
	}
	if a.anew && a.def.generates() {
		if err := s.judgeExpressions(ctx, a.def, a.t.database, a.t.t.Name); err != nil {
			return err
		}
	}
	if a.anew {
		return s.copyTable(ctx, tx, a)
	}
	if len(a.notNull)+len(a.newChecks) > 0 || a.newForeign > 0 && s.foreignChecks() {
		a.judge = func(t *sqlmachine.Table) error { return a.judgeRows(tx, t) }
	}
	if a.nextAuto != 0 {
		if err := a.raiseAuto(tx); err != nil {
			return err
		}
	}
	return s.build(ctx, tx, a.t.database, a.t.t, a.t.def, a.goal)
}

// standIn is the table as rows are judged by it: t with the definition of the goal, and with no constraint that the rows have kept to before.
func (a *alteration) standIn(t sqlmachine.Table) (*table, error) {
	t.Name = a.t.t.Name
	x, err := newTable(a.s.e, &t, a.t.database)
	if err != nil {
		return nil, err
	}
	if x.def.foreign = x.def.foreign[len(x.def.foreign)-a.newForeign:]; !a.s.foreignChecks() {
		x.def.foreign = nil
	}
	a.s.altered = x
	return x, nil
}

// judgeRows judges the rows that are there by what the goal has and the table has not. No session writes the table from then on. Errors: 1138, 1452, 3819.
func (a *alteration) judgeRows(tx *txn.Tx, t *sqlmachine.Table) error {
	if err := tx.ShareTable(t.ID, t.Version, a.s.TableWait()); err != nil {
		return err
	}
	goal := *t
	goal.Version, goal.Definition, goal.Indexes = ^uint64(0), a.def.append(nil), slices.Clone(a.indexes)
	x, err := a.standIn(goal)
	if err != nil {
		return err
	}
	x.def.checks = slices.DeleteFunc(x.def.checks, func(c checkDef) bool { return !slices.Contains(a.newChecks, c.name) })
	defer clear(a.s.checks)
	e := &editor{t: &tableView{table: x, how: plainRead, columns: x.schema}, s: a.s}
	return a.eachRow(tx, t, x, func(y *txn.Tx, r sql.Row) error {
		for _, i := range a.notNull {
			if r[i] == nil {
				return nullValue
			}
		}
		if err := e.check(a.ctx, r); err != nil {
			return err
		}
		return e.judgeParents(a.ctx, y, nil, r)
	})
}

// eachRow has all rows of a table judged. t is the table, and x is how they are decoded.
func (a *alteration) eachRow(tx *txn.Tx, t *sqlmachine.Table, x *table, judge func(y *txn.Tx, r sql.Row) error) error {
	return tx.Pieces(&txn.Pieces{
		Table: t.ID, Version: t.Version, Wait: a.s.TableWait(),
		Row: func(y *txn.Tx, key, value []byte) error {
			if err := a.ctx.Err(); err != nil {
				return err
			}
			r, err := x.decode(key, value)
			if err != nil {
				return x.damaged(err)
			}
			defer a.s.in(y)()
			return judge(y, r)
		},
		Done: func(rows uint64) {
			a.s.say(fmt.Sprintf("checking rows: %d of about %d", rows, max(rows, t.Rows())))
		},
	})
}

var nullValue = wire.Errorf(1138, "Invalid use of NULL value")

// in has the tables that a row leads to used by the transaction of its piece. It returns what ends that.
func (s *Session) in(y *txn.Tx) (out func()) {
	tx, used := s.tx, len(s.used)
	s.tx = y
	return func() { s.tx, s.used = tx, s.used[:used] }
}

// raiseAuto has AUTO_INCREMENT go on behind the values that the rows have.
func (a *alteration) raiseAuto(tx *txn.Tx) error {
	t := a.t
	switch {
	case t.auto < 0:
		a.nextAuto = 0
		return nil
	}
	if err := tx.ShareTable(t.t.ID, t.t.Version, a.s.TableWait()); err != nil { // a transaction that has written a larger value has committed it
		return err
	}
	x := t.keyFor([]int{t.auto})
	switch {
	case a.nextAuto >= t.t.NextAuto():
		return nil
	case x == nil:
		a.nextAuto = 0
		return nil
	}
	it, err := tx.ScanNewest(t.t.ID, x.id, nil, nil)
	if err != nil {
		return err
	}
	defer it.Close()
	if !it.Last() {
		return it.Error()
	}
	if n, _, err := tuple.Uint(it.Key()[sqlmachine.PrefixBytes:]); err == nil { // no value below 0 is followed
		a.nextAuto = max(a.nextAuto, n+1)
	}
	return nil
}

// copyTable writes the rows into a copy of the table, which takes its place.
func (s *Session) copyTable(ctx *sql.Context, tx *txn.Tx, a *alteration) error {
	t := a.t.t
	if s.locked != nil { // they are locked by their ids, and a copy has another one
		return wire.Errorf(1192, "Can't execute the given command because you have active locked tables or an active transaction")
	}
	if err := tx.ShareTable(t.ID, t.Version, s.TableWait()); err != nil {
		return err
	}
	s.cat = nil
	d := s.catalogue().Database(a.t.database)
	if left := d.Table(copyName(t.ID)); left != nil { // no session fills it: the definition is locked
		if err := dropCopy(tx, left); err != nil {
			return err
		}
	}
	a.numberIndexes()
	def := a.def.copy()
	def.first, def.places = 0, nil
	final := def.append(nil)
	def.copyOf = t.ID
	y := tx.Beside()
	_, err := change(y, sqlpart.Change{Verb: sqlpart.CreateTable, Database: t.Database, Name: copyName(t.ID), Definition: def.append(nil), Indexes: a.indexes})
	y.Rollback()
	if err != nil {
		return err
	}
	s.cat = nil
	to := s.catalogue().Database(a.t.database).Table(copyName(t.ID))
	if to == nil {
		return txn.ErrTermOver
	}
	next, err := a.copyRows(tx, to)
	if err == nil {
		s.say("altering table")
		c := sqlpart.Change{Verb: sqlpart.AlterTable, Object: to.ID, Version: to.Version, Database: t.Database, Name: t.Name, Definition: final, Indexes: a.indexes, NextAuto: next}
		if a.database != nil {
			c.Database, c.Name = a.database.ID, a.name
		}
		err = s.swap(tx, t, c)
	}
	if err == nil || errors.Is(err, txn.ErrTermOver) || errors.Is(err, txn.ErrUnknown) || errors.Is(err, txn.ErrEnded) {
		return err
	}
	if e := dropCopy(tx, to); e != nil {
		return errors.Join(err, e)
	}
	return err
}

// numberIndexes gives the indexes of a copy, which has had no others, the first ids that there are.
func (a *alteration) numberIndexes() {
	a.indexes = make([]sqlpart.Index, len(a.def.indexes))
	for i := range a.def.indexes {
		id := uint64(i + 1)
		a.def.indexes[i].id, a.indexes[i] = id, sqlpart.Index{ID: id, State: sqlpart.Public}
	}
	a.def.lastIndex = uint64(len(a.def.indexes))
}

// swap drops a table and has its copy take its place, in a moment in which no session uses it.
func (s *Session) swap(tx *txn.Tx, t *sqlmachine.Table, c sqlpart.Change) error {
	y := tx.Beside()
	defer y.Rollback()
	if err := lockTable(y, t, s.TableWait()); err != nil {
		return err
	}
	err := whenMoved(s.interrupt, func() error {
		_, err := change(y, sqlpart.Change{Verb: sqlpart.DropTable, Object: t.ID, Version: t.Version}, c)
		return err
	})
	s.cat = nil
	return err
}

// moveEvery is how long a change of a table waits that has rows on their way to their places. A row larger than a stage has come to the copy so.
const moveEvery = 20 * time.Millisecond

// whenMoved tries a change again while a table has such rows.
func whenMoved(interrupt <-chan struct{}, try func() error) error {
	for {
		err := try()
		var r *entry.Rejection
		if !errors.As(err, &r) || r.Code != sqlpart.TableMoving {
			return err
		}
		select {
		case <-interrupt:
			return txn.ErrInterrupted
		case <-time.After(moveEvery):
		}
	}
}

// dropCopy drops a copy that no session fills.
func dropCopy(tx *txn.Tx, t *sqlmachine.Table) error {
	y := tx.Beside()
	defer y.Rollback()
	return whenMoved(nil, func() error {
		_, err := change(y, sqlpart.Change{Verb: sqlpart.DropTable, Object: t.ID, Version: t.Version})
		return err
	})
}

// dropLeftCopy drops a copy, unless a session fills it: that one has locked the definition of the table that is copied.
func (e *Engine) dropLeftCopy(databaseName string, t *sqlmachine.Table, begin func() (*txn.Tx, error)) error {
	def, err := decodeDefinition(t.Definition)
	if err != nil {
		return err
	}
	tx, err := begin()
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := tx.LockDefinition(def.copyOf, txn.Wait{Time: -1}); err != nil {
		return err
	}
	d := e.opt.Catalogue().Database(databaseName)
	if d == nil {
		return nil
	}
	if now := d.Table(t.Name); now != nil && now.ID == t.ID {
		return dropCopy(tx, now)
	}
	return nil
}

// copyRows writes all rows into the copy, and returns the next value of AUTO_INCREMENT; 0: there is no such column. Errors: those of a statement that stores the
// values; 1062, 1138, 1292, 1452, 3819.
func (a *alteration) copyRows(tx *txn.Tx, to *sqlmachine.Table) (next uint64, err error) {
	s, from := a.s, a.t.t
	x, err := a.standIn(*to)
	if err != nil {
		return 0, err
	}
	e := &editor{t: &tableView{table: x, how: plainRead, columns: x.schema}, s: s}
	c, err := a.copier(x, e)
	if err != nil {
		return 0, err
	}
	foreign := x.def.foreign
	x.def.foreign = nil // a row's parent may be copied behind it
	wait := s.TableWait()
	done, most := uint64(0), c.most
	err = tx.Pieces(&txn.Pieces{
		Table: from.ID, Version: from.Version, Wait: wait,
		Use: func(y *txn.Tx) error { return y.UseTable(to.ID, to.Version, lock.IntentExclusive, wait) },
		Row: func(y *txn.Tx, key, value []byte) error {
			if err := a.ctx.Err(); err != nil {
				return err
			}
			was, err := a.t.decode(key, value)
			if err != nil {
				return a.t.damaged(err)
			}
			s.row++
			r, err := c.row(was)
			if err != nil {
				return err
			}
			if err := x.weighable(r); err != nil {
				return err
			}
			if err := e.check(a.ctx, r); err != nil {
				return err
			}
			if x.hasNumbers() {
				n, err := y.NextRow(to.ID)
				if err != nil {
					return err
				}
				key = tuple.AppendUint(nil, n)
			} else if key, err = x.primaryKey(a.ctx, r); err != nil {
				return err
			}
			defer s.in(y)()
			return e.insert(a.ctx, y, key, r, nil)
		},
		Again: func() { s.row, c.most = int(done), most },
		Done: func(rows uint64) {
			done, most = rows, c.most
			s.say(fmt.Sprintf("copying table: %d of about %d rows", rows, max(rows, from.Rows())))
		},
	})
	if err == nil && len(foreign) > 0 {
		x.def.foreign = foreign
		err = a.eachRow(tx, to, x, func(y *txn.Tx, r sql.Row) error { return e.judgeParents(a.ctx, y, nil, r) })
	}
	if err != nil || x.auto < 0 {
		return 0, err
	}
	next = c.most + 1
	if a.nextAuto > 0 {
		next = max(next, a.nextAuto)
	} else if a.columns[x.auto].from == a.t.auto && a.t.auto >= 0 {
		next = max(next, from.NextAuto())
	}
	return next, nil
}

// copier makes rows of the goal from those of the table.
type copier struct {
	a       *alteration
	x       *table
	e       *editor
	values  []any            // of new columns, where all rows have one
	convert []sql.Expression // of a row of the table; nil: the value stays
	compute []sql.Expression // of a row of the goal; nil: it is there before
	gives   bool             // the column of AUTO_INCREMENT gets a value where it has none
	most    uint64           // the largest value of AUTO_INCREMENT so far
}

func (a *alteration) copier(x *table, e *editor) (*copier, error) {
	c := &copier{a: a, x: x, e: e, values: make([]any, len(a.columns)), convert: make([]sql.Expression, len(a.columns)), compute: make([]sql.Expression, len(a.columns))}
	for i := range a.columns {
		n := &a.columns[i]
		t := x.schema.Schema[i].Type
		switch {
		case n.gen != "": // the editor computes it
		case n.from >= 0:
			was := a.t.schema.Schema[n.from]
			if !keeps(was.Type, a.t.def.columns[n.from].digits, t, n.digits) {
				v := &assigned{column: n.name, typ: t, digits: n.digits}
				v.Child = expression.NewGetField(n.from, was.Type, was.Name, was.Nullable)
				c.convert[i] = v
			}
			c.gives = c.gives || n.auto && !a.t.def.columns[n.from].auto
		case n.auto:
			c.gives = true
		case !n.computed:
			v, err := a.constant(n)
			if err != nil {
				return nil, err
			}
			c.values[i] = v
		}
	}
	return c, a.computing(c)
}

// computing plans the defaults of new columns that each row computes.
func (a *alteration) computing(c *copier) error {
	for i := range a.columns {
		n := &a.columns[i]
		if n.from >= 0 || !n.computed || n.auto || n.gen != "" || !n.hasDef {
			continue
		}
		all, err := a.s.plannedExpressions(a.ctx, c.x.database, c.x.t.Name, []string{n.def})
		if err != nil {
			return err
		}
		v := &assigned{column: n.name, typ: c.x.schema.Schema[i].Type, digits: n.digits}
		v.Child = all[0]
		c.compute[i] = v
	}
	return nil
}

// row makes a row.
func (c *copier) row(was sql.Row) (sql.Row, error) {
	a, err := c.a, error(nil)
	r := make(sql.Row, len(a.columns), len(a.columns)+1)
	for i := range a.columns {
		switch n := &a.columns[i]; {
		case n.from < 0:
			r[i] = c.values[i]
		case c.convert[i] == nil:
			r[i] = was[n.from]
		default:
			if r[i], err = c.converted(i, was); err != nil {
				return nil, err
			}
		}
	}
	for i, e := range c.compute {
		if e != nil {
			if r[i], err = e.Eval(a.ctx, r); err != nil {
				return nil, err
			}
		}
	}
	if auto := c.x.auto; auto >= 0 {
		if r[auto], err = c.auto(r[auto]); err != nil {
			return nil, err
		}
	}
	if err := c.e.generate(a.ctx, r); err != nil {
		return nil, err
	}
	for i := range a.columns {
		if n := &a.columns[i]; r[i] == nil && !n.nullable {
			if n.from < 0 && !n.hasDef {
				kind, zero := "datetime", "0000-00-00 00:00:00"
				if types.IsDateType(c.x.schema.Schema[i].Type) {
					kind, zero = "date", "0000-00-00"
				}
				return nil, wire.Errorf(1292, "Incorrect %s value: '%s' for column '%s' at row %d", kind, zero, n.name, a.s.row)
			}
			if a.typed {
				return nil, wire.Errorf(1265, "Data truncated for column '%s' at row %d", n.name, a.s.row)
			}
			return nil, nullValue
		}
	}
	return r, nil
}

// converted is the value of a column whose type changes. A text that is too long would be cut without a client's wish: that is 1265 here, and 1406 where a client stores it.
func (c *copier) converted(i int, was sql.Row) (any, error) {
	v, err := c.convert[i].Eval(c.a.ctx, was)
	if err == nil && v != nil {
		var in sql.ConvertInRange
		if v, in, err = c.x.schema.Schema[i].Type.Convert(c.a.ctx, v); err == nil && in != sql.InRange {
			err = wire.Errorf(1264, "Out of range value for column '%s' at row %d", c.a.columns[i].name, c.a.s.row)
		}
	}
	var own *wire.Error
	if errors.As(err, &own) && own.Code == 1406 || types.ErrLengthBeyondLimit.Is(err) {
		err = wire.Errorf(1265, "Data truncated for column '%s' at row %d", c.a.columns[i].name, c.a.s.row)
	}
	return v, err
}

// auto is the value of AUTO_INCREMENT of a row.
func (c *copier) auto(v any) (any, error) {
	n := uint64(0)
	if v != nil {
		u, _, err := types.Uint64.Convert(c.a.ctx, v)
		if err == nil {
			n, _ = u.(uint64)
		}
		if i, ok := integer(v); ok && i < 0 {
			return v, nil
		}
	}
	if n == 0 && c.gives {
		n = c.most + 1
		t := c.x.schema.Schema[c.x.auto].Type
		given, in, err := t.Convert(c.a.ctx, n)
		if err != nil || in != sql.InRange {
			return nil, wire.Errorf(1467, "Failed to read auto-increment value from storage engine")
		}
		v = given
	}
	c.most = max(c.most, n)
	return v, nil
}
