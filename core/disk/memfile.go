package disk

import (
	"io"
	"io/fs"
	"syscall"
)

// memFile is an open file. All state is guarded by m.mu.
type memFile struct {
	m      *Mem
	node   *inode
	epoch  int
	name   string
	read   bool // it was opened for reading alone
	closed bool
}

// usable is the first step of every call; the caller holds mu.
func (f *memFile) usable() error {
	switch {
	case f.epoch != f.m.epoch:
		return ErrCrashed
	case f.closed:
		return fs.ErrClosed
	case f.m.budget == 0:
		return ErrPowerOff
	}
	return nil
}

// modify runs fn as one changing call; lost skips fn when the power goes during the call.
func (f *memFile) modify(lost bool, fn func()) error {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if err := f.usable(); err != nil {
		return err
	}
	if f.read {
		return &fs.PathError{Op: "write", Path: f.name, Err: syscall.EBADF}
	}
	off, err := f.m.change()
	if err != nil {
		return err
	}
	if off && lost {
		return ErrPowerOff
	}
	fn()
	f.node.time = f.m.clock()
	if off {
		return ErrPowerOff
	}
	return nil
}

func (f *memFile) ReadAt(p []byte, off int64) (int, error) {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if err := f.usable(); err != nil {
		return 0, err
	}
	if off >= int64(len(f.node.data)) {
		return 0, io.EOF
	}
	n := copy(p, f.node.data[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *memFile) WriteAt(p []byte, off int64) (int, error) {
	err := f.modify(false, func() {
		end := off + int64(len(p))
		if end > int64(len(f.node.data)) {
			f.node.resize(end)
		}
		copy(f.node.data[off:], p)
		f.node.mark(off, end)
	})
	if err != nil {
		return 0, err
	}
	return len(p), nil
}

func (f *memFile) Preallocate(size int64) error {
	return f.modify(false, func() {
		if size > int64(len(f.node.data)) {
			f.node.resize(size)
		}
	})
}

func (f *memFile) Truncate(size int64) error { return f.modify(false, func() { f.node.resize(size) }) }
func (f *memFile) Sync() error               { return f.modify(true, f.node.sync) }

func (f *memFile) Size() (int64, error) {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if err := f.usable(); err != nil {
		return 0, err
	}
	return int64(len(f.node.data)), nil
}

func (f *memFile) Close() error {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	f.closed = true
	return nil
}
