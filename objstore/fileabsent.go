package objstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"syscall"

	"github.com/holdfastdb/holdfast/core/disk"
)

// PutIfAbsent implements Store. The object is written under a name of the writer's own and synced. It gets its place by link(2), which the
// kernel refuses if there is a file. Nothing is locked, and no reader sees half of it.
func (s *File) PutIfAbsent(ctx context.Context, o Object) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.place(o.Name, bytes.NewReader(o.Data), s.create)
}

// place makes an object from r, in one of two ways: create or replace.
func (s *File) place(name string, r io.Reader, as func(path string, r io.Reader) error) (err error) {
	if err := checkName(name); err != nil {
		return err
	}
	if err := s.enter(true); err != nil {
		return fmt.Errorf("put %s: %w", name, err)
	}
	defer s.leave(&err)
	path := s.path(name)
	dir := filepath.Dir(path)
	if err := s.makeDir(dir, s.dir, true); err != nil {
		return fmt.Errorf("put %s: %w", name, err)
	}
	s.sweep(dir)
	err = as(path, r)
	if err != nil && !errors.Is(err, ErrExists) {
		return fmt.Errorf("put %s: %w", name, err)
	}
	// COMMIT POINT: before this sync a crash may take the name away. An existing file is synced as well: its writer may not have synced its
	// name yet, and the caller relies on it from now on.
	if err := s.fs.SyncDir(dir); err != nil {
		return fmt.Errorf("sync %s: %w", dir, err)
	}
	if err != nil {
		return fmt.Errorf("put %s: %w", name, err)
	}
	return nil
}

// create writes a file where there must be none, or returns ErrExists. The file's name is not synced.
func (s *File) create(path string, r io.Reader) error {
	temp, err := s.writeTemp(path, r)
	if err != nil {
		return err
	}
	err = s.link(temp, path)
	_ = s.fs.Remove(temp) // one that stays is swept an hour later
	return err
}

// link gives a file a second name, or returns ErrExists. A file system that has no such names cannot keep the promise.
func (s *File) link(old, path string) error {
	err := s.fs.Link(old, path)
	switch {
	case err == nil:
		return nil
	case s.sameFile(old, path): // a network file system repeats a request whose answer was lost, and then refuses it
		return nil
	case errors.Is(err, fs.ErrExist):
		return ErrExists
	case errors.Is(err, syscall.EPERM), errors.Is(err, syscall.ENOTSUP), errors.Is(err, syscall.ENOSYS):
		return fmt.Errorf("%w: the file system has no hard links: %w", ErrUnconditional, err)
	}
	return err
}

func (s *File) sameFile(a, b string) bool {
	x, err := s.fs.Lstat(a)
	if err != nil {
		return false
	}
	y, err := s.fs.Lstat(b)
	return err == nil && disk.IDOf(x) == disk.IDOf(y)
}
