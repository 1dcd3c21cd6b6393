package tiles

import (
	"errors"
	"fmt"
	"math/bits"
)

var (
	// ErrRange: the size or index asked for is not one of the tree.
	ErrRange = errors.New("outside of the tree")
	// ErrProof: the proof does not show what it should.
	ErrProof = errors.New("proof does not verify")
)

// Prover makes proofs about the first Size entries of a tree from its tiles. It is for one goroutine and keeps the tiles it
// was given, so make a new one for every proof.
type Prover struct {
	// Size is the number of leaves of the tree that proofs are about.
	Size uint64
	// Tile returns the hashes of a tile: at least width of them, concatenated. The Prover does not change them.
	Tile func(level int, n uint64, width int) ([]byte, error)

	kept []keptTile
}

type keptTile struct {
	level  int
	n      uint64
	hashes []byte
}

// Root is the root over the Size leaves.
func (p *Prover) Root() (Hash, error) {
	if p.Size == 0 {
		return EmptyRoot(), nil
	}
	return p.span(0, p.Size)
}

// Inclusion proves that leaf index is in the tree of Size leaves (RFC 6962, section 2.1.1).
func (p *Prover) Inclusion(index uint64) ([]Hash, error) {
	if index >= p.Size {
		return nil, ErrRange
	}
	var proof []Hash
	lo, hi := uint64(0), p.Size
	for hi-lo > 1 { // from the root down to the leaf: the other half each time
		mid := lo + split(hi-lo)
		a, b := mid, hi
		if index >= mid {
			a, b = lo, mid
			lo = mid
		} else {
			hi = mid
		}
		h, err := p.span(a, b)
		if err != nil {
			return nil, err
		}
		proof = append(proof, h)
	}
	reverse(proof)
	return proof, nil
}

// Consistency proves that the tree of Size leaves begins with the tree of the first old ones (RFC 6962, section 2.1.2).
// The proof is empty for equal sizes and for old = 0, which every tree begins with.
func (p *Prover) Consistency(old uint64) ([]Hash, error) {
	if old > p.Size {
		return nil, ErrRange
	}
	if old == 0 || old == p.Size {
		return nil, nil
	}
	var proof []Hash
	lo, hi, known := uint64(0), p.Size, true // known: the old root is the root of lo to old itself
	for old != hi {
		mid := lo + split(hi-lo)
		a, b := mid, hi
		if old > mid {
			a, b = lo, mid
			lo, known = mid, false
		} else {
			hi = mid
		}
		h, err := p.span(a, b)
		if err != nil {
			return nil, err
		}
		proof = append(proof, h)
	}
	if !known {
		h, err := p.span(lo, hi)
		if err != nil {
			return nil, err
		}
		proof = append(proof, h)
	}
	reverse(proof)
	return proof, nil
}

// span is the root over the leaves from lo to hi, where lo is a multiple of the power of two at or above hi-lo.
func (p *Prover) span(lo, hi uint64) (Hash, error) {
	if n := hi - lo; n&(n-1) == 0 {
		h := bits.TrailingZeros64(n)
		return p.node(h, lo>>h)
	}
	mid := lo + split(hi-lo)
	left, err := p.span(lo, mid)
	if err != nil {
		return Hash{}, err
	}
	right, err := p.span(mid, hi)
	if err != nil {
		return Hash{}, err
	}
	return NodeHash(&left, &right), nil
}

// node is the root of the complete subtree of a height that is the index-th of its kind.
func (p *Prover) node(height int, index uint64) (Hash, error) {
	level, below := height/Height, height%Height
	first := index << below // in hashes of the tile's level
	n, at, count := first/Width, int(first%Width), 1<<below
	hashes, err := p.tile(level, n, at+count)
	if err != nil {
		return Hash{}, err
	}
	return TileRoot(hashes[at*HashSize : (at+count)*HashSize]), nil
}

func (p *Prover) tile(level int, n uint64, width int) ([]byte, error) {
	for i := range p.kept {
		if t := &p.kept[i]; t.level == level && t.n == n && len(t.hashes) >= width*HashSize {
			return t.hashes, nil
		}
	}
	// As much of the tile as the tree has: the next hash wanted is often in the same one.
	width = max(width, int(min(p.Size>>(Height*level)-n*Width, Width)))
	b, err := p.Tile(level, n, width)
	if err != nil {
		return nil, err
	}
	if len(b) < width*HashSize {
		return nil, fmt.Errorf("tile %s has %d bytes", Ref{level, n, width}.Path(), len(b))
	}
	p.kept = append(p.kept, keptTile{level, n, b})
	return b, nil
}

// split is the largest power of two below n, which is at least 2.
func split(n uint64) uint64 { return 1 << (bits.Len64(n-1) - 1) }

func reverse(hs []Hash) {
	for i, j := 0, len(hs)-1; i < j; i, j = i+1, j-1 {
		hs[i], hs[j] = hs[j], hs[i]
	}
}

// VerifyInclusion checks that proof shows leaf at index in the tree of size leaves with this root. The error is ErrRange or
// ErrProof.
func VerifyInclusion(index, size uint64, leaf Hash, proof []Hash, root Hash) error {
	if index >= size {
		return ErrRange
	}
	// fn is the place of the node we have in its row, sn that of the row's last node.
	fn, sn := index, size-1
	h := leaf
	for i := range proof {
		if sn == 0 {
			return ErrProof // longer than the tree is high
		}
		if fn&1 != 0 || fn == sn {
			h = NodeHash(&proof[i], &h)
			for fn&1 == 0 && fn != 0 { // the last of its row has no neighbour until the rows above
				fn, sn = fn>>1, sn>>1
			}
		} else {
			h = NodeHash(&h, &proof[i])
		}
		fn, sn = fn>>1, sn>>1
	}
	if sn != 0 || h != root {
		return ErrProof
	}
	return nil
}

// VerifyConsistency checks that proof shows that the tree of size leaves with this root begins with the old one. An old
// size of 0 is refused: every tree begins with the empty one, and a proof of it shows nothing. The error is ErrRange or
// ErrProof.
func VerifyConsistency(old, size uint64, oldRoot, root Hash, proof []Hash) error {
	if old == 0 || old > size {
		return ErrRange
	}
	if old == size {
		if len(proof) != 0 || oldRoot != root {
			return ErrProof
		}
		return nil
	}
	if old&(old-1) == 0 { // the old tree is one complete subtree: its root is not repeated in the proof
		proof = append([]Hash{oldRoot}, proof...)
	}
	if len(proof) == 0 {
		return ErrProof
	}
	fn, sn := old-1, size-1
	for fn&1 != 0 {
		fn, sn = fn>>1, sn>>1
	}
	was, is := proof[0], proof[0]
	for i := range proof[1:] {
		if sn == 0 {
			return ErrProof
		}
		p := &proof[i+1]
		if fn&1 != 0 || fn == sn {
			was, is = NodeHash(p, &was), NodeHash(p, &is)
			for fn&1 == 0 && fn != 0 {
				fn, sn = fn>>1, sn>>1
			}
		} else {
			is = NodeHash(&is, p)
		}
		fn, sn = fn>>1, sn>>1
	}
	if sn != 0 || was != oldRoot || is != root {
		return ErrProof
	}
	return nil
}
