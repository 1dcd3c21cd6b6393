package wal

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/holdfastdb/holdfast/core/disk"
)

// Record is one record as Inspect shows it.
type Record struct {
	File    string
	Segment uint64
	Offset  int64  // in the file
	Size    int64  // header and payload
	Synced  uint64 // the segment was synced up to here when the record was written
	// SegmentStart is set on the first record of a segment, which then tells PrevIndex and PrevTerm, the entry before it.
	SegmentStart        bool
	PrevIndex, PrevTerm uint64
	HardState           *HardState
	Entries             []Entry // valid until fn returns
}

// Summary is what Inspect found besides the records.
type Summary struct {
	FirstSegment uint64
	// TruncatedIndex and TruncatedTerm are the entry before the first that counts.
	TruncatedIndex, TruncatedTerm uint64
	// ResetPending: a crash cut a reset short; the next Open finishes it, regardless of the records.
	ResetPending bool
	// EndFile and EndOffset are where the log ends. Torn says that something was written there that was never synced; the
	// next Open wipes it.
	EndFile   string
	EndOffset int64
	Torn      bool
}

// Inspect shows a log to fn, record by record as recovery reads it, and changes nothing; the log should not be in use. An
// error of fn ends it. Damage is a *CorruptError after all records before the damage were shown.
func Inspect(fs disk.FS, dir string, fn func(Record) error) (Summary, error) {
	st, ok, err := readStart(fs, dir)
	if err == nil && !ok {
		err = fmt.Errorf("%s: no log here: %s is missing", dir, startName)
	}
	if err != nil {
		return Summary{}, fmt.Errorf("inspect log: %w", err)
	}
	sum := Summary{
		FirstSegment: st.segment, TruncatedIndex: st.at.index, TruncatedTerm: st.at.term, ResetPending: st.pending,
	}
	found, err := walk(fs, dir, st, func(seg *segment, off int64, h header, sh *segmentHeader, payload []byte) error {
		r := Record{
			File: filepath.Join(dir, seg.name), Segment: seg.number,
			Offset: off, Size: recordHeaderLen + int64(h.length), Synced: h.synced,
		}
		if sh != nil {
			r.SegmentStart, r.PrevIndex, r.PrevTerm, r.HardState = true, sh.prev.index, sh.prev.term, &sh.hardState
		} else if r.HardState, r.Entries, err = decodeBatch(nil, payload); err != nil {
			return &CorruptError{File: r.File, Offset: off, Reason: err.Error()}
		}
		sum.EndFile, sum.EndOffset = r.File, align(off+r.Size)
		return fn(r)
	})
	for _, s := range found.segs {
		err = errors.Join(err, s.file.Close())
	}
	sum.Torn = found.tornEnd > found.end || len(found.spoilt) > 0
	if err != nil {
		return sum, fmt.Errorf("inspect log: %w", err)
	}
	return sum, nil
}
