package sql

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/core/node"
	"github.com/holdfastdb/holdfast/doors/sql/account"
	"github.com/holdfastdb/holdfast/doors/sql/engine"
	sqlpart "github.com/holdfastdb/holdfast/doors/sql/part"
	"github.com/holdfastdb/holdfast/doors/sql/turn"
	"github.com/holdfastdb/holdfast/doors/sql/txn"
	"github.com/holdfastdb/holdfast/doors/sql/wire"
	"github.com/holdfastdb/holdfast/internal/like"
)

// session is a client's connection: its variables and its transaction. It belongs to the connection's goroutine.
type session struct {
	d           *Door
	client      *wire.Client
	user        *account.Client
	accountName string // user@host
	s           *engine.Session

	tx       *txn.Tx                // that is open; nil: none
	explicit bool                   // BEGIN has opened it, or autocommit is off
	term     uint64                 // of the transaction that was opened last
	level    engine.Level           // of tx
	readOnly bool                   // tx may not write
	next     engine.Characteristics // of the next transaction alone (SET TRANSACTION)
	saves    []savepoint            // of tx, in their order
	begun    bool                   // tx was begun WITH CONSISTENT SNAPSHOT, at any level: no savepoint stands before it

	xa *branch // of a distributed transaction, until it is prepared or has ended; nil: none

	hold    *txn.Hold // what is locked beyond transactions; nil: nothing
	writing *txn.Tx   // whose write has begun; nil: none

	turn  *turn.Turn
	acked acked  // of the command that runs
	rows  uint64 // that the statement has sent or changed
	doing doing

	opens func() (*txn.Tx, error) // begin, made once: a statement costs no allocation for it
}

// newSession is a client that has proved who it is.
func (d *Door) newSession(c *wire.Client) (*session, error) {
	s := &session{d: d, client: c, user: d.opt.Users.Client(c), turn: d.turns.Turn()}
	s.opens = s.begin
	s.accountName = s.user.Name.User + "@" + s.user.Name.Host
	s.open()
	if c.Database != "" {
		if err := s.s.UseName(c.Database); err != nil {
			return nil, err
		}
	}
	s.doing.end(s.s.GetCurrentDatabase())
	return s, nil
}

// open gives the session fresh variables.
func (s *session) open() {
	s.s = s.d.engine.NewSession(engine.Client{ID: s.client.ID, User: s.client.User, Host: s.user.Host,
		Account: s.accountName, Rights: s.user, Locks: s.locks(), State: s.doing.say,
		FoundRows: s.client.Capabilities&wire.FoundRows != 0, TLSVersion: s.client.TLSVersion, TLSCipher: s.client.TLSCipher})
	s.defaultAck()
}

// longText is how many bytes of a statement take long to parse.
const longText = 32 << 10

// Query implements wire.Session.
func (s *session) Query(ctx context.Context, text []byte, to *wire.Answer) error {
	s.acked = acked{}
	defer s.turn.End()
	if len(text) >= longText {
		s.turn.Long()
	}
	rest := string(text)
	for first := true; ; first = false {
		st, next, err := s.d.engine.Parse(s.s.Mode(), rest)
		if err != nil {
			return s.d.counts.failed(err)
		}
		if st.Kind == engine.KindEmpty {
			if first && st.Comments {
				to.OK(wire.Done{})
				return nil
			}
			if first {
				return wire.Errorf(1065, "Query was empty")
			}
			return nil
		}
		if next != "" && s.client.Capabilities&wire.MultiStatements == 0 {
			return wire.Errorf(1064, "You have an error in your SQL syntax; check the manual that corresponds to your MySQL server version for the right syntax to use near '%s' at line %d",
				short(next), 1+strings.Count(rest[:len(rest)-len(next)], "\n"))
		}
		to.More(next != "")
		if err := s.run(ctx, st, nil, to); err != nil {
			return err
		}
		if next == "" {
			return nil
		}
		rest = next
	}
}

func short(s string) string {
	if r := []rune(s); len(r) > 80 {
		return string(r[:80])
	}
	return s
}

// Prepare implements wire.Session.
func (s *session) Prepare(ctx context.Context, text []byte) (wire.Prepared, error) {
	return s.d.texts.prepare(ctx, s, text)
}

// Execute implements wire.Session.
func (s *session) Execute(ctx context.Context, p wire.Prepared, params []wire.Param, to *wire.Answer) error {
	s.acked = acked{}
	defer s.turn.End()
	text := p.(*prepared).text
	st, err := text.take(s.d.engine)
	if err != nil {
		return s.d.counts.failed(err)
	}
	defer text.give(st)
	return s.run(ctx, st, params, to)
}

// run runs and counts one statement.
func (s *session) run(ctx context.Context, st *engine.Statement, params []wire.Param, to *wire.Answer) error {
	s.doing.begin(st)
	s.rows = 0
	s.s.Interruptible(ctx)
	err := s.lost()
	if err == nil || st.Kind == engine.KindRollback {
		err = s.statement(ctx, st, params, to)
		s.endWrite()
	}
	s.d.statements.add(s.accountName, st.Digest, s.doing.end(s.s.GetCurrentDatabase()), s.rows, err != nil)
	s.acked.saw = s.acked.saw || err != nil || st.Kind != engine.KindWrite
	s.d.counts.add(st.Kind, err)
	return err
}

// words turns an error of a transaction into MySQL's.
func (s *session) words(err error) error {
	var own *wire.Error
	var rejected *entry.Rejection
	switch {
	case errors.As(err, &own):
		return own
	case errors.Is(err, txn.ErrNotPrepared):
		return errUnknownXID
	case errors.Is(err, txn.ErrPrepared):
		return errDuplicateXID
	case errors.Is(err, txn.ErrNotLeader):
		return wire.Errorf(1290, "The Holdfast server is running with the --read-only option so it cannot execute this statement: %s", s.d.leaderText())
	case errors.Is(err, txn.ErrTermOver):
		return wire.Errorf(1213, "Deadlock found when trying to get lock; try restarting transaction (the leader changed; the transaction had no effect)")
	case errors.Is(err, txn.ErrTooOld):
		return wire.Errorf(1213, "Snapshot too old; try restarting transaction (it is rolled back: its snapshot was older than holdfast_view_seconds allows one that locks rows, or the store kept more than holdfast_view_bytes for it)")
	case errors.Is(err, node.ErrTooManyViews):
		return wire.Errorf(1637, "Too many active concurrent transactions: their snapshots are of more states of the store than are kept at a time; try it again")
	case errors.Is(err, txn.ErrDeadlock):
		return wire.Errorf(1213, "Deadlock found when trying to get lock; try restarting transaction")
	case errors.Is(err, txn.ErrLockTimeout):
		return wire.Errorf(1205, "Lock wait timeout exceeded; try restarting transaction")
	case errors.Is(err, txn.ErrBusy):
		return wire.Errorf(3572, "Statement aborted because lock(s) could not be acquired immediately and NOWAIT is set.")
	case errors.Is(err, txn.ErrInterrupted), errors.Is(err, context.Canceled):
		return wire.Errorf(wire.ErrInterrupted, "Query execution was interrupted")
	case errors.Is(err, txn.ErrRanges):
		return wire.Errorf(1235, "This version of Holdfast doesn't yet support 'XA PREPARE of a transaction that has locked ranges (SERIALIZABLE), or a table in place of many rows, before every member has this build'; it is rolled back; `holdfast status` names the cluster's level")
	case errors.Is(err, txn.ErrTooManyLocks):
		return wire.Errorf(1206, "The total number of locks exceeds the lock table size")
	case errors.Is(err, txn.ErrTooLarge):
		return wire.Errorf(1197, "Multi-statement transaction required more than 'max_binlog_cache_size' bytes of storage; a transaction of this server takes 256 MiB at most, and 8 MiB before every member's build stages transactions (`holdfast status` names the cluster's level)")
	case errors.Is(err, txn.ErrOverloaded):
		return wire.Errorf(1203, "The log takes no more at present; the transaction had no effect, try it again")
	case errors.Is(err, txn.ErrLevel):
		return wire.Errorf(1290, "The Holdfast server is running with the --read-only option so it cannot execute this statement: %v; `holdfast status` says which member's build does not know tables, and where the level is held `holdfast member raise-level` raises it", err)
	case errors.Is(err, txn.ErrUnknown):
		return wire.Errorf(wire.ErrShutdown, "Server shutdown in progress: whether the transaction was committed is not known")
	case errors.As(err, &rejected) && rejected.Code == sqlpart.StaleDefinition:
		return wire.Errorf(1412, "Table definition has changed, please retry transaction")
	}
	return wire.Errorf(wire.ErrUnknown, "%s", err.Error())
}

// UseDatabase implements wire.Session.
func (s *session) UseDatabase(_ context.Context, name string) error {
	err := s.s.UseName(name)
	s.doing.end(s.s.GetCurrentDatabase())
	return err
}

// Fields implements wire.Session.
func (s *session) Fields(ctx context.Context, table, pattern string) ([]wire.Column, error) {
	st, _, err := s.d.engine.Parse(s.s.Mode(), fmt.Sprintf("SELECT * FROM `%s` LIMIT 0", strings.ReplaceAll(table, "`", "``")))
	if err != nil {
		return nil, err
	}
	all, err := s.s.Columns(ctx, st)
	if err != nil || pattern == "" || pattern == "%" {
		return all, err
	}
	var some []wire.Column
	for _, c := range all {
		if like.Match(strings.ToLower(c.Name), strings.ToLower(pattern)) {
			some = append(some, c)
		}
	}
	return some, nil
}

// Statistics implements wire.Session.
func (s *session) Statistics() string { return s.d.statistics() }

// Status implements wire.Session.
func (s *session) Status() (st wire.Status) {
	if s.s.Autocommit() {
		st |= wire.Autocommit
	}
	if s.tx != nil && s.explicit {
		st |= wire.InTransaction
		if s.readOnly {
			st |= wire.ReadOnlyTransaction
		}
	}
	return st
}

// Reset implements wire.Session.
func (s *session) Reset(context.Context) error {
	s.rollback()
	s.letGo()
	s.xa = nil
	database := s.s.GetCurrentDatabase()
	s.open()
	s.s.SetCurrentDatabase(database)
	return nil
}

// Close implements wire.Session.
func (s *session) Close() {
	s.rollback()
	s.letGo()
	s.d.clients.leave(s)
}
