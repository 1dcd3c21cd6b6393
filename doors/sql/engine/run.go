package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/planbuilder"
	"github.com/dolthub/go-mysql-server/sql/transform"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"github.com/holdfastdb/holdfast/doors/sql/txn"
	"github.com/holdfastdb/holdfast/doors/sql/wire"
)

// Outcome is what a statement has come to.
type Outcome struct {
	Rows     bool   // a result was begun and its rows were sent; its end is the door's to send
	Sent     uint64 // rows of the result
	Done     wire.Done
	Warnings uint16
}

// Run runs a statement. begin returns the transaction that it belongs to, and is called if it needs one; nil: it gets none. A result's rows are
// sent as they are made. Errors are *wire.Error, or those of txn: the door knows what becomes of the transaction.
func (s *Session) Run(ctx context.Context, st *Statement, params []wire.Param, begin func() (*txn.Tx, error), to *wire.Answer) (out Outcome, err error) {
	s.shows, s.row = !st.tables && (st.Kind == KindOther || st.Kind == KindRead), 0
	if st.shape != nil {
		if out, ok, err := s.direct(ctx, st, params, begin, to); ok {
			return out, err
		}
	}
	if name := databaseOf(st.ast); name != "" && !s.mayUse(name) {
		return out, s.deniedDatabase(name)
	}
	s.begin, s.tx, s.cat, s.reads, s.values, s.used, s.verb = begin, nil, nil, reads{}, nil, s.used[:0], verbOf(st.ast)
	s.gathered, s.inserted, s.replaced = newGathered(st), inserted{}, 0
	s.interrupt, s.writes, s.target = ctx.Done(), st.Kind == KindWrite, targetOf(st.ast)
	s.digits = nil
	s.moves, s.movesAny = movedBy(st, s.gathered != nil)
	s.updates, s.upserts, s.rejected = s.gathered == nil && verbOf(st.ast) == "UPDATE", upserts(st.ast), lockedRow{}
	if _, ok := st.ast.(*sqlparser.Set); ok {
		s.settings = ""
	}
	s.violated = nil
	s.kept.begin(&s.e.pool, s.e.mostKept())
	c := s.context(ctx, st.Text)
	defer func() {
		if p := recover(); p != nil { // of the library: a statement must not end the server
			err = wire.Errorf(wire.ErrUnknown, "internal error in the SQL engine: %v", p)
		}
		s.begin, s.cat, s.values = nil, nil, nil
		s.read.rows, s.read.entries = s.read.rows+s.reads.rows, s.read.entries+s.reads.entries
		err = mysqlError(st.Text, s.GetCurrentDatabase(), s.judgeForeign(s.kept.judgeMemory(err)))
		s.kept.end()
	}()
	if st.Kind == KindDefine {
		s.ClearWarnings()
		out.Done, err = s.define(c, st)
		out.Warnings = s.WarningCount()
		out.Done.Warnings = out.Warnings
		return out, err
	}
	if st.check != nil {
		return out, s.checkTables(c, st, to, &out)
	}
	if ok, err := s.operate(c, st, to, &out); ok || err != nil {
		return out, err
	}
	if x, ok := st.ast.(*sqlparser.Explain); ok {
		if _, show := x.Statement.(*sqlparser.Show); !show {
			return out, s.explain(c, st, params, to, &out)
		}
	}
	if err := s.judgeValues(st); err != nil {
		return out, err
	}
	schema, rows, err := s.plan(c, st, params)
	if err != nil {
		return out, err
	}
	defer func() {
		if e := rows.Close(c); err == nil {
			err = e
		}
	}()
	out, err = s.send(c, schema, rows, to)
	out.Done.Affected = uint64(int64(out.Done.Affected) + s.replaced)
	if !s.inserted.generated { // the library has the session's LAST_INSERT_ID, of any earlier statement
		out.Done.InsertID = 0
		if _, ok := st.ast.(*sqlparser.Insert); ok {
			out.Done.InsertID = s.inserted.last
		}
	}
	if a, ok := st.ast.(*sqlparser.Set); ok && err == nil {
		if err = s.names(c, st, a); err == nil {
			err = s.judgeViews()
		}
	}
	if err != nil || s.gathered == nil {
		return out, err
	}
	if s.gathered.deletes { // the library counts the rows of the join
		out.Done.Affected = uint64(len(s.gathered.all))
	}
	err = s.gathered.apply(c)
	out.Done.Affected -= min(out.Done.Affected, s.gathered.ignored)
	out.Warnings = s.WarningCount()
	out.Done.Warnings = out.Warnings
	return out, err
}

// upserts reports whether a statement changes a row that has one of the keys which it inserts.
func upserts(ast sqlparser.Statement) bool {
	in, ok := ast.(*sqlparser.Insert)
	return ok && (in.Action == sqlparser.ReplaceStr || len(in.OnDup) > 0)
}

// targetOf is the table that INSERT or REPLACE writes.
func targetOf(ast sqlparser.Statement) sqlparser.TableName {
	if a, ok := ast.(*sqlparser.Insert); ok {
		return a.Table
	}
	return sqlparser.TableName{}
}

// Columns plans a statement without running it, and returns the columns of its result. Nil: it has none, or none that are known before.
func (s *Session) Columns(ctx context.Context, st *Statement) (columns []wire.Column, err error) {
	if st.Kind != KindRead && st.Kind != KindLock || st.check != nil {
		return nil, nil
	}
	s.begin, s.tx, s.cat, s.values, s.verb, s.interrupt = nil, nil, nil, nil, verbOf(st.ast), ctx.Done()
	s.shows = !st.tables && (st.Kind == KindOther || st.Kind == KindRead)
	c := s.context(ctx, st.Text)
	defer func() {
		if p := recover(); p != nil {
			columns, err = nil, nil // the execution will say what is wrong
		}
		s.cat = nil
	}()
	b := planbuilder.New(c, s.e.sql.Analyzer.Catalog, nil)
	bindings := map[string]sql.Expression{}
	for i := range st.params {
		bindings["v"+strconv.Itoa(i+1)] = literal(nil, types.Null)
	}
	if st.params > 0 {
		b.SetBindingsWithExpr(bindings)
	}
	node, flags, err := bound(c, b, st.ast, st.Text)
	if err != nil {
		return nil, mysqlError(st.Text, s.GetCurrentDatabase(), err)
	}
	if node, err = s.e.sql.Analyzer.Analyze(c, node, nil, flags); err != nil {
		return nil, mysqlError(st.Text, s.GetCurrentDatabase(), err)
	}
	schema := node.Schema(c)
	if types.IsOkResultSchema(schema) || len(schema) == 0 {
		return nil, nil
	}
	return columnsOf(c, schema), nil
}

// plan plans a statement and begins to run it.
func (s *Session) plan(c *sql.Context, st *Statement, params []wire.Param) (sql.Schema, sql.RowIter, error) {
	if len(params) != st.params {
		return nil, nil, wire.Errorf(wire.ErrArguments, "Incorrect arguments to mysqld_stmt_execute")
	}
	if schema, rows, ok, err := s.cached(c, st, params); ok || err != nil {
		return schema, rows, err
	}
	b := planbuilder.New(c, s.e.sql.Analyzer.Catalog, nil)
	if err := s.bind(c, b, params); err != nil {
		return nil, nil, err
	}
	warned := len(s.Warnings())
	node, flags, err := bound(c, b, st.ast, st.Text)
	if err != nil {
		return nil, nil, err
	}
	if !keepsWarnings(st) {
		fresh := s.Warnings()[:max(0, len(s.Warnings())-warned)]
		s.ClearWarnings()
		for i := len(fresh) - 1; i >= 0; i-- {
			s.Warn(fresh[i])
		}
	}
	if node, err = s.e.sql.Analyzer.Analyze(c, node, nil, flags); err != nil {
		return nil, nil, err
	}
	if st.in {
		if node, err = unhashed(c, node); err != nil {
			return nil, nil, err
		}
	}
	if node, err = everywhere(c, node, joined); err != nil {
		return nil, nil, err
	}
	if node, err = s.repaired(c, st, node); err != nil {
		return nil, nil, err
	}
	schema, rows, err := s.ready(c, st, node, flags)
	if err != nil {
		return nil, nil, err
	}
	return schema, create(c, node, fill(c, node, schema, describe(c, node, schema, rows))), nil
}

// ready makes a plan ready to run. Meanwhile its questions for a table's columns serve to find the rows that change.
func (s *Session) ready(c *sql.Context, st *Statement, node sql.Node, flags *sql.QueryFlags) (sql.Schema, sql.RowIter, error) {
	s.changes = st.Kind == KindWrite
	defer func() { s.changes = false }()
	if s.gathered != nil && !s.gathered.deletes {
		var err error
		if node, err = comparingJoined(c, node); err != nil {
			return nil, nil, err
		}
	}
	schema, rows, _, err := s.e.sql.PrepQueryPlanForExecution(c, st.Text, node, flags)
	return schema, rows, err
}

// bound is a statement with its names resolved, and with constants that the planner may use.
func bound(c *sql.Context, b *planbuilder.Builder, ast sqlparser.Statement, text string) (sql.Node, *sql.QueryFlags, error) {
	node, flags, err := b.BindOnly(ast, text, nil)
	if sql.ErrTableNotFound.Is(err) {
		if n, f, ok := boundAround(c, b, text); ok {
			node, flags, err = n, f, nil
		}
	}
	if err != nil {
		return nil, nil, err
	}
	if node, err = everywhere(c, node, passedOn); err != nil {
		return nil, nil, err
	}
	if node, err = carrying(c, node); err != nil {
		return nil, nil, err
	}
	if node, err = everywhere(c, node, exactConstants); err != nil {
		return nil, nil, err
	}
	node, err = simplified(c, node, flags)
	return node, flags, err
}

// repaired is a plan with what the library does not do as MySQL does replaced by ours. It comes last: the planner knows its own expressions only.
func (s *Session) repaired(c *sql.Context, st *Statement, n sql.Node) (sql.Node, error) {
	var err error
	for _, f := range []func(*sql.Context, sql.Node) (sql.Node, error){lists, comparing, folding, ordered} {
		if n, err = everywhere(c, n, f); err != nil {
			return nil, err
		}
	}
	if st.Kind == KindWrite {
		if n, err = s.assigning(c, st, n); err != nil {
			return nil, err
		}
	}
	if _, ok := st.ast.(*sqlparser.Insert); ok {
		if n, err = readingFirst(c, n); err != nil {
			return nil, err
		}
		if n, err = comparingUpserted(c, n); err != nil {
			return nil, err
		}
	}
	if st.Kind == KindWrite || st.Kind == KindLock {
		if n, err = everywhere(c, n, rejecting); err != nil {
			return nil, err
		}
	}
	if n, err = everywhere(c, n, counted); err != nil {
		return nil, err
	}
	return everywhere(c, n, grouped)
}

// unhashed has an IN whose values are of several kinds compare them one by one. The library hashes what they are when they are converted to the
// type on the left: 14.5 was found among whole numbers.
func unhashed(c *sql.Context, n sql.Node) (sql.Node, error) {
	n, _, err := transform.NodeExprs(c, n, func(c *sql.Context, e sql.Expression) (sql.Expression, transform.TreeIdentity, error) {
		in, ok := e.(*expression.HashInTuple)
		if !ok || sameKinds(c, in) {
			return e, transform.SameTree, nil
		}
		return expression.NewInTuple(in.Left(), in.Right()), transform.NewTree, nil
	})
	return n, err
}

func sameKinds(c *sql.Context, in *expression.HashInTuple) bool {
	left := in.Left().Type(c)
	for _, e := range in.Right().Children() {
		t := e.Type(c)
		if !(types.IsInteger(left) && types.IsInteger(t) || types.IsText(left) && types.IsText(t) || t == types.Null) {
			return false
		}
	}
	return true
}

// bind gives the parameters their values.
func (s *Session) bind(c *sql.Context, b *planbuilder.Builder, params []wire.Param) error {
	if len(params) == 0 {
		return nil
	}
	bindings := make(map[string]sql.Expression, len(params))
	for i := range params {
		e, err := argument(c, &params[i])
		if err != nil {
			return err
		}
		bindings["v"+strconv.Itoa(i+1)] = e
	}
	b.SetBindingsWithExpr(bindings)
	return nil
}

// send sends the rows of a result, or returns what a statement without rows came to.
func (s *Session) send(c *sql.Context, schema sql.Schema, rows sql.RowIter, to *wire.Answer) (out Outcome, err error) {
	r, err := rows.Next(c)
	if err != nil && !errors.Is(err, io.EOF) {
		return out, err
	}
	if len(schema) == 0 || types.IsOkResultSchema(schema) || err == nil && types.IsOkResult(r) {
		for err == nil {
			if types.IsOkResult(r) {
				ok := types.GetOkResult(r)
				out.Done.Affected += ok.RowsAffected
				if out.Done.InsertID == 0 {
					out.Done.InsertID = ok.InsertID
				}
				if ok.Info != nil {
					out.Done.Info = ok.Info.String()
				}
			}
			r, err = rows.Next(c)
		}
		if !errors.Is(err, io.EOF) {
			return out, err
		}
		out.Warnings = s.WarningCount()
		out.Done.Warnings = out.Warnings
		return out, nil
	}
	columns := columnsOf(c, schema)
	to.Columns(columns)
	out.Rows = true
	for ; err == nil; r, err = rows.Next(c) {
		for i := range columns {
			if err := value(c, to, &columns[i], schema[i].Type, r[i]); err != nil {
				return out, err
			}
		}
		if e := to.Err(); e != nil {
			return out, e
		}
		if e := c.Err(); e != nil {
			return out, e
		}
		out.Sent++
	}
	if !errors.Is(err, io.EOF) {
		return out, err
	}
	out.Warnings = s.WarningCount()
	return out, nil
}

// Reads are the rows and index entries that the session's last statement has read.
func (s *Session) Reads() (rows, entries uint64) { return s.reads.rows, s.reads.entries }

var errParameter = fmt.Errorf("parameter of a kind that this build does not know")
