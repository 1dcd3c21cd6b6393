package disk

import (
	"errors"
	"os"
	"sync/atomic"
	"syscall"
)

// directFile writes whole blocks past the page cache, by a descriptor of its own. Reads and all other writes use the ordinary one: the
// kernel keeps both views of the file the same.
//
// Measured on ext4, medians of 3,000 records of 2.5 KB, each made durable. Write and fdatasync took 289 us and 163 us of CPU. A direct
// write of the blocks and fdatasync took 225 us and 103 us, with O_DSYNC instead of fdatasync 246 us and 122 us.
type directFile struct {
	osFile
	direct  *os.File
	refused atomic.Bool // the file system does not take direct writes after all
}

// withDirectWrites gives f direct writes if its file system has them.
func withDirectWrites(f osFile) File {
	d, err := os.OpenFile(f.Name(), os.O_WRONLY|syscall.O_DIRECT, 0)
	if err != nil {
		return f
	}
	return &directFile{osFile: f, direct: d}
}

func (f *directFile) WriteAt(p []byte, off int64) (int, error) {
	if !wholeBlocks(p, off) || f.refused.Load() {
		return f.osFile.WriteAt(p, off)
	}
	n, err := f.direct.WriteAt(p, off)
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.EOPNOTSUPP) { // larger blocks than ours, or only the flag is taken
		f.refused.Store(true)
		return f.osFile.WriteAt(p, off)
	}
	return n, err
}

func (f *directFile) Close() error { return errors.Join(f.osFile.Close(), f.direct.Close()) }
