package machine

import (
	"errors"
	"fmt"
	"sync"

	"github.com/holdfastdb/holdfast/core/store"
	"github.com/holdfastdb/holdfast/doors/tlog/tiles"
)

// Damage says that two places of the store contradict each other about a log: one of them was altered, in a way no checksum
// notices. It names the place and what each side says.
type Damage struct {
	Log   string
	What  string
	Level int
	Index uint64 // of the hash within its level
	Is    tiles.Hash
	Want  tiles.Hash
}

// Error makes a Damage usable as an error.
func (d *Damage) Error() string {
	return fmt.Sprintf("log %s is damaged: %s of level %d, hash %d: %s, but %s was expected", d.Log, d.What, d.Level, d.Index, d.Is, d.Want)
}

// IsDamage reports whether an error says that a log's rows are not what Apply wrote. Others, of a store that is being closed for
// example, say nothing about the log.
func IsDamage(err error) bool {
	var d *Damage
	return errors.As(err, &d) || errors.Is(err, errCorrupt) || errors.Is(err, tiles.ErrFrontier) || errors.Is(err, tiles.ErrBundle)
}

// edgeScratch is the read buffer of an edge's check. With a thousand logs it was two thirds of a server's allocations.
type edgeScratch struct{ entries, hashes []byte }

var scratch = sync.Pool{New: func() any { return new(edgeScratch) }}

// CheckEdge reads a log's frontier and right edge from the store, including the last full tile of each level and the last bundle. It
// returns size and root only if they agree with each other and with Apply's memory for that size. A leader signs nothing else (DECISIONS
// A14): a root that cannot be derived from the log's contents must not get a signature. The error is a *Damage, or the store's. It costs
// some hundred hashes.
func (m *Machine) CheckEdge(l *Log) (size uint64, root tiles.Hash, err error) {
	v := m.st.NewView() // between two raft entries
	defer v.Close()     // closing a read view loses nothing
	row, ok, err := v.Get(nil, l.key(spaceFrontier))
	if err != nil {
		return 0, root, err
	}
	var f tiles.Frontier
	if ok {
		if err := f.Decode(row); err != nil {
			return 0, root, fmt.Errorf("frontier of log %s: %w", l.Spec.Name, err)
		}
	}
	size, root = f.Size(), f.Root()
	damage := func(what string, level int, index uint64, is, want tiles.Hash) error {
		return &Damage{Log: l.Spec.Name, What: what, Level: level, Index: index, Is: is, Want: want}
	}

	s := scratch.Get().(*edgeScratch)
	defer scratch.Put(s)
	if s.entries, _, err = l.readPieces(v, s.entries[:0]); err != nil {
		return 0, root, err
	}
	hashes, n, err := tiles.LeafHashes(s.hashes[:0], s.entries)
	s.hashes = hashes
	if err != nil || uint64(n) != size%tiles.Width {
		return 0, root, fmt.Errorf("log %s: %d entries after the last bundle of %d: %w", l.Spec.Name, n, size, errCorrupt)
	}
	for level := 0; level < levels; level++ {
		have := size >> (tiles.Height * level)
		first := have / tiles.Width * tiles.Width
		if level > 0 {
			if hashes, err = l.readNodes(v, level, first); err != nil {
				return 0, root, err
			}
			if uint64(len(hashes)) != (have-first)*tiles.HashSize {
				return 0, root, fmt.Errorf("log %s: %d hashes after the last tile of level %d: %w", l.Spec.Name, len(hashes)/tiles.HashSize, level, errCorrupt)
			}
		}
		// The frontier's hashes of this level.
		at := first
		peaks := tiles.Peaks(nil, hashes)
		for h := tiles.Height - 1; h >= 0; h-- {
			want, ok := f.Peak(tiles.Height*level + h)
			if !ok {
				continue
			}
			if peaks[0] != want {
				return 0, root, damage("right edge", level, at, peaks[0], want)
			}
			peaks, at = peaks[1:], at+1<<h
		}
		// The last hash of this level is the root of the last full tile of the level below.
		if level > 0 && have > 0 {
			last, err := l.fullTile(v, level-1, have-1)
			if err != nil {
				return 0, root, err
			}
			want, err := l.hashAt(v, level, have-1, hashes, first)
			if err != nil {
				return 0, root, err
			}
			if is := tiles.TileRoot(last); is != want {
				return 0, root, damage("last full tile", level-1, (have-1)*tiles.Width, is, want)
			}
			if level == 1 {
				if err := l.checkBundle(v, have-1, last); err != nil {
					return 0, root, err
				}
			}
		}
	}
	if now := l.View(); now.Size == size && now.Root != root {
		return 0, root, damage("frontier", 0, size, root, now.Root)
	}
	return size, root, nil
}

// hashAt is a hash of a level above 0: on the right edge, or the last of the last full tile.
func (l *Log) hashAt(r store.Reader, level int, place uint64, edge []byte, first uint64) (tiles.Hash, error) {
	if place >= first {
		return tiles.Hash(edge[(place-first)*tiles.HashSize:]), nil
	}
	t, err := l.fullTile(r, level, place/tiles.Width)
	if err != nil {
		return tiles.Hash{}, err
	}
	return tiles.Hash(t[place%tiles.Width*tiles.HashSize:]), nil
}

func (l *Log) fullTile(r store.Reader, level int, n uint64) ([]byte, error) {
	b, ok, err := r.Get(nil, l.tileKey(level, n))
	if err != nil {
		return nil, err
	}
	if !ok || len(b) != tiles.Width*tiles.HashSize {
		return nil, fmt.Errorf("log %s: tile %d of level %d has %d bytes: %w", l.Spec.Name, n, level, len(b), errCorrupt)
	}
	return b, nil
}

// checkBundle compares a full bundle with its tile of leaf hashes.
func (l *Log) checkBundle(r store.Reader, n uint64, tile []byte) error {
	b, ok, err := r.Get(nil, l.bundleKey(n))
	if err != nil {
		return err
	}
	hashes, count, err := tiles.LeafHashes(nil, b)
	if !ok || err != nil || count != tiles.Width {
		return fmt.Errorf("log %s: bundle %d has %d entries: %w", l.Spec.Name, n, count, errCorrupt)
	}
	for i := range count {
		if is, want := tiles.Hash(hashes[i*tiles.HashSize:]), tiles.Hash(tile[i*tiles.HashSize:]); is != want {
			return &Damage{Log: l.Spec.Name, What: "entry", Level: 0, Index: n*tiles.Width + uint64(i), Is: is, Want: want}
		}
	}
	return nil
}
