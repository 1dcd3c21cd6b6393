package disk

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// SectorBytes is what a disk writes whole or not at all. Crash decides about every unsynced sector by itself.
const SectorBytes = 512

var (
	// ErrPowerOff answers every call after PowerOffAfter ran out, until Crash.
	ErrPowerOff = errors.New("power is off")
	// ErrCrashed answers calls on files that were open when Crash was called.
	ErrCrashed = errors.New("file was open at the crash")
)

// Mem is a file system in memory that remembers what is durable. What was written but not synced survives a Crash sector
// by sector as chance has it, and so do creations, renames and removals whose directory was not synced. Safe for
// concurrent use; deterministic if its callers are.
type Mem struct {
	mu      sync.Mutex
	now     map[string]*inode // what callers see, by cleaned path
	durable map[string]*inode // what a crash is sure to keep
	pending []nameChange      // from durable to now, in order
	dirs    map[string]bool   // directories are durable at once: losing one teaches nothing
	locks   map[string]bool
	epoch   int   // counts crashes
	ops     int   // calls so far that change something
	budget  int   // changing calls left, the last of which loses power; 0 = off, < 0 = never
	free    int64 // what Free answers
}

// inode is a file's contents apart from its names.
type inode struct {
	data   []byte
	synced []byte
	dirty  map[int64]bool // sectors where data and synced may differ
}

// nameChange is one creation, removal or rename: to names node afterwards (nil = nothing), from names nothing.
type nameChange struct {
	from, to string
	node     *inode
}

// NewMem returns an empty file system with a root directory.
func NewMem() *Mem {
	return &Mem{
		now:     map[string]*inode{},
		durable: map[string]*inode{},
		dirs:    map[string]bool{".": true, "/": true},
		locks:   map[string]bool{},
		budget:  -1,
		free:    1 << 40,
	}
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
			c.apply(m.durable)
		}
	}
	m.pending = nil
	nodes := map[*inode]bool{}
	m.now = map[string]*inode{}
	for _, name := range sortedNames(m.durable) {
		node := m.durable[name]
		m.now[name] = node
		if !nodes[node] {
			nodes[node] = true
			node.crash(keep)
		}
	}
	m.locks = map[string]bool{}
	m.budget = -1
	m.epoch++
}

func (c nameChange) apply(names map[string]*inode) {
	if c.from != "" {
		delete(names, c.from)
	}
	if c.node != nil {
		names[c.to] = c.node
	}
}

func sortedNames(names map[string]*inode) []string {
	list := make([]string, 0, len(names))
	for name := range names {
		list = append(list, name)
	}
	slices.Sort(list)
	return list
}

// crash mixes data and synced sector by sector.
func (n *inode) crash(keep func() bool) {
	size := len(n.synced)
	if len(n.data) != size && keep() {
		size = len(n.data)
	}
	mixed := make([]byte, size)
	copy(mixed, n.synced)
	sectors := make([]int64, 0, len(n.dirty))
	for s := range n.dirty {
		sectors = append(sectors, s)
	}
	slices.Sort(sectors)
	for _, s := range sectors {
		off := s * SectorBytes
		if !keep() || off >= int64(size) || off >= int64(len(n.data)) {
			continue
		}
		copy(mixed[off:min(off+SectorBytes, int64(size))], n.data[off:])
	}
	n.data, n.synced, n.dirty = mixed, slices.Clone(mixed), map[int64]bool{}
}

// sync makes the contents durable.
func (n *inode) sync() {
	n.resizeSynced(int64(len(n.data)))
	for s := range n.dirty {
		off := s * SectorBytes
		if off < int64(len(n.data)) {
			copy(n.synced[off:min(off+SectorBytes, int64(len(n.data)))], n.data[off:])
		}
	}
	clear(n.dirty)
}

func (n *inode) resizeSynced(size int64) {
	if size <= int64(len(n.synced)) {
		n.synced = n.synced[:size]
		return
	}
	n.synced = append(n.synced, make([]byte, size-int64(len(n.synced)))...)
}

func (n *inode) resize(size int64) {
	old := int64(len(n.data))
	if size <= old {
		n.data = n.data[:size]
		return
	}
	n.data = append(n.data, make([]byte, size-old)...)
	n.mark(old, size)
}

func (n *inode) mark(from, to int64) {
	if to <= from {
		return
	}
	for s := from / SectorBytes; s <= (to-1)/SectorBytes; s++ {
		n.dirty[s] = true
	}
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

func (m *Mem) rename(c nameChange) {
	c.apply(m.now)
	m.pending = append(m.pending, c)
}

func notExist(op, name string) error { return &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist} }

// Open implements FS.
func (m *Mem) Open(name string) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.budget == 0 {
		return nil, ErrPowerOff
	}
	node := m.now[filepath.Clean(name)]
	if node == nil {
		return nil, notExist("open", name)
	}
	return &memFile{m: m, node: node, epoch: m.epoch, name: name}, nil
}

// Create implements FS.
func (m *Mem) Create(name string) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	name = filepath.Clean(name)
	if !m.dirs[filepath.Dir(name)] {
		return nil, notExist("create", name)
	}
	off, err := m.change()
	if err != nil {
		return nil, err
	}
	node := m.now[name]
	if node != nil {
		node.resize(0)
	} else {
		node = &inode{dirty: map[int64]bool{}}
		m.rename(nameChange{to: name, node: node})
	}
	if off {
		return nil, ErrPowerOff
	}
	return &memFile{m: m, node: node, epoch: m.epoch, name: name}, nil
}

// Rename implements FS.
func (m *Mem) Rename(oldname, newname string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	oldname, newname = filepath.Clean(oldname), filepath.Clean(newname)
	node := m.now[oldname]
	if node == nil {
		return notExist("rename", oldname)
	}
	return m.changeName(nameChange{from: oldname, to: newname, node: node})
}

// Remove implements FS.
func (m *Mem) Remove(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	name = filepath.Clean(name)
	if m.now[name] == nil {
		return notExist("remove", name)
	}
	return m.changeName(nameChange{from: name})
}

func (m *Mem) changeName(c nameChange) error {
	off, err := m.change()
	if err != nil {
		return err
	}
	m.rename(c)
	if off {
		return ErrPowerOff
	}
	return nil
}

// RemoveAll implements FS.
func (m *Mem) RemoveAll(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	name = filepath.Clean(name)
	for _, n := range sortedNames(m.now) {
		if n == name || strings.HasPrefix(n, name+"/") {
			if err := m.changeName(nameChange{from: n}); err != nil {
				return err
			}
		}
	}
	for d := range m.dirs {
		if d == name || strings.HasPrefix(d, name+"/") {
			delete(m.dirs, d)
		}
	}
	return nil
}

// MkdirAll implements FS.
func (m *Mem) MkdirAll(dir string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.budget == 0 {
		return ErrPowerOff
	}
	for d := filepath.Clean(dir); !m.dirs[d]; d = filepath.Dir(d) {
		m.dirs[d] = true
	}
	return nil
}

// List implements FS. It names files and directories.
func (m *Mem) List(dir string) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir = filepath.Clean(dir)
	if m.budget == 0 {
		return nil, ErrPowerOff
	}
	if !m.dirs[dir] {
		return nil, notExist("list", dir)
	}
	var names []string
	for n := range m.now {
		if filepath.Dir(n) == dir {
			names = append(names, filepath.Base(n))
		}
	}
	for d := range m.dirs {
		if d != dir && filepath.Dir(d) == dir {
			names = append(names, filepath.Base(d))
		}
	}
	slices.Sort(names)
	return names, nil
}

// SyncDir implements FS.
func (m *Mem) SyncDir(dir string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir = filepath.Clean(dir)
	off, err := m.change()
	if err != nil {
		return err
	}
	if off {
		return ErrPowerOff
	}
	m.pending = slices.DeleteFunc(m.pending, func(c nameChange) bool {
		here := c.from != "" && filepath.Dir(c.from) == dir || c.to != "" && filepath.Dir(c.to) == dir
		if here {
			c.apply(m.durable)
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
	node := m.now[filepath.Clean(name)]
	if node == nil {
		return nil, notExist("read", name)
	}
	return slices.Clone(node.data), nil
}

// OpenDirect implements FS: there is no cache to go past.
func (m *Mem) OpenDirect(name string) (File, error) { return m.Open(name) }

// WriteFileAtomic implements FS.
func (m *Mem) WriteFileAtomic(name string, data []byte) error { return writeFileAtomic(m, name, data) }

// Lock implements FS.
func (m *Mem) Lock(name string) (Unlocker, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	name = filepath.Clean(name)
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

// memFile is an open file. All state is guarded by m.mu.
type memFile struct {
	m      *Mem
	node   *inode
	epoch  int
	name   string
	closed bool
}

// usable is the first step of every call; the caller holds mu.
func (f *memFile) usable() error {
	switch {
	case f.epoch != f.m.epoch:
		return ErrCrashed
	case f.closed:
		return fs.ErrClosed
	case f.m.budget == 0:
		return ErrPowerOff
	}
	return nil
}

// modify runs fn as one changing call; lost skips fn when the power goes during the call.
func (f *memFile) modify(lost bool, fn func()) error {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if err := f.usable(); err != nil {
		return err
	}
	off, err := f.m.change()
	if err != nil {
		return err
	}
	if off && lost {
		return ErrPowerOff
	}
	fn()
	if off {
		return ErrPowerOff
	}
	return nil
}

func (f *memFile) ReadAt(p []byte, off int64) (int, error) {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if err := f.usable(); err != nil {
		return 0, err
	}
	if off >= int64(len(f.node.data)) {
		return 0, io.EOF
	}
	n := copy(p, f.node.data[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *memFile) WriteAt(p []byte, off int64) (int, error) {
	err := f.modify(false, func() {
		end := off + int64(len(p))
		if end > int64(len(f.node.data)) {
			f.node.resize(end)
		}
		copy(f.node.data[off:], p)
		f.node.mark(off, end)
	})
	if err != nil {
		return 0, err
	}
	return len(p), nil
}

func (f *memFile) Preallocate(size int64) error {
	return f.modify(false, func() {
		if size > int64(len(f.node.data)) {
			f.node.resize(size)
		}
	})
}

func (f *memFile) Truncate(size int64) error { return f.modify(false, func() { f.node.resize(size) }) }
func (f *memFile) Sync() error               { return f.modify(true, f.node.sync) }

func (f *memFile) Size() (int64, error) {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if err := f.usable(); err != nil {
		return 0, err
	}
	return int64(len(f.node.data)), nil
}

func (f *memFile) Close() error {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	f.closed = true
	return nil
}
