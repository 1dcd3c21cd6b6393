package sql

import (
	"slices"

	"github.com/holdfastdb/holdfast/doors/sql/engine"
	"github.com/holdfastdb/holdfast/doors/sql/wire"
)

// branch is a distributed transaction of a session (XA). It is active, then idle, and then prepared: from there on it belongs to no session.
type branch struct {
	name   string
	idle   bool
	begins bool // its transaction is about to begin
}

// The errors of distributed transactions that stand for nothing else.
var (
	errUnknownXID   = wire.Errorf(1397, "XAER_NOTA: Unknown XID")
	errDuplicateXID = wire.Errorf(1440, "XAER_DUPID: The XID already exists")
	errOutside      = wire.Errorf(1400, "XAER_OUTSIDE: Some work is done outside global transaction")
	errRolledBack   = wire.Errorf(1402, "XA_RBROLLBACK: Transaction branch was rolled back")
)

// inState refuses a statement in a state of the session's branch.
func inState(state string) error {
	return wire.Errorf(1399, "XAER_RMFAIL: The command cannot be executed when global transaction is in the  %s state", state)
}

func (b *branch) state() string {
	switch {
	case b == nil:
		return "NON-EXISTING"
	case b.idle:
		return "IDLE"
	}
	return "ACTIVE"
}

// judge refuses a statement that would end or follow the transaction otherwise than by XA.
func (b *branch) judge(st *engine.Statement) error {
	switch kind := st.Kind; {
	case b == nil || kind == engine.KindXA:
	case b.idle:
		return inState("IDLE")
	case kind == engine.KindTables && st.Tables.Action == engine.UnlockTables: // there are none: XA START has seen to that
	case kind == engine.KindBegin, kind == engine.KindCommit, kind == engine.KindRollback, kind == engine.KindDefine, kind == engine.KindAccount,
		kind == engine.KindTables, st.CommitsBefore():
		return inState("ACTIVE")
	}
	return nil
}

// distributed runs a statement about a distributed transaction.
func (s *session) distributed(xa *engine.XA, to *wire.Answer) error {
	mine := s.xa != nil && s.xa.name == xa.Name
	var err error
	switch xa.Verb {
	case engine.XAStart:
		err = s.startBranch(xa.Name)
	case engine.XAEnd:
		switch {
		case s.xa == nil || s.xa.idle:
			err = inState(s.xa.state())
		case !mine:
			err = errUnknownXID
		default:
			s.xa.idle = true
		}
	case engine.XAPrepare:
		err = s.prepareBranch(mine)
	case engine.XACommit, engine.XARollback:
		err = s.endBranch(xa, mine)
	default:
		return s.recover(xa.Convert, to)
	}
	if err != nil {
		return err
	}
	to.OK(wire.Done{})
	return nil
}

// prepared reports whether a transaction is prepared under a name.
func (s *session) prepared(name string) (bool, error) {
	all, err := s.d.worker.Prepared()
	if err != nil {
		return false, s.words(err)
	}
	return slices.ContainsFunc(all, func(n []byte) bool { return string(n) == name }), nil
}

func (s *session) startBranch(name string) error {
	switch {
	case s.xa != nil:
		return inState(s.xa.state())
	case s.tx != nil, s.s.Locked() != nil:
		return errOutside
	}
	there, err := s.prepared(name)
	if err != nil {
		return err
	}
	if there {
		return errDuplicateXID
	}
	s.xa = &branch{name: name, begins: true}
	if _, err := s.begin(); err != nil {
		s.xa = nil
		return s.words(err)
	}
	s.xa.begins, s.explicit = false, true
	return nil
}

// prepareBranch hands the session's branch to whoever decides it. A branch that cannot be prepared is rolled back.
func (s *session) prepareBranch(mine bool) error {
	switch {
	case s.xa == nil || !s.xa.idle:
		return inState(s.xa.state())
	case !mine:
		return errUnknownXID
	case s.tx == nil:
		return errRolledBack
	}
	tx, name := s.tx, s.xa.name
	if tx.Writes() {
		if err := s.beginWrite(); err != nil {
			return s.failed(err, tx.Mark())
		}
	}
	if s.writing != nil { // the write lasts as long as the command
		defer s.writing.WriteDone()
		s.writing = nil
	}
	s.ended()
	s.xa = nil
	if err := tx.Prepare([]byte(name)); err != nil {
		return s.words(err)
	}
	s.wrote(tx)
	return nil
}

// endBranch commits a branch or rolls it back: that of the session, or one that is prepared.
func (s *session) endBranch(xa *engine.XA, mine bool) error {
	commits := xa.Verb == engine.XACommit
	switch {
	case s.xa != nil && (!s.xa.idle || !mine):
		return inState(s.xa.state())
	case s.xa != nil && !commits:
		s.rollback()
		s.xa = nil
		return nil
	case s.xa != nil && !xa.OnePhase:
		return inState("IDLE")
	case s.xa != nil && s.tx == nil:
		s.xa = nil
		return errRolledBack
	case s.xa != nil:
		s.xa = nil
		return s.commit()
	case xa.OnePhase:
		return inState(s.xa.state())
	case s.tx != nil:
		return errOutside
	}
	if commits { // it waits while another session has frozen all writes
		next := s.next
		err := s.beginWrite()
		s.next = next
		defer s.rollback()
		if err != nil {
			return s.words(err)
		}
	}
	res, err := s.d.worker.EndPrepared([]byte(xa.Name), commits)
	if err != nil {
		return s.words(err)
	}
	s.acked.session.Wrote = res
	return nil
}

// recover lists what is prepared.
func (s *session) recover(convert bool, to *wire.Answer) error {
	all, err := s.d.worker.Prepared()
	if err != nil {
		return s.words(err)
	}
	const binary, text = 63, 45 // collations
	var columns []wire.Column
	for _, name := range []string{"formatID", "gtrid_length", "bqual_length"} {
		columns = append(columns, wire.Column{Name: name, Type: wire.LongLong, Collation: binary, Length: 21, Flags: wire.NotNull})
	}
	to.Columns(append(columns, wire.Column{Name: "data", Type: wire.VarString, Collation: text, Length: 520, Flags: wire.NotNull}))
	for _, name := range all {
		x, ok := engine.DecodeXID(name)
		if !ok {
			continue // no statement of this door has prepared it
		}
		to.Int(int64(x.Format))
		to.Int(int64(len(x.Global)))
		to.Int(int64(len(x.Branch)))
		data := append(slices.Clone(x.Global), x.Branch...)
		if convert {
			to.Text(hexText(data))
			continue
		}
		to.Bytes(data)
	}
	to.End(0)
	return nil
}

// hexText writes bytes as a literal that an XID may have.
func hexText(b []byte) string {
	const digits = "0123456789ABCDEF"
	text := []byte("0x")
	for _, c := range b {
		text = append(text, digits[c>>4], digits[c&15])
	}
	return string(text)
}
