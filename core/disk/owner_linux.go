package disk

import (
	"io/fs"
	"os"
	"syscall"
)

// CopyOwner gives a file the owner and the group that info describes. It does nothing for files that are not the system's. A process that
// may not do so gets an error with fs.ErrPermission in it.
func CopyOwner(info fs.FileInfo, name string) error {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	return os.Chown(name, int(st.Uid), int(st.Gid))
}
