package sql

import (
	"errors"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/holdfastdb/holdfast/doors/sql/engine"
	"github.com/holdfastdb/holdfast/doors/sql/txn"
	"github.com/holdfastdb/holdfast/doors/sql/wire"
)

// savepoint is a place in a transaction's writes to which the client may go back. The locks that were taken since stay, as in InnoDB, but for those of rows that were inserted. Behind a savepoint that was set
// before the transaction had used a table, it begins anew, without locks and without a snapshot: that is as in MySQL, too.
type savepoint struct {
	name  string
	mark  txn.Mark
	first bool
}

// mostSavepoints bounds those of a transaction, and mostName the letters of a name.
const (
	mostSavepoints = 10_000
	mostName       = 64
)

// savepoint is SAVEPOINT, ROLLBACK TO SAVEPOINT and RELEASE SAVEPOINT. Outside of a transaction there is nothing to go back to: as in MySQL, the
// savepoint is gone with its own statement.
func (s *session) savepoint(st *engine.Savepoint, to *wire.Answer) error {
	at := slices.IndexFunc(s.saves, func(x savepoint) bool { return strings.EqualFold(x.name, st.Name) })
	switch {
	case utf8.RuneCountInString(st.Name) > mostName:
		return wire.Errorf(1059, "Identifier name '%s' is too long", st.Name)
	case st.Action == engine.SavepointSet && at < 0 && len(s.saves) >= mostSavepoints:
		return wire.Errorf(wire.ErrOutOfMemory, "Out of memory for more than %d savepoints of a transaction; RELEASE SAVEPOINT gives some back", mostSavepoints)
	case st.Action == engine.SavepointSet:
		if !s.explicit && s.s.Autocommit() {
			break
		}
		if err := s.beginNow(); err != nil { // with autocommit off it may be the first statement
			return err
		}
		if at >= 0 {
			s.tx.Passed(s.saves[at].mark)
			s.saves = slices.Delete(s.saves, at, at+1)
		}
		s.saves = append(s.saves, savepoint{st.Name, s.tx.Mark(), !s.tx.Used() && !s.begun})
	case at < 0:
		return wire.Errorf(1305, "SAVEPOINT %s does not exist", st.Name)
	case st.Action == engine.SavepointBack && s.saves[at].first:
		saves, level, readOnly := s.saves[:at+1], s.level, s.readOnly
		s.rollback()
		s.next = engine.Characteristics{Level: &level, ReadOnly: &readOnly}
		if s.xa != nil {
			s.xa.begins = true
		}
		err := s.beginNow()
		if s.xa != nil {
			s.xa.begins = false
		}
		if err != nil {
			return err
		}
		s.saves = saves
	case st.Action == engine.SavepointBack:
		if pieces := s.tx.RollbackTo(s.saves[at].mark); pieces != nil {
			s.ended()
			if errors.Is(pieces, txn.ErrTermOver) || errors.Is(pieces, txn.ErrUnknown) {
				return s.words(pieces)
			}
			return wire.Errorf(1181, "Got an error during ROLLBACK: a part of what was written behind SAVEPOINT %s is in the log already, so that the whole transaction is rolled back", st.Name)
		}
		s.release(at + 1)
	default:
		s.release(at)
	}
	to.OK(wire.Done{})
	return nil
}

// release forgets the savepoints from one on.
func (s *session) release(from int) {
	for _, x := range s.saves[from:] {
		s.tx.Passed(x.mark)
	}
	s.saves = s.saves[:from]
}
