package machine

import (
	"slices"
)

// blocks knows how many keys exist in each of the intervals into which fences divide all possible keys. With it the number of keys in any
// interval is a sum, and a walk over only the two blocks that lie partly inside. It is derived from the rows and local: it is in no row and
// no hash. Nothing that Check or Do decides depends on it, so members may have other fences.
//
// Every state of it is exact. Load makes one block of everything, with a known number of keys. Each entry adds the keys it created and
// deleted. A worker divides large blocks (refine.go), and deletes join small ones. Rejected: properties of the store's blocks and tables,
// which are not exact while a key has rows in several levels. Also rejected: fences in rows, which would cost one more row for each new
// key.
//
// It belongs to the gate: changed while that is closed or under its lock, read under its read lock.
type blocks struct {
	bounds blockBounds
	groups []*group // in order, none of them empty
	target int64    // keys of a block that is cut from a larger one
	bytes  int      // of all blocks
	near   place    // of the key added last; entries often go through keys in order
	over   []string // fences of blocks that are to be divided, as far as there is room for them here
	lost   bool     // there was none: all blocks have to be looked at
	coarse int      // the group that the joining of blocks has come to; below 0: none is under way
	cut    *cut     // a block that is being divided
	wanted chan struct{}
}

// group is some blocks that follow each other: block i has the keys from fences[i] on, below the next fence. The first block of all
// begins with the empty fence. Sums of groups keep the sum over many blocks short.
type group struct {
	fences []string
	counts []int64
	dead   []uint32 // deletes of keys in each block, about
	sum    int64
}

// place is a block: its group, and where it is in there.
type place struct{ g, i int }

// blockBounds are the sizes of it all. They are set once.
type blockBounds struct {
	target       int64 // keys of a block, to begin with
	bytes        int   // that the blocks are to stay below
	group        int   // blocks in one
	over         int   // blocks remembered as large
	journal      int   // changes of keys in a block that is being divided
	journalBytes int   // of their keys
}

// usualBounds are those of a machine. With half of the target a count takes a sixth less and the blocks twice the memory.
func usualBounds(bytes int) blockBounds {
	return blockBounds{target: 128, bytes: bytes, group: 512, over: 256, journal: 64 << 10, journalBytes: 1 << 20}
}

// blockBytes estimates a block's memory beside its fence's bytes: a string, two numbers, room in the slices and allocation losses.
const blockBytes = 24 + 24 + 16

// deadMost is as far as deletes are counted; two of it still fit.
const deadMost = 1 << 30

// setUp is called once, before reset.
func (b *blocks) setUp(bounds blockBounds) {
	b.bounds, b.wanted = bounds, make(chan struct{}, 1)
}

// reset makes one block of everything, in which there are so many keys.
func (b *blocks) reset(keys int64) {
	all := &group{fences: []string{""}, counts: []int64{keys}, dead: []uint32{0}, sum: keys}
	*b = blocks{bounds: b.bounds, wanted: b.wanted, groups: []*group{all}, target: b.bounds.target, bytes: blockBytes, coarse: -1}
	if b.large(keys) {
		b.note("")
	}
}

// large reports whether a block of n keys is to be divided.
func (b *blocks) large(n int64) bool { return n > 2*b.target }

// note remembers that the block of a fence is large, and wakes the worker.
func (b *blocks) note(fence string) {
	if len(b.over) < b.bounds.over {
		b.over = append(b.over, fence)
	} else {
		b.lost = true
	}
	select {
	case b.wanted <- struct{}{}:
	default:
	}
}

// locate returns the block of key.
func locate[K string | []byte](b *blocks, key K) place {
	lo, hi := 0, len(b.groups)-1 // the last group that begins at or before key
	for lo < hi {
		if mid := (lo + hi + 1) / 2; b.groups[mid].fences[0] <= string(key) {
			lo = mid
		} else {
			hi = mid - 1
		}
	}
	p := place{g: lo}
	fences := b.groups[lo].fences
	lo, hi = 0, len(fences)-1
	for lo < hi {
		if mid := (lo + hi + 1) / 2; fences[mid] <= string(key) {
			lo = mid
		} else {
			hi = mid - 1
		}
	}
	p.i = lo
	return p
}

// after returns the place behind p; its group may be none.
func (b *blocks) after(p place) place {
	if p.i++; p.i == len(b.groups[p.g].fences) {
		return place{g: p.g + 1}
	}
	return p
}

// behind reports whether p is behind the last block.
func (b *blocks) behind(p place) bool { return p.g == len(b.groups) }

func (b *blocks) fence(p place) string { return b.groups[p.g].fences[p.i] }
func (b *blocks) count(p place) int64  { return b.groups[p.g].counts[p.i] }

// holds reports whether the block at p, if there is one, is that of key.
func (b *blocks) holds(p place, key []byte) bool {
	if p.g >= len(b.groups) || p.i >= len(b.groups[p.g].fences) || b.fence(p) > string(key) {
		return false
	}
	next := b.after(p)
	return b.behind(next) || string(key) < b.fence(next)
}

// add takes in that a key came into existence (1) or went (-1).
func (b *blocks) add(key []byte, d int64) {
	p := b.near
	if !b.holds(p, key) {
		p = locate(b, key)
		b.near = p
	}
	g := b.groups[p.g]
	g.counts[p.i] += d
	g.sum += d
	if b.cut != nil {
		b.cut.add(key, d)
	}
	if d < 0 && g.dead[p.i] < deadMost {
		g.dead[p.i]++
	}
	switch n := g.counts[p.i]; {
	case d > 0 && n == 2*b.target+1:
		b.note(g.fences[p.i])
	case d < 0 && n <= b.target:
		b.join(p)
	}
}

// sweep takes in that all keys of a sweep went: from each block as many as it had of them.
func (b *blocks) sweep(s *sweep) {
	for i := 0; i < s.n; {
		p, upTo := locate(b, s.of(i)), s.n
		if next := b.after(p); !b.behind(next) {
			upTo = search(s, b.fence(next))
		}
		n := int64(upTo - i)
		g := b.groups[p.g]
		g.counts[p.i] -= n
		g.sum -= n
		g.dead[p.i] = uint32(min(int64(g.dead[p.i])+n, deadMost))
		for ; i < upTo; i++ {
			if b.cut != nil {
				b.cut.add(s.of(i), -1)
			}
		}
		if g.counts[p.i] <= b.target {
			b.join(p)
		}
	}
	b.near = place{}
}

// about is the number of keys in [key, end) and in what else belongs to the blocks at both ends.
func (b *blocks) about(key, end []byte) int64 {
	q := place{g: len(b.groups)}
	if !unbounded(end) {
		q = b.after(locate(b, end))
	}
	return b.sum(locate(b, key), q)
}

// join merges the block at p with the one in front if both are small, and with the one behind if neither has keys.
func (b *blocks) join(p place) {
	if p != (place{}) {
		before := place{p.g, p.i - 1}
		if p.i == 0 {
			before = place{p.g - 1, len(b.groups[p.g-1].fences) - 1}
		}
		if b.mayJoin(before, p) && b.remove(p) {
			p = before
		}
	}
	if b.count(p) == 0 {
		if next := b.after(p); !b.behind(next) && b.mayJoin(p, next) {
			b.remove(next)
		}
	}
}

// mayJoin reports whether the blocks at p and q, its next, are better one. Deleted rows stay in the store for a while, and a walk has to
// pass them. So a block without keys, which is never walked, is joined only with others like it. Otherwise the few keys that a deleted
// million leaves would share a block with all the deleted rows.
func (b *blocks) mayJoin(p, q place) bool {
	const dead, deadEmpty = 8, 32 // times the target
	n, m := b.count(p), b.count(q)
	gone := int64(b.groups[p.g].dead[p.i]) + int64(b.groups[q.g].dead[q.i])
	if n == 0 || m == 0 {
		return n == m && gone <= deadEmpty*b.target
	}
	return n+m <= b.target && gone <= dead*b.target
}

// remove takes the fence of the block at p away, which is not the first, unless it bounds a block that is being divided.
func (b *blocks) remove(p place) bool {
	g := b.groups[p.g]
	f, n, dead := g.fences[p.i], g.counts[p.i], g.dead[p.i]
	if b.cut != nil && (f == b.cut.from || f == b.cut.to) {
		return false
	}
	g.fences, g.counts = slices.Delete(g.fences, p.i, p.i+1), slices.Delete(g.counts, p.i, p.i+1)
	g.dead = slices.Delete(g.dead, p.i, p.i+1)
	g.sum -= n
	if len(g.fences) == 0 {
		b.groups = slices.Delete(b.groups, p.g, p.g+1)
	}
	if p.i == 0 {
		p = place{p.g - 1, len(b.groups[p.g-1].fences)}
	}
	before := b.groups[p.g]
	before.counts[p.i-1] += n
	before.dead[p.i-1] += dead
	before.sum += n
	b.bytes -= blockBytes + len(f)
	return true
}

// divide puts fences into the block at p: counts[0] are its keys below the first of them.
func (b *blocks) divide(p place, fences []string, counts []int64) {
	g := b.groups[p.g]
	for i := 1; i < len(counts); i++ {
		b.bytes += blockBytes + len(fences[i-1])
	}
	g.fences = slices.Insert(g.fences, p.i+1, fences...)
	g.counts = slices.Replace(g.counts, p.i, p.i+1, counts...)
	g.dead = slices.Replace(g.dead, p.i, p.i+1, make([]uint32, len(counts))...)
	if len(g.fences) <= b.bounds.group {
		return
	}
	size := b.bounds.group / 2
	var parts []*group
	for from := 0; from < len(g.fences); from += size {
		to := min(from+size, len(g.fences))
		part := &group{fences: slices.Clone(g.fences[from:to]), counts: slices.Clone(g.counts[from:to]),
			dead: slices.Clone(g.dead[from:to])}
		for _, n := range part.counts {
			part.sum += n
		}
		parts = append(parts, part)
	}
	b.groups = slices.Replace(b.groups, p.g, p.g+1, parts...)
}

// sum is the number of keys from the block at p up to the one at q.
func (b *blocks) sum(p, q place) (n int64) {
	if p.g == q.g {
		for _, c := range b.groups[p.g].counts[p.i:q.i] {
			n += c
		}
		return n
	}
	for _, c := range b.groups[p.g].counts[p.i:] {
		n += c
	}
	for _, g := range b.groups[p.g+1 : q.g] {
		n += g.sum
	}
	if !b.behind(q) {
		for _, c := range b.groups[q.g].counts[:q.i] {
			n += c
		}
	}
	return n
}

// coarsen joins small blocks, a bounded piece of the work at a time, and reports whether it had to. There are then more fences than fit, so
// each is to bound more keys.
func (b *blocks) coarsen() bool {
	const piece = 64 // groups
	if b.coarse < 0 {
		if b.bytes <= b.bounds.bytes || len(b.groups) == 1 && len(b.groups[0].fences) == 1 {
			return false
		}
		b.target *= 2
		b.coarse = 0
	}
	for range piece {
		if b.coarse >= len(b.groups) {
			b.coarse = -1
			return true
		}
		g := b.groups[b.coarse]
		b.bytes -= g.coarsen(b.target * 3 / 2)
		if b.coarse > 0 {
			if before := b.groups[b.coarse-1]; len(before.fences)+len(g.fences) <= b.bounds.group/2 {
				before.fences, before.counts = append(before.fences, g.fences...), append(before.counts, g.counts...)
				before.dead = append(before.dead, g.dead...)
				before.sum += g.sum
				b.groups = slices.Delete(b.groups, b.coarse, b.coarse+1)
				continue
			}
		}
		b.coarse++
	}
	return true
}

// coarsen joins blocks of together at most so many keys, and returns how many bytes that freed. In want of room, blocks without keys
// are joined with others.
func (g *group) coarsen(most int64) (freed int) {
	at := 0
	for i := 1; i < len(g.fences); i++ {
		if g.counts[at]+g.counts[i] <= most {
			g.counts[at] += g.counts[i]
			g.dead[at] = min(g.dead[at]+g.dead[i], deadMost)
			freed += blockBytes + len(g.fences[i])
			continue
		}
		at++
		g.fences[at], g.counts[at], g.dead[at] = g.fences[i], g.counts[i], g.dead[i]
	}
	g.fences, g.counts, g.dead = slices.Clone(g.fences[:at+1]), slices.Clone(g.counts[:at+1]), slices.Clone(g.dead[:at+1])
	return freed
}
