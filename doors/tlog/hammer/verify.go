package hammer

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/holdfastdb/holdfast/doors/tlog/tiles"
)

// verifyTime is how long the entries of a run are looked for, beside the time of the request that is under way.
const verifyTime = 10 * time.Minute

// tree reads the tree of one checkpoint. It belongs to one goroutine.
type tree struct {
	*client
	cp    *tiles.Checkpoint
	cache map[tiles.Ref][]byte // tiles, at most mostCached
}

// mostCached tiles of 8 KiB: the right edge and the way to the root from where entries are verified, with room.
const mostCached = 128

// verify looks for each kept entry. The bundle must have it at the answered index, and the tiles must lead from it to the root that was
// signed last. It counts entries found and not found. fault is the first error, or why verify could not go on; then neither count has the
// rest.
func (h *hammer) verify(c *client) (good, wrong uint64, fault string) {
	t := &tree{c, h.newest, map[tiles.Ref][]byte{}}
	if err := t.consistent(h.seen); err != nil {
		return 0, 0, err.Error()
	}
	slices.SortFunc(h.kept, func(a, b leaf) int { return cmp.Compare(a.index, b.index) })
	note := func(err error) {
		if fault == "" {
			fault = err.Error()
		}
	}
	deadline := time.Now().Add(verifyTime)
	for kept := h.kept; len(kept) > 0; {
		if time.Now().After(deadline) {
			note(fmt.Errorf("%d entries were not looked at in %v", len(kept), verifyTime))
			return good, wrong, fault
		}
		n := kept[0].index / tiles.Width
		end := 1
		for end < len(kept) && kept[end].index/tiles.Width == n {
			end++
		}
		if kept[end-1].index >= t.cp.Size {
			note(fmt.Errorf("index %d was answered, and the last checkpoint has size %d", kept[end-1].index, t.cp.Size))
			return good, wrong, fault
		}
		hashes, err := t.leaves(n)
		if err != nil {
			note(err)
			return good, wrong, fault
		}
		prover := tiles.Prover{Size: t.cp.Size, Tile: t.tile}
		for _, l := range kept[:end] {
			at := int(l.index%tiles.Width) * tiles.HashSize
			if !bytes.Equal(hashes[at:at+tiles.HashSize], l.hash[:]) {
				wrong++
				note(fmt.Errorf("index %d was answered, and another entry is there", l.index))
				continue
			}
			proof, err := prover.Inclusion(l.index)
			if err != nil {
				note(fmt.Errorf("proof of index %d: %w", l.index, err))
				return good, wrong, fault
			}
			if err := tiles.VerifyInclusion(l.index, t.cp.Size, l.hash, proof, t.cp.Root); err != nil {
				wrong++
				note(fmt.Errorf("index %d: the tiles do not lead to the root of size %d: %w", l.index, t.cp.Size, err))
				continue
			}
			good++
		}
		kept = kept[end:]
	}
	return good, wrong, fault
}

// consistent checks that each tree that was signed before is a prefix of this one.
func (t *tree) consistent(seen []*tiles.Checkpoint) error {
	for _, old := range seen {
		if old.Size == 0 {
			continue
		}
		prover := tiles.Prover{Size: t.cp.Size, Tile: t.tile}
		proof, err := prover.Consistency(old.Size)
		if err != nil {
			return fmt.Errorf("proof from size %d to %d: %w", old.Size, t.cp.Size, err)
		}
		if err := tiles.VerifyConsistency(old.Size, t.cp.Size, old.Root, t.cp.Root, proof); err != nil {
			return fmt.Errorf("size %d does not begin with what was signed at %d: %w", t.cp.Size, old.Size, err)
		}
	}
	return nil
}

// leaves are the leaf hashes of a bundle, as wide as the checkpoint makes it.
func (t *tree) leaves(n uint64) ([]byte, error) {
	width := int(min(t.cp.Size-n*tiles.Width, tiles.Width))
	ref := tiles.Ref{Level: tiles.EntryLevel, N: n, Width: width}
	b, err := t.fetch(ref)
	if err == nil {
		b, err = tiles.CutBundle(b, width)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", ref.Path(), err)
	}
	hashes, _, err := tiles.LeafHashes(nil, b)
	return hashes, err
}

func (t *tree) tile(level int, n uint64, width int) ([]byte, error) {
	ref := tiles.Ref{Level: level, N: n, Width: width}
	if b, ok := t.cache[ref]; ok {
		return b, nil
	}
	b, err := t.fetch(ref)
	if err == nil {
		if len(t.cache) >= mostCached {
			clear(t.cache)
		}
		t.cache[ref] = b
	}
	return b, err
}

// fetch reads a resource; a full one may stand in for a partial one that is gone.
func (t *tree) fetch(ref tiles.Ref) ([]byte, error) {
	b, err := t.get(ref.Path())
	if err != nil && ref.Width < tiles.Width {
		ref.Width = tiles.Width
		if full, err2 := t.get(ref.Path()); err2 == nil {
			return full, nil
		}
	}
	return b, err
}
