package machine

import (
	"encoding/binary"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/holdfastdb/holdfast/core/store"
	tlogpart "github.com/holdfastdb/holdfast/doors/tlog/part"
	"github.com/holdfastdb/holdfast/doors/tlog/tiles"
)

// levels is how many levels of tiles a log of tiles.MaxSize has.
const levels = 7

const (
	// edgeBytes bounds a log's memory for the entries after its last full bundle. Entries beyond it, or beyond the machine's own bound, are
	// read from the store. Nothing depends on it: members may keep different entries.
	edgeBytes = 128 << 10
	// LogBytes is about what a log takes in memory beside its edge: the hashes after its last full tiles, and its newest roots.
	LogBytes = 12 << 10
	// firstHashes is how many hashes there is room for when a tile begins. A log that grows slowly is mostly in its first tile.
	firstHashes = 8
)

// Log is one transparency log. Number and Spec never change; w belongs to the apply goroutine; the other fields may be read
// from any goroutine.
type Log struct {
	// Number names the log in commands and rows, counted from 1 in the order of beginning.
	Number uint64
	Spec   tlogpart.LogSpec

	m *Machine
	w working

	st     store.Store
	view   atomic.Pointer[View]
	newest atomic.Pointer[Checkpoint]
	held   atomic.Bool
	hurry  atomic.Uint64 // a client waits for a checkpoint of at least this size
	damage atomic.Pointer[error]

	mu     sync.Mutex
	signed chan struct{} // guarded by mu: closed at the next checkpoint; nil without waiting clients
}

// Checkpoint is a signed checkpoint. It never changes.
type Checkpoint struct {
	Size uint64
	Root tiles.Hash
	// Note is the signed note as everybody gets it.
	Note []byte
}

// View is a log as of one raft entry: all entries below Size are durable on a majority and readable. It never changes.
type View struct {
	Size uint64
	Root tiles.Hash

	levels [levels][]byte // hashes after the last full tile of each level
	edge   []byte         // entries after the last full bundle, if kept
	kept   bool
}

// working is the log as the apply goroutine sees it, this raft entry's effects included.
type working struct {
	f    tiles.Frontier
	base uint64 // size before this raft entry
	held bool

	levels [levels][]byte // as in View; appended to, and replaced when full, never changed: Views share it
	edge   []byte         // as in View: entries of earlier raft entries, shared with Views in the same way
	kept   bool
	fresh  []byte   // entries of this raft entry after the last full bundle
	first  uint64   // index of the first of them
	pieces []uint64 // the rows that hold what edge should
	seen   map[tiles.Hash]uint64
	hurry  bool

	signed  *Checkpoint // by this raft entry
	touched bool
	recent  []sizedRoot // of the last raft entries, oldest first, beyond the newest checkpoint; at most recentRoots
}

// recentRoots is how many raft entries a checkpoint may lag behind without its root being computed from tiles.
const recentRoots = 64

type sizedRoot struct {
	size uint64
	root tiles.Hash
}

func newLog(m *Machine, number uint64, spec tlogpart.LogSpec) *Log {
	l := &Log{Number: number, Spec: spec, m: m, st: m.st}
	l.w.kept = true
	l.view.Store(&View{Root: tiles.EmptyRoot(), kept: true})
	return l
}

// newest is the newest checkpoint, this raft entry's included.
func (w *working) newest(l *Log) *Checkpoint {
	if w.signed != nil {
		return w.signed
	}
	return l.newest.Load()
}

// append adds the entries of a part. It cannot be rejected any more; an error is the store's.
func (m *Machine) append(b store.Batch, l *Log, p *tlogpart.Part, n int, wanted bool) (*tlogpart.Appended, error) {
	w := &l.w
	w.hurry = w.hurry || p.Hurry
	var res *tlogpart.Appended
	if wanted {
		res = &tlogpart.Appended{First: w.f.Size()}
	}
	rest := p.Entries
	for i := range n {
		var e []byte
		e, rest, _ = tiles.NextEntry(rest) // Check has validated them
		leaf := tiles.LeafHash(e)
		index := w.f.Size()
		known := false
		if l.Spec.Dedup {
			var err error
			if index, known, err = w.find(l, &leaf, index); err != nil {
				return nil, err
			}
		}
		if res != nil {
			res.Put(i, n, index)
		}
		if known {
			continue
		}
		if l.Spec.Dedup {
			if w.seen == nil {
				w.seen = map[tiles.Hash]uint64{}
			}
			w.seen[leaf] = index
			b.Set(l.dedupKey(&leaf), binary.AppendUvarint(nil, index))
		}
		if l.Spec.Index && !l.Spec.Dedup {
			b.Set(l.indexKey(&leaf, index), nil)
		}
		if err := w.add(b, l, e, leaf); err != nil {
			return nil, err
		}
	}
	return res, nil
}

// find looks for an entry with the same leaf hash, in this raft entry and in the store.
func (w *working) find(l *Log, leaf *tiles.Hash, next uint64) (index uint64, known bool, err error) {
	if index, known = w.seen[*leaf]; known {
		return index, true, nil
	}
	row, ok, err := l.st.Get(nil, l.dedupKey(leaf))
	if err != nil || !ok {
		return next, false, err
	}
	index, k := binary.Uvarint(row)
	if k <= 0 || k != len(row) || index >= w.base {
		return 0, false, fmt.Errorf("index of a hash in log %s: %w", l.Spec.Name, errCorrupt)
	}
	return index, true, nil
}

// add appends one entry to bundle, tiles and frontier.
func (w *working) add(b store.Batch, l *Log, e []byte, leaf tiles.Hash) error {
	if len(w.fresh) == 0 {
		w.first = w.f.Size()
	}
	w.fresh = tiles.AppendEntry(w.fresh, e)
	w.levels[0] = appendHash(w.levels[0], &leaf)
	var done tiles.Completed
	full := w.f.Append(leaf, &done)
	if full == 0 {
		return nil
	}
	n := (w.f.Size() - 1) / tiles.Width
	if err := w.bundle(b, l, n); err != nil {
		return err
	}
	for level := range full {
		b.Set(l.tileKey(level, n), w.levels[level])
		w.levels[level] = nil // Views may still read the old one
		if level > 0 {
			b.DeleteRange(l.nodeKey(level, n*tiles.Width), l.nodeKey(level, (n+1)*tiles.Width)) // once in 65,536 entries
		}
		up := level + 1
		w.levels[up] = appendHash(w.levels[up], &done[level])
		b.Set(l.nodeKey(up, n), done[level][:])
		n /= tiles.Width
	}
	return nil
}

// appendHash appends to hashes that are shared with readers of a shorter slice: their part is not touched.
func appendHash(hashes []byte, h *tiles.Hash) []byte {
	if hashes == nil {
		hashes = make([]byte, 0, firstHashes*tiles.HashSize)
	}
	return append(hashes, h[:]...)
}

// bundle writes the full bundle n and removes the pieces it replaces.
func (w *working) bundle(b store.Batch, l *Log, n uint64) error {
	if len(w.pieces) == 0 {
		b.Set(l.bundleKey(n), w.fresh)
	} else {
		whole := w.edge
		if !w.kept {
			var err error
			if whole, _, err = l.readPieces(l.st, nil); err != nil {
				return fmt.Errorf("read the entries of bundle %d of log %s: %w", n, l.Spec.Name, err)
			}
		}
		b.Set(l.bundleKey(n), append(whole[:len(whole):len(whole)], w.fresh...))
		for _, index := range w.pieces {
			b.Delete(l.pieceKey(index))
		}
	}
	w.pieces = w.pieces[:0]
	l.m.used.Add(-int64(cap(w.edge)))
	w.edge, w.kept = nil, true
	w.fresh = w.fresh[:0]
	return nil
}

// finish writes what this raft entry leaves on the right edge.
func (w *working) finish(b store.Batch, l *Log, row *[]byte) {
	if len(w.fresh) > 0 {
		b.Set(l.pieceKey(w.first), w.fresh)
	}
	if w.f.Size() != w.base {
		// It is overwritten with every entry, which costs readers nothing because none iterates over this row.
		*row = w.f.AppendBinary((*row)[:0])
		b.Set(l.key(spaceFrontier), *row)
	}
}

// publish makes this raft entry's effects what readers see, and reports whether a signer should look.
func (l *Log) publish() (demand bool) {
	w := &l.w
	w.touched = false
	if len(w.fresh) > 0 {
		w.pieces = append(w.pieces, w.first)
		l.m.used.Add(-int64(cap(w.edge)))
		if w.kept = w.kept && len(w.edge)+len(w.fresh) <= edgeBytes && l.m.used.Load()+int64(len(w.edge)+len(w.fresh)) <= l.m.room; w.kept {
			w.edge = append(w.edge, w.fresh...)
		} else {
			w.edge = nil
		}
		l.m.used.Add(int64(cap(w.edge)))
		if cap(w.fresh) > edgeBytes {
			w.fresh = nil
		}
		w.fresh = w.fresh[:0]
	}
	if w.seen != nil {
		w.seen = nil
	}
	l.held.Store(w.held)
	old := l.view.Load()
	if size := w.f.Size(); size != w.base {
		v := &View{Size: size, Root: w.f.Root(), levels: w.levels, edge: w.edge, kept: w.kept}
		l.view.Store(v)
		w.base = size
		if len(w.recent) == recentRoots {
			w.recent = append(w.recent[:0], w.recent[1:]...)
		}
		w.recent = append(w.recent, sizedRoot{size, v.Root})
	}
	c := w.signed
	if c != nil {
		l.newest.Store(c)
		w.signed = nil
		covered := 0 // the next checkpoint is of more
		for covered < len(w.recent) && w.recent[covered].size <= c.Size {
			covered++
		}
		w.recent = append(w.recent[:0], w.recent[covered:]...)
		l.mu.Lock()
		if l.signed != nil {
			close(l.signed)
			l.signed = nil
		}
		l.mu.Unlock()
	}
	if w.hurry {
		w.hurry = false
		l.hurry.Store(w.f.Size())
		return true
	}
	newest := l.newest.Load()
	return newest == nil || newest.Size == old.Size && w.f.Size() > old.Size || c != nil && w.f.Size() > c.Size
}

// rootAt is the root of the first size entries, which must not be more than were applied before this raft entry.
func (l *Log) rootAt(size uint64) (tiles.Hash, error) {
	for i := range l.w.recent {
		if r := &l.w.recent[i]; r.size == size && size != 0 {
			return r.root, nil
		}
	}
	v := l.view.Load()
	if size > v.Size {
		return tiles.Hash{}, fmt.Errorf("%w: it has only %d entries here", ErrDiverged, v.Size)
	}
	return l.Prover(v, size).Root()
}
