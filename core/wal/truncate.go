package wal

import "fmt"

// Truncate drops the entries up to and including i, whose effects are durable elsewhere. They cannot be read any more when it returns, and
// Term(i) answers for good; files go segment by segment. An i that is truncated already is fine; one that is not synced is refused. Safe to
// call while the writer appends.
func (l *WAL) Truncate(i uint64) error {
	l.startMu.Lock()
	defer l.startMu.Unlock()
	if err := l.failure(); err != nil {
		return err
	}
	l.mu.Lock()
	if i <= l.start.at.index {
		l.mu.Unlock()
		return nil
	}
	if i > l.stable {
		defer l.mu.Unlock()
		return fmt.Errorf("truncate log: entry %d is not durable, the last one that is is %d", i, l.stable)
	}
	st := l.start
	st.at = position{i, termOf(l.terms, i)}
	drop := 0
	for drop < l.droppable() && l.segs[drop].last() <= i {
		drop++
	}
	st.segment = l.segs[drop].number
	l.mu.Unlock()

	// COMMIT POINT: from here on the dropped segments are leftovers.
	if err := writeStart(l.fs, l.dir, st); err != nil {
		return l.fail(err)
	}

	l.prep.mu.Lock()
	defer l.prep.mu.Unlock()
	l.mu.Lock()
	l.start = st
	l.terms = dropTerms(l.terms, i+1)
	l.tail.dropTo(i)
	dropped := l.dropSegments(drop)
	l.mu.Unlock()
	return l.recycleAll(dropped)
}

// droppable returns how many segments a crash at this moment could do without if all their entries were truncated. START must not name a
// segment whose first record may be lost. If a record that is not durable yet overwrites entries, a crash brings the old ones back, and
// their segments must be there. The caller holds mu.
func (l *WAL) droppable() int {
	switch {
	case l.replacing:
		return 0
	case l.synced == 0:
		return len(l.segs) - 2
	}
	return len(l.segs) - 1
}

// dropSegments takes the first n segments out of the log and returns those without readers. The caller holds mu.
func (l *WAL) dropSegments(n int) (idle []*segment) {
	for _, s := range l.segs[:n] {
		s.dropped, s.rows = true, nil
		if s.readers == 0 {
			idle = append(idle, s)
		}
	}
	l.segs = append([]*segment(nil), l.segs[n:]...)
	return idle
}

// recycleAll closes and recycles segments; the caller holds prep.mu.
func (l *WAL) recycleAll(segs []*segment) error {
	for _, s := range segs {
		if err := s.file.Close(); err != nil {
			return fmt.Errorf("recycle log segment: %w", err)
		}
		if err := l.recycle(s.name); err != nil {
			return err
		}
	}
	return nil
}

// Reset empties the log: afterwards it ends at index, of the given term, and its hard state is hs. It is durable when it
// returns, and a crash at any moment leaves the old log or the new one. Called by the writer after a snapshot of index was
// installed.
func (l *WAL) Reset(index, term uint64, hs HardState) error {
	l.startMu.Lock()
	defer l.startMu.Unlock()
	if err := l.failure(); err != nil {
		return err
	}
	l.prep.mu.Lock()
	defer l.prep.mu.Unlock()

	l.mu.Lock()
	st := l.start
	// A number that no file has yet: neither the active segment nor a prepared one may come back under it.
	st.segment = l.active().number + 2
	st.at, st.hardState, st.pending = position{index, term}, hs, true
	l.mu.Unlock()

	// COMMIT POINT: from here on every Open finishes what follows.
	if err := writeStart(l.fs, l.dir, st); err != nil {
		return l.fail(err)
	}
	st, err := l.finishReset(st)
	if err != nil {
		return l.fail(err)
	}
	s, seg, err := openScanner(l.fs, l.dir, st.segment, l.seed)
	if err != nil {
		return l.fail(err)
	}
	if _, _, ok, err := s.segmentHeader(); err != nil || !ok {
		return l.fail(fmt.Errorf("reset log: read back: %v, %w", ok, err))
	}

	l.mu.Lock()
	dropped := l.dropSegments(len(l.segs))
	if n := l.prep.next; n != nil {
		dropped, l.prep.next = append(dropped, n), nil
	}
	l.start, l.segs, l.cur = st, []*segment{seg}, seg
	l.off, l.synced, l.replacing = segmentRecordLen, segmentRecordLen, false
	l.terms, l.last, l.stable, l.hard = nil, index, index, hs
	l.tail.reset()
	l.mu.Unlock()
	if err := l.gather.begin(seg.file, segmentRecordLen); err != nil {
		return l.fail(err)
	}
	return l.recycleAll(dropped)
}

// finishReset makes the segment a pending start speaks of and then says that it is there. The file is made anew even if
// there is one: it can only be from an attempt that a crash cut short.
func (l *WAL) finishReset(st start) (start, error) {
	name := l.path(segmentName(st.segment))
	f, err := l.fs.Create(name)
	if err != nil {
		return st, fmt.Errorf("make log segment: %w", err)
	}
	defer f.Close() // all that was written to it is synced
	rec := make([]byte, segmentRecordLen)
	putSegmentHeader(rec[recordHeaderLen:], segmentHeader{logID: st.logID, prev: st.at, hardState: st.hardState})
	putHeader(rec, header{length: segmentPayloadLen, segment: st.segment, kind: kindSegment}, seedOf(st.logID))
	if err := f.Preallocate(l.opt.SegmentBytes); err != nil {
		return st, fmt.Errorf("make log segment: %w", err)
	}
	if _, err := f.WriteAt(rec, 0); err != nil {
		return st, fmt.Errorf("make log segment: %w", err)
	}
	if err := f.Sync(); err != nil {
		return st, fmt.Errorf("make log segment: %w", err)
	}
	if err := l.fs.SyncDir(l.dir); err != nil {
		return st, fmt.Errorf("make log segment: %w", err)
	}
	st.pending, st.hardState = false, HardState{}
	return st, writeStart(l.fs, l.dir, st)
}
