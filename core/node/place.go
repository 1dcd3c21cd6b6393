package node

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/holdfastdb/holdfast/core/disk"
)

// ErrForeign: a directory holds files of others and no identity, so it is not a data directory.
var ErrForeign = errors.New("it is not a Holdfast data directory")

// CheckDir refuses cfg.Dir if no member can begin or continue there. It refuses a file, an identity that is damaged or of
// another format, and foreign files. It only reads. A directory that does not exist passes. also names entries that
// belong to a copy which is made of them here, such as etcd's directory member.
func CheckDir(cfg Config, also ...string) error {
	cfg.defaults()
	switch _, err := ReadIdentity(cfg.FS, cfg.Dir); {
	case err == nil:
		return nil
	case !errors.Is(err, ErrNoIdentity):
		return err
	}
	return cfg.refuseForeign(also...)
}

// beside returns the names that may lie in a data directory before its identity does. They come from mkfs, a crash during
// a first start, the doors' own preparations, or the log's own mount point.
func (cfg *Config) beside() []string {
	names := slices.Concat([]string{disk.LostAndFound, "LOCK", stoppedName, filepath.Base(identityFile(cfg.Dir)) + ".tmp"}, cfg.Scratch, cfg.Beside)
	if rel, err := filepath.Rel(cfg.Dir, cfg.WALDir); cfg.WALDir != "" && err == nil && filepath.IsLocal(rel) {
		first, _, _ := strings.Cut(rel, string(filepath.Separator))
		names = append(names, first)
	}
	return names
}

// refuseForeign refuses a directory without an identity that holds anything but beside and also.
func (cfg *Config) refuseForeign(also ...string) error {
	names, err := cfg.FS.List(cfg.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list %s: %w", cfg.Dir, err)
	}
	known := append(cfg.beside(), also...)
	names = slices.DeleteFunc(names, func(name string) bool { return slices.Contains(known, name) })
	switch {
	case len(names) == 0:
		return nil
	case slices.Contains(names, "wal"), slices.Contains(names, "store"):
		return fmt.Errorf("%s is not empty and has no identity file: %w, or a damaged one; put identity.json back from a copy of the "+
			"directory, or give an empty directory", cfg.Dir, ErrForeign)
	}
	const shown = 3
	text := strings.Join(names[:min(shown, len(names))], ", ")
	if more := len(names) - shown; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return fmt.Errorf("%s holds %s and no identity.json: %w; give an empty directory or one that does not exist", cfg.Dir, text, ErrForeign)
}

// notADirectory reports whether err says that a path leads through a file.
func notADirectory(err error) bool { return errors.Is(err, syscall.ENOTDIR) }
