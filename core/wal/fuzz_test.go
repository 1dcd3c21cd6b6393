package wal

import (
	"bytes"
	"errors"
	"testing"

	"github.com/holdfastdb/holdfast/core/disk"
)

func FuzzDecodeBatch(f *testing.F) {
	f.Add(appendBatch(nil, Batch{HardState: &HardState{1, 2, 3}}))
	f.Add(appendBatch(nil, Batch{Entries: []Entry{{Index: 5, Term: 300, Type: 1, Data: []byte("x")}, {Index: 6, Term: 300}}}))
	f.Fuzz(func(t *testing.T, p []byte) {
		hs, entries, err := decodeBatch(nil, p)
		if err != nil {
			if !errors.Is(err, errBadRecord) {
				t.Fatal(err)
			}
			return
		}
		if again := appendBatch(nil, Batch{HardState: hs, Entries: entries}); !bytes.Equal(again, p) {
			t.Fatalf("%x decodes to something that encodes as %x", p, again)
		}
	})
}

func FuzzDecodeStart(f *testing.F) {
	f.Add(start{logID: 1, segment: 2, at: position{3, 4}, pending: true, hardState: HardState{5, 6, 7}}.encode())
	f.Fuzz(func(t *testing.T, p []byte) {
		if s, err := decodeStart(p); err == nil && !bytes.Equal(s.encode(), p) {
			t.Fatalf("%x decodes to %+v", p, s)
		}
	})
}

// FuzzOpen gives recovery segments of any contents: it may refuse them, but what it opens must work.
func FuzzOpen(f *testing.F) {
	fs := disk.NewMem()
	l, err := Open(fs, "wal", testOptions)
	if err != nil {
		f.Fatal(err)
	}
	for i := range uint64(3) {
		if err := errors.Join(l.Append(Batch{HardState: &HardState{Term: 1}, Entries: []Entry{{Index: i + 1, Term: 1, Data: []byte("value")}}}), l.Sync()); err != nil {
			f.Fatal(err)
		}
	}
	begin, err := fs.ReadFile("wal/" + startName)
	if err != nil {
		f.Fatal(err)
	}
	seg, err := fs.ReadFile("wal/" + segmentName(1))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seg[:400], uint16(0), false)
	f.Add(seg[:400], uint16(96), true)
	f.Fuzz(func(t *testing.T, p []byte, at uint16, sum bool) {
		if sum && len(p) >= recordHeaderLen { // let the mutated record pass the checksum
			at := int(at) &^ 7 % len(p)
			if h, ok := parseHeader(append(bytes.Clone(p[at:]), make([]byte, recordHeaderLen)...)); ok && at+recordHeaderLen+int(h.length) <= len(p) {
				p = bytes.Clone(p)
				putHeader(p[at:], h, seedOf(testOptions.LogID))
			}
		}
		fs := disk.NewMem()
		check(t, fs.MkdirAll("wal"), fs.WriteFileAtomic("wal/"+startName, begin), fs.WriteFileAtomic("wal/"+segmentName(1), p))
		l, err := Open(fs, "wal", testOptions)
		if err != nil {
			return
		}
		last := l.LastIndex()
		check(t, l.Append(Batch{Entries: []Entry{{Index: last + 1, Term: 2, Data: []byte("more")}}}), l.Sync())
		for lo := l.FirstIndex(); lo <= last+1; {
			ents, err := l.Entries(lo, last+2, 1<<20)
			check(t, err)
			lo += uint64(len(ents))
		}
		check(t, l.Close())
		l, err = Open(fs, "wal", testOptions)
		if err != nil || l.LastIndex() != last+1 {
			t.Fatalf("reopened: %v", err)
		}
	})
}
