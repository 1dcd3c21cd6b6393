package wal

// IndexBefore returns an index whose truncation leaves about the newest bytes of the log in place, counted in whole
// segments: the caller keeps them for members that are behind. 0 if the log is not that large.
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

// IndexWithin is IndexBefore for a caller who bounds the files of the log: with the segment in use, the next one, spare ones and the rounding
// to whole segments they take about so many bytes after the truncation. Where that would leave less than half for entries, it leaves half.
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
