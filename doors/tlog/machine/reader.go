package machine

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/holdfastdb/holdfast/doors/tlog/tiles"
)

// The readers of this machine (doors/tlog, workers). They are safe for concurrent use with Apply.

// ErrAbsent: the log has no such tile, bundle or entry.
var ErrAbsent = errors.New("not in the log")

// View is the log as of the last raft entry.
func (l *Log) View() *View { return l.view.Load() }

// Held reports whether the log was restored and waits to be resumed: it can be read, and does not grow.
func (l *Log) Held() bool { return l.held.Load() }

// Newest is the newest signed checkpoint, nil before the first. next is closed when there is a newer one.
func (l *Log) Newest() (c *Checkpoint, next <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.signed == nil {
		l.signed = make(chan struct{})
	}
	return l.newest.Load(), l.signed // newest is stored before the channel is closed
}

// Checkpoint is Newest for callers that do not wait for the next one.
func (l *Log) Checkpoint() *Checkpoint { return l.newest.Load() }

// Wanted is the size up to which clients wait for a checkpoint, 0 if none does.
func (l *Log) Wanted() uint64 {
	h := l.hurry.Load()
	if c := l.newest.Load(); c != nil && c.Size >= h {
		return 0
	}
	return h
}

// Tile returns the first width hashes of a tile. The result is shared: do not change it. The error is ErrAbsent if the log has
// not as many yet, or the store's.
func (l *Log) Tile(level int, n uint64, width int) ([]byte, error) {
	return l.tile(l.view.Load(), level, n, width)
}

func (l *Log) tile(v *View, level int, n uint64, width int) ([]byte, error) {
	if level >= levels || n > tiles.MaxSize {
		return nil, ErrAbsent
	}
	have := v.Size >> (tiles.Height * level)
	switch {
	case n*tiles.Width+uint64(width) > have:
		return nil, ErrAbsent
	case n == have/tiles.Width:
		return v.levels[level][:width*tiles.HashSize], nil
	}
	b, ok, err := l.st.Get(nil, l.tileKey(level, n))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read tile: %w", err)
	case !ok || len(b) != tiles.Width*tiles.HashSize:
		return nil, fmt.Errorf("read tile %s of log %s: it has %d bytes: %w", tiles.Ref{Level: level, N: n, Width: tiles.Width}.Path(), l.Spec.Name,
			len(b), errCorrupt)
	}
	return b[:width*tiles.HashSize], nil
}

// Bundle returns the first width entries of a bundle, each with its length before it. The result is shared: do not change it.
// The error is as of Tile.
func (l *Log) Bundle(n uint64, width int) ([]byte, error) {
	v := l.view.Load()
	if n > tiles.MaxSize || n*tiles.Width+uint64(width) > v.Size {
		return nil, ErrAbsent
	}
	if n == v.Size/tiles.Width && v.kept {
		return tiles.CutBundle(v.edge, width)
	}
	for range 3 {
		b, ok, err := l.st.Get(nil, l.bundleKey(n))
		switch {
		case err != nil:
			return nil, fmt.Errorf("read bundle: %w", err)
		case ok && width == tiles.Width:
			return b, nil
		case ok:
			return tiles.CutBundle(b, width)
		}
		// On the right edge and too large to be kept. The iterator sees all its pieces or, if the bundle has just become
		// full, none of them; then the bundle is there.
		b, rows, err := l.readPieces(l.st, nil)
		if err != nil {
			return nil, fmt.Errorf("read bundle: %w", err)
		}
		if len(rows) > 0 && rows[0] == n*tiles.Width {
			return tiles.CutBundle(b, width)
		}
	}
	return nil, fmt.Errorf("read bundle %d of log %s: neither it nor its pieces are there: %w", n, l.Spec.Name, errCorrupt)
}

// Prover makes proofs about the first size entries, as v has them.
func (l *Log) Prover(v *View, size uint64) *tiles.Prover {
	return &tiles.Prover{Size: size, Tile: func(level int, n uint64, width int) ([]byte, error) { return l.tile(v, level, n, width) }}
}

// Lookup returns the indexes of entries with a leaf hash, the lowest first and at most most of them. The log must have been
// begun with Dedup or Index.
func (l *Log) Lookup(leaf tiles.Hash, most int) ([]uint64, error) {
	if l.Spec.Dedup {
		row, ok, err := l.st.Get(nil, l.dedupKey(&leaf))
		if err != nil || !ok {
			return nil, err
		}
		index, k := binary.Uvarint(row)
		if k <= 0 {
			return nil, fmt.Errorf("index of a hash in log %s: %w", l.Spec.Name, errCorrupt)
		}
		return []uint64{index}, nil
	}
	p := append(l.key(spaceIndex), leaf[:]...)
	it, err := l.st.NewIter(p, after(p))
	if err != nil {
		return nil, err
	}
	defer it.Close() // errors are reported by Error
	var out []uint64
	for ok := it.First(); ok && len(out) < most; ok = it.Next() {
		if k := it.Key(); len(k) == len(p)+8 {
			out = append(out, binary.BigEndian.Uint64(k[len(p):]))
		}
	}
	return out, it.Error()
}
