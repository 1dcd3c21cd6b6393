package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// WritableDir reports why this user cannot write in a directory, or cannot make it, and what to do. It changes nothing. The error does
// not name the directory where that is the fault's place: its caller does.
func WritableDir(dir string) error {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return canBeMade(dir)
	case errors.Is(err, syscall.ENOTDIR):
		return fmt.Errorf("%s; give a directory", belowAFile(dir))
	case err != nil:
		return fmt.Errorf("%s; give a directory this user can write", Reason(err))
	case !info.IsDir():
		return errors.New("it is a file; give a directory")
	}
	if err := syscall.Access(dir, readable|writable|searchable); err != nil {
		return fmt.Errorf("%w; give a directory this user can write", err)
	}
	return nil
}

// The modes of access(2).
const (
	searchable = 1
	writable   = 2
	readable   = 4
)

// canBeMade reports why a directory that does not exist cannot be made.
func canBeMade(dir string) error {
	if to, err := os.Readlink(dir); err == nil {
		return fmt.Errorf("it is a link to %s, which does not exist; make that directory or give another one", to)
	}
	above := filepath.Dir(dir)
	info, err := os.Stat(above)
	switch {
	case errors.Is(err, fs.ErrNotExist) && above != dir:
		return canBeMade(above)
	case err != nil:
		return fmt.Errorf("it cannot be made in %s: %s; give a directory this user can make", above, Reason(err))
	case !info.IsDir():
		return fmt.Errorf("%s is a file; give a directory", above)
	}
	if err := syscall.Access(above, writable|searchable); err != nil {
		return fmt.Errorf("it cannot be made in %s: %w; give a directory this user can make", above, err)
	}
	return nil
}

// belowAFile says which part of a path is a file.
func belowAFile(dir string) string {
	for above := filepath.Dir(dir); above != filepath.Dir(above); above = filepath.Dir(above) {
		if info, err := os.Stat(above); err == nil && !info.IsDir() {
			return above + " is a file"
		}
	}
	return "a part of its path is a file"
}
