package machine

import (
	"bytes"
	"sort"
)

// runs are the slots of deletes of many keys that the cache does not have: one run for each delete, in order of its keys. They are found by
// a search, so they need no place in the cache's map, and lie in the order in which Finish visits them. With a map a delete of 100,000 keys
// spent half of its time waiting for memory. They belong to one entry alone; a lasting slot has no use for a deleted key.
type runs []run

// run consists of pieces, because slots must not move.
type run struct {
	pieces [][]slot
	held   arena
}

// usualFewDeletes is part of the log's meaning: a delete of as many keys goes by range, if it is one that may (DeleteRange.ByRange). It is
// how many slots of one delete go into the cache like any other's. A larger delete makes the cache give up the keys that the entry does not
// need. An entry that meets more keys than the cache is for would do that anyway at its end.
const usualFewDeletes = 4096

// runPiece is how many slots are allocated at a time.
const runPiece = 1024

func (r *runs) begin() { *r = append(*r, run{}) }

// add makes a slot from the store's row in the run begun last; its keys come in order.
func (r runs) add(key []byte, m meta, value []byte) *slot {
	last := &r[len(r)-1]
	n := len(last.pieces)
	if n == 0 || len(last.pieces[n-1]) == runPiece {
		last.pieces = append(last.pieces, make([]slot, 0, runPiece))
		n++
	}
	piece := &last.pieces[n-1]
	*piece = append(*piece, slot{key: last.held.copy(key), meta: m, lent: true})
	s := &(*piece)[len(*piece)-1]
	if m.later() {
		s.kept = last.held.copy(value)
	}
	return s
}

// get returns the slot of key, nil if no run has one.
func (r runs) get(key []byte) *slot {
	for i := range r {
		pieces := r[i].pieces
		p := sort.Search(len(pieces), func(p int) bool { return bytes.Compare(pieces[p][0].key, key) > 0 }) - 1
		if p < 0 {
			continue
		}
		at := sort.Search(len(pieces[p]), func(i int) bool { return bytes.Compare(pieces[p][i].key, key) >= 0 })
		if at < len(pieces[p]) && bytes.Equal(pieces[p][at].key, key) {
			return &pieces[p][at]
		}
	}
	return nil
}
