package engine

import (
	"cmp"
	"slices"

	"github.com/holdfastdb/holdfast/doors/sql/lock"
	"github.com/holdfastdb/holdfast/doors/sql/wire"
)

// Tables is what a statement does with tables as a whole: LOCK TABLES, UNLOCK TABLES and FLUSH TABLES.
type Tables struct {
	Action TablesAction
	Locks  []TableLock
}

// TablesAction is what Tables do.
type TablesAction byte

// The actions.
const (
	LockTables   TablesAction = iota
	UnlockTables              // and what Freeze has frozen
	FlushTables               // there is nothing to flush
	Freeze                    // FLUSH TABLES WITH READ LOCK
)

// TableLock is a table of LOCK TABLES.
type TableLock struct {
	Database, Name string // as the client has written them; no database: the default one
	Write          bool
}

// lockTables reads the rest of LOCK TABLES.
func (s *signs) lockTables() *Tables {
	t := &Tables{Action: LockTables}
	s.need("tables", "table")
	for again := true; again && s.err == nil; again = s.word(",") {
		l := s.tableName()
		if s.word("as") || s.now.text != "read" && s.now.text != "write" && s.now.text != "low_priority" || s.now.quoted {
			s.name()
		}
		switch {
		case s.word("read"):
			s.word("local")
		default:
			s.word("low_priority")
			s.need("write")
			l.Write = true
		}
		t.Locks = append(t.Locks, l)
	}
	return t
}

func (s *signs) tableName() TableLock {
	l := TableLock{Name: s.name()}
	if s.word(".") {
		l.Database, l.Name = l.Name, s.name()
	}
	return l
}

// flushTables reads the rest of FLUSH TABLES. Nil: the statement flushes something else.
func (s *signs) flushTables() *Tables {
	s.word("local", "no_write_to_binlog")
	if !s.word("tables", "table") {
		return nil
	}
	t := &Tables{Action: FlushTables}
	for again := s.now.text != "" && s.now.text != "with" || s.now.quoted; again && s.err == nil; again = s.word(",") {
		t.Locks = append(t.Locks, s.tableName())
	}
	if s.word("with") {
		s.need("read")
		s.need("lock")
		if t.Action = Freeze; len(t.Locks) > 0 {
			t.Action = LockTables
		}
	}
	return t
}

// Locked is a table that the session has locked by LOCK TABLES.
type Locked struct {
	Database, Name string // as the catalogue has them
	ID             uint64
	Write          bool
}

// Find looks the tables of LOCK TABLES up, in the order of their ids: sessions that lock the same ones do not wait in a circle. Errors: 1046, 1142, 1146.
func (s *Session) Find(all []TableLock) (found []Locked, err error) {
	s.cat = nil
	for _, l := range all {
		name := nameOf(l.Database)
		if name == "" {
			name = nameOf(s.GetCurrentDatabase())
		}
		switch {
		case name == "":
			return nil, wire.Errorf(1046, "No database selected")
		case !s.mayUse(name):
			return nil, s.deniedTable(nameOf(l.Name))
		}
		t := tableOf(s.catalogue().Database(name), nameOf(l.Name))
		if t == nil {
			return nil, wire.Errorf(1146, "Table '%s.%s' doesn't exist", name, nameOf(l.Name))
		}
		found = append(found, Locked{Database: name, Name: nameOf(l.Name), ID: t.ID, Write: l.Write})
	}
	slices.SortStableFunc(found, func(a, b Locked) int { return cmp.Compare(a.ID, b.ID) })
	return found, nil
}

// SetLocked says which tables the session has locked. It may use no others. Nil: it has locked none, and may use all.
func (s *Session) SetLocked(all []Locked) { s.locked = all }

// Locked returns the tables that the session has locked. Nil: none.
func (s *Session) Locked() []Locked { return s.locked }

// Exists reports whether there is a table.
func (s *Session) Exists(databaseName, name string) bool {
	s.cat = nil
	return tableOf(s.catalogue().Database(databaseName), name) != nil
}

// mayUseLocked refuses a table that is not locked for what a statement does with it. Errors: 1099, 1100.
func (s *Session) mayUseLocked(databaseName, name string, mode lock.Mode) error {
	if s.locked == nil {
		return nil
	}
	listed := false
	for _, l := range s.locked {
		if l.Database == databaseName && l.Name == name {
			if listed = true; l.Write || mode != lock.IntentExclusive && mode != lock.Exclusive {
				return nil
			}
		}
	}
	if listed {
		return wire.Errorf(1099, "Table '%s' was locked with a READ lock and can't be updated", name)
	}
	return wire.Errorf(1100, "Table '%s' was not locked with LOCK TABLES", name)
}
