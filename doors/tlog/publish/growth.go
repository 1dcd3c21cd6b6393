package publish

import (
	"iter"

	"github.com/holdfastdb/holdfast/doors/tlog/tiles"
)

// growth yields the tiles of one level that a tree of size is has and one of size was lacks. Full tiles come first, then the partial one at
// the right edge. A partial one is yielded even if it is as wide as before: its publication may have been interrupted.
func growth(level int, was, is uint64) iter.Seq[tiles.Ref] {
	return func(yield func(tiles.Ref) bool) {
		shift := tiles.Height * max(level, 0)
		was, is := was>>shift, is>>shift
		for n := was / tiles.Width; n < is/tiles.Width; n++ {
			if !yield(tiles.Ref{Level: level, N: n, Width: tiles.Width}) {
				return
			}
		}
		if width := is % tiles.Width; width > 0 {
			yield(tiles.Ref{Level: level, N: is / tiles.Width, Width: int(width)})
		}
	}
}

// levels is the number of levels that a tree of size has tiles at.
func levels(size uint64) int {
	n := 0
	for ; size > 0; size >>= tiles.Height {
		n++
	}
	return n
}

// completed reports whether a full tile had a partial one in a tree of size was.
func completed(r tiles.Ref, was uint64) bool {
	return r.Width == tiles.Width && r.N*tiles.Width < was>>(tiles.Height*max(r.Level, 0))
}
