package disk

import (
	"os"
	"syscall"
)

// Sync is fdatasync: unlike fsync it does not journal the modification time. On a preallocated file a write changes nothing else besides
// the data.
func (f osFile) Sync() error {
	err := retryEINTR(func() error { return syscall.Fdatasync(int(f.Fd())) })
	if err != nil {
		return &os.PathError{Op: "fdatasync", Path: f.Name(), Err: err}
	}
	return nil
}

// reserve asks for contiguous blocks, and for ENOSPC now rather than later. A file system without fallocate is written
// to anyway.
func reserve(f *os.File, off, n int64) error {
	err := retryEINTR(func() error { return syscall.Fallocate(int(f.Fd()), 0, off, n) })
	if err == syscall.EOPNOTSUPP || err == syscall.ENOSYS {
		return nil
	}
	if err != nil {
		return &os.PathError{Op: "fallocate", Path: f.Name(), Err: err}
	}
	return nil
}
