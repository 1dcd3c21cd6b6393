package sql

import (
	"slices"

	"github.com/holdfastdb/holdfast/doors/sql/engine"
	"github.com/holdfastdb/holdfast/doors/sql/lock"
	"github.com/holdfastdb/holdfast/doors/sql/txn"
	"github.com/holdfastdb/holdfast/doors/sql/wire"
)

// keep returns what the session keeps locked beyond its transactions, and begins it if there is nothing yet.
func (s *session) keep() (*txn.Hold, error) {
	if s.hold == nil {
		h, err := s.d.worker.Hold(s.tx, s.turn)
		if err != nil {
			return nil, err
		}
		s.hold = h
		s.doing.hold.Store(h)
	}
	return s.hold, nil
}

// locks is what the engine needs of that.
func (s *session) locks() engine.Locks {
	return engine.Locks{Hold: s.keep, Held: func() *txn.Hold { return s.hold }, NameOf: s.d.worker.NameOf}
}

// lost tells the client, once, that the leader has changed and nothing that it kept locked is locked any more.
func (s *session) lost() error {
	if s.hold == nil {
		return nil
	}
	if s.hold.Empty() {
		s.hold = nil
		s.doing.hold.Store(nil)
		return nil
	}
	if !s.hold.Over() {
		return nil
	}
	s.hold = nil
	s.doing.hold.Store(nil)
	s.s.SetLocked(nil)
	s.rollback()
	return wire.Errorf(1213, "Deadlock found when trying to get lock; try restarting transaction (the leader changed; the transaction had no effect, and the locks of GET_LOCK and LOCK TABLES are gone)")
}

// letGo gives everything back that the session keeps locked.
func (s *session) letGo() {
	if s.hold != nil {
		s.hold.Release()
		s.hold = nil
		s.doing.hold.Store(nil)
	}
	s.s.SetLocked(nil)
}

// unlockTables gives back what LOCK TABLES has locked.
func (s *session) unlockTables() {
	if s.s.Locked() != nil {
		s.hold.UnlockTables()
		s.s.SetLocked(nil)
	}
}

// tables is LOCK TABLES, UNLOCK TABLES and FLUSH TABLES.
func (s *session) tables(st *engine.Tables, to *wire.Answer) error {
	var err error
	switch st.Action {
	case engine.LockTables:
		if err = s.commit(); err == nil {
			s.unlockTables()
			err = s.lockTables(st.Locks)
		}
	case engine.UnlockTables:
		if s.s.Locked() != nil {
			err = s.commit()
			s.unlockTables()
		}
		if s.hold != nil {
			s.hold.Thaw()
		}
	case engine.Freeze:
		if s.s.Locked() != nil {
			return errLockedTables
		}
		if err = s.commit(); err == nil {
			err = s.freeze()
		}
	default:
		err = s.commit()
	}
	if err != nil {
		return s.words(err)
	}
	to.OK(wire.Done{})
	return nil
}

var (
	errLockedTables = wire.Errorf(1192, "Can't execute the given command because you have active locked tables or an active transaction")
	errFrozen       = wire.Errorf(1223, "Can't execute the query because you have a conflicting read lock")
)

func (s *session) freeze() error {
	h, err := s.keep()
	if err != nil {
		return err
	}
	return h.Freeze(s.s.TableWait())
}

// lockTables locks tables, all or none. A table whose definition changes meanwhile is looked up again.
func (s *session) lockTables(all []engine.TableLock) error {
	h, err := s.keep()
	if err != nil {
		return err
	}
	for {
		found, err := s.s.Find(all)
		if err != nil {
			return err
		}
		for _, l := range found {
			mode := lock.Shared
			if l.Write {
				if mode = lock.Exclusive; h.Frozen() {
					return errFrozen
				}
			}
			if err = h.LockTable(l.ID, mode, s.s.TableWait()); err != nil {
				break
			}
		}
		if err == nil {
			err = h.Confirm()
		}
		if err != nil {
			h.UnlockTables()
			return err
		}
		again, err := s.s.Find(all)
		if err == nil && slices.Equal(found, again) {
			s.s.SetLocked(found)
			return nil
		}
		h.UnlockTables()
	}
}

// relock locks the tables again that a definition has given another id: TRUNCATE does.
func (s *session) relock() error {
	if s.s.Locked() == nil {
		return nil
	}
	var all []engine.TableLock
	for _, l := range s.s.Locked() {
		if s.s.Exists(l.Database, l.Name) {
			all = append(all, engine.TableLock{Database: l.Database, Name: l.Name, Write: l.Write})
		}
	}
	s.unlockTables()
	if all == nil {
		return nil
	}
	return s.lockTables(all)
}

// beginWrite begins a write of the session, unless it has begun. It waits while another session has frozen all writes (FLUSH TABLES WITH READ LOCK).
func (s *session) beginWrite() error {
	if s.writing != nil {
		return nil
	}
	if s.hold != nil && s.hold.Frozen() {
		return errFrozen
	}
	tx, err := s.begin()
	if err == nil {
		err = tx.Write(s.s.TableWait())
	}
	if err == nil {
		s.writing = tx
	}
	return err
}

// endWrite ends the write, if one has begun.
func (s *session) endWrite() {
	if s.writing != nil {
		s.writing.WriteDone()
		s.writing = nil
	}
}
