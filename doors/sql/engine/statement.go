package engine

import (
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"github.com/holdfastdb/holdfast/doors/sql/account"
	"github.com/holdfastdb/holdfast/doors/sql/executor"
	"github.com/holdfastdb/holdfast/doors/sql/wire"
)

// Kind says what a statement does with the session's transaction.
type Kind byte

// The kinds of statements.
const (
	KindOther  Kind = iota // neither reads rows nor writes any: SET, SHOW, USE
	KindRead               // rows of the snapshot
	KindLock               // a SELECT that locks what it reads
	KindWrite              // INSERT, UPDATE, DELETE, REPLACE
	KindDefine             // changes the catalogue, and commits before
	KindBegin              // commits, and begins a transaction
	KindCommit
	KindRollback
	KindAccount // about accounts, which are not the engine's
	KindSavepoint
	KindTables // LOCK TABLES, UNLOCK TABLES, FLUSH TABLES
	KindXA     // about distributed transactions, which are the door's
	KindEmpty  // a text without a statement

	Kinds // how many there are
)

// String is the kind's name, as metrics have it.
func (k Kind) String() string {
	return [Kinds]string{"other", "read", "lock", "write", "define", "begin", "commit", "rollback", "account", "savepoint", "tables", "xa", "empty"}[k]
}

// Statement is a parsed statement. It never changes, but for what is found out of it once, and what Shared says.
type Statement struct {
	Kind Kind
	Text string
	// Digest is what it has in common with statements that differ in their values alone.
	Digest string
	// Snapshot: START TRANSACTION WITH CONSISTENT SNAPSHOT.
	Snapshot bool
	// Access is START TRANSACTION READ ONLY, or READ WRITE. Nil: the session's variable decides.
	Access *bool
	// Chain and Release are what COMMIT and ROLLBACK say of what follows.
	Chain, Release Choice
	// Savepoint is the statement of KindSavepoint.
	Savepoint *Savepoint
	// Tables is the statement of KindTables.
	Tables *Tables
	// Characteristics are those of SET TRANSACTION; nil: the statement is another one.
	Characteristics *Characteristics
	// Account is the statement of KindAccount.
	Account *account.Statement
	// Comments: the text of KindEmpty has comments, which MySQL answers with OK.
	Comments bool
	// XA is the statement of KindXA.
	XA *XA

	mode    *sql.SqlMode        // by which it was parsed
	ast     sqlparser.Statement // nil: the statement is CHECK TABLE or KILL
	check   []sqlparser.TableName
	none    string          // what it asks for a list of, of which there is none; "": it is another statement
	kill    *killing        // nil: the statement is not KILL
	limit   time.Duration   // of its hint MAX_EXECUTION_TIME; negative: it has none
	session bool            // SET SESSION TRANSACTION, and not of the next transaction alone
	shape   *executor.Shape // nil: it is none of the executor's
	bound   atomic.Pointer[boundProgram]
	params  int
	tables  bool // it names a table that may be one of the catalogue's
	in      bool // it has an IN of a list
	pure    bool // it calls no function but those of pureFunctions
}

// Shared reports whether several sessions may run the statement at a time. The library changes what it has parsed while it plans, but nothing in the
// executor's shapes.
func (s *Statement) Shared() bool { return s.shape != nil || s.ast == nil }

// ForSession reports whether Characteristics are those of all transactions of the session, and not of the next one alone.
func (s *Statement) ForSession() bool { return s.session }

// CommitsBefore reports whether a statement that is no definition commits the open transaction before, as MySQL's statements of administration do.
func (s *Statement) CommitsBefore() bool { return s.check != nil }

// Params is the number of its parameters.
func (s *Statement) Params() int { return s.params }

// Parse parses the first statement of a text. rest is what follows it. Errors: 1041, 1064, 1065 and 1235 as *wire.Error.
func (e *Engine) Parse(mode *sql.SqlMode, text string) (s *Statement, rest string, err error) {
	if s, rest, err = e.parse(mode, text); err == nil {
		s.mode = mode
		s.Digest = digestOf(s.Text, mode.AnsiQuotes(), mode.ModeEnabled("NO_BACKSLASH_ESCAPES"))
		if s.Kind == KindAccount {
			s.Digest = Hidden
		}
		if onlyComments(rest) { // else the client would wait for another answer
			rest = ""
		}
	}
	return s, rest, err
}

// Again parses a statement once more: another session may run it then.
func (e *Engine) Again(s *Statement) (*Statement, error) {
	again, _, err := e.Parse(s.mode, s.Text)
	return again, err
}

// parse is Parse, but for the digest.
func (e *Engine) parse(mode *sql.SqlMode, text string) (s *Statement, rest string, err error) {
	text = strings.TrimLeft(text, " \t\r\n;")
	if text == "" {
		return &Statement{Kind: KindEmpty}, "", nil
	}
	if onlyComments(text) {
		return &Statement{Kind: KindEmpty, Comments: true}, "", nil
	}
	if err := e.judgeLength(text); err != nil {
		return nil, "", err
	}
	if about, rest, ok, err := account.Parse(text, account.Mode{NoBackslash: mode.ModeEnabled("NO_BACKSLASH_ESCAPES"), AnsiQuotes: mode.AnsiQuotes()}); ok {
		return &Statement{Kind: KindAccount, Account: about}, rest, err // without the text, which may hold a password
	}
	if s, rest, ok := parseKill(text); ok {
		return s, rest, nil
	}
	if s, rest, ok := parseNone(text); ok {
		return s, rest, nil
	}
	if s, rest, ok, err := parseCheck(text, mode.ParserOptions()); ok {
		return s, rest, err
	}
	if s, rest, ok, err := parseXA(text); ok {
		return s, rest, err
	}
	if s, rest, ok, err := parseControl(text, mode.AnsiQuotes()); ok {
		return s, rest, err
	}
	if err := refusedWords(text); err != nil {
		return nil, "", err
	}
	text = withoutMariaDBs(text)
	given, clauses := text, definingClauses(lockClauses(keptEscapes(text, mode.AnsiQuotes()), mode.AnsiQuotes()), mode.AnsiQuotes())
	ast, next, text, err := parse(clauses, mode.ParserOptions())
	if errors.Is(err, sqlparser.ErrEmpty) {
		return &Statement{Kind: KindEmpty}, "", nil
	}
	if err != nil {
		return nil, "", syntaxError(text, err)
	}
	if next > 0 && next < len(text) {
		rest = strings.TrimLeft(text[next:], " \t\r\n;")
	}
	text = given[:len(given)-len(rest)] // clients and operators see what the client has sent
	s = &Statement{Text: strings.TrimRight(text, " \t\r\n;"), ast: ast, limit: hintedLimit(text), shape: executor.ShapeOf(ast)}
	if err := s.classify(); err != nil {
		return nil, "", err
	}
	return s, rest, nil
}

// onlyComments reports whether a text has comments and nothing else. The text in /*! */ is none, the text in MariaDB's /*M! */ is one.
func onlyComments(text string) bool {
	for {
		text = strings.TrimLeft(text, " \t\r\n;")
		switch {
		case text == "":
			return true
		case text[0] == '#', strings.HasPrefix(text, "-- "), strings.HasPrefix(text, "--\n"), strings.HasPrefix(text, "--\t"), text == "--":
			text = text[upTo(text, 0, "\n"):]
		case strings.HasPrefix(text, "/*") && !strings.HasPrefix(text, "/*!") && !strings.HasPrefix(text, "/*+") && strings.Contains(text[2:], "*/"):
			text = text[upTo(text, 2, "*/"):]
		default:
			return false
		}
	}
}

// withoutMariaDBs has blanks in place of the comments /*M! */, whose text counts for MariaDB alone: the parser takes it for its own.
func withoutMariaDBs(text string) string {
	const begin = "/*M!"
	if !strings.Contains(text, begin) {
		return text
	}
	out := []byte(text)
	for i := 0; i < len(text); {
		switch c, rest := text[i], text[i:]; {
		case c == '\'' || c == '"' || c == '`':
			i = closing(text, i)
		case c == '#', strings.HasPrefix(rest, "-- "):
			i = upTo(text, i, "\n")
		case strings.HasPrefix(rest, "/*!"):
			i += len("/*!")
		case strings.HasPrefix(rest, "/*"):
			end := upTo(text, i+2, "*/")
			for ; strings.HasPrefix(rest, begin) && i < end; i++ {
				out[i] = ' '
			}
			i = end
		default:
			i++
		}
	}
	return string(out)
}

// classify decides what the statement is, refuses what the engine does not do right, and marks the tables that are read with locks.
func (s *Statement) classify() error {
	v := &survey{}
	switch a := s.ast.(type) {
	case *sqlparser.Select, *sqlparser.SetOp, *sqlparser.ParenSelect:
		s.Kind = KindRead
		v.selects(a.(sqlparser.SelectStatement), nil)
		if v.locks {
			s.Kind = KindLock
		}
	case *sqlparser.Insert:
		s.Kind = KindWrite
		v.insert(a)
	case *sqlparser.Update:
		s.Kind = KindWrite
		v.update(a)
	case *sqlparser.Delete:
		s.Kind = KindWrite
		v.delete(a)
	case *sqlparser.DDL:
		s.Kind = KindDefine
		if err := judgeDDL(a); err != nil {
			return err
		}
	case *sqlparser.AlterTable:
		s.Kind = KindDefine
		if switchesKeys(a) {
			break
		}
		if err := judgeAlter(a); err != nil {
			return err
		}
	case *sqlparser.DBDDL:
		s.Kind = KindDefine
		if a.Action != sqlparser.CreateStr && a.Action != sqlparser.DropStr {
			return refused(strings.ToUpper(a.Action) + " DATABASE")
		}
	case *sqlparser.Use:
	case *sqlparser.Set:
		if err := judgeSet(a); err != nil {
			return err
		}
		v.walk(a, nil)
	case *sqlparser.Show:
		if err := judgeShow(a); err != nil {
			return err
		}
	case *sqlparser.Explain:
		inner := &Statement{ast: a.Statement}
		if _, err := explainFormat(a); err != nil {
			return err
		}
		if _, show := a.Statement.(*sqlparser.Show); show { // DESCRIBE t
			return inner.classify()
		}
		if err := inner.classify(); err != nil {
			return err
		}
		if inner.Kind != KindRead && inner.Kind != KindWrite && inner.Kind != KindLock {
			return refused("EXPLAIN of this statement")
		}
		if a.Analyze && inner.Kind != KindRead {
			return refused("EXPLAIN ANALYZE of a statement that locks or writes")
		}
		s.Kind = KindRead
		v.params, v.tables, v.in = inner.params, inner.tables, inner.in
	default:
		return refused(firstWords(s.Text))
	}
	s.params, s.tables, s.pure, s.in = v.params, v.tables, !v.impure, v.in
	if v.calls && v.err == nil {
		calls(s.ast)
	}
	return v.err
}

// survey goes through a statement once: it counts parameters, marks tables and finds what is refused.
type survey struct {
	params int
	locks  bool
	tables bool
	impure bool
	in     bool
	calls  bool            // it has a form that becomes the call of a function
	named  map[string]bool // tables of the FROM that is surveyed, by their names in the statement
	err    error
}

func (v *survey) refuse(what string) {
	if v.err == nil {
		v.err = refused(what)
	}
}

// selects surveys a SELECT. mark: tables in it are read with this mark; nil: as its own clauses say.
func (v *survey) selects(n sqlparser.SelectStatement, mark *marking) {
	switch a := n.(type) {
	case *sqlparser.ParenSelect:
		v.selects(a.Select, mark)
	case *sqlparser.SetOp:
		if a.Lock != nil && a.Lock.Type != "" {
			v.refuse("locks on a UNION")
		}
		v.into(a.Into)
		limited(a.Limit)
		ordinalsOf(a)
		v.selects(a.Left, mark)
		v.selects(a.Right, mark)
		v.walk(a.With, mark)
		v.walk(a.OrderBy, mark)
		v.walk(a.Limit, mark)
	case *sqlparser.Select:
		v.into(a.Into)
		limited(a.Limit)
		ordinals(a)
		own := mark
		if a.Lock != nil && a.Lock.Type != "" {
			m, err := markingOf(a.Lock)
			if err != nil && v.err == nil {
				v.err = err
			}
			own, v.locks = m, true
			a.Lock = &sqlparser.Lock{} // what it says stands at the tables now
		}
		named := v.named
		v.named = map[string]bool{}
		for _, t := range a.From {
			v.from(t, own)
		}
		if own != nil && own != mark {
			for name := range own.of { // any order: the client is told of one
				if !v.named[name] && v.err == nil {
					v.err = wire.Errorf(3568, "Unresolved table name `%s` in locking clause.", name)
				}
			}
		}
		v.named = named
		v.walk(a.With, mark)
		v.walk(a.SelectExprs, mark)
		v.walk(a.Where, mark)
		v.walk(a.GroupBy, mark)
		v.walk(a.Having, mark)
		v.walk(a.Window, mark)
		v.walk(a.OrderBy, mark)
		v.walk(a.Limit, mark)
	default:
		v.walk(n, mark)
	}
}

// markOf returns the mark for a locking clause.
func markOf(l *sqlparser.Lock) (string, bool) {
	switch strings.ToLower(strings.TrimSpace(l.Type)) {
	case "for update":
		return markExclusive, true
	case "lock in share mode", "for share":
		return markShared, true
	case "for update nowait":
		return markExclusive + markNowait, true
	case "for update skip locked":
		return markExclusive + markSkip, true
	}
	return "", false
}

func (v *survey) into(i *sqlparser.Into) {
	if i != nil && (i.Outfile != "" || i.Dumpfile != "") {
		v.refuse("SELECT … INTO OUTFILE")
	} else if i != nil {
		v.refuse("SELECT … INTO")
	}
}

// from surveys a table expression.
func (v *survey) from(t sqlparser.TableExpr, mark *marking) {
	switch a := t.(type) {
	case *sqlparser.AliasedTableExpr:
		v.aliased(a, mark)
	case *sqlparser.ParenTableExpr:
		for _, e := range a.Exprs {
			v.from(e, mark)
		}
	case *sqlparser.JoinTableExpr:
		v.from(a.LeftExpr, mark)
		v.from(a.RightExpr, mark)
		v.walk(a.Condition.On, mark)
	default:
		v.walk(t, mark)
	}
}

func (v *survey) aliased(a *sqlparser.AliasedTableExpr, mark *marking) {
	if a.AsOf != nil {
		v.refuse("AS OF")
		return
	}
	if len(a.Partitions) > 0 {
		v.refuse("PARTITION")
	}
	name := a.As.String()
	switch e := a.Expr.(type) {
	case sqlparser.TableName:
		if name == "" {
			name = e.Name.String()
		}
		v.name(name)
		if strings.EqualFold(e.DbQualifier.String(), sql.InformationSchemaDatabaseName) {
			return
		}
		v.tables = true
		if e.Name.IsEmpty() || strings.EqualFold(e.Name.String(), "dual") {
			return
		}
		text := mark.mark(name)
		if h, ok := hinted(a); ok {
			if text == "" {
				text = markPlain
			}
			text += markHint + h.text()
		}
		if text != "" {
			a.AsOf = &sqlparser.AsOf{Time: sqlparser.NewStrVal([]byte(text))}
		}
	case *sqlparser.Subquery:
		v.name(name)
		if text := mark.mark(name); text != "" {
			mark = &marking{all: text}
		} else {
			mark = nil
		}
		v.selects(e.Select, mark)
	default:
		v.walk(a.Expr, mark)
	}
}

// name notes a table's name in the FROM that is surveyed.
func (v *survey) name(name string) {
	if v.named != nil {
		v.named[strings.ToLower(name)] = true
	}
}

// walk surveys expressions and all other nodes that are left.
func (v *survey) walk(n sqlparser.SQLNode, mark *marking) {
	if n == nil {
		return
	}
	err := sqlparser.Walk(func(n sqlparser.SQLNode) (bool, error) {
		switch a := n.(type) {
		case *sqlparser.SQLVal:
			if a.Type == sqlparser.ValArg {
				v.params++
			}
		case *sqlparser.Subquery:
			v.selects(a.Select, mark)
			return false, nil
		case *sqlparser.Select, *sqlparser.SetOp, *sqlparser.ParenSelect:
			v.selects(a.(sqlparser.SelectStatement), mark)
			return false, nil
		case *sqlparser.AliasedTableExpr:
			v.aliased(a, mark)
			return false, nil
		case *sqlparser.GroupConcatExpr:
			if len(a.Exprs) > 1 { // the library takes the first one
				v.refuse("GROUP_CONCAT of several values")
			}
		case *sqlparser.FuncExpr:
			if refusedFunctions[a.Name.Lowered()] {
				v.refuse(strings.ToUpper(a.Name.String()) + "()")
			}
			if !pureFunctions[a.Name.Lowered()] {
				v.impure = true
			}
		case *sqlparser.TimestampFuncExpr:
			v.impure, v.calls = true, true
		case *sqlparser.Default, *sqlparser.ValuesFuncExpr:
			v.impure = true
		case *sqlparser.ComparisonExpr:
			a.Left, a.Right = unfolded(a.Left), unfolded(a.Right)
			v.in = v.in || a.Operator == sqlparser.InStr || a.Operator == sqlparser.NotInStr
		case *sqlparser.CaseExpr:
			if column, ok := a.Expr.(*sqlparser.ColName); ok { // as comparisons, which are made as MySQL makes them
				for _, w := range a.Whens {
					w.Cond = &sqlparser.ComparisonExpr{Operator: sqlparser.EqualStr, Left: column, Right: w.Cond}
				}
				a.Expr = nil
			}
		case *sqlparser.ConvertExpr:
			v.calls = true
			if castsTo(a, "time") {
				if _, err := timeDigits(&sqlparser.ColumnType{Type: "time", Length: a.Type.Length}); err != nil && v.err == nil {
					v.err = err
				}
			}
		case *sqlparser.IntervalExpr:
			v.calls = true
		case *sqlparser.UnaryExpr:
			v.calls = v.calls || a.Operator == sqlparser.TildaStr
		case *sqlparser.MatchExpr:
			v.refuse("MATCH … AGAINST")
		}
		return true, nil
	}, n)
	if err != nil {
		v.refuse("this statement")
	}
}

// unfolded is a number that the library would round to the type of a column that it is compared with: two signs before it keep it as it is. They are
// taken away again before the statement is planned (exactConstants).
func unfolded(e sqlparser.Expr) sqlparser.Expr {
	l, ok := e.(*sqlparser.SQLVal)
	if !ok || l.Type != sqlparser.FloatVal && (l.Type != sqlparser.IntVal || len(l.Val) <= mostUint64) {
		return e
	}
	minus := func(e sqlparser.Expr) sqlparser.Expr {
		return &sqlparser.UnaryExpr{Operator: sqlparser.UMinusStr, Expr: e}
	}
	return minus(minus(l))
}

// mostUint64 is how many digits the largest integer has. A number with more is a DECIMAL.
const mostUint64 = 20

func (v *survey) insert(a *sqlparser.Insert) {
	v.tables = true
	if len(a.Returning) > 0 {
		v.refuse("RETURNING")
	}
	if len(a.Partitions) > 0 {
		v.refuse("PARTITION")
	}
	shared := marking{all: markSource}
	v.walk(a.With, &shared)
	switch r := a.Rows.(type) {
	case sqlparser.SelectStatement:
		v.selects(r, &shared)
		if !selectedValues(a, r) {
			v.refuse("VALUES() of a row that is selected, without a list of columns or beside columns of other tables")
		}
	case *sqlparser.AliasedValues:
		for i, row := range r.Values { // the library takes a row of nothing for one of defaults, beside any other
			if len(row) != len(r.Values[0]) && v.err == nil {
				v.err = wire.Errorf(1136, "Column count doesn't match value count at row %d", i+1)
			}
		}
		v.walk(a.Rows, &shared)
	default:
		v.walk(a.Rows, &shared)
	}
	_ = sqlparser.Walk(func(n sqlparser.SQLNode) (bool, error) {
		if x, ok := n.(*sqlparser.ValuesFuncExpr); ok { // the library takes a name with its table for the column of the row that is there
			x.Name.Qualifier = sqlparser.TableName{}
		}
		return true, nil
	}, sqlparser.AssignmentExprs(a.OnDup))
	v.walk(sqlparser.AssignmentExprs(a.OnDup), &shared)
}

func (v *survey) update(a *sqlparser.Update) {
	if len(a.Returning) > 0 {
		v.refuse("RETURNING")
	}
	exclusive, shared := marking{all: markExclusive}, marking{all: markSource}
	v.walk(a.With, &shared)
	for _, t := range a.TableExprs {
		v.from(t, &exclusive)
	}
	v.walk(a.Exprs, &shared)
	v.walk(a.Where, &shared)
	v.walk(a.OrderBy, &shared)
	v.walk(a.Limit, &shared)
}

func (v *survey) delete(a *sqlparser.Delete) {
	if len(a.Returning) > 0 {
		v.refuse("RETURNING")
	}
	if len(a.Partitions) > 0 {
		v.refuse("PARTITION")
	}
	exclusive, shared := marking{all: markExclusive}, marking{all: markSource}
	v.walk(a.With, &shared)
	for _, t := range a.TableExprs {
		v.from(t, &exclusive)
	}
	v.walk(a.Where, &shared)
	v.walk(a.OrderBy, &shared)
	v.walk(a.Limit, &shared)
}
