package agentsim

import (
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/holdfastdb/holdfast/core/disk"
)

const (
	dir    = "/data"
	dbPath = dir + "/app.db"
	side   = dir + "/.app.db-holdfast"
)

// fileSystem is a machine's: the files of databases are inodes, everything else is in memory that forgets what was not synced.
type fileSystem struct {
	*disk.Mem
	m     *machine
	names map[string]*inode // of databases, by path
	locks []disk.Unlocker   // of the agent's process
}

func newFileSystem(m *machine) *fileSystem {
	d := &fileSystem{Mem: disk.NewMem(), m: m, names: map[string]*inode{}}
	if err := d.MkdirAll(dir); err != nil {
		panic(err)
	}
	return d
}

// ReadFile implements disk.FS.
func (d *fileSystem) ReadFile(name string) ([]byte, error) {
	if name == "/proc/sys/kernel/random/boot_id" {
		return fmt.Appendf(nil, "boot-%d-%d\n", d.m.number, d.m.boots), nil
	}
	return d.Mem.ReadFile(name)
}

// Lock implements disk.FS.
func (d *fileSystem) Lock(name string) (disk.Unlocker, error) {
	l, err := d.Mem.Lock(name)
	if err == nil {
		d.locks = append(d.locks, l)
	}
	return l, err
}

// split says which database's file a name is: of a WAL or an index it is the database's, with what follows.
func (d *fileSystem) split(name string) (path, suffix string, ours bool) {
	if filepath.Dir(name) != dir || !strings.HasPrefix(name, dbPath) {
		return "", "", false
	}
	for _, s := range []string{"-wal", "-shm", "-journal"} {
		if p, ok := strings.CutSuffix(name, s); ok {
			return p, s, true
		}
	}
	return name, "", d.names[name] != nil
}

// List implements disk.FS.
func (d *fileSystem) List(under string) ([]string, error) {
	names, err := d.Mem.List(under)
	if err != nil || under != dir {
		return names, err
	}
	for path, n := range d.names { // any order: sorted below
		base := filepath.Base(path)
		names = append(names, base)
		if n.log != nil {
			names = append(names, base+"-wal")
		}
		if n.index != nil {
			names = append(names, base+"-shm")
		}
	}
	slices.Sort(names)
	return names, nil
}

// Remove implements disk.FS.
func (d *fileSystem) Remove(name string) error {
	path, suffix, ours := d.split(name)
	if !ours {
		return d.Mem.Remove(name)
	}
	n := d.names[path]
	switch {
	case n == nil:
	case suffix == "":
		delete(d.names, path)
		return nil
	case suffix == "-wal" && n.log != nil:
		if len(n.shared) == 0 && n.exclusive == nil { // else processes that have it open keep it
			n.log = nil
		}
		return nil
	case suffix == "-shm" && n.index != nil:
		n.index = nil
		return nil
	}
	return &fs.PathError{Op: "remove", Path: name, Err: fs.ErrNotExist}
}

// Rename implements disk.FS. A WAL goes with its database: the agent renames it first.
func (d *fileSystem) Rename(from, to string) error {
	path, suffix, ours := d.split(from)
	if !ours {
		return d.Mem.Rename(from, to)
	}
	n := d.names[path]
	if n == nil || suffix == "-journal" {
		return &fs.PathError{Op: "rename", Path: from, Err: fs.ErrNotExist}
	}
	if suffix != "" {
		return nil
	}
	d.m.w.note("%s: the database is renamed to %s", d.m.name, to)
	delete(d.names, path)
	d.names[to] = n
	return nil
}

// copyTo copies a directory to another disk.
func (d *fileSystem) copyTo(other *fileSystem, under string) error {
	names, err := d.Mem.List(under)
	if err != nil {
		return nil // there is none
	}
	if err := other.MkdirAll(under); err != nil {
		return err
	}
	for _, name := range names {
		b, err := d.Mem.ReadFile(filepath.Join(under, name))
		if err != nil {
			continue // a directory
		}
		if err := other.WriteFileAtomic(filepath.Join(under, name), b); err != nil {
			return err
		}
	}
	return nil
}

// sorted are the databases' files, by name.
func (d *fileSystem) sorted() (all []*inode) {
	for _, name := range sortedNames(d.names) {
		all = append(all, d.names[name])
	}
	return all
}

func sortedNames(names map[string]*inode) []string {
	return slices.Sorted(maps.Keys(names))
}
