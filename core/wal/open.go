package wal

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"

	"github.com/holdfastdb/holdfast/core/disk"
)

// Open opens the log in dir, or creates an empty one that starts after index 0. It cuts a torn tail, which is part of a write that was
// never acknowledged. It returns a *CorruptError if anything synced is missing. When it returns, all records that it found are durable.
func Open(fs disk.FS, dir string, opt Options) (*WAL, error) {
	if opt.SegmentBytes == 0 {
		opt.SegmentBytes = DefaultSegmentBytes
	}
	opt.SegmentBytes = max(minSegmentBytes, opt.SegmentBytes) &^ (recordAlign - 1)
	if opt.CacheBytes == 0 {
		opt.CacheBytes = defaultCacheBytes
	}
	l := &WAL{fs: fs, dir: dir, opt: opt}
	if err := l.open(); err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	l.prep.run(l)
	return l, nil
}

func (l *WAL) open() error {
	if err := l.fs.MkdirAll(l.dir); err != nil {
		return err
	}
	st, ok, err := readStart(l.fs, l.dir)
	if err != nil {
		return err
	}
	if !ok {
		if st, err = l.create(); err != nil {
			return err
		}
	}
	l.seed = seedOf(st.logID)
	if st.pending {
		if st, err = l.finishReset(st); err != nil {
			return err
		}
	}
	return l.recover(st)
}

// create makes an empty log. Writing START is its commit point; like every Reset it is finished by finishReset, now or at the
// next Open.
func (l *WAL) create() (start, error) {
	numbers, _, err := listSegments(l.fs, l.dir, 0)
	if err != nil {
		return start{}, err
	}
	if len(numbers) > 0 {
		return start{}, &CorruptError{File: l.path(startName), Reason: "missing, but there are segments"}
	}
	st := start{logID: l.opt.LogID, segment: 1, pending: true}
	if st.logID == 0 {
		var b [8]byte
		if _, err := rand.Read(b[:]); err != nil {
			return start{}, err
		}
		st.logID = binary.LittleEndian.Uint64(b[:])
	}
	return st, writeStart(l.fs, l.dir, st)
}

// maxIndex is beyond any log (a million entries a second for a hundred thousand years). It leaves room for arithmetic: later indexes in the
// file cannot overflow.
const maxIndex = 1 << 62

// recover rebuilds the index from the segments.
func (l *WAL) recover(st start) error {
	l.start = st
	var entries []Entry
	visit := func(seg *segment, off int64, h header, sh *segmentHeader, payload []byte) error {
		l.recovery.Records++
		if sh != nil {
			l.hard = sh.hardState
			if sh.prev.index > maxIndex {
				return &CorruptError{File: l.path(seg.name), Reason: fmt.Sprintf("begins after entry %d, which no log reaches", sh.prev.index)}
			}
			if len(l.segs) == 0 {
				l.last = sh.prev.index
			} else if l.last != sh.prev.index {
				return &CorruptError{File: l.path(seg.name), Reason: fmt.Sprintf("begins after entry %d, but %d is the last", sh.prev.index, l.last)}
			}
			l.segs = append(l.segs, seg)
			return nil
		}
		hs, list, err := decodeBatch(entries[:0], payload)
		if err != nil {
			return &CorruptError{File: l.path(seg.name), Offset: off, Reason: err.Error()}
		}
		entries = list
		if len(list) > 0 && list[0].Index > l.last+1 {
			return &CorruptError{File: l.path(seg.name), Offset: off, Reason: fmt.Sprintf("entry %d follows entry %d", list[0].Index, l.last)}
		}
		l.note(hs, list, seg, off, recordHeaderLen+int64(h.length))
		return nil
	}
	found, err := walk(l.fs, l.dir, st, visit)
	if err != nil {
		return err
	}
	l.segs, l.off = found.segs, found.end
	if err := l.settle(found); err != nil {
		for _, s := range l.segs {
			s.file.Close()
		}
		return err
	}
	l.terms = dropTerms(l.terms, st.at.index+1)
	l.cur, l.synced, l.stable, l.replacing = l.active(), l.off, l.last, false
	if err := l.gather.begin(l.cur.file, l.off); err != nil {
		for _, s := range l.segs {
			s.file.Close()
		}
		return err
	}
	return nil
}

// settle makes what was found durable, wipes a torn tail and sorts out the unused files.
func (l *WAL) settle(found scanned) error {
	active := l.active()
	if l.last < l.start.at.index {
		return &CorruptError{File: l.path(active.name), Offset: l.off,
			Reason: fmt.Sprintf("ends at entry %d, but the log was truncated up to %d", l.last, l.start.at.index)}
	}
	if first := l.firstHeld(); l.last > l.start.at.index && first > l.start.at.index+1 {
		return &CorruptError{File: l.path(l.segs[0].name),
			Reason: fmt.Sprintf("begins with entry %d, but the log was truncated up to %d only", first, l.start.at.index)}
	}
	if found.tornEnd > found.end {
		l.recovery.TornFile, l.recovery.TornOffset = l.path(active.name), found.end
		// Valid records behind the hole must not stay: they would count again once the hole is filled with a record that ends where they
		// begin.
		zeros := make([]byte, min(scanWindow, found.tornEnd-found.end))
		for off := found.end; off < found.tornEnd; off += int64(len(zeros)) {
			if _, err := active.file.WriteAt(zeros[:min(int64(len(zeros)), found.tornEnd-off)], off); err != nil {
				return fmt.Errorf("cut torn tail: %w", err)
			}
		}
	}
	// After a crash of the process alone, the records found may exist in the page cache only. The next record will claim that it is
	// durable.
	if err := active.file.Sync(); err != nil {
		return fmt.Errorf("sync log: %w", err)
	}
	for _, name := range found.spoilt {
		// A new segment whose first record is torn: old records behind it would be valid again if the file were used under the
		// same number.
		if err := l.fs.Remove(l.path(name)); err != nil {
			return fmt.Errorf("remove torn log segment: %w", err)
		}
	}
	if len(found.spoilt) > 0 {
		if err := l.fs.SyncDir(l.dir); err != nil {
			return fmt.Errorf("remove torn log segment: %w", err)
		}
	}
	for _, name := range found.unused {
		if err := l.recycle(name); err != nil {
			return err
		}
	}
	return nil
}

// firstHeld is the first index any segment holds, the one after the last if none holds any. Only the truncation point decides which of them
// count. It can even lie below the first segment's start if that entry was overwritten since.
func (l *WAL) firstHeld() uint64 {
	for _, s := range l.segs {
		if index, ok := s.first(); ok {
			return index
		}
	}
	return l.last + 1
}
