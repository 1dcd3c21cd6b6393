package machine

import (
	"fmt"

	"github.com/holdfastdb/holdfast/core/store"
	"github.com/holdfastdb/holdfast/internal/bloom"
)

// gidFilter recognizes most unused gids, so that a Begin reads nothing. With a million transactions kept, the search for an absent gid took
// the store 130 µs. Most of that was reading the filters of its tables again. Forgotten gids stay in it. So when it has filled up, a second
// filter is built from the store, piece by piece with the entries, and replaces it. A start builds the first filter in the same way. While
// there are more transactions than it is for, it says nothing and every Begin reads.
//
// It only saves reads: members may differ in what theirs holds and still decide the same. Apply goroutine only.
type gidFilter struct {
	most  int // bytes of each of the two
	now   bloom.Filter
	whole bool // now holds every gid there is

	next   bloom.Filter
	cursor []byte // the row where the walk that makes next goes on; nil: it is not being made
}

// gidWalk is how many rows one entry adds to the next filter.
const gidWalk = 256

// reset begins anew, in a store with so many transactions.
func (f *gidFilter) reset(most int, live int64) {
	*f = gidFilter{most: most / 2, now: bloom.New(most / 2), whole: live == 0}
	if !f.whole {
		f.begin()
	}
}

// begin begins to make the next filter.
func (f *gidFilter) begin() { f.next, f.cursor = bloom.New(f.most), []byte{letter, spaceGid} }

// absent reports whether certainly no transaction has the gid.
func (f *gidFilter) absent(gid string) bool { return f.whole && !bloom.Holds(&f.now, gid) }

// add notes that a transaction has the gid from now on.
func (f *gidFilter) add(gid string) {
	if f.whole && !bloom.Add(&f.now, gid) {
		f.now, f.whole = bloom.Filter{}, false
	}
	if f.cursor != nil && !bloom.Add(&f.next, gid) {
		f.next, f.cursor = bloom.Filter{}, nil
	}
}

// walk begins to make the next filter when it is time, and goes on making it. A gid added since the walk began was added when it was
// written, and a removed one need not be in it. So the walk may read the store at any time.
func (f *gidFilter) walk(st store.Reader, live int64) error {
	if f.cursor == nil {
		room := bloom.Capacity(f.most)
		if f.whole && f.now.Len() < room/4*3 || live > int64(room)/8*5 {
			return nil
		}
		f.begin()
		return nil // this entry's gids are neither in the store yet nor were they added
	}
	it, err := st.NewIter(f.cursor, []byte{letter, spaceGid + 1})
	if err != nil {
		return fmt.Errorf("walk gids: %w", err)
	}
	defer it.Close()
	n := 0
	for ok := it.First(); ok; ok = it.Next() {
		if n++; n > gidWalk {
			f.cursor = append(f.cursor[:0], it.Key()...)
			return nil
		}
		if !bloom.Add(&f.next, it.Key()[2:]) {
			f.next, f.cursor = bloom.Filter{}, nil
			return nil
		}
	}
	if err := it.Error(); err != nil {
		return fmt.Errorf("walk gids: %w", err)
	}
	f.now, f.whole = f.next, true
	f.next, f.cursor = bloom.Filter{}, nil
	return nil
}
