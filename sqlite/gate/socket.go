package gate

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"

	"github.com/holdfastdb/holdfast/core/disk"
)

// maxSocketPath is the length in bytes of a path that a socket can have (sockaddr_un).
const maxSocketPath = 107

// bind makes the socket at path. The lock beside it, at path.lock, keeps two agents that start together from taking the socket from each
// other. Each would find no listening process yet.
func bind(path string) (_ *net.UnixListener, _ disk.Unlocker, err error) {
	switch {
	case len(path) > maxSocketPath:
		return nil, nil, fmt.Errorf("socket path %s is longer than the %d bytes a socket may have; set --socket", path, maxSocketPath)
	case strings.ContainsAny(path, "\n\x00"):
		return nil, nil, fmt.Errorf("socket path %q has a byte that no extension can read; set --socket", path)
	}
	if err := judge(path); err != nil {
		return nil, nil, err
	}
	lock, err := disk.OS().Lock(path + ".lock")
	if errors.Is(err, disk.ErrLocked) {
		return nil, nil, fmt.Errorf("another agent has the socket %s; stop it, or set --socket", path)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("socket %s: %w", path, err)
	}
	defer func() {
		if err != nil {
			lock.Unlock() // nothing was written to its file
		}
	}()
	if err := vacate(path); err != nil {
		return nil, nil, err
	}
	l, err := listenPrivate(path)
	if err != nil {
		return nil, nil, err
	}
	return l, lock, nil
}

// socketMode lets the user's own processes connect, and no others: connecting takes the right to write.
const socketMode = 0o600

// listenPrivate listens at a socket that has socketMode from its first moment, independent of the umask. The mode is set before the socket
// is bound: the system takes it over to the file. A chmod afterwards would leave a moment in which every user may connect.
func listenPrivate(path string) (*net.UnixListener, error) {
	private := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var failed error
		err := c.Control(func(fd uintptr) { failed = syscall.Fchmod(int(fd), socketMode) })
		return errors.Join(err, failed)
	}}
	l, err := private.Listen(context.Background(), "unixpacket", path)
	if err != nil {
		return nil, err
	}
	return l.(*net.UnixListener), nil
}

// judge refuses a path at which there is something else than a socket.
func judge(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("socket %s: %w", path, err)
	case info.Mode()&os.ModeSocket == 0:
		return fmt.Errorf("socket %s: there is %s of that name; remove it, or set --socket", path, kindOf(info))
	}
	return nil
}

func kindOf(info os.FileInfo) string {
	switch {
	case info.Mode()&os.ModeSymlink != 0:
		return "a symbolic link"
	case info.IsDir():
		return "a directory"
	case info.Mode().IsRegular():
		return "a file"
	}
	return "something else"
}

// vacate removes a socket that an earlier agent has left. One that a process listens at, an agent or another program, is left alone.
func vacate(path string) error {
	c, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: path, Net: "unixpacket"})
	switch {
	case err == nil:
		c.Close() // nothing was said
		return fmt.Errorf("another agent listens at %s; stop it, or set --socket", path)
	case errors.Is(err, os.ErrNotExist):
		return nil
	case !errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("socket %s: another program has it (%w); set --socket", path, err)
	}
	if err := judge(path); err != nil {
		return err
	}
	return os.Remove(path)
}
