package disk

import (
	"errors"
	"io/fs"
	"path/filepath"
	"syscall"
)

// LostAndFound is the directory that mkfs makes in a new file system. A directory that holds nothing else counts as empty.
const LostAndFound = "lost+found"

// mkdirAll is MkdirAll in terms of the other calls, so that every implementation crashes and fails at the same places.
//
// It goes from the top down, and also syncs the names of existing directories. A person with mkdir -p, or an earlier process, may have made
// them a moment ago. The sync of a directory in which nothing has changed costs next to nothing.
func mkdirAll(f FS, dir string) error {
	dir = filepath.Clean(dir)
	parent := filepath.Dir(dir)
	if parent == dir {
		return nil
	}
	if err := mkdirAll(f, parent); err != nil {
		return err
	}
	err := f.Mkdir(dir)
	there := errors.Is(err, fs.ErrExist)
	if err != nil && !there {
		return err
	}
	// COMMIT POINT: before this sync a crash may take the directory away, and all that will have been synced in it.
	err = f.SyncDir(parent)
	if there && cannotSync(err) {
		return nil // this process could not have made anything in it either, so it is older and durable
	}
	return err
}

// cannotSync reports whether this process cannot sync the directory at all, as opposed to a sync that failed. The directory is not
// readable, or its file system is read-only or has no such call.
func cannotSync(err error) bool {
	for _, e := range []error{fs.ErrPermission, syscall.EROFS, syscall.EINVAL, syscall.ENOTSUP} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
