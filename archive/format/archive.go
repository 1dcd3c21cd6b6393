// Package format has the forms of the log and its snapshots in an object store. The log is objects of consecutive raft entries, each with a
// hash of all entries before it; snapshots are kept in pieces with a manifest. Byte tables: docs/formats/archive.md.
//
// It only makes and judges bytes: it stores nothing, has no clock and no goroutine, and knows of an entry only raft's fields. Its callers
// decide which entries are committed, and the content of a snapshot's piece.
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

// Fault is the error of an object with a wrong content, or in a wrong place: it names where. Nothing of an object with a fault is handed
// out.
type Fault struct {
	Name   string
	Offset int    // where in the object what is wrong begins: a field, or an entry
	Index  uint64 // of the damaged entry; 0: the damage is around the entries
	Reason string
}

func (f *Fault) Error() string {
	if f.Index == 0 {
		return fmt.Sprintf("archive object %s, byte %d: %s", f.Name, f.Offset, f.Reason)
	}
	return fmt.Sprintf("archive object %s, byte %d, entry %d: %s", f.Name, f.Offset, f.Index, f.Reason)
}
