package machine

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/holdfastdb/holdfast/core/store"
	v2part "github.com/holdfastdb/holdfast/doors/kv/v2/part"
)

// The readers of this machine (doors/kv/v2). They are safe for concurrent use with Apply and answer from one published index.
// Errors are *entry/etcd2.Refusal (there is no such node), ErrTooLarge, or the store's, which may be transient.

// ErrTooLarge: a listing went over the caller's bound.
var ErrTooLarge = errors.New("listing is too large")

// Lookup is the memory that one call of Key needs; reuse it for the next.
type Lookup struct{ key, row []byte }

// Index returns the index of the last change.
func (m *Machine) Index() uint64 { return m.pubIndex.Load() }

// Key reads a key, the hottest read, by one Get without lock, iterator or View. ok is false if there is no key of that path or it is a
// directory: use List then. The node's Path is path and its Value lies in l.
//
// Why it is consistent: index was published before the Get, so the Get sees at least the state at index. If the row was written at or
// before index, it is the state at index. Otherwise it is right only if nothing was published meanwhile, which the same version of the gate
// proves.
func (m *Machine) Key(l *Lookup, path []byte, tick func() int64) (n Node, index uint64, ok bool, err error) {
	l.key = appendNodeKey(l.key[:0], path)
	for range 4 {
		version, open := m.gate.Version()
		if !open {
			m.gate.Await()
			continue
		}
		index = m.pubIndex.Load()
		row, found, err := m.st.Get(l.row[:0], l.key)
		if err != nil {
			return Node{}, 0, false, fmt.Errorf("read node: %w", err)
		}
		l.row = row[:0]
		if !found {
			return Node{}, 0, false, nil // List looks again
		}
		nd, err := decodeNode(row)
		if err != nil {
			return Node{}, 0, false, err
		}
		if nd.dir {
			return Node{}, 0, false, nil
		}
		if nd.modified > index && !m.gate.Same(version) {
			continue
		}
		at := int64(0)
		if nd.deadline != 0 {
			at = tick()
		}
		return nd.view(path, at), index, true, nil
	}
	return Node{}, 0, false, nil // changed at every attempt; List reads it under the lock
}

// List visits the node at path at depth 0. If it is a directory, it also visits its direct children, or everything below it if recursive.
// The order is that of names, a directory before its content. Hidden nodes (names that begin with "_") below path are left out with their
// content. Path and Value of a visited node are valid during the visit only. Once keys and values visited exceed maxBytes it ends with
// ErrTooLarge. It holds an iterator meanwhile, so visit must not block.
func (m *Machine) List(path []byte, recursive bool, tick, maxBytes int64, visit func(depth int, n *Node)) (index uint64, err error) {
	top, it, index, err := m.enter(path)
	if err != nil {
		return index, err
	}
	v := top.view(path, tick)
	visit(0, &v)
	if it == nil {
		return index, nil
	}
	defer it.Close()
	base := depthOf(path)
	ok := it.First()
	for ok {
		name := it.path[bytes.LastIndexByte(it.path, '/')+1:]
		if name[0] == '_' {
			ok = it.SkipSubtree()
			continue
		}
		row, err := it.Value()
		if err != nil {
			return index, fmt.Errorf("list: %w", err)
		}
		n, err := decodeNode(row)
		if err != nil {
			return index, err
		}
		if maxBytes -= int64(len(it.path) + len(n.value)); maxBytes < 0 {
			return index, ErrTooLarge
		}
		v := n.view(it.path, tick)
		visit(depthOf(it.path)-base, &v)
		switch {
		case n.dir && !recursive:
			ok = it.SkipSubtree()
		case n.writes >= hot:
			ok = it.skipVersions()
		default:
			ok = it.Next()
		}
	}
	return index, it.Error()
}

// enter reads the node at path and opens an iterator below it if it is a directory, both at one index. Finding the node may have to wait
// for the disk, so it is not done under the lock, which would hold up Apply. The lock is taken only after other changes have interfered
// several times.
func (m *Machine) enter(path []byte) (top node, it *rowIter, index uint64, err error) {
	for try := 0; ; try++ {
		version, open := m.gate.Version()
		if !open {
			m.gate.Await()
			continue
		}
		if try < 4 {
			index = m.pubIndex.Load()
			top, err = m.find(path, index)
		}
		m.gate.RLock()
		same := m.gate.Same(version)
		if try == 4 {
			same, index = true, m.pubIndex.Load()
			top, err = m.find(path, index)
		}
		if same && err == nil && top.dir {
			it, err = m.rows(m.st, path)
		}
		m.gate.RUnlock()
		if same {
			return top, it, index, err
		}
	}
}

// depthOf counts the components of a path.
func depthOf(path []byte) int {
	if len(path) == 1 {
		return 0
	}
	return bytes.Count(path, []byte("/"))
}

// find reads the node at path or says which component is missing or no directory.
func (m *Machine) find(path []byte, index uint64) (node, error) {
	if len(path) == 1 {
		return node{exists: true, dir: true}, nil
	}
	var key []byte
	for at := 0; ; {
		at = componentEnd(path, at+1)
		key = appendNodeKey(key[:0], path[:at])
		row, ok, err := m.st.Get(nil, key)
		if err != nil {
			return node{}, fmt.Errorf("read node: %w", err)
		}
		if !ok {
			return node{}, &v2part.Refusal{Code: v2part.KeyNotFound, Cause: string(path[:at]), Index: index}
		}
		n, err := decodeNode(row)
		if err != nil || at == len(path) {
			return n, err
		}
		if !n.dir {
			return node{}, &v2part.Refusal{Code: v2part.NotDir, Cause: string(path[:at]), Index: index}
		}
	}
}

// rowIter walks the rows below a directory. It is owned by one goroutine.
type rowIter struct {
	store.Iter
	path []byte // of the row it stands on
	seek []byte
	err  error
}

// rows returns an iterator over everything below path, not yet on a row.
func (m *Machine) rows(r store.Reader, path []byte) (*rowIter, error) {
	it, err := r.NewIter(subtreeBounds(path))
	if err != nil {
		return nil, fmt.Errorf("read directory: %w", err)
	}
	return &rowIter{Iter: it}, nil
}

// at decodes the path of the row moved to.
func (it *rowIter) at(ok bool) bool {
	if !ok || it.err != nil {
		return false
	}
	if it.path, it.err = decodePath(it.path[:0], it.Key()[2:]); it.err == nil && it.path[len(it.path)-1] == '/' {
		it.err = fmt.Errorf("node key %x: %w", clip(it.Key()), errCorrupt)
	}
	return it.err == nil
}

func (it *rowIter) First() bool { return it.at(it.Iter.First()) }
func (it *rowIter) Next() bool  { return it.at(it.Iter.Next()) }

// SkipSubtree moves to the next row that is not below the present one: behind a directory to its next neighbour.
func (it *rowIter) SkipSubtree() bool {
	it.seek = append(append(it.seek[:0], it.Key()...), 1) // above all that continue with 00, below every longer name
	return it.at(it.SeekGE(it.seek))
}

// skipVersions is Next by a seek. The store keeps up to tens of thousands of versions of a busy row until it flushes, and Next steps over
// each of them. A seek is dearer than Next over one.
func (it *rowIter) skipVersions() bool {
	it.seek = append(append(it.seek[:0], it.Key()...), 0)
	return it.at(it.SeekGE(it.seek))
}

func (it *rowIter) Error() error {
	if it.err != nil {
		return it.err
	}
	return it.Iter.Error()
}
