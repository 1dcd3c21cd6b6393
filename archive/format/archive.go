// Package format has the forms in which the log and its snapshots lie in an object store, away from every server: objects of
// consecutive raft entries, each with a hash of all entries before it, and the manifests of snapshots that are kept in pieces. Byte
// tables: docs/formats/archive.md.
//
// It makes bytes and judges bytes and does nothing else: it puts nothing anywhere, has no clock and no goroutine, and knows of an
// entry what raft knows of it. Which entries are committed, and what a piece of a snapshot holds, is for its callers to say.
package format

import (
	"encoding/hex"
	"fmt"
	"hash/crc32"
)

// MaxBytes bounds every object: package objstore reads no more of one.
const MaxBytes = 64 << 20

// Hash is a SHA-256: of the entries of a timeline up to one of them, or of the bytes of a piece.
type Hash [32]byte

// String is the hash in hexadecimal.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Fault is the error of an object that is not what was written under its name, or has no place where it was found: it says where.
// Nothing of an object with a fault is handed out.
type Fault struct {
	Name   string
	Offset int    // where in the object what is wrong begins: a field, or an entry
	Index  uint64 // of the entry that is damaged; 0: no entry is, but what stands around them
	Reason string
}

func (f *Fault) Error() string {
	if f.Index == 0 {
		return fmt.Sprintf("archive object %s, byte %d: %s", f.Name, f.Offset, f.Reason)
	}
	return fmt.Sprintf("archive object %s, byte %d, entry %d: %s", f.Name, f.Offset, f.Index, f.Reason)
}
