// Package wal keeps the local, durable copy of the commit log in preallocated, recycled segment files. It stores raft entries and the hard
// state and knows nothing of raft's rules or of an entry's meaning. Byte table and recovery rules: docs/formats/wal.md.
package wal

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/holdfastdb/holdfast/core/disk"
)

// Entry is one raft entry as it lies on disk. Type is raft's entry type, not interpreted here.
type Entry struct {
	Index, Term uint64
	Type        uint8
	Data        []byte
}

// HardState is raft's own state that must survive a crash.
type HardState struct{ Term, Vote, Commit uint64 }

// Batch is what one record holds. Both parts are optional; entries are consecutive, and replace everything from the first
// one's index on. The hard state and the entries it may refer to arrive together or not at all.
type Batch struct {
	HardState *HardState
	Entries   []Entry
}

// Options of Open. The zero value works.
type Options struct {
	// SegmentBytes is the size of a segment file, 0 = 16 MiB. A larger batch gets a larger segment of its own.
	SegmentBytes int64
	// CacheBytes bounds the newest entries kept in memory, 0 = 4 MiB. The last two batches are always kept.
	CacheBytes int64
	// Manual leaves out the background goroutine: Append itself makes the next segment when needed. For simulation, where one goroutine
	// drives everything.
	Manual bool
	// LogID seeds the checksums of a log that is created, 0 = random. For golden files.
	LogID uint64
}

// DefaultSegmentBytes is the size of a segment file if Options says none.
const DefaultSegmentBytes = 16 << 20

const (
	minSegmentBytes   = 4 << 10
	defaultCacheBytes = 4 << 20
	maxKeptBuffer     = 4 << 20
)

var (
	// ErrTruncated: the entry was truncated away; the store has it, or a snapshot does.
	ErrTruncated = errors.New("log entry was truncated")
	// ErrBeyondEnd: there is no such entry yet.
	ErrBeyondEnd = errors.New("log entry is beyond the end")
	// ErrClosed: a call after Close.
	ErrClosed = errors.New("log is closed")
)

// CorruptError says that something is gone that was synced, or that was never written by this code. The node must not
// start on such a log.
type CorruptError struct {
	File   string
	Offset int64
	Reason string
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("log is corrupt: %s at offset %d: %s", e.File, e.Offset, e.Reason)
}

// WAL is an open log. One goroutine, the writer, calls Append, Sync and Reset; all other methods are safe for concurrent use. A failed
// write or sync is final. The content of the disk is unknown from then on, so every later write returns the same error, and the caller
// stops the node.
type WAL struct {
	fs   disk.FS
	dir  string
	opt  Options
	seed uint32 // constant: seedOf the log id

	// Owned by the writer.
	cur    *segment // the last of segs, which Truncate may move meanwhile
	gather gather   // the part of cur that is not in its file yet

	mu        sync.Mutex // guards everything below; never held while reading or writing a file
	start     start
	segs      []*segment // oldest first; the last one is written to
	off       int64      // where the next record goes; changed only by the writer
	synced    int64      // the last segment is durable up to here; changed only by the writer
	replacing bool       // a record since the last sync overwrites older entries
	terms     []termRun
	last      uint64
	stable    uint64 // last synced index
	hard      HardState
	tail      tail
	err       error // sticky
	closed    bool
	stats     Stats
	recovery  Recovery

	startMu sync.Mutex // serializes writers of START: Truncate, Reset; taken before prep.mu and mu

	prep prepare
}

// Stats are running figures for metrics.
type Stats struct {
	Segment      uint64 // number of the segment in use
	Offset       int64  // in it, of the next record
	SyncedOffset int64  // in it
	Segments     int    // that hold the log
	Syncs        uint64
	LastSync     time.Duration
	Records      uint64 // appended since Open
	Bytes        uint64 // appended since Open
}

// Recovery tells what Open found.
type Recovery struct {
	Records uint64
	// A torn tail was cut at this place; File is empty if there was none.
	TornFile   string
	TornOffset int64
}

// Recovery tells what Open found, for the start-up message.
func (l *WAL) Recovery() Recovery { return l.recovery }

// HardState is the last one appended, the zero value if there never was one.
func (l *WAL) HardState() HardState {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.hard
}

// FirstIndex is the first index that Entries can give; it is LastIndex+1 if there is none.
func (l *WAL) FirstIndex() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.start.at.index + 1
}

// LastIndex is the last index appended, synced or not.
func (l *WAL) LastIndex() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last
}

// Stats returns the current figures.
func (l *WAL) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.stats
	s.Segment, s.Offset, s.SyncedOffset, s.Segments = l.active().number, l.off, l.synced, len(l.segs)
	return s
}

// active is the segment being written; the caller holds mu.
func (l *WAL) active() *segment { return l.segs[len(l.segs)-1] }

// fail makes err sticky. Only the first one is kept.
func (l *WAL) fail(err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.err = err
	}
	return l.err
}

func (l *WAL) failure() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return ErrClosed
	}
	return l.err
}

// Append takes a batch as one record; it is not durable, and may not even be in the file, before Sync. The log keeps the entries' Data,
// which must not change any more. Entries must follow the log without a gap and may not reach below FirstIndex; a batch
// that does is refused and changes nothing. An empty batch is ignored.
func (l *WAL) Append(b Batch) error {
	if err := l.failure(); err != nil {
		return err
	}
	if b.HardState == nil && len(b.Entries) == 0 {
		return nil
	}
	if err := l.checkBatch(b); err != nil {
		return err
	}
	size := int64(recordHeaderLen + batchLen(b))
	if size > MaxRecordBytes {
		return fmt.Errorf("append to log: batch of %d bytes is over the limit of %d", size, MaxRecordBytes)
	}
	seg, at := l.cur, l.off
	if align(l.off+size) > seg.size {
		// The new segment's own record and the batch go out in one write.
		if err := l.switchSegment(segmentRecordLen + align(size)); err != nil {
			return l.fail(err)
		}
		seg, at = l.cur, segmentRecordLen
	} else if l.gather.batches == gatherMost {
		if err := l.gather.write(seg.file, seg.size); err != nil {
			return l.fail(fmt.Errorf("append to log: %w", err))
		}
	}
	// The record is assembled in the gather buffer, which saves a copy of up to a megabyte.
	rec := l.gather.room(int(align(size)))
	if n := len(appendBatch(rec[:recordHeaderLen], b)); int64(n) != size {
		return l.fail(fmt.Errorf("append to log: a batch of %d bytes took %d", size, n))
	}
	clear(rec[size:])
	putHeader(rec, header{length: uint32(size - recordHeaderLen), segment: seg.number, synced: uint64(l.synced), kind: kindBatch}, l.seed)
	l.gather.batches++

	l.mu.Lock()
	l.note(b.HardState, b.Entries, seg, at, size)
	l.tail.add(b.Entries, l.opt.CacheBytes)
	l.off = at + align(size)
	l.stats.Records++
	l.stats.Bytes += uint64(size)
	wantNext := l.off > seg.size/2
	l.mu.Unlock()
	if wantNext {
		l.prep.wake()
	}
	return nil
}

func (l *WAL) checkBatch(b Batch) error {
	if len(b.Entries) == 0 {
		return nil
	}
	first := b.Entries[0].Index
	for i := range b.Entries {
		if b.Entries[i].Index != first+uint64(i) {
			return fmt.Errorf("append to log: entry %d follows entry %d", b.Entries[i].Index, first+uint64(i)-1)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if first <= l.start.at.index || first > l.last+1 {
		return fmt.Errorf("append to log: entry %d does not fit a log of entries %d to %d", first, l.start.at.index+1, l.last)
	}
	return nil
}

// note brings the index up to date with one record, in Append and in recovery alike. The caller holds mu.
func (l *WAL) note(hs *HardState, entries []Entry, seg *segment, off, size int64) {
	if hs != nil {
		l.hard = *hs
	}
	if len(entries) == 0 {
		return
	}
	first := entries[0].Index
	if first <= l.last {
		for i := len(l.segs) - 1; i >= 0 && !l.segs[i].cut(first); i-- {
		}
		l.stable = min(l.stable, first-1)
		l.replacing = true
	}
	l.terms = cutTerms(l.terms, first)
	for i := range entries {
		l.terms = addTerm(l.terms, entries[i].Index, entries[i].Term)
	}
	seg.addRow(first, len(entries), off, size)
	l.last = entries[len(entries)-1].Index
}

// switchSegment makes the prepared segment, of at least size bytes, the active one and gathers its first record. The old segment must be
// durable before anything is written to the new one. Recovery takes a segment's existence as proof that its predecessor was complete.
//
// prep.mu is held until the new segment is the active one. If it were released sooner, the background goroutine could ask for the next
// number and get the one just taken. It would put an empty file in the place of the segment being written.
func (l *WAL) switchSegment(size int64) error {
	if err := l.Sync(); err != nil {
		return err
	}
	l.prep.mu.Lock()
	defer l.prep.mu.Unlock()
	seg, err := l.takeNext(size)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.gather.begin(seg.file, 0); err != nil {
		return err
	}
	rec := l.gather.room(segmentRecordLen)
	putSegmentHeader(rec[recordHeaderLen:], segmentHeader{
		logID: l.start.logID, prev: l.lastPosition(), prevEnd: uint64(l.off), hardState: l.hard,
	})
	putHeader(rec, header{length: segmentPayloadLen, segment: seg.number, kind: kindSegment}, l.seed)
	l.segs, l.cur = append(l.segs, seg), seg
	l.off, l.synced = 0, 0
	return nil
}

// Sync makes everything appended durable. With nothing new it does nothing.
func (l *WAL) Sync() error {
	if err := l.failure(); err != nil {
		return err
	}
	if l.off == l.synced {
		return nil
	}
	begun := time.Now()
	if err := l.gather.write(l.cur.file, l.cur.size); err != nil {
		return l.fail(fmt.Errorf("append to log: %w", err))
	}
	if err := l.cur.file.Sync(); err != nil {
		// Not tried again: the kernel may have dropped the pages it could not write.
		return l.fail(fmt.Errorf("sync log: %w", err))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.synced, l.stable, l.replacing = l.off, l.last, false
	l.stats.Syncs++
	l.stats.LastSync = time.Since(begun)
	return nil
}

// Rest drops the cached newest entries; they are read from the segments again.
func (l *WAL) Rest() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tail.rest()
}

// Close writes what was appended and releases the files. It does not sync. Calls to Entries and Truncate that are under way end well; the writer must
// have stopped.
func (l *WAL) Close() error {
	l.prep.stop()
	l.startMu.Lock()
	defer l.startMu.Unlock()
	l.prep.mu.Lock()
	defer l.prep.mu.Unlock()
	var errs []error
	if l.failure() == nil {
		errs = append(errs, l.gather.write(l.cur.file, l.cur.size))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	l.closed = true
	for _, s := range l.segs {
		if s.readers > 0 {
			continue // the last reader closes it
		}
		errs = append(errs, s.file.Close())
	}
	if n := l.prep.next; n != nil {
		errs = append(errs, n.file.Close())
	}
	return errors.Join(errs...)
}

func (l *WAL) path(name string) string { return filepath.Join(l.dir, name) }
