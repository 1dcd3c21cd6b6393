package walfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"testing"
	"time"
)

// TestTheIndexSaysWhatWasCommitted: how many pages and frames, which commit it is, and what a checkpoint has copied.
func TestTheIndexSaysWhatWasCommitted(t *testing.T) {
	path, c := shared(t, 0)
	d := live(t, path)
	before := mustHeader(t, d)
	wal := read(t, path+"-wal")
	frames := uint32(len(wal)-32) / (24 + 4096)
	if before.Frame != frames || before.Pages != 2 || before.PageSize != 4096 || before.Copied != 0 || before.Salt != [8]byte(wal[16:24]) {
		t.Errorf("%+v with %d frames", before, frames)
	}
	c.exec("create table u (v)")
	after := mustHeader(t, d)
	if after.Change != before.Change+1 || after.Frame != before.Frame+2 || after.Pages != 3 || after.Salt != before.Salt {
		t.Errorf("a table more: %+v after %+v", after, before)
	}
	last := wal[len(wal)-24-4096:]
	if be := binary.BigEndian; before.Sum != [2]uint32{be.Uint32(last[16:]), be.Uint32(last[20:])} {
		t.Errorf("its checksum is %x", before.Sum)
	}
	c.exec("pragma wal_checkpoint(passive)")
	if h := mustHeader(t, d); h.Copied != after.Frame || h.Position != after.Position {
		t.Errorf("copied: %+v", h)
	}
	if text := after.Position.String(); text == before.Position.String() {
		t.Errorf("two positions are %s", text)
	}
}

// TestAnIndexThatIsBeingWrittenIsNotBelieved: two copies have to say the same, and each has a checksum.
func TestAnIndexThatIsBeingWrittenIsNotBelieved(t *testing.T) {
	path, _ := shared(t, 0)
	index := read(t, path+"-shm")
	if _, ok := parseIndex(index); !ok {
		t.Fatal("the index is not believed")
	}
	for i := range headerBytes {
		for name, at := range map[string][]int{"one copy": {i}, "the other copy": {headerBytes + i}, "both copies": {i, headerBytes + i}} {
			b := bytes.Clone(index)
			for _, at := range at {
				b[at] ^= 0x80
			}
			if _, ok := parseIndex(b); ok {
				t.Errorf("byte %d of %s is another, and is believed", i, name)
			}
		}
	}
	for name, change := range map[string]func(b []byte){
		"not yet written": func(b []byte) { b[atInit] = 0 },
		"another version": func(b []byte) { b[0]++ },
	} {
		b := bytes.Clone(index)
		change(b)
		sum := checksum(binary.NativeEndian, [2]uint32{}, b[:atSum])
		binary.NativeEndian.PutUint32(b[atSum:], sum[0])
		binary.NativeEndian.PutUint32(b[atSum+4:], sum[1])
		copy(b[headerBytes:], b[:headerBytes])
		if _, ok := parseIndex(b); ok {
			t.Errorf("%s: it is believed", name)
		}
	}
}

// TestAnIndexThatLastsInPieces: Header ends with ErrBusy, and also if there is no index at all yet.
func TestAnIndexThatLastsInPieces(t *testing.T) {
	path, _ := shared(t, 0)
	d := live(t, path)
	shm := other(t, path+"-shm")
	index := read(t, path+"-shm")
	if _, err := shm.WriteAt([]byte{index[8] + 1}, 8); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if _, err := d.Header(); !errors.Is(err, ErrBusy) {
		t.Errorf("copies that differ: %v", err)
	}
	if took := time.Since(began); took < time.Millisecond {
		t.Errorf("a commit that is being written is waited for %v", took)
	}
	if _, err := shm.WriteAt(index[8:9], 8); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Header(); err != nil {
		t.Errorf("copies that are the same again: %v", err)
	}
	empty, err := os.CreateTemp(t.TempDir(), "shm")
	if err != nil {
		t.Fatal(err)
	}
	defer empty.Close()
	if _, err := (&DB{shm: empty}).Header(); !errors.Is(err, ErrBusy) {
		t.Errorf("an empty index: %v", err)
	}
}
