package wal

import (
	"errors"
	"fmt"
	"math"
	"sort"
)

// readSpan is how much Entries reads from a file at once when records are small.
const readSpan = 256 << 10

// Entries returns entries from lo on, below hi: as many as fit maxBytes (data plus a small charge for each), but at least
// one. The slice is the caller's; the entries' Data is shared and must not be changed.
//
// Errors: ErrTruncated, ErrBeyondEnd (hi is beyond LastIndex+1), or fatal: a *CorruptError or a failed read.
func (l *WAL) Entries(lo, hi, maxBytes uint64) ([]Entry, error) {
	limit := int64(min(maxBytes, math.MaxInt64/2))
	var out []Entry
	var spent int64
	for lo < hi {
		l.mu.Lock()
		if err := l.checkRange(lo, hi); err != nil {
			l.mu.Unlock()
			if len(out) > 0 {
				return out, nil // truncated or overwritten meanwhile: the entries read so far are good
			}
			return nil, err
		}
		inMemory, ok := l.tail.first()
		if ok && lo >= inMemory {
			if out == nil {
				out = make([]Entry, 0, min(hi-lo, 64))
			}
			out, _ = l.tail.slice(out, lo, hi, spent, limit)
			l.mu.Unlock()
			return out, nil
		}
		stop := hi
		if ok {
			stop = min(stop, inMemory)
		}
		seg, rows, base := l.locate(lo, stop, limit-spent)
		if seg == nil {
			l.mu.Unlock()
			return nil, &CorruptError{File: l.dir, Reason: fmt.Sprintf("no record holds entry %d", lo)}
		}
		seg.readers++
		l.mu.Unlock()

		n := len(out)
		var err error
		out, err = l.readRows(out, seg, rows, base, lo, stop)
		l.doneReading(seg)
		if err != nil {
			return nil, err
		}
		for i := n; i < len(out); i++ {
			c := cost(&out[i])
			if spent+c > limit && i > 0 {
				return out[:i], nil
			}
			spent += c
		}
		lo = out[len(out)-1].Index + 1
	}
	return out, nil
}

// checkRange refuses what is not in the log; the caller holds mu.
func (l *WAL) checkRange(lo, hi uint64) error {
	switch {
	case l.closed:
		return ErrClosed
	case lo <= l.start.at.index:
		return ErrTruncated
	case hi > l.last+1:
		return ErrBeyondEnd
	}
	return nil
}

// locate finds the segment that holds lo and the rows to read from it: until stop, for about want bytes, within one span.
// The rows are a copy, since Append changes the table. The caller holds mu.
func (l *WAL) locate(lo, stop uint64, want int64) (seg *segment, rows []row, base uint64) {
	for i := len(l.segs) - 1; i >= 0; i-- {
		if first, ok := l.segs[i].first(); ok && first <= lo {
			seg = l.segs[i]
			break
		}
	}
	if seg == nil || seg.last() < lo {
		return nil, nil, 0
	}
	from := sort.Search(len(seg.rows), func(i int) bool { return seg.base+uint64(seg.rows[i].delta) > lo }) - 1
	to := from + 1
	begin := int64(seg.rows[from].off)
	for to < len(seg.rows) && seg.base+uint64(seg.rows[to].delta) < stop {
		end := int64(seg.rows[to].off) + int64(seg.rows[to].size)
		if end-begin > min(want, readSpan) {
			break
		}
		to++
	}
	return seg, append([]row(nil), seg.rows[from:to]...), seg.base
}

// readRows reads records with one read and appends their entries within [lo, stop) to out.
func (l *WAL) readRows(out []Entry, seg *segment, rows []row, base, lo, stop uint64) ([]Entry, error) {
	begin, last := int64(rows[0].off), rows[len(rows)-1]
	buf := make([]byte, int64(last.off)+int64(last.size)-begin)
	if _, err := seg.file.ReadAt(buf, begin); err != nil {
		return nil, fmt.Errorf("read log segment %s: %w", seg.name, err)
	}
	for _, r := range rows {
		rec := buf[int64(r.off)-begin:][:r.size]
		h, ok := parseHeader(rec)
		if !ok || h.segment != seg.number || h.kind != kindBatch || !checksumOK(rec, l.seed) {
			return nil, &CorruptError{File: l.path(seg.name), Offset: int64(r.off), Reason: "a record changed since it was written"}
		}
		n := len(out)
		var err error
		if _, out, err = decodeBatch(out, rec[recordHeaderLen:]); err != nil {
			return nil, &CorruptError{File: l.path(seg.name), Offset: int64(r.off), Reason: err.Error()}
		}
		first := base + uint64(r.delta)
		from, to := max(first, lo), min(first+uint64(r.n), stop)
		if from >= to {
			out = out[:n]
			continue
		}
		kept := copy(out[n:], out[n+int(from-first):n+int(to-first)])
		out = out[:n+kept]
	}
	return out, nil
}

// doneReading gives up a segment that was held open for reading.
func (l *WAL) doneReading(seg *segment) {
	l.mu.Lock()
	seg.readers--
	last := seg.readers == 0 && (seg.dropped || l.closed)
	dropped := seg.dropped
	l.mu.Unlock()
	if last {
		// Leftovers are removed by the next Open, so an error costs nothing but space.
		err := seg.file.Close()
		if dropped {
			err = errors.Join(err, l.fs.Remove(l.path(seg.name)))
		}
		_ = err
	}
}
