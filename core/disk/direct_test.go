package disk

import (
	"bytes"
	"path/filepath"
	"testing"
)

// TestDirectAndOrdinaryWritesAgree: whole blocks go past the page cache, anything else through it, and every reader sees the last
// of both.
func TestDirectAndOrdinaryWritesAgree(t *testing.T) {
	fs, name := OS(), filepath.Join(t.TempDir(), "file")
	f, err := fs.Create(name)
	if err == nil {
		err = f.Preallocate(8 * BlockBytes)
	}
	if err != nil {
		t.Fatal(err)
	}
	want := make([]byte, 8*BlockBytes)
	d, err := fs.OpenDirect(name)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	write := func(to File, p []byte, off int) {
		t.Helper()
		if n, err := to.WriteAt(p, int64(off)); err != nil || n != len(p) {
			t.Fatalf("%d of %d bytes written: %v", n, len(p), err)
		}
		copy(want[off:], p)
		for _, r := range []File{f, d} {
			got := make([]byte, len(want))
			if _, err := r.ReadAt(got, 0); err != nil || !bytes.Equal(got, want) {
				t.Fatalf("after %d bytes at %d the file is another: %v", len(p), off, err)
			}
		}
	}
	block := Blocks(2 * BlockBytes)
	for i := range block {
		block[i] = byte(i * 7)
	}
	write(d, block, BlockBytes)
	write(f, []byte("through the cache"), BlockBytes-5)
	write(d, block[:BlockBytes], BlockBytes)
	write(d, block[1:BlockBytes], 3*BlockBytes) // neither aligned nor whole
	write(d, block, 3*BlockBytes)
	write(d, []byte("odd"), 7)
	if err := d.Sync(); err != nil {
		t.Fatal(err)
	}
	if size, err := d.Size(); err != nil || size != int64(len(want)) {
		t.Fatalf("%d bytes, %v", size, err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestBlocksAreAligned(t *testing.T) {
	for _, n := range []int{0, 1, BlockBytes - 1, BlockBytes, BlockBytes + 1, 10 * BlockBytes} {
		b := Blocks(n)
		whole := (n + BlockBytes - 1) / BlockBytes * BlockBytes
		if len(b) != n || cap(b) != whole {
			t.Fatalf("Blocks(%d) has length %d and capacity %d", n, len(b), cap(b))
		}
		if n > 0 && !wholeBlocks(b[:whole], 3*BlockBytes) {
			t.Fatalf("Blocks(%d) is not aligned", n)
		}
	}
}
