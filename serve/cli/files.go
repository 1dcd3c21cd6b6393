package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/holdfastdb/holdfast/core/disk"
)

// IsFile reports whether s names a file rather than endpoints.
func IsFile(s string) bool {
	info, err := os.Stat(s)
	return err == nil && info.Mode().IsRegular()
}

// EmptyDir refuses a directory that holds more than mkfs's own files, or that this user cannot make or write; what names the command.
func EmptyDir(what, data string) error {
	if err := WritableDir(data); err != nil {
		return fmt.Errorf("%s: --data %s: %w", what, data, err)
	}
	entries, err := os.ReadDir(data)
	entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return e.Name() == disk.LostAndFound })
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("%s: --data %s: %s; give a directory this user can write", what, data, Reason(err))
	case len(entries) > 0:
		return fmt.Errorf("%s: --data %s is not empty; give a directory that is, or one that does not exist", what, data)
	}
	return nil
}

// HostName is what this machine calls itself.
func HostName() string {
	if h, err := os.Hostname(); err == nil && h != "" {
		return h
	}
	return "holdfast"
}

// Reason is an operating system error without the path, which our line names already.
func Reason(err error) string {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err.Error()
	}
	return err.Error()
}
