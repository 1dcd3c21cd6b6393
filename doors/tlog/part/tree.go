// Package part holds the command parts of the tree machine (doors/tlog/machine), which keeps transparency logs. It has their meaning as
// data, their encoding, the results and the rejections. It decides nothing and knows no store.
package part

import (
	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/doors/tlog/tiles"
)

// Kind is the effect of a Part. Numbers are part of the log's format and are never reused.
type Kind byte

// The kinds of parts.
const (
	Append     Kind = 1 + iota // add entries to one log
	Create                     // begin a log
	Checkpoint                 // publish signed checkpoints, of one log each
	Resume                     // let a restored log grow and be signed again
	CreateMore                 // begin a log, also where there are MaxLogs already
	lastKind   = CreateMore
)

// MoreLevel is the cluster's level from which on CreateMore may be proposed.
const MoreLevel uint16 = 4

// String is the kind's word in logs.
func (k Kind) String() string {
	switch k {
	case Append:
		return "append"
	case Create:
		return "create"
	case Checkpoint:
		return "checkpoint"
	case Resume:
		return "resume"
	case CreateMore:
		return "create"
	}
	return "?"
}

// Part is one command to the tree machine. Kind selects the fields in use.
type Part struct {
	Kind Kind

	// Append, Resume: the number of the log.
	Log uint64
	// Append: the entries, each as in an entry bundle (two bytes of length, big endian, then itself). At least one, at most
	// MaxEntries.
	Entries []byte
	// Append: a client waits for a checkpoint that covers the entries.
	Hurry bool

	// Create, CreateMore.
	Spec LogSpec
	// Checkpoint: at least one, of different logs, at most MaxCheckpoints.
	Checkpoints []Signed
	// Resume: the tree of this size and root was proved to be a prefix of the log's.
	Size uint64
	Root tiles.Hash
}

// LogSpec is a log's properties that are fixed when it begins.
type LogSpec struct {
	// Name is how paths and flags call the log: see ValidName.
	Name string
	// Key is the public key of its checkpoints; the key's name is the log's origin.
	Key tiles.Verifier
	// Dedup: equal entries get the index of the first. Index: entries can be found by their leaf hash.
	Dedup, Index bool
}

// Signed is a checkpoint and its signed note, byte for byte as everybody will get it.
type Signed struct {
	Log  uint64
	Size uint64
	Root tiles.Hash
	Note []byte
}

// MaxEntries bounds the entries of one part.
const MaxEntries = 4096

// MaxLogs bounds the logs of one server that Create begins, MostLogs those that CreateMore does. Builds that know no CreateMore refuse a log beyond
// MaxLogs, and what Apply refuses is the same on every member.
const (
	MaxLogs  = 256
	MostLogs = 4096
)

// MaxCheckpoints bounds the checkpoints of one part.
const MaxCheckpoints = 256

// MaxNote bounds a checkpoint with all its signatures.
const MaxNote = 64 << 10

// ValidName reports whether a log may have this name: a letter or digit, then up to 62 more or dashes.
func ValidName(name string) bool {
	for i := range len(name) {
		c := name[i]
		if !('a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-' && i > 0) {
			return false
		}
	}
	return len(name) >= 1 && len(name) <= 63
}

// Appended is the result of an Append.
type Appended struct {
	// First is the index of the first entry. Without deduplication, or if no entry was a duplicate, the others follow it.
	First uint64
	// Indexes are the indexes of all entries if some were duplicates; nil otherwise.
	Indexes []uint64
}

// At is the index of the i-th entry.
func (a *Appended) At(i int) uint64 {
	if a.Indexes != nil {
		return a.Indexes[i]
	}
	return a.First + uint64(i)
}

// Rejection codes.
const (
	UnknownLog      entry.Code = 601 // no log of that number
	LogExists       entry.Code = 602 // the name or the key is taken
	TooManyLogs     entry.Code = 603
	LogHeld         entry.Code = 604 // restored and not resumed: nothing is added or signed
	LogFull         entry.Code = 605
	StaleCheckpoint entry.Code = 606 // not beyond the newest one
	BadSignature    entry.Code = 607
	NotHeld         entry.Code = 608 // nothing to resume
	NotPrefix       entry.Code = 609 // the checkpoint to resume from is not a prefix
	MalformedPart   entry.Code = 699 // a part this build decodes but no program should have proposed
)

// Put sets the index of the i-th of n entries; it is called for each in order.
func (a *Appended) Put(i, n int, index uint64) {
	switch {
	case a.Indexes != nil:
		a.Indexes[i] = index
	case i == 0:
		a.First = index
	case index != a.First+uint64(i):
		a.Indexes = make([]uint64, n)
		for j := range i {
			a.Indexes[j] = a.First + uint64(j)
		}
		a.Indexes[i] = index
	}
}
