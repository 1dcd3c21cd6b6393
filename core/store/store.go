// Package store keeps ordered keys with atomic batches, each batch carrying the applied log index. It is the only user of Pebble, whose own
// WAL is off. Our commit log is the WAL, and after a crash it is replayed from the durable applied index. It is not a log and never decides
// when something is acknowledged.
package store

import (
	"errors"
	"io"
)

// AppliedKey holds the applied log index, 8 bytes big-endian. Its first byte is 0, the letter of no machine; the node
// keeps its own rows under that byte too. They sort first, so a scan of all machines' keys starts at []byte{1}.
var AppliedKey = []byte("\x00applied")

var (
	// ErrReplaced: the View or iterator belongs to a store that Install replaced. The caller takes a new View.
	ErrReplaced = errors.New("store was replaced by a snapshot")
	// ErrClosed: a call after Close.
	ErrClosed = errors.New("store is closed")
)

// Reader reads keys. Implementations are safe for concurrent use.
type Reader interface {
	// Get appends the value of key to dst and reports whether the key exists.
	Get(dst, key []byte) (val []byte, ok bool, err error)
	// NewIter iterates over [lower, upper) at one consistent point in time; nil upper = no bound. Close it.
	NewIter(lower, upper []byte) (Iter, error)
}

// Iter walks keys in order; it is owned by one goroutine. Key and Value are valid until the next move, and only after a
// move that returned true. After one that returned false only First, Last or a Seek moves it again.
type Iter interface {
	First() bool
	Last() bool
	SeekGE(key []byte) bool
	SeekLT(key []byte) bool
	Next() bool
	Prev() bool
	Valid() bool
	Key() []byte
	Value() ([]byte, error)
	Error() error
	// Loads is its cost so far.
	Loads() Loads
	Close() error
}

// Loads counts the bytes of blocks that an iterator read, and how many of them were missing in memory and displaced other blocks. While
// there is room, blocks once read stay for the next iterator. A store that has no blocks has none.
type Loads struct{ Bytes, Missed uint64 }

// View is a consistent read view; Close releases it.
type View interface {
	Reader
	io.Closer
}

// Batch gathers writes that become visible together. It is owned by one goroutine.
type Batch interface {
	Set(key, value []byte)
	// SetJoined is Set of head and tail joined: a caller with a long value need not copy it behind its row's head.
	SetJoined(key, head, tail []byte)
	Delete(key []byte)
	DeleteRange(lower, upper []byte)
	// Grow makes room for n bytes of Repr at once, because growing step by step would leave at least as much garbage.
	Grow(n int)
	// Overwrote tells the store that about n bytes written since the last flush were superseded. It flushes early once 2 MiB have gathered,
	// or 128 KiB if they slow iterators down. Iterators walk every version still in the memtable (DECISIONS B1).
	Overwrote(n int)
	// Repr returns the batch as bytes, valid until the next call or Commit. It is a pure function of the calls to Set (SetJoined is one),
	// Delete and DeleteRange. Members hash it, so both stores give the same bytes. Per call these are a kind (1 set, 0 delete, 15 delete
	// range), uvarint length and key. Except for a delete, uvarint length and value (or upper bound) follow.
	Repr() []byte
	// Len is the length of Repr.
	Len() int
}

// Store is the seam: Pebble (Open) in production, memory (NewMem) in simulation.
type Store interface {
	Reader
	// NewBatch returns an empty batch, possibly reusing a committed one.
	NewBatch() Batch
	// Commit makes the batch visible at once, not durable. applied is the log index the batch brings the store to; the
	// store writes it under AppliedKey in the same batch. It may not go back. An error is fatal to the node. The batch
	// belongs to the store afterwards, whether Commit succeeded or not.
	Commit(b Batch, applied uint64) error
	NewView() View
	// NewAhead is NewIter for a walk over very many rows whose caller does much with each: they may be read beside it. Only First, once, and Next
	// move the iterator.
	NewAhead(lower, upper []byte) (Iter, error)
	// Applied is the index of the last committed batch (volatile).
	Applied() uint64
	// DurableApplied is the applied index that survives a crash now.
	DurableApplied() (uint64, error)
	// Flush makes everything committed so far durable; it blocks.
	Flush() error
	// Rest drops the blocks that are kept for readers. They are read again when they are asked for.
	Rest()
	// BoundCache sets how many bytes of Options.CacheBytes blocks and memtables may have from now on, at most all of them. Memtables are not
	// made smaller: blocks go. Safe for concurrent use.
	BoundCache(bytes int64)
	// Incoming starts building a replacement store from a snapshot, in a directory of its own.
	Incoming() (Incoming, error)
	// Install switches to a finished Incoming by one atomic rename; open Views and iterators of the old store fail from
	// then on with ErrReplaced. The replaced data is deleted.
	Install(in Incoming) error
	// SeparateValues keeps large values apart from now on, where compactions do not write them again and again. Builds before it may not be
	// able to open the directory any more. Safe to repeat; an Install is treated alike.
	SeparateValues() error
	Metrics() Metrics
	// Superseded estimates the bytes of keys and values replaced or deleted since the store was opened: the most that a View open since
	// then pins. A range deleted while no View is open does not count; otherwise its bytes in files do. Safe for concurrent use.
	Superseded() uint64
	Close() error
}

// Incoming receives a snapshot's keys in order.
type Incoming interface {
	Set(key, value []byte) error
	// Finish makes it durable with the given applied index.
	Finish(applied uint64) error
	Abort() error
}

// Metrics are for people and for the flush policy.
type Metrics struct {
	DiskBytes, MemtableBytes, CacheBytes int64
	Flushes, Compactions                 int64
	Views                                int64 // open
}
