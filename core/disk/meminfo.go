package disk

import (
	"io/fs"
	"path/filepath"
	"syscall"
	"time"
)

// Clock gives everything that changes from now on the time that now says, for Stat; nil: the zero time. It must be safe to call from any
// goroutine.
func (m *Mem) Clock(now func() time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now = now
}

// clock is the time of a change. The caller holds mu.
func (m *Mem) clock() time.Time {
	if m.now == nil {
		return time.Time{}
	}
	return m.now()
}

// stamp gives a new inode its number, its mode and its time. The caller holds mu.
func (m *Mem) stamp(n *inode, mode fs.FileMode) *inode {
	m.ids++
	n.id, n.mode, n.time = m.ids, mode, m.clock()
	return n
}

// memInfo describes an inode as it was.
type memInfo struct {
	name string
	size int64
	mode fs.FileMode
	time time.Time
	id   ID
}

func (i memInfo) Name() string               { return i.name }
func (i memInfo) Size() int64                { return i.size }
func (i memInfo) Mode() fs.FileMode          { return i.mode }
func (i memInfo) Type() fs.FileMode          { return i.mode.Type() }
func (i memInfo) ModTime() time.Time         { return i.time }
func (i memInfo) IsDir() bool                { return i.mode.IsDir() }
func (i memInfo) Sys() any                   { return i.id }
func (i memInfo) Info() (fs.FileInfo, error) { return i, nil }

// info describes n. The caller holds mu.
func (n *inode) info(name string) memInfo {
	return memInfo{name: name, size: int64(len(n.data)), mode: n.mode, time: n.time, id: ID{Device: 1, Inode: n.id}}
}

// Stat implements FS.
func (m *Mem) Stat(name string) (fs.FileInfo, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.budget == 0 {
		return nil, ErrPowerOff
	}
	n := m.find(name)
	if n == nil {
		return nil, notExist("stat", name)
	}
	return n.info(filepath.Base(name)), nil
}

// Lstat implements FS: there are no links.
func (m *Mem) Lstat(name string) (fs.FileInfo, error) { return m.Stat(name) }

// Chmod implements FS.
func (m *Mem) Chmod(name string, mode fs.FileMode) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.find(name)
	if n == nil {
		return notExist("chmod", name)
	}
	off, err := m.change()
	if err != nil {
		return err
	}
	n.mode = n.mode.Type() | mode.Perm()
	if off {
		return ErrPowerOff
	}
	return nil
}

// ReadDir implements FS.
func (m *Mem) ReadDir(dir string) ([]fs.DirEntry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.budget == 0 {
		return nil, ErrPowerOff
	}
	n, err := m.findDir("list", dir)
	if err != nil {
		return nil, err
	}
	var all []fs.DirEntry
	for _, name := range n.names() {
		all = append(all, n.now[name].info(name))
	}
	return all, nil
}

// OpenRead implements FS.
func (m *Mem) OpenRead(name string) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.budget == 0 {
		return nil, ErrPowerOff
	}
	n := m.find(name)
	switch {
	case n == nil:
		return nil, notExist("open", name)
	case n.isDir():
		return nil, &fs.PathError{Op: "open", Path: name, Err: ErrNotRegular}
	}
	f := m.opened(name, n)
	f.read = true
	return f, nil
}

// CreateNew implements FS.
func (m *Mem) CreateNew(name string, mode fs.FileMode) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	at, err := m.place("create", name)
	if err != nil {
		return nil, err
	}
	if at.dir.now[at.name] != nil {
		return nil, &fs.PathError{Op: "create", Path: name, Err: fs.ErrExist}
	}
	n := m.stamp(newFileNode(), mode)
	if err := m.rename(nameChange{to: at, node: n}); err != nil {
		return nil, err
	}
	return m.opened(name, n), nil
}

// Link implements FS, for files.
func (m *Mem) Link(oldname, newname string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.findFile("link", oldname)
	if err != nil {
		return err
	}
	to, err := m.place("link", newname)
	if err != nil {
		return err
	}
	if to.dir.now[to.name] != nil {
		return &fs.PathError{Op: "link", Path: newname, Err: syscall.EEXIST}
	}
	return m.rename(nameChange{to: to, node: n})
}

// OpenDir implements FS.
func (m *Mem) OpenDir(dir string) (Dir, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.budget == 0 {
		return nil, ErrPowerOff
	}
	n, err := m.findDir("open", dir)
	if err != nil {
		return nil, err
	}
	return memDir{m, n, filepath.Base(dir)}, nil
}

// memDir is a held directory.
type memDir struct {
	m    *Mem
	node *inode
	name string
}

// Stat implements Dir.
func (d memDir) Stat() (fs.FileInfo, error) {
	d.m.mu.Lock()
	defer d.m.mu.Unlock()
	return d.node.info(d.name), nil
}

// Close implements Dir.
func (d memDir) Close() error { return nil }
