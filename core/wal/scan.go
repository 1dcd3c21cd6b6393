package wal

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"github.com/holdfastdb/holdfast/core/disk"
)

// scanWindow is how much of a segment is in memory while it is scanned, unless a record is larger.
const scanWindow = 256 << 10

// scanner reads the records of one segment front to back through a sliding window.
type scanner struct {
	file    disk.File
	path    string
	segment uint64
	size    int64
	seed    uint32

	buf   []byte // the window
	begin int64  // its place in the file
}

// view returns n bytes at off, valid until the next call; nil if the file ends before.
func (s *scanner) view(off int64, n int) ([]byte, error) {
	if off+int64(n) > s.size {
		return nil, nil
	}
	if off < s.begin || off+int64(n) > s.begin+int64(len(s.buf)) {
		want := int(min(max(int64(n), scanWindow), s.size-off))
		if cap(s.buf) < want {
			s.buf = make([]byte, want)
		}
		s.buf, s.begin = s.buf[:want], off
		if m, err := s.file.ReadAt(s.buf, off); err != nil && !(errors.Is(err, io.EOF) && m == want) {
			s.buf = s.buf[:0]
			return nil, fmt.Errorf("read log segment %s: %w", s.path, err)
		}
	}
	return s.buf[off-s.begin:][:n], nil
}

// record reads the record at off; ok is false if there is no valid one of this segment. The payload is valid until the
// next call.
func (s *scanner) record(off int64) (h header, payload []byte, ok bool, err error) {
	b, err := s.view(off, recordHeaderLen)
	if err != nil || b == nil {
		return h, nil, false, err
	}
	if h, ok = parseHeader(b); !ok || h.segment != s.segment {
		return h, nil, false, nil
	}
	b, err = s.view(off, recordHeaderLen+int(h.length))
	if err != nil || b == nil || !checksumOK(b, s.seed) {
		return h, nil, false, err
	}
	return h, b[recordHeaderLen:], true, nil
}

// segmentHeader reads the segment's first record; ok is false if it is not there.
func (s *scanner) segmentHeader() (sh segmentHeader, end int64, ok bool, err error) {
	h, payload, ok, err := s.record(0)
	if err != nil || !ok || h.kind != kindSegment {
		return sh, 0, false, err
	}
	sh, err = parseSegmentHeader(payload)
	if err != nil {
		return sh, 0, false, &CorruptError{File: s.path, Reason: err.Error()}
	}
	return sh, segmentRecordLen, true, nil
}

// leftovers looks at what follows a bad record at off. claimed is the largest offset beyond off that a valid record of this segment claims
// as synced, 0 if none. With 0, nothing acknowledged is missing. tornEnd is the end of the last bytes that could later be mistaken for a
// record of this segment.
func (s *scanner) leftovers(off int64) (claimed uint64, tornEnd int64, err error) {
	for o := off; ; o += recordAlign {
		b, err := s.view(o, recordHeaderLen)
		if err != nil || b == nil {
			return claimed, tornEnd, err
		}
		if !looksLikeRecord(b, s.segment) {
			continue
		}
		h, _, ok, err := s.record(o)
		if err != nil {
			return claimed, tornEnd, err
		}
		tornEnd = max(tornEnd, min(o+recordHeaderLen+int64(h.length), s.size))
		if ok && h.synced > uint64(off) {
			claimed = max(claimed, h.synced)
		}
	}
}

// scanned is what walk found.
type scanned struct {
	segs    []*segment // open files, oldest first
	end     int64      // of the last segment's records
	tornEnd int64      // > end if something has to be wiped up to here
	unused  []string   // segment files that hold nothing, fit for reuse
	spoilt  []string   // unused, but with records of their own number in them: to be removed
}

// visitor is told of every record in order. sh is set for a segment's first record, payload for a batch.
type visitor func(seg *segment, off int64, h header, sh *segmentHeader, payload []byte) error

// walk reads a whole log as recovery does, changing nothing. It stops at the first bad record. By the rules of docs/formats/wal.md that is
// a torn tail, or corruption and a *CorruptError. Files stay open only if err is nil.
func walk(d disk.FS, dir string, st start, visit visitor) (found scanned, err error) {
	defer func() {
		if err != nil {
			for _, s := range found.segs {
				err = errors.Join(err, s.file.Close())
			}
			found.segs = nil
		}
	}()
	numbers, unused, err := listSegments(d, dir, st.segment)
	if err != nil {
		return found, err
	}
	found.unused = unused
	seed := seedOf(st.logID)
	next := st.segment
	for i, number := range numbers {
		s, seg, err := openScanner(d, dir, number, seed)
		if err != nil {
			return found, err
		}
		sh, end, ok, err := s.segmentHeader()
		var spoilt int64
		if err == nil && ok {
			err = checkSegmentHeader(s, sh, st, number == next, i == 0, found.end)
		} else if err == nil {
			// Not in use yet; unless a later record says that its beginning was synced.
			var claimed uint64
			claimed, spoilt, err = s.leftovers(0)
			if err == nil && (claimed > 0 || i == 0) {
				err = &CorruptError{File: s.path, Reason: "the segment's first record is damaged"}
			}
		}
		if err != nil || !ok {
			if cerr := seg.file.Close(); err != nil || cerr != nil {
				return found, errors.Join(err, cerr)
			}
			if spoilt > 0 {
				found.spoilt = append(found.spoilt, seg.name)
			} else {
				found.unused = append(found.unused, seg.name)
			}
			continue
		}
		if i > 0 {
			// The segment before was complete, so nothing is torn there: checkSegmentHeader compared its end.
			found.tornEnd = 0
		}
		found.segs = append(found.segs, seg)
		next = number + 1
		if found.end, found.tornEnd, err = walkSegment(s, seg, sh, end, visit); err != nil {
			return found, err
		}
	}
	if len(found.segs) == 0 {
		return found, &CorruptError{File: filepath.Join(dir, segmentName(st.segment)), Reason: "the first segment is missing"}
	}
	return found, nil
}

func checkSegmentHeader(s *scanner, sh segmentHeader, st start, follows, first bool, prevEnd int64) error {
	switch {
	case sh.logID != st.logID:
		return &CorruptError{File: s.path, Reason: "the segment belongs to another log"}
	case !follows:
		return &CorruptError{File: s.path, Reason: "the segment before this one is missing or damaged"}
	case !first && sh.prevEnd != uint64(prevEnd):
		prev := filepath.Join(filepath.Dir(s.path), segmentName(s.segment-1))
		return &CorruptError{File: prev, Offset: prevEnd,
			Reason: fmt.Sprintf("a bad record below %d, where the segment ended when the next one began", sh.prevEnd)}
	}
	return nil
}

// walkSegment visits the records of one segment and looks at what follows the last one.
func walkSegment(s *scanner, seg *segment, sh segmentHeader, off int64, visit visitor) (end, tornEnd int64, err error) {
	h, _, _, err := s.record(0)
	if err == nil {
		err = visit(seg, 0, h, &sh, nil)
	}
	for err == nil {
		var payload []byte
		var ok bool
		if h, payload, ok, err = s.record(off); err != nil || !ok {
			break
		}
		if h.kind != kindBatch || h.synced > uint64(off) {
			err = &CorruptError{File: s.path, Offset: off, Reason: "a record that cannot be here"}
			break
		}
		if err = visit(seg, off, h, nil, payload); err == nil {
			off = align(off + recordHeaderLen + int64(h.length))
		}
	}
	if err != nil {
		return off, 0, err
	}
	claimed, tornEnd, err := s.leftovers(off)
	if err == nil && claimed > 0 {
		err = &CorruptError{File: s.path, Offset: off, Reason: fmt.Sprintf("a bad record below %d, up to where the segment was synced", claimed)}
	}
	return off, tornEnd, err
}

func openScanner(d disk.FS, dir string, number uint64, seed uint32) (*scanner, *segment, error) {
	name := segmentName(number)
	path := filepath.Join(dir, name)
	f, err := d.OpenDirect(path)
	if err != nil {
		return nil, nil, fmt.Errorf("open log segment: %w", err)
	}
	size, err := f.Size()
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("open log segment: %w", err), f.Close())
	}
	return &scanner{file: f, path: path, segment: number, size: size, seed: seed},
		&segment{number: number, name: name, file: f, size: size}, nil
}

// listSegments splits the segment files of dir into those from number first on, ascending, and leftovers.
func listSegments(d disk.FS, dir string, first uint64) (numbers []uint64, old []string, err error) {
	names, err := d.List(dir)
	if err != nil {
		return nil, nil, fmt.Errorf("list log: %w", err)
	}
	for _, name := range names {
		number, ok := parseSegmentName(name)
		switch {
		case !ok:
		case number < first:
			old = append(old, name)
		default:
			numbers = append(numbers, number)
		}
	}
	slices.Sort(numbers)
	return numbers, old, nil
}
