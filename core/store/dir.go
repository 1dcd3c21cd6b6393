package store

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// A store directory holds CURRENT, one line that names the generation in force, and that generation's Pebble directory.
// A snapshot is received into the next number beside it; renaming a new CURRENT over the old one is the switch.
const (
	currentName    = "CURRENT"
	currentTmpName = "CURRENT.tmp"
	generationFmt  = "store-%06d"
)

func generationName(number int) string { return fmt.Sprintf(generationFmt, number) }

// prepareDir finds the generation in force and removes what an interrupted Install or Incoming left behind. fresh says
// that the generation may be missing, because nothing was ever stored.
func prepareDir(fs vfs.FS, dir string) (number int, fresh bool, err error) {
	if err := makeDir(fs, dir); err != nil {
		return 0, false, err
	}
	names, err := fs.List(dir)
	if err != nil {
		return 0, false, err
	}
	line, err := readFile(fs, fs.PathJoin(dir, currentName))
	switch {
	case errors.Is(err, os.ErrNotExist):
		for _, name := range names {
			if strings.HasPrefix(name, "store-") {
				return 0, false, fmt.Errorf("%s is there but %s, which says whether it is in force, is missing", name, currentName)
			}
		}
		// It was synced when it was made, but a crash may have come in between.
		if err := syncDir(fs, fs.PathDir(dir)); err != nil {
			return 0, false, err
		}
		// CURRENT is written before the directory it names: fresh tells the caller that a crash may have come in between.
		if err := writeCurrent(fs, dir, 1); err != nil {
			return 0, false, err
		}
		return 1, true, nil
	case err != nil:
		return 0, false, err
	}
	if n, serr := fmt.Sscanf(line, generationFmt+"\n", &number); n != 1 || serr != nil || line != generationName(number)+"\n" {
		return 0, false, fmt.Errorf("%s holds %q, not the name of a store", currentName, line)
	}
	for _, name := range names {
		if name == currentTmpName || strings.HasPrefix(name, "store-") && name != generationName(number) {
			if err := fs.RemoveAll(fs.PathJoin(dir, name)); err != nil {
				return 0, false, err
			}
		}
	}
	// Only the first generation may be missing: later ones were complete before CURRENT named them. If an operator has deleted it, the
	// store comes up empty at applied index 0. The node then refuses unless the log still begins at 1.
	return number, number == 1, nil
}

// makeDir makes dir and its parents and makes their names durable. A store is lost if a crash takes its directory away, even if its files
// were synced. Pebble does the same for its own directory, but not for this one.
func makeDir(fs vfs.FS, dir string) error {
	if _, err := fs.Stat(dir); err == nil {
		return nil
	}
	parent := fs.PathDir(dir)
	if parent != dir {
		if err := makeDir(fs, parent); err != nil {
			return err
		}
	}
	if err := fs.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return syncDir(fs, parent)
}

// writeCurrent is the commit point of Install: after it returns, number is in force, also after a crash.
func writeCurrent(fs vfs.FS, dir string, number int) error {
	tmp := fs.PathJoin(dir, currentTmpName)
	f, err := fs.Create(tmp, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = f.Write([]byte(generationName(number) + "\n"))
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := fs.Rename(tmp, fs.PathJoin(dir, currentName)); err != nil {
		return err
	}
	return syncDir(fs, dir)
}

func syncDir(fs vfs.FS, dir string) error {
	d, err := fs.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func readFile(fs vfs.FS, name string) (string, error) {
	f, err := fs.Open(name)
	if err != nil {
		return "", err
	}
	data, err := io.ReadAll(f)
	return string(data), errors.Join(err, f.Close())
}
