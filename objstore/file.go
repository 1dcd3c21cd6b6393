package objstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/holdfastdb/holdfast/disk"
)

// tempPrefix begins the names of files that are being written. What a crash leaves of them is replaced or ignored.
const tempPrefix = ".new-"

// File is a Store in a directory: an object is a file of its name that anybody may read.
type File struct{ dir string }

// NewFile returns a store in dir, which need not exist.
func NewFile(dir string) *File { return &File{dir: dir} }

// Get implements Store.
func (s *File) Get(_ context.Context, name string) ([]byte, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	b, err := os.ReadFile(filepath.Join(s.dir, filepath.FromSlash(name)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w", name, ErrAbsent)
	}
	return b, err
}

// Put implements Store. Files are written beside their places, synced, and renamed; then each directory is synced once.
func (s *File) Put(ctx context.Context, objects ...Object) error {
	dirs := map[string]bool{}
	for _, o := range objects {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := checkName(o.Name); err != nil {
			return err
		}
		path := filepath.Join(s.dir, filepath.FromSlash(o.Name))
		dir := filepath.Dir(path)
		if !dirs[dir] {
			if err := s.makeDir(dir, dirs); err != nil {
				return fmt.Errorf("put %s: %w", o.Name, err)
			}
		}
		if err := replace(path, o.Data); err != nil {
			return fmt.Errorf("put %s: %w", o.Name, err)
		}
	}
	for dir := range dirs { // any order: all are synced
		if err := disk.OS().SyncDir(dir); err != nil {
			return fmt.Errorf("sync %s: %w", dir, err)
		}
	}
	return nil
}

// makeDir makes a directory with all above it and notes those whose entries must become durable.
func (s *File) makeDir(dir string, dirs map[string]bool) error {
	dirs[dir] = true
	err := os.Mkdir(dir, 0o755)
	switch {
	case err == nil:
		dirs[filepath.Dir(dir)] = true
		return nil
	case errors.Is(err, fs.ErrExist):
		return nil
	case !errors.Is(err, fs.ErrNotExist) || filepath.Dir(dir) == dir:
		return err
	}
	if err := s.makeDir(filepath.Dir(dir), dirs); err != nil {
		return err
	}
	return s.makeDir(dir, dirs)
}

// replace writes a file so that a reader sees the old or the new one, never a part.
func replace(path string, data []byte) error {
	temp := filepath.Join(filepath.Dir(path), tempPrefix+filepath.Base(path))
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err2 := f.Close(); err == nil {
		err = err2
	}
	if err == nil {
		err = os.Rename(temp, path)
	}
	if err != nil {
		_ = os.Remove(temp) // the first error is the one that counts
	}
	return err
}

// DeleteAll implements Store. It is not made durable: an object that comes back after a crash is what it was.
func (s *File) DeleteAll(_ context.Context, prefix string) error {
	if err := checkName(prefix); err != nil {
		return err
	}
	return os.RemoveAll(filepath.Join(s.dir, filepath.FromSlash(prefix)))
}
