package engine

import (
	"context"
	"strings"
	"time"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"github.com/holdfastdb/holdfast/doors/sql/executor"
	"github.com/holdfastdb/holdfast/doors/sql/lock"
	sqlmachine "github.com/holdfastdb/holdfast/doors/sql/machine"
	"github.com/holdfastdb/holdfast/doors/sql/txn"
	"github.com/holdfastdb/holdfast/doors/sql/wire"
)

// Session has what the engine keeps of one client: variables, warnings, the default database. It belongs to the goroutine of its connection.
type Session struct {
	*sql.BaseSession
	e       *Engine
	account string // user@host, for CURRENT_USER()
	rights  Rights // nil: all
	locks   Locks
	state   func(string) // nil: no call
	locked  []Locked     // by LOCK TABLES; nil: none
	// tlsVersion and tlsCipher are what SHOW STATUS says of the connection.
	tlsVersion, tlsCipher string

	// Of the statement that runs.
	cat      *sqlmachine.Catalogue
	begin    func() (*txn.Tx, error) // nil: the statement reads no rows
	tx       *txn.Tx
	reads    reads
	values   []any      // of the parameters of a kept plan; nil: no such plan runs
	used     []tableUse // tables that were opened while a plan was made
	opened   int        // tables with numbered rows that were opened
	verb     string     // by which an error names the statement
	shows    bool       // the statement reads definitions and no rows
	digits   []int      // behind the points of the result's columns; nil, or -1: as their types say
	row      int        // that is stored, from 1
	level    Level      // of the transaction
	shares   bool       // plain reads lock what they read
	kept     kept
	memory   *sql.MemoryManager  // over kept
	writes   bool                // the statement is of KindWrite
	moves    map[string]bool     // columns that it sets in rows while it reads others
	movesAny bool                // it puts rows into a table that it may read
	updates  bool                // the statement is UPDATE of one table
	upserts  bool                // it changes a row that has a key which it inserts
	target   sqlparser.TableName // of INSERT and REPLACE, which name it without a mark; empty: the statement is another one

	rejected lockedRow // that a condition is judged of at READ COMMITTED

	interrupt <-chan struct{} // ends what the statement waits for

	read      reads // of all statements before
	processes processes

	inserted inserted
	replaced int64     // rows that REPLACE has deleted, without the first for each row that it inserts: the library counts that one. It counts one too many for a row that was the same
	gathered *gathered // nil: the statement changes rows while it reads, or changes none

	viewLimit txn.ViewLimit // of its transactions' snapshots

	now      settings
	settings string          // settingsKey; "": a variable was set
	sets     map[string]bool // variables that the session has set
	checks   map[checkKey][]sql.Expression
	computed map[checkKey][]sql.Expression // of generated columns
	altered  *table                        // stands in for the table of its name, because a statement defines it and rows are judged by it; nil: none does
	violated *wire.Error                   // of the foreign key that was violated last; nil: none was

	run       executor.Run
	changes   bool // the plan of a statement that changes rows is made ready to run
	foundRows bool // the client counts the rows that an UPDATE has found

	seen *sqlmachine.Catalogue // when the transaction's snapshot was opened; nil: it has none
}

// inserted is what a statement has put into a column of AUTO_INCREMENT.
type inserted struct {
	last      uint64 // value of the row that was written last; 0: no table has such a column
	generated bool   // a value was given to a row that had none
}

// reads counts what a statement has read.
type reads struct{ rows, entries uint64 }

var _ sql.TransactionSession = (*Session)(nil)

// Client is whose session it is.
type Client struct {
	ID      uint32 // of the connection
	User    string
	Host    string // that the client comes from
	Account string // user@host of the account
	Rights  Rights // nil: all
	Locks   Locks
	State   func(string) // is told what a long statement does at present; nil: no call
	// TLSVersion and TLSCipher are those of the connection, "" without TLS.
	TLSVersion, TLSCipher string
	// FoundRows: an UPDATE counts the rows that it has found, and not those that it has changed.
	FoundRows bool
}

// NewSession returns the session of a client.
func (e *Engine) NewSession(c Client) *Session {
	s := &Session{e: e, account: c.Account, rights: c.Rights, locks: c.Locks, state: c.State, tlsVersion: strings.Replace(c.TLSVersion, " ", "v", 1), tlsCipher: c.TLSCipher, viewLimit: firstViewLimit,
		BaseSession: sql.NewBaseSessionWithClientServer("127.0.0.1", sql.Client{User: c.User, Address: c.Host}, c.ID)}
	if s.foundRows = c.FoundRows; c.FoundRows {
		client := s.Client()
		client.Capabilities |= mysql.CapabilityClientFoundRows
		s.SetClient(client)
	}
	s.SetIgnoreAutoCommit(true) // the door commits
	s.processes.s = s
	s.memory = sql.NewMemoryManager(&s.kept)
	return s
}

func sessionOf(ctx *sql.Context) *Session { return ctx.Session.(*Session) }

// context makes the context of a statement. ctx ends when the statement is to end.
func (s *Session) context(ctx context.Context, text string) *sql.Context {
	return sql.NewContext(ctx, sql.WithSession(s), sql.WithQuery(text), sql.WithMemoryManager(s.memory),
		sql.WithProcessList(&s.processes))
}

// quiet is the context of what the session does beside statements.
func (s *Session) quiet() *sql.Context { return s.context(context.Background(), "") }

// Mode returns the session's sql_mode, by which its texts are parsed.
func (s *Session) Mode() *sql.SqlMode { return s.set().mode }

// ModeText is Mode as the variable sql_mode has it.
func (s *Session) ModeText() string { return s.set().modeText }

// catalogue is the one of the statement that runs.
func (s *Session) catalogue() *sqlmachine.Catalogue {
	if s.cat == nil {
		s.cat = s.e.opt.Catalogue()
	}
	return s.cat
}

// transaction returns the transaction of the statement that runs.
func (s *Session) transaction() (*txn.Tx, error) {
	if s.tx == nil {
		if s.begin == nil {
			return nil, refused("rows in this statement")
		}
		tx, err := s.begin()
		if err != nil {
			return nil, err
		}
		s.tx = tx
	}
	return s.tx, nil
}

// snapshot opens the transaction's snapshot, if it has none.
func (s *Session) snapshot() error { return s.Snapshot(s.tx) }

// Snapshot opens the snapshot of a transaction of the session, if it has none. The catalogue is taken before: a table whose definition changes in
// between is refused later, and never read by an index that the snapshot does not have.
func (s *Session) Snapshot(tx *txn.Tx) error {
	if s.seen == nil {
		s.seen = s.e.opt.Catalogue()
	}
	return tx.Snapshot()
}

// Ended forgets what belonged to a transaction. The door calls it when the transaction has ended.
func (s *Session) Ended() { s.seen, s.tx = nil, nil }

// Refreshed forgets the snapshot, as READ COMMITTED does before each statement.
func (s *Session) Refreshed() { s.seen = nil }

// useTable finds a table, and keeps its definition as it is until the transaction ends. Nil: there is none.
func (s *Session) useTable(databaseName, name string, mode lock.Mode) (*sqlmachine.Table, error) {
	if !s.mayUse(nameOf(databaseName)) {
		return nil, s.deniedTable(name)
	}
	if s.begin != nil && !s.shows { // of tables that are shown, it does not matter which are locked
		if err := s.mayUseLocked(nameOf(databaseName), nameOf(name), mode); err != nil {
			return nil, err
		}
	}
	find := func() *sqlmachine.Table {
		return tableOf(s.catalogue().Database(nameOf(databaseName)), nameOf(name))
	}
	t := find()
	if t == nil || s.begin == nil || s.shows { // a lock held to the end of the transaction would keep every DROP TABLE of the server waiting
		return t, nil
	}
	tx, err := s.transaction()
	if err != nil {
		return nil, err
	}
	for {
		if err := tx.UseTable(t.ID, t.Version, mode, s.TableWait()); err != nil {
			return nil, err
		}
		s.cat = nil // it may have changed while the lock was waited for
		now := find()
		if now == nil {
			return nil, nil
		}
		if now.ID == t.ID && now.Version == t.Version {
			break
		}
		t = now
	}
	s.used = append(s.used, tableUse{database: nameOf(databaseName), name: nameOf(name), mode: mode, id: t.ID, version: t.Version})
	if s.seen != nil {
		d := s.seen.Database(nameOf(databaseName))
		if d == nil || d.Table(nameOf(name)) == nil || d.Table(nameOf(name)).Version != t.Version {
			return nil, wire.Errorf(1412, "Table definition has changed, please retry transaction")
		}
	}
	return t, nil
}

// wait says how long the session waits for a row, and what ends the wait.
func (s *Session) wait(ctx *sql.Context) txn.Wait {
	return txn.Wait{Time: s.set().rowWait, Interrupt: ctx.Done()}
}

// TableWait says how long the session waits for a table, and what ends the wait.
func (s *Session) TableWait() txn.Wait {
	return txn.Wait{Time: s.set().tableWait, Interrupt: s.interrupt}
}

// Interruptible has what ctx ends end the waits of the statement that begins.
func (s *Session) Interruptible(ctx context.Context) { s.interrupt = ctx.Done() }

// At says at which level the next statement runs. within: in a transaction that goes on behind it. There, and nowhere else, plain reads of SERIALIZABLE
// lock what they read: a statement by itself sees one state anyhow.
func (s *Session) At(level Level, within bool) {
	s.level, s.shares = level, within && level == Serializable
}

// seconds returns a variable that counts seconds.
func (s *Session) seconds(name string, def int64) time.Duration {
	v, err := s.GetSessionVariable(nil, name)
	if n, ok := integer(v); err == nil && ok {
		return time.Duration(n) * time.Second
	}
	return time.Duration(def) * time.Second
}

// Note adds a warning of level Note.
func (s *Session) Note(code int, text string) {
	s.Warn(&sql.Warning{Level: "Note", Code: code, Message: text})
}

// Autocommit reports whether a statement outside of a transaction commits at its end.
func (s *Session) Autocommit() bool { return s.set().autocommit }

// ackVariable is the variable that says what the session's answers wait for: commit or archive.
const ackVariable = "holdfast_ack"

// Ack returns the level that the session has asked for.
func (s *Session) Ack() string {
	v, _ := s.GetSessionVariable(nil, ackVariable) // setGlobals has made it
	level, _ := v.(string)
	return level
}

// SetAck sets the level. Error: one that is neither commit nor archive.
func (s *Session) SetAck(level string) error {
	return s.SetSessionVariable(s.quiet(), ackVariable, level)
}

// UseName makes a database the default. Errors: 1044, 1049.
func (s *Session) UseName(name string) error {
	s.cat = nil
	if !s.mayUse(nameOf(name)) {
		return s.deniedDatabase(nameOf(name))
	}
	if !shownToAll(nameOf(name)) && s.catalogue().Database(nameOf(name)) == nil {
		return wire.Errorf(1049, "Unknown database '%s'", name)
	}
	s.SetCurrentDatabase(nameOf(name))
	return nil
}

// The transaction is the door's: what the library does with one has no effect.

type noTransaction struct{}

func (noTransaction) String() string   { return "" }
func (noTransaction) IsReadOnly() bool { return false }

func (s *Session) StartTransaction(*sql.Context, sql.TransactionCharacteristic) (sql.Transaction, error) {
	return noTransaction{}, nil
}
func (s *Session) CommitTransaction(*sql.Context, sql.Transaction) error           { return nil }
func (s *Session) Rollback(*sql.Context, sql.Transaction) error                    { return nil }
func (s *Session) CreateSavepoint(*sql.Context, sql.Transaction, string) error     { return nil }
func (s *Session) RollbackToSavepoint(*sql.Context, sql.Transaction, string) error { return nil }
func (s *Session) ReleaseSavepoint(*sql.Context, sql.Transaction, string) error    { return nil }

// PrepareQuery and those below it would keep parsed statements in the session: the door keeps them.
func (s *Session) PrepareQuery(string, sqlparser.Statement)            {}
func (s *Session) UnprepareQuery(string)                               {}
func (s *Session) GetPreparedQuery(string) (sqlparser.Statement, bool) { return nil, false }
func (s *Session) CacheQuery(string, sqlparser.Statement)              {}
func (s *Session) GetCachedQuery(string) (sqlparser.Statement, bool)   { return nil, false }
