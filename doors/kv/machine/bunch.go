package machine

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

	"github.com/holdfastdb/holdfast/core/store"
)

// bunch is the changes that a walk looks up together, the last of its events. They come in the order in which they happened, and the
// store's rows lie in the order of keys. An iterator over the sorted keys finds the next row close by, while a Get begins anew at every
// level of the store.
type bunch struct {
	versions
	evs   []Event  // of puts, those without a version are yet to be found
	subs  []uint32 // beside evs
	order []int    // of the puts, by key and the newest first, as in history
}

const (
	// leastBunch is how many changes are looked up one by one: an iterator costs about as much as so many Gets. It is also how many a
	// walk begins with, before it knows how long they are.
	leastBunch = 8
	// mostBunch bounds what a walk may have looked up in vain when it stops.
	mostBunch = 1024
	// nearRows is how many rows at most lie between two versions that a forward seek finds sooner than a Get. Farther apart they are
	// in other blocks, and a seek reads one of each level where a Get asks the filters first.
	nearRows = 64
	// nearTried is how many distances between versions of a bunch are measured.
	nearTried = 3
)

// size is how many changes of a walk to look up next: about as many as its events have room for.
func (b *bunch) size(evs, used, maxBytes int) int {
	if evs == 0 {
		return leastBunch
	}
	return min(max((maxBytes-used)/max(used/evs, 1)+1, 1), mostBunch)
}

// find looks the puts of evs up. A version that it does not find stays empty, and put looks it up alone.
func (b *bunch) find(evs []Event) error {
	b.evs, b.order = evs, b.order[:0]
	for i := range evs {
		if evs[i].Type == EventPut {
			b.order = append(b.order, i)
		}
	}
	if len(b.order) <= leastBunch {
		return nil
	}
	slices.SortFunc(b.order, func(i, j int) int {
		x, y := &evs[i].KV, &evs[j].KV
		return cmp.Or(bytes.Compare(x.Key, y.Key), cmp.Compare(y.ModRevision, x.ModRevision), cmp.Compare(b.subs[j], b.subs[i]))
	})
	first := b.replaced // where most of the bunch before were
	for _, inHistory := range [2]bool{first, !first} {
		of := len(b.order)
		if of <= leastBunch {
			return nil
		}
		near, err := b.pass(inHistory)
		if err != nil || !near {
			return err
		}
		b.order = slices.DeleteFunc(b.order, func(i int) bool { return evs[i].KV.Version != 0 })
		if inHistory == first && 2*len(b.order) > of {
			b.replaced = !first
		}
	}
	return nil
}

// pass goes along history or the current rows once, and takes the versions of the puts in order. It reports false, and has done next to
// nothing, if they are too far apart for that.
func (b *bunch) pass(inHistory bool) (near bool, err error) {
	lower, upper := spaceBounds(spaceCurrent)
	if inHistory {
		lower, upper = spaceBounds(spaceHistory)
	}
	it, err := b.r.NewIter(lower, upper)
	if err != nil {
		return false, fmt.Errorf("read history: %w", err)
	}
	defer it.Close()
	if near = b.near(it, inHistory); near {
		for _, i := range b.order {
			if err := b.take(it, inHistory, i); err != nil {
				return false, err
			}
		}
	}
	if err := it.Error(); err != nil {
		return false, fmt.Errorf("read history: %w", err)
	}
	return near, nil
}

// near reports whether the first few puts in order lie close together.
func (b *bunch) near(it store.Iter, inHistory bool) bool {
	b.rowKey(inHistory, b.order[nearTried])
	end := bytes.Clone(b.key)
	b.rowKey(inHistory, b.order[0])
	ok := it.SeekGE(b.key)
	for n := 0; ok && bytes.Compare(it.Key(), end) < 0; n++ {
		if n == nearTried*nearRows {
			return false
		}
		ok = it.Next()
	}
	return true
}

// take finds what the put made that is event i.
func (b *bunch) take(it store.Iter, inHistory bool, i int) error {
	kv := &b.evs[i].KV
	b.rowKey(inHistory, i)
	if !it.SeekGE(b.key) || !bytes.Equal(it.Key(), b.key) {
		return nil // pass asks the iterator for errors
	}
	row, err := it.Value()
	if err != nil {
		return fmt.Errorf("read history: %w", err)
	}
	mt, value, ok, err := b.decode(inHistory, row, kv.ModRevision, b.subs[i])
	if err == nil && ok {
		*kv = mt.keyValue(kv.Key, b.mem.copy(value))
	}
	return err
}

// rowKey makes the store's key of event i.
func (b *bunch) rowKey(inHistory bool, i int) {
	kv := &b.evs[i].KV
	b.locate(inHistory, kv.Key, kv.ModRevision, b.subs[i])
}
