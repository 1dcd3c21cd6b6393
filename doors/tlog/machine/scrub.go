package machine

import (
	"bytes"
	"fmt"

	"github.com/holdfastdb/holdfast/doors/tlog/tiles"
)

// Scrub derives a log again from its entries, as of now, and compares every stored tile, the right edge and the root. pace is
// called for each bundle of 256 entries and may wait; an error from it ends the scrub. The error is a *Damage with level, index
// and both hashes, pace's, or the store's. It may run for long, beside everything else; it holds no View, since what it reads
// never changes.
func (l *Log) Scrub(pace func(done, all uint64) error) error {
	v := l.view.Load()
	var f tiles.Frontier
	var rows [levels + 1][]byte // of each level, the hashes of the tile that is being filled
	compare := func(level int, n uint64, stored []byte) error {
		mine := rows[level]
		if len(stored) < len(mine) {
			return fmt.Errorf("log %s: tile %d of level %d has %d bytes: %w", l.Spec.Name, n, level, len(stored), errCorrupt)
		}
		if !bytes.Equal(mine, stored[:len(mine)]) {
			for i := 0; i < len(mine); i += tiles.HashSize {
				if is, want := tiles.Hash(stored[i:]), tiles.Hash(mine[i:]); is != want {
					return &Damage{Log: l.Spec.Name, What: "tile", Level: level, Index: n*tiles.Width + uint64(i/tiles.HashSize), Is: is, Want: want}
				}
			}
		}
		rows[level] = mine[:0]
		return nil
	}
	for n := uint64(0); n*tiles.Width < v.Size; n++ {
		if err := pace(f.Size(), v.Size); err != nil {
			return err
		}
		width := int(min(v.Size-n*tiles.Width, tiles.Width))
		b, err := l.Bundle(n, width)
		if err != nil {
			return err
		}
		count := 0
		if rows[0], count, err = tiles.LeafHashes(rows[0], b); err != nil || count != width {
			return fmt.Errorf("log %s: bundle %d has %d entries: %w", l.Spec.Name, n, count, errCorrupt)
		}
		var done tiles.Completed
		for i := 0; i < len(rows[0]); i += tiles.HashSize {
			for level := range f.Append(tiles.Hash(rows[0][i:]), &done) {
				rows[level+1] = append(rows[level+1], done[level][:]...)
			}
		}
		for level := 0; level == 0 || len(rows[level]) == tiles.Width*tiles.HashSize; level++ {
			at := (f.Size() - 1) >> (tiles.Height * (level + 1))
			stored, err := l.tile(v, level, at, len(rows[level])/tiles.HashSize)
			if err == nil {
				err = compare(level, at, stored)
			}
			if err != nil {
				return err
			}
		}
	}
	for level := 1; level < levels; level++ { // the rest of each level is the right edge
		if err := compare(level, v.Size>>(tiles.Height*(level+1)), v.levels[level]); err != nil {
			return err
		}
	}
	if root := f.Root(); root != v.Root {
		return &Damage{Log: l.Spec.Name, What: "frontier", Index: v.Size, Is: v.Root, Want: root}
	}
	return nil
}

// SetDamage notes what is wrong with a log on this member, so that its worker does not sign it.
func (l *Log) SetDamage(d error) { l.damage.Store(&d) }

// Damage is what SetDamage noted, nil if nothing.
func (l *Log) Damage() error {
	if d := l.damage.Load(); d != nil {
		return *d
	}
	return nil
}
