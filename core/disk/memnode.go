package disk

import (
	"io/fs"
	"maps"
	"slices"
	"time"
)

// inode is a file or a directory apart from its names.
type inode struct {
	data   []byte
	synced []byte
	dirty  map[int64]bool // sectors where data and synced may differ

	id   uint64
	mode fs.FileMode // it outlives a crash as it was last: nothing here depends on it
	time time.Time   // of the last change

	// Nil in a file. In a directory: the names that callers see, and the names that a crash is sure to keep. The content of a directory is
	// lost with the directory's own name.
	now, durable map[string]*inode
}

func newFileNode() *inode { return &inode{dirty: map[int64]bool{}} }

func newDirNode() *inode { return &inode{now: map[string]*inode{}, durable: map[string]*inode{}} }

func (n *inode) isDir() bool { return n.now != nil }

// place is a name in a directory. It refers to the directory itself, not to its path. A file made in a removed directory does not appear in
// another directory of the same path.
type place struct {
	dir  *inode
	name string
}

// nameChange is one creation, removal or rename: to names node afterwards, from names nothing. A zero place is none.
type nameChange struct {
	from, to place
	node     *inode
}

// show makes the change visible.
func (c nameChange) show() {
	if c.from.dir != nil {
		delete(c.from.dir.now, c.from.name)
	}
	if c.to.dir != nil {
		c.to.dir.now[c.to.name] = c.node
	}
}

// keep makes the change durable.
func (c nameChange) keep() {
	if c.from.dir != nil {
		delete(c.from.dir.durable, c.from.name)
	}
	if c.to.dir != nil {
		c.to.dir.durable[c.to.name] = c.node
	}
}

// crash leaves of n and all below it what is durable; keep decides about everything else. A file with two names is in seen when it is
// met again.
func (n *inode) crash(keep func() bool, seen map[*inode]bool) {
	if seen[n] {
		return
	}
	seen[n] = true
	if !n.isDir() {
		n.crashFile(keep)
		return
	}
	n.now = maps.Clone(n.durable)
	for _, name := range n.names() {
		n.now[name].crash(keep, seen)
	}
}

// names lists a directory, sorted.
func (n *inode) names() []string { return slices.Sorted(maps.Keys(n.now)) }

// crashFile mixes data and synced sector by sector.
func (n *inode) crashFile(keep func() bool) {
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
