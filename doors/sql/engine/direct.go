package engine

import (
	"context"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/planbuilder"
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
	if !reads {
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
	p, err := s.programOf(ctx, st, x, params)
	if p == nil || err != nil {
		return out, false, nil // the planner says what is wrong
	}
	if s.tx == nil {
		return out, false, nil
	}
	r := &s.run
	r.Ctx, r.Tx, r.Params, r.To, r.Reads = ctx, s.tx, params, to, 0
	r.Wait = txn.Wait{Time: s.set().rowWait, Interrupt: ctx.Done()}
	r.FoundRows, r.GivesBack = s.foundRows, s.level.EachStatement()
	if r.Keep == nil {
		r.Keep, r.Open = func(bytes int) error { return s.kept.add(bytes) }, s.snapshot
	}
	s.ClearWarnings()
	did, ok, err := r.Execute(p, shape)
	r.Ctx, r.Tx, r.Params, r.To = nil, nil, nil, nil
	s.reads.rows = r.Reads
	s.read.rows += r.Reads
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

// boundProgram is a statement's program for one definition of its table.
type boundProgram struct {
	t       *table
	results sql.CharacterSetID // of the session
	p       *executor.Program  // nil: the shape does not bind
}

// programOf returns the program of a statement. Nil: there is none.
func (s *Session) programOf(ctx context.Context, st *Statement, t *table, params []wire.Param) (*executor.Program, error) {
	results := s.set().results
	if b := st.bound.Load(); b != nil && b.t == t && b.results == results {
		return b.p, nil
	}
	p, err := t.direct.Bind(st.shape, int(results), func() ([]wire.Column, error) { return s.resultColumns(ctx, st, params) })
	if err != nil {
		return nil, err
	}
	st.bound.Store(&boundProgram{t, results, p})
	return p, nil
}

// resultColumns are the columns of a statement's result as the planner has them. It takes no locks.
func (s *Session) resultColumns(ctx context.Context, st *Statement, params []wire.Param) ([]wire.Column, error) {
	begin, tx, used := s.begin, s.tx, s.used
	s.begin, s.used = nil, nil
	defer func() { s.begin, s.tx, s.used = begin, tx, used }()
	c := s.context(ctx, st.Text)
	b := planbuilder.New(c, s.e.sql.Analyzer.Catalog, nil)
	if err := s.bind(c, b, params); err != nil {
		return nil, err
	}
	node, flags, err := bound(c, b, st.ast, st.Text)
	if err != nil {
		return nil, err
	}
	if node, err = s.e.sql.Analyzer.Analyze(c, node, nil, flags); err != nil {
		return nil, err
	}
	return columnsOf(c, node.Schema(c)), nil
}

// Directed is how many statements the executor has run.
func (e *Engine) Directed() uint64 { return e.directed.Load() }

// executable returns a table as the executor has it. Nil: it leaves the table to the planner.
func (t *table) executable() *executor.Table {
	d := t.def
	if len(d.primary) != 1 || d.primary[0].prefix != 0 || d.copyOf != 0 {
		return nil
	}
	x := &executor.Table{ID: t.t.ID, Name: t.t.Name, Layout: t.layout.rows, Key: d.primary[0].column, KeyPart: &t.layout.primary[0], Auto: t.auto,
		Writes: len(d.checks)+len(d.foreign)+len(t.weighed) == 0 && !d.generates()}
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
		}
		x.Writes = x.Writes && d.columns[i].onUpdate == ""
		x.Columns = append(x.Columns, c)
	}
	if k := x.Columns[x.Key].Kind; k != row.Int && k != row.Uint {
		return nil
	}
	for i := range t.all {
		w := &t.all[i]
		n := executor.Index{ID: w.def.id, Name: w.def.name, Unique: w.def.unique}
		for k := range w.def.parts {
			n.Parts = append(n.Parts, executor.IndexPart{Column: w.def.parts[k].column, Prefix: w.def.parts[k].prefix, Part: &t.layout.indexes[w.parts][k]})
		}
		x.Indexes = append(x.Indexes, n)
	}
	return x
}
