package server

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/holdfastdb/holdfast/cmd/holdfast/cli"
	"github.com/holdfastdb/holdfast/node"
)

// checkData refuses a data directory in which this server cannot begin or go on, before a door or the node writes there. It changes
// nothing. The error is for Setup.Advise, which names the flag and the directory.
func (su *Setup) checkData() error {
	dir := su.Node.Dir
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := canBeMade(dir); err != nil {
			return err
		}
	case errors.Is(err, syscall.ENOTDIR):
		return fmt.Errorf("%s; give a directory", belowAFile(dir))
	case err != nil:
		return fmt.Errorf("%s; give a directory this user can write", cli.Reason(err))
	case !info.IsDir():
		return errors.New("it is a file; give a directory")
	default:
		if err := syscall.Access(dir, readable|writable|searchable); err != nil {
			return fmt.Errorf("%w; give a directory this user can write", err)
		}
	}
	var also []string
	if su.Adopt != nil {
		also = []string{"member"}
	}
	return node.CheckDir(su.Doors.Equip(su.Node), also...)
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
		return fmt.Errorf("it cannot be made in %s: %s; give a directory this user can make", above, cli.Reason(err))
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
