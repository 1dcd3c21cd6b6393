package objstore

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/holdfastdb/holdfast/core/disk"
)

// root is the directory of a File, held open from its first use on. The descriptor keeps the directory's inode from being given to another
// one, so that equal IDs mean the same directory. It also keeps a disk from being unmounted by an ordinary umount.
type root struct {
	mu      sync.Mutex
	held    disk.Dir // nil before the first use; guarded by mu
	id      disk.ID  // guarded by mu; set once
	durable bool     // this value has synced the names of the root and of all above it; guarded by mu
}

// enter begins a call. The first one that finds the root holds it, and the first one that writes makes it if there was none. Every later call
// compares.
func (s *File) enter(write bool) error {
	s.root.mu.Lock()
	if s.root.held != nil && (s.root.durable || !write) {
		s.root.mu.Unlock()
		return s.compare()
	}
	defer s.root.mu.Unlock() // others wait until the root is there
	if err := s.hold(write); err != nil || s.root.held == nil {
		return err
	}
	if err := s.compare(); err != nil || !write {
		return err
	}
	if err := s.makeDir(s.dir, "", false); err != nil {
		return fmt.Errorf("make the store's directory durable: %w", err)
	}
	s.root.durable = true
	return nil
}

// hold opens the root if it is there or may be made. The caller holds root.mu.
func (s *File) hold(write bool) error {
	if s.root.held != nil {
		return nil
	}
	d, err := s.fs.OpenDir(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		switch {
		case s.mustExist:
			return fmt.Errorf("%s: %w", s.dir, ErrSwapped)
		case !write:
			return s.dangling()
		}
		if err := s.makeDir(s.dir, "", true); err != nil {
			return fmt.Errorf("make the store's directory: %w", err)
		}
		d, err = s.fs.OpenDir(s.dir)
	}
	if err != nil {
		return fmt.Errorf("open the store's directory: %w", err)
	}
	info, err := d.Stat()
	if err != nil {
		_ = d.Close() // nothing was written
		return fmt.Errorf("look at the store's directory: %w", err)
	}
	s.root.held, s.root.id = d, disk.IDOf(info)
	return nil
}

// leave ends a call that would answer err. If the root was swapped meanwhile, nothing else that the call has seen counts.
func (s *File) leave(err *error) {
	s.root.mu.Lock()
	held := s.root.held != nil
	s.root.mu.Unlock()
	if !held {
		return
	}
	if swapped := s.compare(); swapped != nil {
		*err = swapped
	}
}

// compare finds out whether the path still leads to the directory that is held, of which there is one.
func (s *File) compare() error {
	info, err := s.fs.Stat(s.dir)
	switch {
	case isAbsent(err), err == nil && disk.IDOf(info) != s.root.id:
		return fmt.Errorf("%s: %w", s.dir, ErrSwapped)
	case err != nil:
		return fmt.Errorf("look at the store's directory: %w", err)
	}
	return nil
}

// dangling is the error of a root that is missing because a link above it leads nowhere, as to a disk that is not mounted. An empty store
// would be the wrong answer then.
func (s *File) dangling() error {
	for dir := s.dir; ; dir = filepath.Dir(dir) {
		_, err := s.fs.Lstat(dir)
		if err == nil {
			return s.isDir(dir)
		}
		if !isAbsent(err) || filepath.Dir(dir) == dir {
			return nil
		}
	}
}

// makeTries is how often a directory is made anew that is removed again before its child is made: by DeleteAll, for example.
const makeTries = 3

// makeDir makes a directory with all that is missing below the directory top, which is there, and makes their names durable. It does the
// same for names that it finds: another process may have made them and not synced them yet. Without mayMake it makes nothing.
func (s *File) makeDir(dir, top string, mayMake bool) error {
	above := filepath.Dir(dir)
	if dir == top || above == dir {
		return nil
	}
	if s.isDurable(dir) {
		return nil
	}
	for try := 1; ; try++ {
		if err := s.makeDir(above, top, mayMake); err != nil {
			return err
		}
		made, err := s.makeOne(dir, mayMake)
		if errors.Is(err, fs.ErrNotExist) {
			if try < makeTries && mayMake {
				continue
			}
			return lasting{err} // its parent exists, and takes no directory: /proc
		}
		if err != nil {
			return err
		}
		info, err := s.fs.Stat(dir)
		if err != nil {
			return err
		}
		if err := s.fs.SyncDir(above); err != nil && (made || !cannotSync(err)) {
			return fmt.Errorf("sync %s: %w", above, err)
		}
		s.mu.Lock()
		s.durable[dir] = disk.IDOf(info)
		s.mu.Unlock()
		return nil
	}
}

// makeOne makes a directory, or finds it. An error is final, apart from a disk that is full or fails.
func (s *File) makeOne(dir string, mayMake bool) (made bool, err error) {
	if info, err := s.fs.Stat(dir); err == nil && info.IsDir() {
		return false, nil
	}
	if !mayMake {
		return false, s.isDir(dir)
	}
	switch err := s.fs.MkdirMode(dir, dirMode(s.mode)); {
	case errors.Is(err, fs.ErrExist):
		return false, s.isDir(dir)
	case err != nil:
		return false, err
	}
	if s.exact {
		return true, s.fs.Chmod(dir, dirMode(s.mode))
	}
	return true, nil
}

// isDurable reports whether this value has made the name of a directory durable, with those of all above it. A directory that was made
// anew under that name meanwhile is another one.
func (s *File) isDurable(dir string) bool {
	s.mu.Lock()
	id, ok := s.durable[dir]
	s.mu.Unlock()
	if !ok {
		return false
	}
	info, err := s.fs.Stat(dir)
	return err == nil && disk.IDOf(info) == id
}

// isDir is the error of a path under which something is and must be a directory.
func (s *File) isDir(path string) error {
	info, err := s.fs.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return lasting{fmt.Errorf("%s is a link, and nothing is where it leads: mount the disk, or remove the link", path)}
	case err != nil:
		return err
	case !info.IsDir():
		return lasting{fmt.Errorf("%s is a file and must be a directory", path)}
	}
	return nil
}

// cannotSync reports whether a process like this one cannot sync a directory at all, as opposed to a sync that failed. It could not have
// made anything there either, so what it finds there is older, and durable.
func cannotSync(err error) bool {
	for _, e := range []error{fs.ErrPermission, syscall.EROFS, syscall.EINVAL, syscall.ENOTSUP} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
