package machine

import (
	"bytes"
	"fmt"

	"github.com/holdfastdb/holdfast/core/store"
)

// along finds versions in history for a scan, whose keys come in order. It uses a Get each, or an iterator that goes forward beside the
// scan. The iterator finds the next version near its last, where a Get begins anew at every level of the store. But it stands on a row in
// each level and reads the blocks of all. A Get asks their filters and ends where it finds the version. So the iterator is cheaper while
// blocks are in the store's cache, and dearer if they have to be read.
type along struct {
	r      store.Reader
	it     store.Iter // nil before it is worth it
	looked int        // how many versions were looked up by a Get
	behind int64      // how many moves may pass the version it stands on and the older ones of its key; 0 if a seek is less
	short  int        // how many times in a row these did not reach the next version
	found  int        // versions found by it
	far    bool       // its blocks are not in the cache, nor is there room for them
	read   store.Loads
	buf    []byte // backs what a Get has found
	key    []byte
}

const (
	// lookedUp is the number of versions looked up one by one before an iterator is opened. Opening one costs about as much as so many
	// Gets.
	lookedUp = 2
	// fewVersions is the highest version of a key that the iterator finds even if blocks are read for it. Keys with higher versions have
	// older ones in between, which the iterator passes in each of the store's levels. At six a key, a Get a key reads less. The version
	// counts what has been compacted away too, so that a few are looked up without need.
	fewVersions = 4
	// mostSteps is the number of versions of a key that are passed by single moves. A move touches one level of the store, and of the rows
	// between only their keys; a seek touches all levels. From four on a seek, which passes them inside a block, is no dearer.
	mostSteps = 3
	// shortSteps is the number of failed moves in a row after which it only seeks. A move fails where rows of other keys, or of a key's
	// earlier life, lie between.
	shortSteps = 4
	// unknownVersions is how many a key may have had.
	unknownVersions = 1 << 62
	// farAfter is the number of versions after which it checks the cache. At most one part in farShare of the blocks may have been read
	// from disk.
	farAfter = 16
	farShare = 4
)

// find reads what the row of a version has; value is valid until the next call. versions is how many the key has had by now, or more.
func (a *along) find(key []byte, mod int64, sub uint32, versions int64) (mt meta, value []byte, err error) {
	if a.looked < lookedUp || a.far && versions > fewVersions {
		a.looked++
		a.buf, mt, value, err = historyVersion(a.r, a.buf, key, mod, sub)
		return mt, value, err
	}
	if a.it == nil {
		lower, upper := spaceBounds(spaceHistory)
		if a.it, err = a.r.NewIter(lower, upper); err != nil {
			return meta{}, nil, fmt.Errorf("scan history: %w", err)
		}
	}
	a.key = appendHistoryKey(a.key[:0], key, mod, sub)
	found := a.step(versions) && bytes.Equal(a.it.Key(), a.key)
	if err := a.it.Error(); err != nil {
		return meta{}, nil, fmt.Errorf("read version: %w", err)
	}
	if !found {
		return meta{}, nil, missing(key, mod, sub)
	}
	row, err := a.it.Value()
	if err != nil {
		return meta{}, nil, fmt.Errorf("read version: %w", err)
	}
	if a.found++; a.found%farAfter == 0 {
		now := a.it.Loads()
		a.far = (now.Missed-a.read.Missed)*farShare > now.Bytes-a.read.Bytes
		a.read = now
	}
	return decodeHistoryRow(row, mod, sub)
}

// step moves the iterator to a.key, or to the next row; the key has had so many versions.
func (a *along) step(versions int64) bool {
	moves := a.behind
	if a.behind = versions; versions > mostSteps || a.short >= shortSteps {
		a.behind = 0
	}
	for range moves {
		if !a.it.Next() {
			return false
		}
		if bytes.Compare(a.it.Key(), a.key) >= 0 {
			a.short = 0
			return true
		}
	}
	if moves > 0 {
		a.short++
	}
	return a.it.SeekGE(a.key)
}

func (a *along) close() {
	if a.it != nil {
		_ = a.it.Close()
	}
}
