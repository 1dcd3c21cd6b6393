package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"syscall"
	"time"
)

// ListenUnix listens at a Unix socket that has a mode from its first moment on: it is made under another name. A socket that an ended
// program left there is replaced; anything else stays, and is an error. Closing the listener removes the socket.
func ListenUnix(path string, mode fs.FileMode) (net.Listener, error) {
	if err := RemoveStale(path); err != nil {
		return nil, err
	}
	temp := fmt.Sprintf("%s.%d", path, os.Getpid())
	if err := os.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: temp, Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false) // it has another name by then
	if err = os.Chmod(temp, mode); err == nil {
		err = os.Rename(temp, path)
	}
	if err != nil {
		return nil, errors.Join(err, l.Close(), os.Remove(temp))
	}
	return l, nil
}

// RemoveStale removes a socket without a listening process. It is an error if there is anything else, or if that cannot be told.
func RemoveStale(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode()&os.ModeSocket == 0:
		return errors.New("there is something else of that name")
	}
	c, err := net.DialTimeout("unix", path, time.Second)
	switch {
	case err == nil:
		_ = c.Close() // nothing was said
		return errors.New("another program listens there")
	case !errors.Is(err, syscall.ECONNREFUSED):
		return err
	}
	return os.Remove(path)
}
