package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// SectorBytes is the unit that a disk writes whole or not at all. Crash decides about every unsynced sector by itself.
const SectorBytes = 512

var (
	// ErrPowerOff answers every call after PowerOffAfter ran out, until Crash.
	ErrPowerOff = errors.New("power is off")
	// ErrCrashed answers calls on files that were open when Crash was called.
	ErrCrashed = errors.New("file was open at the crash")
)

// Mem is a file system in memory that remembers what is durable. Unsynced writes survive a Crash sector by sector at random. So do
// creations, renames and removals of files and directories if their parent directory was not synced. The content of a lost directory is
// lost with it, even if it was synced. Safe for concurrent use; deterministic if its callers are.
type Mem struct {
	mu      sync.Mutex
	here    *inode       // the directory "."
	root    *inode       // the directory "/"
	pending []nameChange // visible and not yet durable, in order
	locks   map[string]bool
	epoch   int              // counts crashes
	ops     int              // calls so far that change something
	budget  int              // changing calls left, the last of which loses power; 0 = off, < 0 = never
	free    int64            // the answer of Free
	ids     uint64           // given to inodes so far
	now     func() time.Time // of modification times; nil: the zero time
}

// NewMem returns an empty file system. Its directories "." and "/" are there after every crash.
func NewMem() *Mem {
	m := &Mem{locks: map[string]bool{}, budget: -1, free: 1 << 40}
	m.here, m.root = m.stamp(newDirNode(), 0o700|fs.ModeDir), m.stamp(newDirNode(), 0o700|fs.ModeDir)
	return m
}

// PowerOffAfter lets n more changing calls succeed (creating, writing, syncing, renaming, removing …). The call after
// them may or may not reach the disk and answers ErrPowerOff, as does every later call until Crash. n < 0 = never.
func (m *Mem) PowerOffAfter(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.budget = -1
	if n >= 0 {
		m.budget = n + 1 // the last one is the call that the power goes during
	}
}

// Ops is the number of changing calls so far, to enumerate the places for PowerOffAfter.
func (m *Mem) Ops() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ops
}

// Crash cuts the power and restores it: rng decides about everything that was not synced, nil loses all of it. Open
// files answer ErrCrashed from then on and locks are free again.
func (m *Mem) Crash(rng *rand.Rand) {
	m.mu.Lock()
	defer m.mu.Unlock()
	keep := func() bool { return rng != nil && rng.IntN(2) == 0 }
	for _, c := range m.pending {
		if keep() {
			c.keep()
		}
	}
	m.pending = nil
	seen := map[*inode]bool{}
	m.here.crash(keep, seen)
	m.root.crash(keep, seen)
	m.locks = map[string]bool{}
	m.budget = -1
	m.epoch++
}

// change counts a changing call. off means that the power goes during it: it happens, undurably, and answers
// ErrPowerOff. err means that the power is off already. The caller holds mu.
func (m *Mem) change() (off bool, err error) {
	if m.budget == 0 {
		return false, ErrPowerOff
	}
	m.ops++
	if m.budget > 0 {
		m.budget--
		return m.budget == 0, nil
	}
	return false, nil
}

// rename is one changing call. The caller holds mu.
func (m *Mem) rename(c nameChange) error {
	off, err := m.change()
	if err != nil {
		return err
	}
	c.show()
	m.pending = append(m.pending, c)
	if off {
		return ErrPowerOff
	}
	return nil
}

// find returns what a path names, nil if nothing. The caller holds mu.
func (m *Mem) find(name string) *inode {
	name = filepath.Clean(name)
	at := m.here
	if filepath.IsAbs(name) {
		at = m.root
	}
	for part := range strings.SplitSeq(strings.Trim(name, "/"), "/") {
		if part == "" || part == "." {
			continue
		}
		if at = at.now[part]; at == nil { // a file has nothing in it
			return nil
		}
	}
	return at
}

// findDir is find for a directory. The caller holds mu.
func (m *Mem) findDir(op, name string) (*inode, error) {
	n := m.find(name)
	switch {
	case n == nil:
		return nil, notExist(op, name)
	case !n.isDir():
		return nil, &fs.PathError{Op: op, Path: name, Err: syscall.ENOTDIR}
	}
	return n, nil
}

// findFile is find for a file. The caller holds mu.
func (m *Mem) findFile(op, name string) (*inode, error) {
	n := m.find(name)
	switch {
	case n == nil:
		return nil, notExist(op, name)
	case n.isDir():
		return nil, &fs.PathError{Op: op, Path: name, Err: syscall.EISDIR}
	}
	return n, nil
}

// place says where a name belongs; its directory must be there. The caller holds mu.
func (m *Mem) place(op, name string) (place, error) {
	name = filepath.Clean(name)
	dir := m.find(filepath.Dir(name))
	if dir == nil || !dir.isDir() {
		return place{}, notExist(op, name)
	}
	return place{dir, filepath.Base(name)}, nil
}

func notExist(op, name string) error { return &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist} }

// Open implements FS.
func (m *Mem) Open(name string) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.budget == 0 {
		return nil, ErrPowerOff
	}
	node, err := m.findFile("open", name)
	if err != nil {
		return nil, err
	}
	return m.opened(name, node), nil
}

// opened is an open file. The caller holds mu.
func (m *Mem) opened(name string, node *inode) *memFile {
	return &memFile{m: m, node: node, epoch: m.epoch, name: name}
}

// Create implements FS.
func (m *Mem) Create(name string) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	at, err := m.place("create", name)
	if err != nil {
		return nil, err
	}
	node := at.dir.now[at.name]
	switch {
	case node == nil:
		node = m.stamp(newFileNode(), 0o600)
		err = m.rename(nameChange{to: at, node: node})
	case node.isDir():
		err = &fs.PathError{Op: "create", Path: name, Err: syscall.EISDIR}
	default:
		var off bool
		if off, err = m.change(); err == nil {
			node.resize(0)
			node.time = m.clock()
		}
		if off {
			err = ErrPowerOff
		}
	}
	if err != nil {
		return nil, err
	}
	return m.opened(name, node), nil
}

// Rename implements FS, for files.
func (m *Mem) Rename(oldname, newname string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	node, err := m.findFile("rename", oldname)
	if err != nil {
		return err
	}
	from, err := m.place("rename", oldname)
	if err != nil {
		return err
	}
	to, err := m.place("rename", newname)
	if err != nil {
		return err
	}
	return m.rename(nameChange{from: from, to: to, node: node})
}

// Remove implements FS, for files.
func (m *Mem) Remove(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, err := m.findFile("remove", name); err != nil {
		return err
	}
	from, err := m.place("remove", name)
	if err != nil {
		return err
	}
	return m.rename(nameChange{from: from})
}

// RemoveAll implements FS: contents first, as the real one must.
func (m *Mem) RemoveAll(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.budget == 0 {
		return ErrPowerOff
	}
	if m.find(name) == nil {
		return nil
	}
	at, err := m.place("remove", name)
	if err != nil {
		return err
	}
	return m.removeAll(at)
}

func (m *Mem) removeAll(at place) error {
	n := at.dir.now[at.name]
	for _, name := range n.names() {
		if err := m.removeAll(place{n, name}); err != nil {
			return err
		}
	}
	return m.rename(nameChange{from: at})
}

// Mkdir implements FS.
func (m *Mem) Mkdir(dir string) error { return m.MkdirMode(dir, 0o700) }

// MkdirMode implements FS.
func (m *Mem) MkdirMode(dir string, mode fs.FileMode) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.budget == 0 {
		return ErrPowerOff
	}
	if m.find(dir) != nil {
		return &fs.PathError{Op: "mkdir", Path: dir, Err: fs.ErrExist}
	}
	at, err := m.place("mkdir", dir)
	if err != nil {
		return err
	}
	return m.rename(nameChange{to: at, node: m.stamp(newDirNode(), mode|fs.ModeDir)})
}

// List implements FS. It names files and directories.
func (m *Mem) List(dir string) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.budget == 0 {
		return nil, ErrPowerOff
	}
	n, err := m.findDir("list", dir)
	if err != nil {
		return nil, err
	}
	return n.names(), nil
}

// SyncDir implements FS.
func (m *Mem) SyncDir(dir string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.findDir("sync", dir)
	if err != nil {
		return err
	}
	off, err := m.change()
	if err != nil {
		return err
	}
	if off {
		return ErrPowerOff
	}
	m.pending = slices.DeleteFunc(m.pending, func(c nameChange) bool {
		here := c.from.dir == n || c.to.dir == n
		if here {
			c.keep()
		}
		return here
	})
	return nil
}

// ReadFile implements FS.
func (m *Mem) ReadFile(name string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.budget == 0 {
		return nil, ErrPowerOff
	}
	node, err := m.findFile("read", name)
	if err != nil {
		return nil, err
	}
	return slices.Clone(node.data), nil
}

// OpenDirect implements FS: there is no cache to go past.
func (m *Mem) OpenDirect(name string) (File, error) { return m.Open(name) }

// WriteFileAtomic implements FS.
func (m *Mem) WriteFileAtomic(name string, data []byte) error { return writeFileAtomic(m, name, data) }

// MkdirAll implements FS.
func (m *Mem) MkdirAll(dir string) error { return mkdirAll(m, dir) }

// Lock implements FS.
func (m *Mem) Lock(name string) (Unlocker, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.lock(filepath.Clean(name))
}

// LockDir implements FS.
func (m *Mem) LockDir(dir string) (Unlocker, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.budget == 0 {
		return nil, ErrPowerOff
	}
	if _, err := m.findDir("lock", dir); err != nil {
		return nil, err
	}
	return m.lock(filepath.Clean(dir) + "/")
}

// lock takes a lock by its name. The caller holds mu.
func (m *Mem) lock(name string) (Unlocker, error) {
	if m.locks[name] {
		return nil, fmt.Errorf("lock %s: %w", name, ErrLocked)
	}
	m.locks[name] = true
	return &memLock{m, name, m.epoch}, nil
}

type memLock struct {
	m     *Mem
	name  string
	epoch int
}

func (l *memLock) Unlock() error {
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	if l.epoch == l.m.epoch {
		delete(l.m.locks, l.name)
	}
	return nil
}

// Free implements FS: a constant, since Faulty is what runs out of space.
func (m *Mem) Free(string) (uint64, error) { return uint64(m.free), nil }
