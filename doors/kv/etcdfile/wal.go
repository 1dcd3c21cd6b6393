package etcdfile

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// LogEntry is one entry of etcd's log. Data is a request; empty for an entry of a new leader.
type LogEntry struct {
	Index, Term uint64
	Change      bool // of membership
	Data        []byte
}

// Kinds of records in etcd's log (server/storage/wal). A frame of 8 bytes, little endian, has the length in its lower 56 bits and the
// length of the padding in the upper 8. Then comes walpb.Record: 1 kind, 2 checksum, 3 data. The checksum goes on from record to record,
// and from file to file by a record of its own.
const (
	recordEntry = 2
	recordState = 3
	recordCRC   = 4
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Log is etcd's log in a data directory. It belongs to one goroutine.
type Log struct {
	files []string
	at    []logPlace // of the entries that count, by index; entries overwritten by a later leader are left out
	first uint64     // index of at[0]
	// Committed is the last index known to be committed; later ones may be acknowledged all the same.
	Committed uint64
}

type logPlace struct {
	file   int
	offset int64
	size   int64
}

// Last is the index of the last entry, 0 if there is none.
func (l *Log) Last() uint64 {
	if len(l.at) == 0 {
		return 0
	}
	return l.first + uint64(len(l.at)) - 1
}

// First is the index of the first entry.
func (l *Log) First() uint64 { return l.first }

// ReadLog reads the log in dir, checksums and all. A record that was being written when the process or the machine died ends it.
func ReadLog(dir string) (*Log, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.wal"))
	if err != nil {
		return nil, err
	}
	l := &Log{files: names} // in the order of their numbers, which are as many digits in each
	if len(names) == 0 {
		return nil, fmt.Errorf("%w: no log in %s", ErrDamaged, dir)
	}
	sum := uint32(0)
	for i := range names {
		if sum, err = l.readFile(i, sum); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// readFile notes where the entries of a file are.
func (l *Log) readFile(i int, sum uint32) (uint32, error) {
	name := filepath.Base(l.files[i])
	f, err := os.Open(l.files[i])
	if err != nil {
		return 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	last := i == len(l.files)-1
	r := bufio.NewReaderSize(f, 1<<20)
	for at, begun := int64(0), false; ; begun = true {
		var h [8]byte
		if _, err := io.ReadFull(r, h[:]); err == io.EOF {
			return sum, nil
		} else if err == io.ErrUnexpectedEOF && last {
			return sum, nil
		} else if err != nil {
			return 0, err
		}
		frame := binary.LittleEndian.Uint64(h[:])
		if frame == 0 { // space that was reserved
			return sum, nil
		}
		size := int64(frame & (1<<56 - 1))
		pad := int64(0)
		if frame>>63 != 0 {
			pad = int64(frame >> 56 & 7)
		}
		if size > info.Size()-at-8-pad {
			if last {
				return sum, nil
			}
			return 0, fmt.Errorf("%w: %s: record of %d bytes at offset %d", ErrDamaged, name, size, at)
		}
		b := make([]byte, size+pad)
		if _, err := io.ReadFull(r, b); err != nil {
			return 0, err
		}
		kind, crc, data, err := parseRecord(b[:size])
		if err == nil && kind != recordCRC {
			sum = crc32.Update(sum, castagnoli, data)
		}
		switch {
		case err != nil || kind != recordCRC && crc != sum:
			if last && torn(b, at+8) {
				return sum, nil
			}
			return 0, fmt.Errorf("%w: %s: checksum of the record at offset %d", ErrDamaged, name, at)
		case kind == recordCRC:
			if (begun || i > 0) && sum != 0 && crc != sum {
				return 0, fmt.Errorf("%w: %s does not follow the file before it", ErrDamaged, name)
			}
			sum = crc
		case kind == recordState:
			l.Committed = max(l.Committed, varintField(data, 3))
		case kind == recordEntry:
			if err := l.note(varintField(data, 3), logPlace{i, at + 8, size}); err != nil {
				return 0, fmt.Errorf("%w in %s", err, name)
			}
		}
		at += 8 + size + pad
	}
}

// note keeps the place of an entry; one of an index that was there before replaces it and all behind it.
func (l *Log) note(index uint64, p logPlace) error {
	if len(l.at) == 0 {
		l.first = index
	}
	if index < l.first || index > l.first+uint64(len(l.at)) {
		return fmt.Errorf("%w: entry %d after %d", ErrDamaged, index, l.Last())
	}
	l.at = append(l.at[:index-l.first], p)
	return nil
}

// torn reports whether a record was cut by a crash: a sector of it was never written.
func torn(b []byte, offset int64) bool {
	for len(b) > 0 {
		n := min(int64(len(b)), sector-offset%sector)
		if strings.Trim(string(b[:n]), "\x00") == "" {
			return true
		}
		b, offset = b[n:], offset+n
	}
	return false
}

// Entries hands over the entries from an index on. Data may be kept.
func (l *Log) Entries(from uint64, fn func(*LogEntry) error) error {
	var f *os.File
	open := -1
	defer func() {
		if f != nil {
			f.Close()
		}
	}()
	for i := max(from, l.first); i <= l.Last() && len(l.at) > 0; i++ {
		p := l.at[i-l.first]
		if p.file != open {
			if f != nil {
				f.Close()
			}
			var err error
			if f, err = os.Open(l.files[p.file]); err != nil {
				return err
			}
			open = p.file
		}
		b := make([]byte, p.size)
		if _, err := f.ReadAt(b, p.offset); err != nil {
			return err
		}
		_, _, data, err := parseRecord(b)
		if err != nil {
			return err
		}
		// raftpb.Entry: 1 kind, 2 term, 3 index, 4 data
		e := LogEntry{Index: i, Term: varintField(data, 2), Change: varintField(data, 1) != 0, Data: bytesField(data, 4)}
		if err := fn(&e); err != nil {
			return err
		}
	}
	return nil
}

func parseRecord(b []byte) (kind uint64, crc uint32, data []byte, err error) {
	if !wellFormed(b) {
		return 0, 0, nil, fmt.Errorf("%w: record", ErrDamaged)
	}
	return varintField(b, 1), uint32(varintField(b, 2)), bytesField(b, 3), nil
}

func wellFormed(b []byte) bool {
	for len(b) > 0 {
		_, _, n := protowire.ConsumeField(b)
		if n < 0 {
			return false
		}
		b = b[n:]
	}
	return true
}

// varintField is the last value of a field, 0 if there is none.
func varintField(b []byte, want protowire.Number) (v uint64) {
	eachField(b, func(num protowire.Number, typ protowire.Type, field []byte) {
		if num == want && typ == protowire.VarintType {
			v, _ = protowire.ConsumeVarint(field)
		}
	})
	return v
}

// bytesField is the same of a field of bytes.
func bytesField(b []byte, want protowire.Number) (v []byte) {
	eachField(b, func(num protowire.Number, typ protowire.Type, field []byte) {
		if num == want && typ == protowire.BytesType {
			v, _ = protowire.ConsumeBytes(field)
		}
	})
	return v
}

func eachField(b []byte, fn func(protowire.Number, protowire.Type, []byte)) {
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return
		}
		m := protowire.ConsumeFieldValue(num, typ, b[n:])
		if m < 0 {
			return
		}
		fn(num, typ, b[n:n+m])
		b = b[n+m:]
	}
}
