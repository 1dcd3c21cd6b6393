package hammer

import (
	"encoding/binary"
	"math/rand/v2"
	"strconv"
)

// entry is one writer's entry: the mark of the run, a number unique in the run, and random bytes up to the requested length. Real entries
// are hashes and certificates, hence random bytes: a server that compresses must not look better here than it is.
type entry struct {
	b    []byte
	mark int // length of the mark
	rest *rand.PCG
}

func (h *hammer) newEntry() *entry {
	e := &entry{b: make([]byte, h.Size+8), mark: len(h.prefix), rest: rand.NewPCG(rand.Uint64(), rand.Uint64())}
	copy(e.b, h.prefix)
	return e
}

// numbered returns the entry of a number. It is overwritten by the next.
func (e *entry) numbered(n uint64) []byte {
	b := append(strconv.AppendUint(e.b[:e.mark], n, 10), ' ') // MinEntry has room for the longest number
	size := len(e.b) - 8
	for i := len(b); i < size; i += 8 { // the last write may run beyond size: the buffer has room for it
		binary.LittleEndian.PutUint64(e.b[i:], e.rest.Uint64())
	}
	return e.b[:size]
}
