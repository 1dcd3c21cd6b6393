package sql

import (
	"context"
	"errors"
	"time"

	"github.com/holdfastdb/holdfast/doors/sql/engine"
	"github.com/holdfastdb/holdfast/doors/sql/txn"
	"github.com/holdfastdb/holdfast/doors/sql/wire"
)

// statement runs one statement in the session's transaction. The statement's own writes are taken back where it fails, and its transaction where there
// is none around it. The answer goes out behind the commit.
func (s *session) statement(ctx context.Context, st *engine.Statement, params []wire.Param, to *wire.Answer) error {
	if err := s.xa.judge(st); err != nil {
		return err
	}
	switch st.Kind {
	case engine.KindXA:
		return s.distributed(st.XA, to)
	case engine.KindBegin:
		return s.beginExplicit(st, to)
	case engine.KindCommit, engine.KindRollback:
		return s.complete(st, to)
	case engine.KindSavepoint:
		return s.savepoint(st.Savepoint, to)
	case engine.KindTables:
		return s.tables(st.Tables, to)
	case engine.KindDefine:
		return s.define(ctx, st, to)
	case engine.KindAccount:
		return s.account(ctx, st.Account, to)
	}
	if st.Characteristics != nil {
		return s.characterise(st, to)
	}
	if st.CommitsBefore() {
		if err := s.commit(); err != nil {
			return err
		}
	}
	if st.Kind == engine.KindWrite && s.mayOnlyRead() {
		return errReadOnly
	}
	autocommit := s.s.Autocommit()
	var mark txn.Mark
	if s.tx != nil {
		tx := s.tx
		mark = tx.Mark()
		defer tx.Passed(mark)
		if s.level.EachStatement() {
			if err := s.tx.Refresh(); err != nil {
				return s.failed(err, mark)
			}
			s.s.Refreshed()
		}
	}
	level := s.nextLevel()
	if s.tx != nil {
		level = s.level
	}
	s.s.At(level, s.explicit || !autocommit)
	alone := s.tx == nil && s.xa == nil && autocommit && !s.explicit
	next := s.next
	out, err := s.once(ctx, st, params, autocommit, to)
	for tries := 1; err != nil && alone && tries < mostTries && s.again(ctx, st, err, to); tries++ {
		s.next = next
		out, err = s.once(ctx, st, params, autocommit, to)
	}
	if err != nil {
		return s.failed(err, mark)
	}
	if s.tx != nil && !s.s.Autocommit() {
		s.explicit = true
	}
	if st.Kind == engine.KindOther {
		if err := s.judgeAck(); err != nil {
			return err
		}
	}
	if s.rows = out.Sent; !out.Rows {
		s.rows = out.Done.Affected
	}
	if out.Rows {
		to.End(out.Warnings)
	} else {
		to.OK(out.Done)
	}
	return nil
}

// once runs a statement, and commits where nothing is around it.
func (s *session) once(ctx context.Context, st *engine.Statement, params []wire.Param, autocommit bool, to *wire.Answer) (engine.Outcome, error) {
	if st.Kind == engine.KindWrite {
		if err := s.beginWrite(); err != nil {
			return engine.Outcome{}, err
		}
	}
	limit := s.s.TimeLimit(st)
	limited, cancel := ctx, func() {}
	if limit > 0 {
		limited, cancel = context.WithTimeout(ctx, limit)
	}
	out, err := s.s.Run(limited, st, params, s.opens, to)
	if cancel(); err != nil && isInterrupt(err) && ctx.Err() == nil {
		err = wire.Errorf(errTooLong, "Query execution was interrupted, maximum statement execution time exceeded")
	}
	if err == nil && s.xa == nil && (!autocommit && s.s.Autocommit() || s.s.Autocommit() && !s.explicit) {
		err = s.commitOpen()
	}
	return out, err
}

// isInterrupt reports whether an error says that a statement was interrupted.
func isInterrupt(err error) bool {
	var own *wire.Error
	return errors.Is(err, txn.ErrInterrupted) || errors.As(err, &own) && own.Code == wire.ErrInterrupted
}

var errReadOnly = wire.Errorf(1792, "Cannot execute statement in a READ ONLY transaction")

// begin returns the open transaction, or opens one as the session's variables and SET TRANSACTION say.
func (s *session) begin() (*txn.Tx, error) {
	if s.tx == nil {
		if s.xa != nil && !s.xa.begins {
			return nil, errRolledBack
		}
		tx, err := s.beginBeside()
		if err != nil {
			return nil, err
		}
		tx.TakeTurns(s.turn)
		s.tx, s.term, s.level, s.readOnly = tx, tx.Term(), s.nextLevel(), s.mayOnlyRead()
		s.next = engine.Characteristics{}
		tx.LimitView(s.s.ViewLimit())
		s.shows(tx)
	}
	return s.tx, nil
}

// beginBeside begins a transaction beside what the session keeps locked.
func (s *session) beginBeside() (*txn.Tx, error) {
	if s.hold != nil {
		return s.hold.Begin()
	}
	return s.d.worker.Begin()
}

// nextLevel is the level of the next transaction.
func (s *session) nextLevel() engine.Level {
	if s.next.Level != nil {
		return *s.next.Level
	}
	return s.s.Level()
}

// mayOnlyRead reports whether the transaction that is open, or the next one, may not write.
func (s *session) mayOnlyRead() bool {
	switch {
	case s.tx != nil:
		return s.readOnly
	case s.next.ReadOnly != nil:
		return *s.next.ReadOnly
	}
	return s.s.ReadOnly()
}

// beginExplicit is BEGIN: it commits what is open.
func (s *session) beginExplicit(st *engine.Statement, to *wire.Answer) error {
	if err := s.commit(); err != nil {
		return err
	}
	s.unlockTables()
	if st.Access != nil {
		s.next.ReadOnly = st.Access
	}
	if err := s.beginNow(); err != nil {
		return err
	}
	s.begun = st.Snapshot
	if st.Snapshot && s.level == engine.RepeatableRead {
		if err := s.s.Snapshot(s.tx); err != nil {
			return s.failed(err, txn.Mark{})
		}
	}
	to.OK(wire.Done{})
	return nil
}

// beginNow opens a transaction that the client has asked for.
func (s *session) beginNow() error {
	if _, err := s.begin(); err != nil {
		return s.failed(err, txn.Mark{})
	}
	s.explicit = true
	return nil
}

// complete is COMMIT and ROLLBACK. The transaction that is chained has the level and the access of the one that ends.
func (s *session) complete(st *engine.Statement, to *wire.Answer) error {
	chain, release := s.s.Completion()
	if st.Chain != engine.ChoiceDefault || st.Release != engine.ChoiceDefault {
		chain, release = st.Chain == engine.ChoiceYes, st.Release == engine.ChoiceYes
	}
	next := engine.Characteristics{}
	if level, readOnly := s.level, s.readOnly; s.tx != nil {
		next = engine.Characteristics{Level: &level, ReadOnly: &readOnly}
	}
	if st.Kind == engine.KindRollback {
		s.rollback()
	} else if err := s.commit(); err != nil {
		return err
	}
	if chain {
		s.next = next
		if err := s.beginNow(); err != nil {
			return err
		}
	}
	to.OK(wire.Done{})
	if release {
		to.Last()
	}
	return nil
}

// characterise is SET TRANSACTION.
func (s *session) characterise(st *engine.Statement, to *wire.Answer) error {
	switch c := st.Characteristics; {
	case st.ForSession():
		if err := s.s.Characterise(*c); err != nil {
			return err
		}
	case s.tx != nil:
		return wire.Errorf(1568, "Transaction characteristics can't be changed while a transaction is in progress")
	default:
		if c.Level != nil {
			s.next.Level = c.Level
		}
		if c.ReadOnly != nil {
			s.next.ReadOnly = c.ReadOnly
		}
	}
	to.OK(wire.Done{})
	return nil
}

// define changes the catalogue in a transaction of its own, behind the commit of the one that is open.
func (s *session) define(ctx context.Context, st *engine.Statement, to *wire.Answer) error {
	if s.mayOnlyRead() {
		return errReadOnly
	}
	if err := s.commit(); err != nil {
		return err
	}
	if err := s.beginWrite(); err != nil {
		err = s.failed(err, txn.Mark{})
		s.rollback()
		return err
	}
	out, err := s.s.Run(ctx, st, nil, s.opens, to)
	if err != nil {
		err = s.failed(err, txn.Mark{})
		s.rollback()
		return err
	}
	if s.tx != nil {
		s.wrote(s.tx)
	}
	s.rollback() // the change is in the log: what is left are the locks
	if err := s.relock(); err != nil {
		return s.words(err)
	}
	to.OK(out.Done)
	return nil
}

// commit ends the open transaction.
func (s *session) commit() error {
	if err := s.commitOpen(); err != nil {
		return s.words(err)
	}
	return nil
}

// commitOpen is commit, with the errors of txn.
func (s *session) commitOpen() error {
	if s.tx == nil {
		s.explicit = false
		return nil
	}
	tx := s.tx
	var began time.Time
	if tx.Writes() {
		if err := s.beginWrite(); err != nil {
			return err
		}
		began = s.d.counts.commits.Begin()
	}
	if s.writing != nil { // the write lasts as long as the commit
		defer s.writing.WriteDone()
		s.writing = nil
	}
	s.ended()
	s.shows(tx) // a large one takes a while
	defer s.doing.tx.Store(nil)
	if err := tx.Commit(); err != nil {
		return err
	}
	s.d.counts.commits.End(began)
	s.wrote(tx)
	return nil
}

func (s *session) rollback() {
	if s.tx != nil {
		s.tx.Rollback()
	}
	s.ended()
}

func (s *session) ended() {
	s.endWrite()
	s.tx, s.explicit, s.saves, s.begun = nil, false, nil, false
	s.doing.tx.Store(nil)
	s.s.Ended()
}

// failed takes a statement back, or the whole transaction where the error has ended it or nothing is around the statement.
func (s *session) failed(err error, mark txn.Mark) error {
	switch {
	case s.tx == nil:
	case errors.Is(err, txn.ErrDeadlock), errors.Is(err, txn.ErrTermOver), errors.Is(err, txn.ErrUnknown), errors.Is(err, txn.ErrTooOld), errors.Is(err, txn.ErrEnded):
		s.ended()
	case !s.explicit && s.s.Autocommit():
		s.rollback()
	default:
		pieces := s.tx.RollbackTo(mark)
		if errors.Is(pieces, txn.ErrTermOver) || errors.Is(pieces, txn.ErrUnknown) {
			s.ended()
			return s.words(pieces)
		}
		if pieces != nil {
			s.ended()
			return wire.Errorf(1181, "Got an error during ROLLBACK: a part of what the statement has written is in the log already, so that the whole transaction is rolled back. "+
				"The statement's own error: %v", s.words(err))
		}
		if !s.s.Autocommit() {
			s.explicit = true
		}
	}
	return s.words(err)
}
