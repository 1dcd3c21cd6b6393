// Package part holds the command parts of the table machine (doors/sql/machine): the rows that a transaction wrote, at once or in pieces, and
// changes of the catalogue. It is their meaning as data, their encoding, results and rejections. It decides nothing, knows no store and no SQL: keys, values
// and definitions are bytes that the sql door has encoded.
package part

import "github.com/holdfastdb/holdfast/core/entry"

// Machine is the letter of the table machine.
const Machine entry.Machine = 's'

// Kind says what a Part does. Numbers are part of the log's format and are never reused.
type Kind byte

// The kinds of parts.
const (
	Commit   Kind = 1 + iota // the writes of a transaction
	Define                   // changes of the catalogue
	Stage                    // writes of a transaction that is not committed yet, and too large for one Commit
	Decide                   // commits what was staged, or drops it, or has it prepared
	Move                     // moves some of what was staged and committed to its place
	lastKind = Move
)

// Level is the cluster's level from which on the parts may be proposed.
const Level uint16 = 7

// StageLevel is that of Stage, Decide and Move.
const StageLevel uint16 = 8

// PlacesLevel is that of a Define whose tables say where their rows have their columns.
const PlacesLevel uint16 = 9

// RangesLevel is that of a Decide that prepares a transaction with Ranges.
const RangesLevel uint16 = 10

// PartLevel is the cluster's level from which on an encoded part may be proposed, if that is later than the machine's own.
func PartLevel(body []byte) uint16 {
	switch {
	case len(body) > 1 && Kind(body[0]) == Decide && body[1]&flagRanges != 0:
		return RangesLevel
	case len(body) > 0 && Kind(body[0]) >= Stage:
		return StageLevel
	case len(body) > 1 && Kind(body[0]) == Define && body[1]&flagPlaces != 0:
		return PlacesLevel
	}
	return 0
}

// Part is one command to the table machine. Which fields count depends on Kind.
type Part struct {
	Kind Kind

	// Commit, Stage: the tables that the transaction wrote, by ascending id. A Stage has Ops of each, and no other numbers of theirs. Decide: the
	// tables whose next value or next row the transaction raises, without Ops.
	Tables []Writes
	// Commit, Decide: the rows that the transaction has read, by table. The leader sends none: locks and the term protect what a transaction has
	// read. The simulation sends them, and its machines compare.
	Reads []Read

	// Stage, Decide, Move: the number of the transaction, from 1. The leader gives it, and no transaction that is staged has it.
	Tx uint64
	// Stage: this is the transaction's first piece.
	First bool
	// Decide: what becomes of the transaction.
	Verdict Verdict
	// Decide: to commit or to prepare, the hash over all pieces in order, 0 of none. A transaction of which a piece is missing is not committed.
	Hash uint64
	// Decide: to prepare, what the transaction is called. No other one that is prepared has the name.
	Name []byte
	// Decide: to prepare, the locks that the transaction keeps beside those of what it has staged.
	Locks []Lock
	// Decide: to prepare, the ranges that the transaction keeps locked.
	Ranges []Range
	// Move: about how many bytes of keys and values are moved at most. A row is moved if there is one left.
	Bytes uint64

	// Define: what changes, in order. At least one.
	Changes []Change
	// Define: rows of a table that changes say how many places they were written with. The machine takes rows and definitions for bytes: the flag keeps
	// members away that cannot read such a table.
	Places bool
}

// Writes are the writes of a transaction to one table.
type Writes struct {
	Table   uint64
	Version uint64 // of the table's definition, by which the rows are encoded
	// Rows is by how many the table has grown; negative: it has shrunk.
	Rows int64
	// NextAuto is the smallest value that AUTO_INCREMENT may give after these writes. 0: it stays. It never goes down.
	NextAuto uint64
	// NextRow is the smallest number that the table may give to a row without a primary key after these writes. 0: it stays. It never goes down,
	// also where the table is truncated.
	NextRow uint64
	// Overwrote is how many bytes of keys and values in the store these writes replace or delete.
	Overwrote uint64
	// Ops are encoded with AppendOp, in the order in which they are carried out. There is one, or Rows, NextAuto or NextRow is not 0. A list of Op was
	// rejected: a commit of 8 MiB can have millions, and the machine needs one at a time.
	Ops []byte
}

// Verdict is what becomes of a transaction that was staged.
type Verdict byte

// The verdicts.
const (
	CommitStaged Verdict = 1 + iota
	DropStaged
	// PrepareStaged keeps the transaction whatever happens, until one of the others is decided. It may have staged nothing.
	PrepareStaged
	lastVerdict = PrepareStaged
)

// Lock is a row, or an entry of an index, that a prepared transaction has locked and not written.
type Lock struct {
	Table, Index uint64
	Key          []byte
	Shared       bool
}

// Range are rows and entries of a table that a prepared transaction has locked, whether or not they are there.
type Range struct {
	Table uint64
	// From and To are the first key and the first behind the last, each behind its index as two bytes. None: the beginning and the end of the table.
	From, To []byte
	Shared   bool
}

// Action says what an Op does.
type Action byte

// The actions. Insert and Update are carried out alike. A machine that verifies holds them to what the store has. The Ops of a Stage say what they do
// to the rows that are committed, whatever earlier pieces of the transaction did.
const (
	Insert Action = iota
	Update
	Delete
	Retract // of a Stage alone: an earlier piece has inserted the row, and there will be none
)

// Op writes one row, or one entry of an index.
type Op struct {
	Action Action
	Index  uint64 // 0: the rows themselves
	Key    []byte // in the index's order; not empty
	Value  []byte // nothing for Delete and Retract
}

// Read is a row that a transaction has seen.
type Read struct {
	Table, Index uint64
	Key          []byte
	Hash         uint64 // xxhash64 of the value; 0: there was no row
}

// Verb says what a Change does.
type Verb byte

// The verbs.
const (
	CreateDatabase Verb = 1 + iota
	AlterDatabase       // a definition
	DropDatabase        // with all its tables
	CreateTable
	AlterTable // a name, a database, a definition or indexes
	DropTable
	Truncate // without its rows
	lastVerb = Truncate
)

// Change is one change of the catalogue.
type Change struct {
	Verb Verb
	// Object is the id of a database or a table that is there. Creating: 0.
	Object uint64
	// Version is that of the definition on which the part was decided, also where an earlier change of the part makes it another one. Creating: 0.
	Version uint64
	// Database is the id of a table's database. 0 in CreateTable: of the database that this part has created last.
	Database uint64
	// Name and Definition are of databases and tables that are created or altered.
	Name       string
	Definition []byte
	// Indexes are all that the table has from now on, by ascending id. The entries of an index that is not among them any more are deleted.
	Indexes []Index
	// NextAuto of a table that is created, altered or truncated; 0: as it was, or 1.
	NextAuto uint64
}

// Index is an index of a table. The rows themselves are no Index.
type Index struct {
	ID    uint64 // from 1; an id is never used again in a table
	State State
}

// State is how far an index has been built.
type State byte

// The states. A reader uses an index in Public alone, a writer keeps the entries of each.
const (
	Building State = 1
	Public   State = 2
)

// Bounds of a part.
const (
	MaxTables     = 4096    // tables of one Commit
	MaxChanges    = 4096    // changes of one Define
	MaxName       = 256     // bytes of a name: 64 characters of four bytes
	MaxDefinition = 1 << 20 // bytes of a definition
	MaxXID        = 192     // bytes of the name of a prepared transaction: MySQL's 128, and what goes with them
	MaxIndexes    = 64      // indexes of a table, as in MySQL
	MaxIndexID    = 1<<16 - 1
	NotesIndex    = MaxIndexID // under which a table keeps notes of work on it, by their names; no Index has it
	MaxKey        = 8 << 10    // bytes of a row's key: MySQL's 3,072 with every byte escaped, and what goes with them
	MaxRanges     = 256 << 10  // bytes of the ranges of a prepared transaction, which every member has in memory
	MaxID         = 1<<32 - 1
)

// Defined is the result of a Define.
type Defined struct {
	// Version is the catalogue's from now on, and that of each definition that has changed.
	Version uint64
	// Created are the ids of what was created, in the order of the changes.
	Created []uint64
}

// Moved is the result of a Move.
type Moved struct {
	// Done: nothing of the transaction is staged any more.
	Done bool
}

// Rejection codes.
const (
	StaleDefinition entry.Code = 801 // a table was altered or dropped since its definition was read
	DatabaseExists  entry.Code = 802
	UnknownDatabase entry.Code = 803
	TableExists     entry.Code = 804
	UnknownTable    entry.Code = 805
	CatalogueFull   entry.Code = 806 // no room for another definition
	NotStaged       entry.Code = 807 // the transaction is not staged, or not as the part has it
	TableMoving     entry.Code = 808 // rows of the table are committed and not moved yet, or prepared
	DuplicateName   entry.Code = 809 // another prepared transaction has the name
	MalformedPart   entry.Code = 899 // a part this build decodes but nobody should have proposed
)
