package engine

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/cockroachdb/apd/v3"
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/planbuilder"
	"github.com/dolthub/go-mysql-server/sql/transform"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/sqltypes"

	"github.com/holdfastdb/holdfast/doors/sql/executor"
	"github.com/holdfastdb/holdfast/doors/sql/lock"
	"github.com/holdfastdb/holdfast/doors/sql/row"
	"github.com/holdfastdb/holdfast/doors/sql/txn"
	"github.com/holdfastdb/holdfast/doors/sql/wire"
)

// direct runs a statement by the executor, without the library. ok false: nothing was done but locks that the statement takes anyhow, and the planner has it.
func (s *Session) direct(ctx context.Context, st *Statement, params []wire.Param, begin func() (*txn.Tx, error), to *wire.Answer) (out Outcome, ok bool, err error) {
	shape := st.shape
	reads := shape.Verb == executor.Select
	if s.e.opt.NoExecutor || len(params) != st.params || !s.set().simple || reads && s.shares {
		return out, false, nil
	}
	databaseName, mode := shape.Database, lock.Metadata
	if databaseName == "" {
		databaseName = s.GetCurrentDatabase()
	}
	if databaseName = nameOf(databaseName); databaseName == "" || databaseName == sql.InformationSchemaDatabaseName || !s.mayUse(databaseName) {
		return out, false, nil
	}
	if !reads || shape.Locks() {
		mode = lock.IntentExclusive
	}
	s.begin, s.tx, s.cat, s.values, s.used = begin, nil, nil, nil, s.used[:0]
	s.reads.rows, s.reads.entries = 0, 0
	s.interrupt, s.digits = ctx.Done(), nil
	s.kept.begin(&s.e.pool, s.e.mostKept())
	s.verb = verbOf(st.ast)
	defer func() {
		if p := recover(); p != nil { // a statement must not end the server
			ok, err = true, wire.Errorf(wire.ErrUnknown, "internal error in the SQL engine: %v", p)
		}
		s.begin, s.cat = nil, nil
		s.kept.end()
		if err != nil {
			err = mysqlError(st.Text, s.GetCurrentDatabase(), err)
		}
	}()
	t, err := s.useTable(databaseName, shape.Table, mode)
	if t == nil || err != nil {
		return out, isTransaction(err), err // the planner has words for the others
	}
	x, err := s.e.table(t, databaseName)
	if err != nil || x.direct == nil {
		return out, false, nil
	}
	if shape.Verb == executor.Update || shape.Verb == executor.Delete {
		if all, err := s.referencesTo(databaseName, t.Name); err != nil || len(all) > 0 {
			return out, false, nil
		}
	}
	with, ok, err := s.second(shape)
	if !ok || err != nil {
		return out, isTransaction(err), err
	}
	p, err := s.programOf(ctx, st, x, with, params)
	if p == nil || err != nil {
		return out, false, nil // the planner says what is wrong
	}
	if s.tx == nil {
		return out, false, nil
	}
	r := &s.run
	r.Ctx, r.Tx, r.Params, r.To, r.Reads, r.Entries = ctx, s.tx, params, to, 0, 0
	r.Wait = txn.Wait{Time: s.set().rowWait, Interrupt: ctx.Done()}
	r.FoundRows, r.GivesBack, r.Ranges = s.foundRows, s.level.EachStatement(), s.level == Serializable
	if r.Keep == nil {
		r.Keep, r.Open = func(bytes int) error { return s.kept.add(bytes) }, s.snapshot
	}
	s.ClearWarnings()
	did, ok, err := r.Execute(p, shape)
	r.Ctx, r.Tx, r.Params, r.To = nil, nil, nil, nil
	s.reads.rows, s.reads.entries = r.Reads, r.Entries
	s.read.rows, s.read.entries = s.read.rows+r.Reads, s.read.entries+r.Entries
	if !ok || err != nil {
		return Outcome{Rows: did.Rows}, ok || err != nil, err
	}
	s.e.directed.Add(1)
	last := s.GetLastQueryInfo()
	if reads {
		last.RowCount.Store(-1)
		last.FoundRows.Store(did.Found)
		return Outcome{Rows: true, Sent: uint64(did.Found)}, true, nil
	}
	last.RowCount.Store(int64(did.Affected))
	if shape.Verb == executor.Update {
		last.FoundRows.Store(did.Found)
	}
	if did.Generated != 0 {
		last.LastInsertId.Store(int64(did.Generated))
	}
	out.Done = wire.Done{Affected: did.Affected, InsertID: did.InsertID, Info: did.Info}
	return out, true, nil
}

// second opens the second table of a statement. Nil: it has one. ok false: the planner has it.
func (s *Session) second(shape *executor.Shape) (x *table, ok bool, err error) {
	databaseName, name, two := shape.Second()
	if !two {
		return nil, true, nil
	}
	if databaseName == "" {
		databaseName = s.GetCurrentDatabase()
	}
	if databaseName = nameOf(databaseName); databaseName == "" || databaseName == sql.InformationSchemaDatabaseName || !s.mayUse(databaseName) {
		return nil, false, nil
	}
	t, err := s.useTable(databaseName, name, lock.Metadata)
	if t == nil || err != nil {
		return nil, false, err
	}
	x, err = s.e.table(t, databaseName)
	if err != nil || x.direct == nil {
		return nil, false, nil
	}
	return x, true, nil
}

// boundProgram is a statement's program for one definition of its table.
type boundProgram struct {
	t, with *table
	results sql.CharacterSetID // of the session
	p       *executor.Program  // nil: the shape does not bind
}

// programOf returns the program of a statement. Nil: there is none.
func (s *Session) programOf(ctx context.Context, st *Statement, t, with *table, params []wire.Param) (*executor.Program, error) {
	results := s.set().results
	if b := st.bound.Load(); b != nil && b.t == t && b.with == with && b.results == results {
		return b.p, nil
	}
	var second *executor.Table
	if with != nil {
		second = with.direct
	}
	p, err := t.direct.Bind(st.shape, second, int(results), func() (executor.Answer, error) { return s.answerOf(ctx, st, params) })
	if err != nil {
		return nil, err
	}
	st.bound.Store(&boundProgram{t, with, results, p})
	return p, nil
}

// answerOf is a statement's result as the planner has it. It takes no locks.
func (s *Session) answerOf(ctx context.Context, st *Statement, params []wire.Param) (a executor.Answer, err error) {
	begin, tx, used := s.begin, s.tx, s.used
	s.begin, s.used = nil, nil
	defer func() { s.begin, s.tx, s.used = begin, tx, used }()
	c := s.context(ctx, st.Text)
	b := planbuilder.New(c, s.e.sql.Analyzer.Catalog, nil)
	if err := s.bind(c, b, params); err != nil {
		return a, err
	}
	node, flags, err := bound(c, b, st.ast, st.Text)
	if err != nil {
		return a, err
	}
	if node, err = s.e.sql.Analyzer.Analyze(c, node, nil, flags); err != nil {
		return a, err
	}
	reads := 0
	transform.InspectWithOpaque(c, node, func(_ *sql.Context, n sql.Node) bool {
		switch t := n.(type) {
		case *plan.IndexedTableAccess:
			a.Index = t.Index().ID()
			reads++
			return false
		case *plan.ResolvedTable:
			reads++
		}
		return true
	})
	tables := 1
	if _, _, two := st.shape.Second(); two {
		tables = 2
	}
	if reads != tables {
		return a, errNoTable
	}
	a.Columns = columnsOf(c, node.Schema(c))
	return a, nil
}

// errNoTable: the planner knows without a look at the table what a statement finds with these values.
var errNoTable = errors.New("the plan reads no table, or several")

// Directed is how many statements the executor has run.
func (e *Engine) Directed() uint64 { return e.directed.Load() }

// executable returns a table as the executor has it. Nil: it leaves the table to the planner.
func (t *table) executable() *executor.Table {
	d := t.def
	if d.copyOf != 0 {
		return nil
	}
	x := &executor.Table{ID: t.t.ID, Name: t.t.Name, Layout: t.layout.rows, Auto: t.auto, Rows: executor.Index{Name: "PRIMARY", Unique: true, Public: true},
		Writes: len(d.checks)+len(d.foreign)+len(t.weighed) == 0 && !d.generates()}
	for k := range d.primary {
		x.Rows.Parts = append(x.Rows.Parts, executor.IndexPart{Column: d.primary[k].column, Prefix: d.primary[k].prefix, Part: &t.layout.primary[k]})
	}
	for i := range d.columns {
		typ := t.schema.Schema[i].Type
		c := executor.Column{Name: d.columns[i].name, Type: typ.String(), Kind: t.layout.rows.ValueKind(i), Nullable: d.columns[i].nullable, Default: d.columns[i].hasDef}
		switch c.Kind {
		case row.Int, row.Uint:
			c.Bits = bitsOf(typ)
		case row.Text:
			text, ok := typ.(sql.StringType)
			if !ok || types.IsEnum(typ) || types.IsSet(typ) {
				return nil
			}
			if text.Type() == sqltypes.Text {
				c.Bytes = int(min(text.MaxByteLength(), 1<<31-1))
			} else {
				c.Chars, c.Trims = int(text.MaxCharacterLength()), text.Type() == sqltypes.Char
			}
			c.Order = row.NewOrder(text.Collation())
		case row.Decimal, row.Moment:
			t.assigns(&c, i, typ)
		}
		x.Writes = x.Writes && d.columns[i].onUpdate == ""
		x.Columns = append(x.Columns, c)
	}
	for i := range t.all {
		w := &t.all[i]
		n := executor.Index{ID: w.def.id, Name: w.def.name, Unique: w.def.unique,
			Public: slices.ContainsFunc(t.indexes, func(r *index) bool { return r.id == w.def.id && r.id != 0 })}
		for k := range w.def.parts {
			n.Parts = append(n.Parts, executor.IndexPart{Column: w.def.parts[k].column, Prefix: w.def.parts[k].prefix, Part: &t.layout.indexes[w.parts][k]})
		}
		x.Indexes = append(x.Indexes, n)
	}
	return x
}

// assigns gives the executor what a column of decimals or moments does with values.
func (t *table) assigns(c *executor.Column, i int, typ sql.Type) {
	rows, a := t.layout.rows, &assigned{column: c.Name, typ: typ}
	c.Assign = func(v any) (row.Value, bool) {
		stored, problem := a.convert(nil, v, nil)
		if problem != nil {
			return row.Value{}, false
		}
		value, err := rows.Store(i, stored)
		return value, err == nil
	}
	c.Text = func(v row.Value) string {
		if v.Kind == row.Moment {
			return textOf(sql.NewEmptyContext(), typ, time.UnixMicro(v.Int).UTC())
		}
		d, err := rows.DecimalValue(i, v.Bytes)
		if err != nil {
			return "?"
		}
		return textOf(sql.NewEmptyContext(), typ, d)
	}
	if d, ok := typ.(sql.DecimalType); ok && c.Kind == row.Decimal {
		addsDecimals(c, rows, i, int(d.Precision()), int(d.Scale()))
	}
}

// addsDecimals gives the executor the sums of a column of decimals, and quick ways for those of few digits.
func addsDecimals(c *executor.Column, rows *row.Layout, i, precision, scale int) {
	store := func(n int64, ok bool) (row.Value, bool) {
		if !ok {
			return row.Value{}, false
		}
		stored, ok := row.StoredScaled(n, precision)
		return row.Value{Kind: row.Decimal, Bytes: stored}, ok
	}
	assign := c.Assign
	c.Assign = func(v any) (stored row.Value, ok bool) {
		switch n := v.(type) {
		case float64:
			stored, ok = store(row.ScaledOf(n, scale))
		case int64:
			stored, ok = store(row.UnitsOf(n, scale))
		}
		if ok {
			return stored, true
		}
		return assign(v)
	}
	c.Sum = func(own row.Value, v any, taken bool) (row.Value, bool) {
		units, few := row.ScaledIn(own.Bytes)
		var by *apd.Decimal
		switch n := v.(type) {
		case float64: // the sum of a DECIMAL and a DOUBLE is a DOUBLE
			f, ok := row.FloatOf(units, scale)
			if !few || !ok {
				d, err := rows.DecimalValue(i, own.Bytes)
				if err == nil {
					f, err = d.Float64()
				}
				if err != nil {
					return own, false
				}
			}
			if taken {
				n = -n
			}
			if f += n; math.IsNaN(f) || math.IsInf(f, 0) {
				return own, false
			}
			return c.Assign(f)
		case int64:
			if by, ok := row.UnitsOf(n, scale); few && ok {
				if taken {
					by = -by
				}
				return store(units+by, true)
			}
			by = apd.New(n, 0)
		case uint64:
			by = apd.NewWithBigInt(new(apd.BigInt).SetUint64(n), 0)
		default:
			return own, false
		}
		d, err := rows.DecimalValue(i, own.Bytes)
		if err != nil {
			return own, false
		}
		var sum apd.Decimal
		add := wide.Add
		if taken {
			add = wide.Sub
		}
		if _, err := add(&sum, d, by); err != nil {
			return own, false
		}
		return c.Assign(&sum)
	}
}
