package store

import (
	"fmt"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Copy makes a store in the directory to, which must not exist, of the closed store in the directory from, and leaves that alone. Tables
// are never written again, so where the file system can, they get a second name and take no space. The few small files beside them are
// copied. The copy is not durable.
func Copy(from, to string) error {
	if err := copyStore(vfs.Default, from, to); err != nil {
		return oneLine{fmt.Errorf("copy store %s: %w", from, err)}
	}
	return nil
}

func copyStore(fs vfs.FS, from, to string) error {
	line, err := readFile(fs, fs.PathJoin(from, currentName))
	if err != nil {
		return err
	}
	var number int
	if n, serr := fmt.Sscanf(line, generationFmt+"\n", &number); n != 1 || serr != nil || line != generationName(number)+"\n" {
		return fmt.Errorf("%s holds %q, not the name of a store", currentName, line)
	}
	src, dst := fs.PathJoin(from, generationName(number)), fs.PathJoin(to, generationName(number))
	if err := fs.MkdirAll(dst, 0o700); err != nil {
		return err
	}
	names, err := fs.List(src)
	if err != nil {
		return err
	}
	for _, name := range names {
		put := vfs.Copy
		switch {
		case name == "LOCK":
			continue
		case strings.HasSuffix(name, ".sst"), strings.HasSuffix(name, ".blob"):
			put = vfs.LinkOrCopy
		}
		if err := put(fs, fs.PathJoin(src, name), fs.PathJoin(dst, name)); err != nil {
			return err
		}
	}
	return vfs.Copy(fs, fs.PathJoin(from, currentName), fs.PathJoin(to, currentName))
}
