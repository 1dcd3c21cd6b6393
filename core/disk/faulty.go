package disk

import (
	"io/fs"
	"sync"
	"syscall"
)

// Faulty wraps a file system and fails on request, at any time and on chosen files. It imitates a disk that goes bad or fills up under a
// running server. Safe for concurrent use.
type Faulty struct {
	FS
	mu    sync.Mutex
	sync  fault // Sync and SyncDir
	write fault // Create, CreateNew, Link, WriteAt, Preallocate
	read  fault // Open, OpenRead, ReadAt, ReadFile, ReadDir
	quota quota
}

type fault struct {
	match func(name string) bool
	err   error
}

type quota struct {
	match func(name string) bool
	left  int64
	on    bool
}

// NewFaulty wraps fs; nothing fails until one of the calls below asks for it.
func NewFaulty(fs FS) *Faulty { return &Faulty{FS: fs} }

// FailSync makes Sync of files, and SyncDir of directories, whose name match accepts answer err without syncing. A nil
// match accepts all; a nil err heals.
func (f *Faulty) FailSync(match func(name string) bool, err error) { f.set(&f.sync, match, err) }

// FailWrite does the same for creating, writing and preallocating.
func (f *Faulty) FailWrite(match func(name string) bool, err error) { f.set(&f.write, match, err) }

// FailRead does the same for opening and reading.
func (f *Faulty) FailRead(match func(name string) bool, err error) { f.set(&f.read, match, err) }

func (f *Faulty) set(to *fault, match func(string) bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	*to = fault{match, err}
}

// FillAfter lets n more bytes be written to files that match accepts and then answers ENOSPC, in the middle of a write if
// need be. Bytes written over older ones count too. n < 0 = room again.
func (f *Faulty) FillAfter(match func(name string) bool, n int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.quota = quota{match, n, n >= 0}
}

func (f *Faulty) check(ft *fault, name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if ft.err != nil && (ft.match == nil || ft.match(name)) {
		return ft.err
	}
	return nil
}

// take answers how many of n bytes still fit.
func (f *Faulty) take(name string, n int64) (int64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.quota.on || f.quota.match != nil && !f.quota.match(name) {
		return n, nil
	}
	fits := min(n, f.quota.left)
	f.quota.left -= fits
	if fits < n {
		return fits, syscall.ENOSPC
	}
	return fits, nil
}

// Open implements FS.
func (f *Faulty) Open(name string) (File, error) {
	if err := f.check(&f.read, name); err != nil {
		return nil, err
	}
	file, err := f.FS.Open(name)
	return f.wrap(name, file, err)
}

// OpenDirect implements FS.
func (f *Faulty) OpenDirect(name string) (File, error) {
	if err := f.check(&f.read, name); err != nil {
		return nil, err
	}
	file, err := f.FS.OpenDirect(name)
	return f.wrap(name, file, err)
}

// Create implements FS.
func (f *Faulty) Create(name string) (File, error) {
	if err := f.check(&f.write, name); err != nil {
		return nil, err
	}
	file, err := f.FS.Create(name)
	return f.wrap(name, file, err)
}

// OpenRead implements FS.
func (f *Faulty) OpenRead(name string) (File, error) {
	if err := f.check(&f.read, name); err != nil {
		return nil, err
	}
	file, err := f.FS.OpenRead(name)
	return f.wrap(name, file, err)
}

// CreateNew implements FS.
func (f *Faulty) CreateNew(name string, mode fs.FileMode) (File, error) {
	if err := f.check(&f.write, name); err != nil {
		return nil, err
	}
	file, err := f.FS.CreateNew(name, mode)
	return f.wrap(name, file, err)
}

// Link implements FS. It fails by its new name.
func (f *Faulty) Link(oldname, newname string) error {
	if err := f.check(&f.write, newname); err != nil {
		return err
	}
	return f.FS.Link(oldname, newname)
}

// ReadDir implements FS.
func (f *Faulty) ReadDir(dir string) ([]fs.DirEntry, error) {
	if err := f.check(&f.read, dir); err != nil {
		return nil, err
	}
	return f.FS.ReadDir(dir)
}

func (f *Faulty) wrap(name string, file File, err error) (File, error) {
	if err != nil {
		return nil, err
	}
	return &faultyFile{file, f, name}, nil
}

// SyncDir implements FS.
func (f *Faulty) SyncDir(dir string) error {
	if err := f.check(&f.sync, dir); err != nil {
		return err
	}
	return f.FS.SyncDir(dir)
}

// ReadFile implements FS.
func (f *Faulty) ReadFile(name string) ([]byte, error) {
	if err := f.check(&f.read, name); err != nil {
		return nil, err
	}
	return f.FS.ReadFile(name)
}

// WriteFileAtomic implements FS.
func (f *Faulty) WriteFileAtomic(name string, data []byte) error {
	return writeFileAtomic(f, name, data)
}

// MkdirAll implements FS.
func (f *Faulty) MkdirAll(dir string) error { return mkdirAll(f, dir) }

// Free implements FS: nothing once the quota is used up.
func (f *Faulty) Free(dir string) (uint64, error) {
	free, err := f.FS.Free(dir)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.quota.on {
		free = min(free, uint64(f.quota.left))
	}
	return free, err
}

type faultyFile struct {
	File
	f    *Faulty
	name string
}

func (ff *faultyFile) ReadAt(p []byte, off int64) (int, error) {
	if err := ff.f.check(&ff.f.read, ff.name); err != nil {
		return 0, err
	}
	return ff.File.ReadAt(p, off)
}

func (ff *faultyFile) WriteAt(p []byte, off int64) (int, error) {
	if err := ff.f.check(&ff.f.write, ff.name); err != nil {
		return 0, err
	}
	fits, full := ff.f.take(ff.name, int64(len(p)))
	n, err := ff.File.WriteAt(p[:fits], off)
	if err == nil {
		err = full
	}
	return n, err
}

func (ff *faultyFile) Preallocate(size int64) error {
	if err := ff.f.check(&ff.f.write, ff.name); err != nil {
		return err
	}
	have, err := ff.File.Size()
	if err != nil {
		return err
	}
	if _, err := ff.f.take(ff.name, max(0, size-have)); err != nil {
		return err
	}
	return ff.File.Preallocate(size)
}

func (ff *faultyFile) Sync() error {
	if err := ff.f.check(&ff.f.sync, ff.name); err != nil {
		return err
	}
	return ff.File.Sync()
}
