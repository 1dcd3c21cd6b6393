package wal

// IndexBefore returns the index to truncate at so that about the newest bytes of the log stay, in whole segments. The caller keeps them for
// members that are behind. 0 if the log is not that large.
func (l *WAL) IndexBefore(bytes int64) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	kept := l.off
	for i := len(l.segs) - 2; i >= 0; i-- {
		if kept >= bytes {
			return l.segs[i].last()
		}
		kept += l.segs[i].size
	}
	return 0
}

// IndexWithin is IndexBefore for a caller that bounds the size of the log's files. After the truncation they take about bytes, including
// the segment in use, the next one, spares and rounding. At least half of bytes is left for entries.
func (l *WAL) IndexWithin(bytes int64) uint64 {
	return l.IndexBefore(max(bytes/2, bytes-(maxSpares+3)*l.opt.SegmentBytes))
}

// Droppable is how many segments Truncate(i) would free. Truncating costs a few fsyncs, so call it only if there are some.
func (l *WAL) Droppable(i uint64) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for n < l.droppable() && l.segs[n].last() <= i {
		n++
	}
	return n
}
