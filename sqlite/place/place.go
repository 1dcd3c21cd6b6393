// Package place finds the file that the name of a database means, and the place of a replica. Two names are one database if the kernel says
// so: device and inode count, not text. Names are resolved as SQLite resolves them, because SQLite keeps the WAL beside the file that a
// link leads to.
//
// It opens nothing, changes nothing and asks no bucket. Its callers refuse one of two names.
package place

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// maxLinks is the number of symbolic links that one name may lead through. SQLITE_MAX_SYMLINK of os_unix.c is 200, and is compared before it is counted.
const maxLinks = 201

// maxPath is the length of a path in bytes that the kernel opens (PATH_MAX without the final zero).
const maxPath = 4095

// ID names a file or directory on this machine: its device and inode, as stat shows them for its path. Zero: there is none.
type ID struct{ Dev, Ino uint64 }

// Spot is a place that may be empty: the deepest directory that is there, and the rest of the path below it.
type Spot struct {
	Dir  ID
	Rest string
}

// Place is a database's name and the file it means.
type Place struct {
	Named string // as it was given, absolute
	Path  string // absolute, clean, without a link in it
	Spot  Spot
	// Linked reports that the name leads through a symbolic link, which may be pointed elsewhere later.
	Linked bool
}

// Name is the last part of the path.
func (p Place) Name() string { return filepath.Base(p.Path) }

// Resolve finds the file that name means. The file, and directories above it, may be missing. A relative name begins at the working directory; a slash
// at the end says nothing, as in SQLite. Safe for concurrent use. Errors: too many links, a name that is too long, a directory that may not be
// searched.
func Resolve(name string) (Place, error) {
	if name == "" {
		return Place{}, errors.New("the database has an empty name")
	}
	abs := name
	if !filepath.IsAbs(abs) {
		wd, err := os.Getwd()
		if err != nil {
			return Place{}, err
		}
		abs = wd + "/" + name // not Join: `link/..` is not the directory that the link lies in
	}
	p := Place{Named: abs}
	w := walk{path: "/"}
	if err := w.through(abs); err != nil {
		return Place{}, fmt.Errorf("%s: %w", name, err)
	}
	if p.Path, p.Linked = w.path, w.links > 0; p.Path == "/" {
		return Place{}, fmt.Errorf("%s: a database is a file in a directory", name)
	}
	p.Spot = SpotOf(p.Path)
	return p, nil
}

// walk follows a path, one part after the other, as appendAllPathElements of SQLite's os_unix.c does since 3.39. Older ones follow links in
// the last part only: the file is the same.
type walk struct {
	path  string // the path resolved so far
	links int
}

func (w *walk) through(path string) error {
	for part := range strings.SplitSeq(path, "/") {
		switch part {
		case "", ".":
			continue
		case "..":
			w.path = filepath.Dir(w.path)
			continue
		}
		next := strings.TrimSuffix(w.path, "/") + "/" + part
		if len(next) > maxPath {
			return syscall.ENAMETOOLONG
		}
		info, err := os.Lstat(next)
		switch {
		case errors.Is(err, os.ErrNotExist):
		case err != nil:
			return plain(err)
		case info.Mode()&os.ModeSymlink != 0:
			if w.links++; w.links > maxLinks {
				return fmt.Errorf("it leads through more than %d symbolic links", maxLinks)
			}
			to, err := os.Readlink(next)
			if err != nil {
				return plain(err)
			}
			if filepath.IsAbs(to) {
				w.path = "/"
			}
			if err := w.through(to); err != nil {
				return err
			}
			continue
		}
		w.path = next
	}
	return nil
}

// plain takes the path off an error: the caller names it as the user wrote it.
func plain(err error) error {
	var p *os.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

// SpotOf returns the spot of a path, which is absolute and clean.
func SpotOf(path string) Spot {
	rest := ""
	for dir := path; ; {
		up, name := filepath.Dir(dir), filepath.Base(dir)
		rest = filepath.Join(name, rest)
		if id, err := Identify(up); err == nil || up == dir {
			return Spot{id, rest}
		}
		dir = up
	}
}

// Identify returns the device and inode of what path leads to. Both ends of a comparison ask by path: on overlayfs and some network file systems
// an open file's device is another one than its path's.
func Identify(path string) (ID, error) {
	info, err := os.Stat(path)
	if err != nil {
		return ID{}, err
	}
	return IDOf(info), nil
}

// IDOf returns the device and inode in what stat has answered.
func IDOf(info os.FileInfo) ID {
	s := info.Sys().(*syscall.Stat_t)
	return ID{uint64(s.Dev), s.Ino}
}

// LinksOf returns the number of names that a file has.
func LinksOf(info os.FileInfo) uint64 { return uint64(info.Sys().(*syscall.Stat_t).Nlink) }

// Check refuses a file that has several names. A missing file has the zero ID; that a file is a database is not looked at.
func (p Place) Check() (ID, error) {
	info, err := os.Lstat(p.Path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return ID{}, nil
	case err != nil:
		return ID{}, fmt.Errorf("%s: %w", p.Named, plain(err))
	case info.Mode().IsRegular() && LinksOf(info) > 1:
		return ID{}, fmt.Errorf("%s has %d names (hard links): SQLite keeps a WAL for each name, and only one would be read; remove the other names, or make a copy",
			p.Named, LinksOf(info))
	}
	return IDOf(info), nil
}

// Leads reports where the name leads by now, and whether that is another place than it was. An error is told in the place of a path.
func (p Place) Leads() (path string, elsewhere bool) {
	now, err := Resolve(p.Named)
	if err != nil {
		return err.Error(), true
	}
	return now.Path, now.Spot != p.Spot
}

// Stands reports whether the directory of the path is still the same: nothing was mounted over it or put in its place.
func (p Place) Stands() bool {
	id, err := Identify(filepath.Dir(p.Path))
	return err == nil && id == p.Spot.Dir
}
