package machine

import (
	"fmt"

	"github.com/holdfastdb/holdfast/core/store"
	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
)

// Version is one version of a key, or its deletion, at the place where it was made: an element of history. Of a deletion KV has Key and
// ModRevision only.
type Version struct {
	KV      kvpart.KeyValue
	Sub     uint32 // its place within its revision, from 0
	Deleted bool
}

// Contents is the machine's whole data in one View. It serves writers of another format, and readers of several machines at one applied
// index. It belongs to one goroutine.
type Contents struct {
	r store.Reader
	s sums
}

// ReadContents reads what a View holds.
func ReadContents(r store.Reader) (*Contents, error) {
	c := &Contents{r: r, s: freshSums}
	row, ok, err := r.Get(nil, sumsKey)
	if err != nil {
		return nil, fmt.Errorf("read counters: %w", err)
	}
	if ok {
		if c.s, err = decodeSums(row); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// Revision is the current revision, and the one below which history was compacted, 0 if it is whole.
func (c *Contents) Revision() (current, compacted int64) { return c.s.rev, max(c.s.compacted, 0) }

// Range answers a range from the View, as Machine.Range does from the published state. Errors are the same.
func (c *Contents) Range(r *kvpart.Range, maxBytes int64) (*kvpart.RangeResult, error) {
	p := pinned{view: unowned{c.r}, sums: c.s}
	return p.answer(r, &answerBudget{max: maxBytes})
}

// unowned is a View that its owner closes.
type unowned struct{ store.Reader }

func (unowned) Close() error { return nil }

// Kept hands over what compaction left of the revisions below the compacted one: of each key that existed there the version it
// had. They come by key. The slices are valid during the call.
func (c *Contents) Kept(fn func(*Version) error) error {
	if c.s.compacted <= 0 {
		return nil
	}
	sc, err := newPastScan(c.r, []byte{}, []byte{0}, c.s.compacted)
	if err != nil {
		return err
	}
	defer sc.close()
	for {
		ok, err := sc.next()
		if err != nil || !ok {
			return err
		}
		v, err := sc.version()
		if err != nil {
			return err
		}
		if v.mod == c.s.compacted { // Changes has it
			continue
		}
		value, err := sc.value()
		if err != nil {
			return err
		}
		if err := fn(&Version{KV: v.meta.keyValue(v.key, value), Sub: v.sub}); err != nil {
			return err
		}
	}
}

// Changes hands over every change from the compacted revision on, in order. The slices are valid during the call.
func (c *Contents) Changes(fn func(*Version) error) error {
	it, err := c.r.NewIter(appendByRevKey(nil, max(c.s.compacted, 0), 0), appendByRevKey(nil, c.s.rev+1, 0))
	if err != nil {
		return fmt.Errorf("read history: %w", err)
	}
	defer it.Close()
	vals := versions{r: c.r}
	for ok := it.First(); ok; ok = it.Next() {
		rev, sub, err := splitByRevKey(it.Key())
		if err != nil {
			return err
		}
		row, err := it.Value()
		if err != nil {
			return fmt.Errorf("read history: %w", err)
		}
		ch, err := decodeChange(row)
		if err != nil {
			return err
		}
		v := &Version{KV: kvpart.KeyValue{Key: ch.key, ModRevision: rev}, Sub: sub, Deleted: ch.deleted}
		if !ch.deleted {
			vals.mem = arena{} // the last one is not needed any more
			if v.KV, err = vals.put(ch.key, rev, sub); err != nil {
				return err
			}
		}
		if err := fn(v); err != nil {
			return err
		}
	}
	if err := it.Error(); err != nil {
		return fmt.Errorf("read history: %w", err)
	}
	return nil
}

// Leases hands over all leases by id.
func (c *Contents) Leases(fn func(Lease) error) error { return eachLease(c.r, fn) }

// Alarms lists the alarms that are raised.
func (c *Contents) Alarms() ([]kvpart.AlarmState, error) { return loadAlarms(c.r) }

// InView answers a range from a View, for a door that reads keys at one applied index with rows of its own. Errors are those of Range.
func (m *Machine) InView(r store.Reader, req *kvpart.Range, maxBytes int64) (*kvpart.RangeResult, error) {
	c, err := ReadContents(r)
	if err != nil {
		return nil, err
	}
	return c.Range(req, maxBytes)
}
