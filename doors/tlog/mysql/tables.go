// Package mysql keeps a transparency log in a MySQL or MariaDB database, in the five tables that Tessera v1.0.2 uses there. Tessera's
// programs can read them. docs/formats/tlog-tables.md has their content. There is the database, and memory, for tests.
//
// It knows rows and not their meaning. The caller decides whose log it is and whether it may be continued, and keeps the rows consistent.
// It is not for the server's own state.
package mysql

import (
	"context"
	"errors"
)

// ErrVersion: the tables are of another version than the one this package knows.
var ErrVersion = errors.New("tables of another version of Tessera")

// State is the tables' state of the log as a whole.
type State struct {
	// Note is the published checkpoint, nil if there is none yet.
	Note []byte
	// Size and Root are of the tree whose bundles and tiles the tables hold. It is at least the checkpoint's, and larger after a
	// publication that was interrupted before its checkpoint. Root is nil if there is no tree.
	Size uint64
	Root []byte
}

// Tables is a place for one log. Implementations are safe for concurrent use. An error other than ErrVersion may be transient:
// the call may be repeated.
type Tables interface {
	// State returns the state; the zero one if there are no tables. Nothing is written.
	State(ctx context.Context) (State, error)
	// Bundle returns an entry bundle and how many entries it has, Tile the hashes of a tile; nil if there is no such row.
	Bundle(ctx context.Context, n uint64) (entries []byte, width int, err error)
	Tile(ctx context.Context, level int, n uint64) (hashes []byte, err error)
	// Begin makes the tables if they are missing and begins a transaction. Until it ends every other one waits in Begin.
	Begin(ctx context.Context) (Tx, error)
}

// Tx is one transaction, for one goroutine. Readers see nothing of it until Commit, and all of it afterwards. After an error
// only Rollback is left.
type Tx interface {
	// State is the state at the transaction's beginning; no other transaction can have changed it meanwhile.
	State() State
	// PutBundle writes an entry bundle, of width entries. The bytes must stay as they are until the transaction ends.
	PutBundle(ctx context.Context, n uint64, width int, entries []byte) error
	// PutTile writes a tile. The bytes must stay as they are until the transaction ends.
	PutTile(ctx context.Context, level int, n uint64, hashes []byte) error
	// Commit writes the tree's size and root and, if note is not nil, the checkpoint, and makes all of it visible and durable
	// together. After an error it may have happened all the same: State shows it.
	Commit(ctx context.Context, size uint64, root, note []byte) error
	// Rollback drops what was put. After Commit it does nothing.
	Rollback()
}
