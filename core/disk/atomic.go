package disk

import (
	"errors"
	"path/filepath"
)

// tmpSuffix marks a file that WriteFileAtomic had not renamed yet when the process died. Safe to remove.
const tmpSuffix = ".tmp"

// writeFileAtomic is WriteFileAtomic in terms of the other calls, so that every implementation crashes and fails at the
// same places. A reader sees the old contents or the new, never a mixture.
func writeFileAtomic(fs FS, name string, data []byte) error {
	tmp := name + tmpSuffix
	f, err := fs.Create(tmp)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(data, 0)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := fs.Rename(tmp, name); err != nil {
		return err
	}
	// COMMIT POINT: before this sync a crash may bring the old contents back.
	return fs.SyncDir(filepath.Dir(name))
}
