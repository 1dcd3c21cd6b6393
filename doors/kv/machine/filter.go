package machine

import (
	"fmt"

	"github.com/holdfastdb/holdfast/core/store"
	"github.com/holdfastdb/holdfast/internal/bloom"
)

// keyFilter recognizes most keys that do not exist, so that the first put of a key reads nothing. Looking for it in the store's memtables
// and tables was a sixth of the cost of a put on three members. Deleted keys stay in it, which costs a needless read at worst. Apply
// goroutine only.
type keyFilter struct {
	keys bloom.Filter
	// The keys in the store at Load are added piece by piece with the entries. So a start does not take longer the more keys there are.
	// Until that walk is over, a key that is not in the filter may exist.
	whole  bool
	cursor []byte // store key where the walk goes on
}

// filterWalk is how many stored keys one entry adds.
const filterWalk = 256

// reset begins anew; keys is how many exist in the store.
func (f *keyFilter) reset(most int, keys int64) {
	*f = keyFilter{keys: bloom.New(most), whole: keys == 0, cursor: []byte{letter, spaceCurrent}}
}

// absent reports whether key certainly does not exist.
func (f *keyFilter) absent(key []byte) bool {
	return f.whole && !bloom.Holds(&f.keys, key)
}

// add notes that key exists from now on.
func (f *keyFilter) add(key []byte) {
	if f.cursor == nil && !f.whole { // given up
		return
	}
	if !bloom.Add(&f.keys, key) {
		*f = keyFilter{} // more keys than the budget is for: every first put reads the store again
	}
}

// walk adds some of the keys that were in the store at Load. A later key was added when it was written, and a deleted key need not be in
// it. So the walk may read the store at any time.
func (f *keyFilter) walk(st store.Store) error {
	if f.whole || f.cursor == nil {
		return nil
	}
	it, err := st.NewIter(f.cursor, []byte{letter, spaceCurrent + 1})
	if err != nil {
		return fmt.Errorf("walk keys: %w", err)
	}
	defer it.Close()
	n := 0
	for ok := it.First(); ok; ok = it.Next() {
		if n++; n > filterWalk {
			f.cursor = append(f.cursor[:0], it.Key()...)
			return nil
		}
		if f.add(it.Key()[2:]); f.cursor == nil {
			return nil
		}
	}
	if err := it.Error(); err != nil {
		return fmt.Errorf("walk keys: %w", err)
	}
	f.whole, f.cursor = true, nil
	return nil
}
