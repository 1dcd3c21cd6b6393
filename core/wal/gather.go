package wal

import (
	"fmt"

	"github.com/holdfastdb/holdfast/core/disk"
)

// gather collects appended records until they are written, in whole blocks, past the page cache (disk.FS, OpenDirect). The block that the
// log ends in is written again with the records that follow. A disk that tears that write leaves the old bytes or the same bytes. Behind
// the end the block is filled with zeros.
//
// At most two batches wait. Both are always in the tail too, so no record is read from the file before it is written there. Writing at
// every Append was rejected: each direct write waits for the device. Owned by the writer.
type gather struct {
	buf     []byte // from disk.Blocks: the file's bytes, present or to be written, from base on
	base    int64  // a multiple of disk.BlockBytes
	batches int    // that are not in the file yet
}

// gatherMost is how many batches wait to be written; tail keeps as many.
const gatherMost = len(tail{}.keep)

// begin prepares for appending to a file at off: the block that off lies in is written again, so its bytes are needed.
func (g *gather) begin(f disk.File, off int64) error {
	g.base, g.batches = off&^(disk.BlockBytes-1), 0
	g.reserve(int(off - g.base))
	g.buf = g.buf[:off-g.base]
	if len(g.buf) == 0 {
		return nil
	}
	if _, err := f.ReadAt(g.buf, g.base); err != nil {
		return fmt.Errorf("read the end of the log: %w", err)
	}
	return nil
}

// room appends n bytes of undefined content and returns them to be filled in.
func (g *gather) room(n int) []byte {
	at := len(g.buf)
	g.reserve(at + n)
	g.buf = g.buf[:at+n]
	return g.buf[at : at+n : at+n]
}

// reserve makes room for n bytes in all.
func (g *gather) reserve(n int) {
	if n > cap(g.buf) {
		g.buf = append(disk.Blocks(max(n, 2*cap(g.buf), 64<<10))[:0], g.buf...)
	}
}

// write brings what waits into the file, of which only the first size bytes may be written.
func (g *gather) write(f disk.File, size int64) error {
	if g.batches == 0 {
		return nil
	}
	n := len(g.buf)
	whole := (n + disk.BlockBytes - 1) &^ (disk.BlockBytes - 1)
	whole = int(min(int64(whole), size-g.base)) // only tests have segments that are not whole blocks
	clear(g.buf[n:whole])
	if _, err := f.WriteAt(g.buf[:whole], g.base); err != nil {
		return err
	}
	g.batches = 0
	last := n &^ (disk.BlockBytes - 1)
	g.base += int64(last)
	rest := g.buf[last:n]
	if cap(g.buf) > maxKeptBuffer {
		g.buf = disk.Blocks(64 << 10)
	}
	g.buf = g.buf[:copy(g.buf[:cap(g.buf)], rest)]
	return nil
}
