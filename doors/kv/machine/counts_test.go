package machine

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/holdfastdb/holdfast/core/entry"
	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
)

var countSteps = flag.Int("count-steps", 20_000, "steps of the test of counts; a million were run")

// TestCountsAgainstModel: after any puts, deletes, compactions and counts, within Txns and without, now and at old revisions, the number of
// keys is the naive one. So is each block's after every entry, however blocks are divided and joined meanwhile.
func TestCountsAgainstModel(t *testing.T) {
	const perSeed = 5_000
	for n := 0; n < max(*countSteps/perSeed, 1); n++ {
		s := *seed + uint64(n)
		t.Run(fmt.Sprintf("seed=%d", s), func(t *testing.T) { newCensusTest(t, s).run(min(perSeed, *countSteps)) })
	}
}

// existing is which keys exist, by their place in censusTest.keys.
type existing []bool

// count walks all keys.
func (e existing) count(keys []string, key, end []byte) (n int64) {
	for i, is := range e {
		if is && modelWithin([]byte(keys[i]), key, end) {
			n++
		}
	}
	return n
}

// censusTest is a machine beside a model that knows nothing but which keys existed at which revision.
type censusTest struct {
	*rand.Rand
	t    *testing.T
	r    *rig
	keys []string // in order

	now            existing
	then           map[int64]existing // at every revision that can be read
	rev, compacted int64

	cut     *cut // begun and not ended
	walk    func() error
	unended int // entries since it began
}

func newCensusTest(t *testing.T, seed uint64) *censusTest {
	c := &censusTest{Rand: rand.New(rand.NewPCG(seed, 7)), t: t, rev: 1, compacted: -1, then: map[int64]existing{}}
	for i := range 60 {
		c.keys = append(c.keys, fmt.Sprintf("k%02d", i))
	}
	for i := range 30 {
		c.keys = append(c.keys, "long/"+string(bytes.Repeat([]byte{'x'}, 50+i)))
	}
	c.keys = append(c.keys, "\x00\x00", "\x00\x01", "a\x00", "a\x00\xff", "a\x01", "a", "\xff", "\xff\xff", "k", "k0")
	slices.Sort(c.keys)
	c.now = make(existing, len(c.keys))
	c.then[1] = slices.Clone(c.now)
	c.r = newRig(t, Options{CacheBytes: 1 << 20})
	c.r.m.fewDeletes = 1 + c.IntN(3)
	c.r.m.blocks.bounds.group, c.r.m.blocks.bounds.target = 4+c.IntN(8), int64(1+c.IntN(5))
	return c
}

// edges sets the sizes at which blocks are divided and dropped: small, so that a hundred keys meet all of them.
func (c *censusTest) edges() {
	b := &c.r.m.blocks
	b.target = int64(1 + c.IntN(4))
	b.bounds.bytes = []int{400, 2000, 1 << 20}[c.IntN(3)]
	b.bounds.over, b.bounds.journal = 1+c.IntN(4), 5+c.IntN(10)
	b.over, b.lost = nil, true
	l := &c.r.m.lists
	l.rowsPerKey, l.rowsAlways = 0, int64([]int{0, 5, 100_000}[c.IntN(3)])
	l.keptRows, l.most = c.IntN(8), []int{0, 500, 1 << 20}[c.IntN(3)]
}

func (c *censusTest) run(steps int) {
	for step := range steps {
		if step%500 == 0 {
			if c.cut == nil {
				c.edges()
			}
		}
		switch k := c.IntN(20); {
		case k < 9:
			c.entry()
		case k < 14:
			c.refine()
		case k < 15:
			c.restart()
		default:
			c.read()
		}
		if c.t.Failed() {
			c.t.Fatalf("at step %d", step)
		}
	}
	c.end()
	for c.refineOnce() { // any cut that is left to do comes to an end
	}
}

func (c *censusTest) key() []byte {
	k := []byte(c.keys[c.IntN(len(c.keys))])
	switch c.IntN(8) {
	case 0:
		return append(k, 0)
	case 1:
		return k[:1+c.IntN(len(k))]
	}
	return k
}

func (c *censusTest) interval() (key, end []byte) {
	switch key = c.key(); c.IntN(6) {
	case 0:
		return key, []byte{0}
	case 1:
		return []byte{0}, []byte{0}
	}
	return key, c.key()
}

// counting is a Range that has a count, at a revision up to rev.
func (c *censusTest) counting(rev int64) *kvpart.Range {
	r := &kvpart.Range{KeysOnly: c.IntN(2) == 0}
	r.Key, r.End = c.interval()
	if c.IntN(3) > 0 {
		r.Limit = int64(1 + c.IntN(4))
	} else {
		r.CountOnly = true
	}
	if c.IntN(2) == 0 {
		oldest := max(c.compacted, 1)
		r.Revision = oldest + c.Int64N(rev-oldest+1)
	}
	if c.IntN(4) == 0 {
		r.Order = kvpart.SortDescend
	}
	return r
}

// set makes a key exist or not and reports whether that changed anything in history.
func (c *censusTest) set(i int, is bool) bool {
	was := c.now[i]
	c.now[i] = is
	return is || was
}

// sweep deletes an interval, in the way that very many keys go.
func (c *censusTest) sweep() *kvpart.Part {
	d := &kvpart.DeleteRange{ByRange: true}
	d.Key, d.End = c.interval()
	wrote := false
	for i, k := range c.keys {
		if modelWithin([]byte(k), d.Key, d.End) {
			wrote = c.set(i, false) || wrote
		}
	}
	if wrote {
		c.rev++
		c.then[c.rev] = slices.Clone(c.now)
	}
	return &kvpart.Part{Delete: d}
}

// entry applies one entry of a few commands.
func (c *censusTest) entry() {
	var parts []*kvpart.Part
	var counts [][]int64 // that the Ranges of each command must answer
	for range 1 + c.IntN(3) {
		if c.IntN(8) == 0 {
			parts, counts = append(parts, c.sweep()), append(counts, nil)
			continue
		}
		var ops []kvpart.Op
		var want []int64
		wrote := false
		for range 1 + c.IntN(5) {
			switch k := c.IntN(20); {
			case k < 9:
				i := c.IntN(len(c.keys))
				ops = append(ops, kvpart.Op{Put: &kvpart.Put{Key: []byte(c.keys[i]), Value: []byte("v")}})
				wrote = c.set(i, true) || wrote
			case k < 12:
				d := &kvpart.DeleteRange{Key: []byte(c.keys[c.IntN(len(c.keys))])}
				if c.IntN(3) == 0 {
					d.Key, d.End = c.interval()
				}
				ops = append(ops, kvpart.Op{Delete: d})
				for i, k := range c.keys {
					if modelWithin([]byte(k), d.Key, d.End) {
						wrote = c.set(i, false) || wrote
					}
				}
			default:
				r := c.counting(c.rev)
				ops = append(ops, kvpart.Op{Range: r})
				of := c.now
				if r.Revision != 0 {
					of = c.then[r.Revision]
				}
				want = append(want, of.count(c.keys, r.Key, r.End))
			}
		}
		if wrote {
			c.rev++
			c.then[c.rev] = slices.Clone(c.now)
		}
		parts, counts = append(parts, &kvpart.Part{Txn: &kvpart.Txn{Then: ops}}), append(counts, want)
	}
	if c.IntN(10) == 0 && c.rev > max(c.compacted, 1) {
		at := max(c.compacted, 1) + 1 + c.Int64N(c.rev-max(c.compacted, 1))
		for rev := range c.then { // any order: dropping
			if rev < at {
				delete(c.then, rev)
			}
		}
		c.compacted = at
		parts, counts = append(parts, &kvpart.Part{Compact: &kvpart.Compact{Revision: at}}), append(counts, nil)
	}
	for i, res := range c.r.apply(parts...) {
		if res.Rejection != nil {
			c.t.Fatalf("%s: %v", parts[i], res.Rejection)
		}
		var got []int64
		if txn, ok := res.Of(entry.MachineKV).(*kvpart.TxnResult); ok {
			for j := range txn.Ops {
				if r := txn.Ops[j].Range; r != nil {
					got = append(got, r.Count)
				}
			}
		}
		if !slices.Equal(got, counts[i]) {
			c.t.Fatalf("%s: counts %d, want %d", parts[i], got, counts[i])
		}
	}
	c.r.log = nil
	c.unended++
	c.checkBlocks()
}

// read asks readers, each way there is.
func (c *censusTest) read() {
	r := c.counting(c.rev)
	of := c.now
	if r.Revision > 0 {
		of = c.then[r.Revision]
	}
	want := of.count(c.keys, r.Key, r.End)
	res, _, err := c.r.m.Range(r, 0)
	if err != nil || res.Count != want {
		c.t.Fatalf("%s: %v, %v, want %d", r, res, err, want)
	}
	other := c.counting(c.rev)
	txn, err := c.r.m.Txn(&kvpart.Txn{Then: []kvpart.Op{{Range: other}, {Txn: &kvpart.Txn{Then: []kvpart.Op{{Range: r}}}}}}, 0)
	if err != nil || txn.Ops[1].Txn.Ops[0].Range.Count != want {
		c.t.Fatalf("read txn %s: %s, %v, want %d", r, show(txn), err, want)
	}
	plain := *r
	plain.Order = kvpart.SortNone
	last := int64(-1)
	if err := c.r.m.RangeStream(c.t.Context(), &plain, 10, func(chunk *kvpart.RangeResult, _ int64) error {
		last = chunk.Count
		return nil
	}); err != nil || last != want {
		c.t.Fatalf("stream %s: %d, %v, want %d", r, last, err, want)
	}
}

// refine begins a cut, or ends the one that is under way: entries come between, before its walk and behind it.
func (c *censusTest) refine() {
	switch {
	case c.cut != nil && c.walk != nil && c.IntN(2) == 0:
		c.must(c.walk())
		c.walk = nil
	case c.cut != nil:
		c.end()
	case c.IntN(2) == 0:
		c.refineOnce()
	default:
		cut, it, _, err := c.r.m.beginCut()
		c.must(err)
		if cut != nil {
			n := 1 + c.IntN(6)
			c.cut, c.unended = cut, 0
			c.walk = func() error { return errors.Join(cut.walk(it, n), it.Close()) }
		}
	}
	c.checkBlocks()
}

func (c *censusTest) end() {
	if c.cut == nil {
		return
	}
	if c.walk != nil {
		c.must(c.walk())
	}
	_, err := c.r.m.endCut(c.cut, nil)
	c.must(err)
	c.cut, c.walk = nil, nil
}

func (c *censusTest) refineOnce() bool {
	more, err := c.r.m.Refine(1 + c.IntN(6))
	c.must(err)
	return more
}

func (c *censusTest) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// restart begins anew from the rows, sometimes with a cut that ends in the new machine's time.
func (c *censusTest) restart() {
	if c.IntN(4) > 0 {
		return
	}
	c.r.m.gate.Close()
	c.must(c.r.m.Load(c.r.Store, c.r.m.gate))
	c.r.m.gate.Open()
	c.end()
	c.edges()
	c.checkBlocks()
}

func (c *censusTest) checkBlocks() {
	c.t.Helper()
	checkBlocks(c.t, c.r.m, func(key, end string) int64 {
		if end == "" {
			end = "\x00"
		}
		return c.now.count(c.keys, []byte(key), []byte(end))
	})
}

// checkBlocks compares each block with what count finds from its fence to the next, of which the last is empty.
func checkBlocks(t *testing.T, m *Machine, count func(key, end string) int64) {
	t.Helper()
	m.gate.RLock()
	defer m.gate.RUnlock()
	b := &m.blocks
	bytes := 0
	if len(b.groups) == 0 || b.groups[0].fences[0] != "" {
		t.Fatal("the first block does not begin at the first key")
	}
	for i, g := range b.groups {
		if len(g.fences) == 0 || len(g.fences) != len(g.counts) || len(g.fences) != len(g.dead) || len(g.fences) > b.bounds.group {
			t.Fatalf("group %d has %d fences and %d counts", i, len(g.fences), len(g.counts))
		}
		sum := int64(0)
		for j, n := range g.counts {
			bytes += blockBytes + len(g.fences[j])
			end := ""
			if next := b.after(place{i, j}); !b.behind(next) {
				if end = b.fence(next); end <= g.fences[j] {
					t.Fatalf("fence %q is followed by %q", g.fences[j], end)
				}
			}
			if want := count(g.fences[j], end); n != want {
				t.Fatalf("the block from %q to %q has %d keys, want %d", g.fences[j], end, n, want)
			}
			sum += n
		}
		if g.sum != sum {
			t.Fatalf("group %d has %d keys, its blocks %d", i, g.sum, sum)
		}
	}
	if b.bytes != bytes {
		t.Fatalf("the blocks take %d bytes, counted %d", bytes, b.bytes)
	}
}
