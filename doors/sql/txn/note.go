package txn

import (
	sqlmachine "github.com/holdfastdb/holdfast/doors/sql/machine"
	sqlpart "github.com/holdfastdb/holdfast/doors/sql/part"
)

// A table keeps notes of a build, so that the next leader can go on with it. They lie beside the rows under an index that no table has: they go with the
// table, and older builds carry them as they carry every entry. Only a transaction that has the table's definition locked reads or writes them, so they need
// no locks of their own.

// Note names a note of a table.
type Note string

// The notes of a build.
const (
	GoalNote  Note = "goal"  // what the table is to be in the end
	PlaceNote Note = "place" // how far the build is; Backfill writes it with each piece
)

// ReadNote reads a note of a table whose definition the transaction has locked. Errors: those of the store; ErrEnded.
func (x *Tx) ReadNote(table uint64, name Note) (value []byte, exists bool, err error) {
	return x.Newest(table, sqlpart.NotesIndex, []byte(name))
}

// WriteNotes writes notes of a table whose definition the transaction has locked, in one command. A nil value removes the note. Others may use the table, or
// have it locked. Errors: as Commit, and the transaction has ended with ErrTermOver and ErrUnknown.
func (x *Tx) WriteNotes(t *sqlmachine.Table, notes map[Note][]byte) error {
	y := x.Beside()
	defer y.Rollback()
	y.tables[t.ID] = &used{version: t.Version} // the version stays: the definition is locked
	for name, value := range notes {           // any order: the buffer sorts
		if err := y.writeNote(t.ID, name, value); err != nil {
			return err
		}
	}
	err := y.Commit()
	x.endFor(err)
	return err
}

func (x *Tx) writeNote(table uint64, name Note, value []byte) error {
	was, exists, err := x.ReadNote(table, name)
	if err != nil {
		return err
	}
	stored := -1
	if exists {
		stored = len(was)
	}
	switch {
	case value != nil:
		return x.Put(table, sqlpart.NotesIndex, []byte(name), value, stored)
	case exists:
		return x.Delete(table, sqlpart.NotesIndex, []byte(name), stored)
	}
	return nil
}
