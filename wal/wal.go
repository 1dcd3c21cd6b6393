// Package wal keeps the local, durable copy of the commit log in preallocated, recycled segment files.
// It stores raft entries and the hard state and knows nothing of raft's rules or of what an entry means.
// Byte table and recovery rules: docs/formats/wal.md.
package wal

// Entry is one raft entry as it lies on disk. Type is raft's entry type, not interpreted here.
type Entry struct {
	Index, Term uint64
	Type        uint8
	Data        []byte
}

// HardState is what raft must find again after a crash.
type HardState struct{ Term, Vote, Commit uint64 }
