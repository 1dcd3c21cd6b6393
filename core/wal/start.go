package wal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"path/filepath"

	"github.com/holdfastdb/holdfast/core/disk"
)

// startName is the file that says where the log starts. It is replaced atomically: it is the commit point of Truncate
// and Reset.
const startName = "START"

const (
	startMagic   = "HFWstart"
	startLen     = 84
	startPending = 1
)

// start is the contents of START.
type start struct {
	logID   uint64
	segment uint64   // the first segment that counts; files with smaller numbers are leftovers
	at      position // the truncation point: the entry before the first one
	// pending: a Reset to at and hardState was decided, but the segment it begins with may not be there yet. Open
	// finishes it. When false, a missing segment is corruption.
	pending   bool
	hardState HardState
}

func (s start) encode() []byte {
	le := binary.LittleEndian
	b := make([]byte, 0, startLen)
	b = append(b, startMagic...)
	b = le.AppendUint32(b, formatVersion)
	var flags uint32
	if s.pending {
		flags = startPending
	}
	b = le.AppendUint32(b, flags)
	b = le.AppendUint64(b, s.logID)
	b = le.AppendUint64(b, s.segment)
	b = le.AppendUint64(b, s.at.index)
	b = le.AppendUint64(b, s.at.term)
	b = append(b, make([]byte, hardStateLen)...)
	putHardState(b[len(b)-hardStateLen:], s.hardState)
	b = le.AppendUint64(b, 0)
	return le.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

func decodeStart(b []byte) (s start, err error) {
	le := binary.LittleEndian
	if len(b) != startLen || string(b[:8]) != startMagic {
		return s, fmt.Errorf("%d bytes that are no start of a log", len(b))
	}
	if le.Uint32(b[startLen-4:]) != crc32.Checksum(b[:startLen-4], castagnoli) {
		return s, errors.New("checksum mismatch")
	}
	if v := le.Uint32(b[8:]); v != formatVersion {
		return s, fmt.Errorf("format version %d, this build knows %d", v, formatVersion)
	}
	flags := le.Uint32(b[12:])
	if flags&^startPending != 0 || le.Uint64(b[72:]) != 0 {
		return s, errors.New("unknown flags")
	}
	return start{
		logID:     le.Uint64(b[16:]),
		segment:   le.Uint64(b[24:]),
		at:        position{le.Uint64(b[32:]), le.Uint64(b[40:])},
		pending:   flags&startPending != 0,
		hardState: getHardState(b[48:]),
	}, nil
}

// readStart answers ok = false if there is no START.
func readStart(d disk.FS, dir string) (s start, ok bool, err error) {
	name := filepath.Join(dir, startName)
	b, err := d.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return s, false, nil
	}
	if err != nil {
		return s, false, fmt.Errorf("read log start: %w", err)
	}
	if s, err = decodeStart(b); err != nil {
		return s, false, &CorruptError{File: name, Reason: err.Error()}
	}
	return s, true, nil
}

func writeStart(d disk.FS, dir string, s start) error {
	if err := d.WriteFileAtomic(filepath.Join(dir, startName), s.encode()); err != nil {
		return fmt.Errorf("write log start: %w", err)
	}
	return nil
}
