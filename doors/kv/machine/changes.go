package machine

import (
	"fmt"
	"slices"
	"strings"

	"github.com/holdfastdb/holdfast/core/store"
)

// changes are the keys of [key, end) that changed after one revision and not after another. A read in the past lays them over the current
// rows. They are gathered from the rows by revision. Of those, nothing above a readable revision is ever dropped, nor the versions they
// name. Immutable once made, so that reads share one.
type changes struct {
	key, end    []byte
	after, upTo int64
	keys        []changedKey // in order; none if full
	sums        []int32      // sums[i] is how many keys more there were in keys[:i] than there are
	delta       int64        // the same in all of the interval
	full        bool         // the keys would take more memory than they may: only delta is known
	bytes       int
	rows        int  // that were walked to know it
	few         bool // so few that pastLists keeps them only while there is room; set before they are shared
}

// changedKey is one key with the version that it had.
type changedKey struct {
	key string
	mod int64 // 0: the key did not exist
	sub uint32
	now bool // it exists at upTo
}

const changedKeySize = 40 + 4 // with its place in sums

// readChanges gathers the changes of [key, end) in the revisions (after, upTo] of r, which is at upTo. It gives up, without an error,
// after mostRows rows, and goes on without keys once they would take more than mostBytes.
func readChanges(r store.Reader, key, end []byte, after, upTo, mostRows int64, mostBytes int) (*changes, error) {
	it, err := r.NewIter(appendByRevKey(nil, after+1, 0), appendByRevKey(nil, upTo+1, 0))
	if err != nil {
		return nil, fmt.Errorf("read changes: %w", err)
	}
	defer it.Close()
	c := &changes{key: slices.Clone(key), end: slices.Clone(end), after: after, upTo: upTo}
	at := map[string]int32{}
	for ok := it.First(); ok; ok = it.Next() {
		if c.rows++; int64(c.rows) > mostRows {
			return nil, nil
		}
		row, err := it.Value()
		if err != nil {
			return nil, fmt.Errorf("read changes: %w", err)
		}
		ch, err := decodeChange(row)
		if err != nil {
			return nil, err
		}
		if !within(ch.key, key, end) {
			continue
		}
		existed := ch.prev.mod != 0
		switch {
		case existed && ch.deleted:
			c.delta++
		case !existed && !ch.deleted:
			c.delta--
		}
		if c.full {
			continue
		}
		if i, again := at[string(ch.key)]; again {
			c.keys[i].now = !ch.deleted
			continue
		}
		// The map takes about as much again while it is there.
		if c.bytes += 2*changedKeySize + len(ch.key); c.bytes > mostBytes {
			c.full, c.keys, at = true, nil, nil
			continue
		}
		k := string(ch.key)
		at[k] = int32(len(c.keys))
		c.keys = append(c.keys, changedKey{key: k, mod: ch.prev.mod, sub: ch.prev.sub, now: !ch.deleted})
	}
	if err := it.Error(); err != nil {
		return nil, fmt.Errorf("read changes: %w", err)
	}
	slices.SortFunc(c.keys, func(a, b changedKey) int { return strings.Compare(a.key, b.key) })
	c.sum()
	return c, nil
}

// sum fills in what follows from the keys.
func (c *changes) sum() {
	c.sums = make([]int32, len(c.keys)+1)
	c.bytes = 256
	for i := range c.keys {
		k := &c.keys[i]
		c.bytes += changedKeySize + len(k.key)
		c.sums[i+1] = c.sums[i]
		if existed := k.mod != 0; existed && !k.now {
			c.sums[i+1]++
		} else if !existed && k.now {
			c.sums[i+1]--
		}
	}
	if !c.full {
		c.delta = int64(c.sums[len(c.keys)])
	}
}

// then returns c with what more, of the same interval and the revisions behind, has in addition. Neither is full.
func (c *changes) then(more *changes) *changes {
	all := &changes{key: c.key, end: c.end, after: c.after, upTo: more.upTo, rows: more.rows}
	all.keys = make([]changedKey, 0, len(c.keys)+len(more.keys))
	a, b := c.keys, more.keys
	for len(a) > 0 && len(b) > 0 {
		switch order := strings.Compare(a[0].key, b[0].key); {
		case order < 0:
			all.keys, a = append(all.keys, a[0]), a[1:]
		case order > 0:
			all.keys, b = append(all.keys, b[0]), b[1:]
		default: // the version in front of the first change, and the one that the last change left
			k := a[0]
			k.now = b[0].now
			all.keys, a, b = append(all.keys, k), a[1:], b[1:]
		}
	}
	all.keys = append(append(all.keys, a...), b...)
	all.sum()
	return all
}

// covers reports whether [key, end) is a part of the interval.
func (c *changes) covers(key, end []byte) bool {
	if string(key) < string(c.key) {
		return false
	}
	return unbounded(c.end) || !unbounded(end) && string(end) <= string(c.end)
}

// part returns the changed keys of [key, end), which c covers and is not full, and how many keys more it had.
func (c *changes) part(key, end []byte) ([]changedKey, int64) {
	from := c.search(key)
	to := len(c.keys)
	if !unbounded(end) {
		to = max(from, c.search(end))
	}
	return c.keys[from:to], int64(c.sums[to] - c.sums[from])
}

func (c *changes) search(key []byte) int {
	at, _ := slices.BinarySearchFunc(c.keys, key, func(k changedKey, key []byte) int {
		if k.key < string(key) {
			return -1
		}
		return 1
	})
	return at
}
