package machine

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/core/machine"
	"github.com/holdfastdb/holdfast/core/store"
	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
)

var (
	operations = flag.Int("ops", 4_000, "commands of the differential test")
	seed       = flag.Uint64("seed", 1, "first seed of the differential test")
)

// TestAgainstModel applies random commands, several to an entry, and compares every answer, and random reads after every entry, with the
// model's. A second member replays the same log with a tiny cache and restarts on the way. Both must end with the same rows and the same
// state hash.
func TestAgainstModel(t *testing.T) {
	const perSeed = 1_000
	for n := 0; n < max(*operations/perSeed, 1); n++ {
		s := *seed + uint64(n)
		t.Run(fmt.Sprintf("seed=%d", s), func(t *testing.T) { againstModel(t, s, min(perSeed, *operations)) })
	}
}

func againstModel(t *testing.T, seed uint64, ops int) {
	c := &chaos{rand.New(rand.NewPCG(seed, 0)), newModel()}
	r := newRig(t, Options{RecentBytes: 4096})
	pastEdges(c, r.m)
	r.m.fewDeletes = c.IntN(3) // most deletes of ranges are of more
	twin := newRig(t, Options{CacheBytes: 4 * slotBytes})
	twin.m.fewDeletes = r.m.fewDeletes
	feedAt := int64(1)
	for done := 0; done < ops; {
		var parts []*kvpart.Part
		var want []any
		var codes []int
		for range 1 + c.IntN(6) {
			p := c.part()
			res, code := c.m.apply(p)
			parts, want, codes = append(parts, p), append(want, res), append(codes, int(code))
		}
		done += len(parts)
		got := r.apply(parts...)
		twin.ApplyData(r.log[len(r.log)-1], false)
		if c.IntN(50) == 0 {
			twin.reopen(Options{CacheBytes: 4 * slotBytes})
		}
		if c.IntN(10) == 0 {
			r.Applier.Rest()
		}
		for i, p := range parts {
			code := 0
			if got[i].Rejection != nil {
				code = int(got[i].Rejection.Code)
			}
			if code != codes[i] {
				t.Fatalf("%s: code %d, want %d", p, code, codes[i])
			}
			if code == 0 && !same(got[i].Of(entry.MachineKV), want[i]) {
				t.Fatalf("%s:\n got %s\nwant %s", p, show(got[i].Of(entry.MachineKV)), show(want[i]))
			}
		}
		if c.IntN(20) == 0 {
			pastEdges(c, r.m)
		}
		for range 3 {
			compareRead(t, r.m, c.m, c.rangeOp())
		}
		compareRest(t, r.m, c)
		feedAt = compareFeed(t, r.m, c.m, feedAt)
	}
	// Entries without commands let the scrub behind compaction come to its end.
	for range 3 {
		r.ApplyData(nil, false)
		twin.ApplyData(nil, false)
	}
	history, inUse := r.m.Size()
	if h, u := c.m.sizes(); h != history || u != inUse {
		t.Fatalf("sizes %d, %d, want %d, %d", history, inUse, h, u)
	}
	if a, b := r.Dump(), twin.Dump(); a != b {
		t.Fatalf("the replayed store differs:\n%s\n\n%s", a, b)
	}
	i1, h1 := r.Applier.Hash()
	i2, h2 := twin.Applier.Hash()
	if i1 != i2 || h1 != h2 {
		t.Fatalf("state hash %x at %d, replayed %x at %d", h1, i1, h2, i2)
	}
	replayAtOnce(t, r)
}

// pastEdges lets reads in the past meet the ends of what they may walk and keep.
func pastEdges(c *chaos, m *Machine) {
	l := &m.lists
	l.rowsPerKey, l.rowsAlways = 0, int64([]int{0, 3, 10, 1000}[c.IntN(4)])
	l.keptRows, l.most = c.IntN(4), []int{0, 300, 1000, 1 << 20}[c.IntN(4)]
}

// replayAtOnce applies the whole log to an empty store again.
func replayAtOnce(t *testing.T, r *rig) {
	st := store.NewMem()
	m := New(Options{})
	m.fewDeletes = r.m.fewDeletes
	a := machine.NewApplier(st, m)
	if err := a.Load(); err != nil {
		t.Fatal(err)
	}
	for i := uint64(1); i <= r.Index; i++ {
		var data []byte
		if int(i) <= len(r.log) {
			data = r.log[i-1]
		}
		if err := a.Apply(i, 1, data, nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	_, want := r.Applier.Hash()
	if _, got := a.Hash(); got != want {
		t.Fatalf("replay ends with state hash %x, want %x", got, want)
	}
}

func compareRead(t *testing.T, m *Machine, mod *model, q *kvpart.Range) {
	t.Helper()
	want, wantErr := mod.read(q)
	got, rev, err := m.Range(q, 0)
	if !errors.Is(err, wantErr) || wantErr == nil && err != nil || rev != mod.rev {
		t.Fatalf("%s at %d: %v at %d, want %v", q, mod.rev, err, rev, wantErr)
	}
	if err == nil && !same(got, want) {
		t.Fatalf("%s:\n got %s\nwant %s", q, show(got), show(want))
	}
	if err != nil {
		return
	}
	// The same by a Txn that only reads, and as a stream.
	if q.Revision >= 0 {
		res, err := m.Txn(&kvpart.Txn{Then: []kvpart.Op{{Range: q}}}, 0)
		if err != nil || !same(res.Ops[0].Range, want) {
			t.Fatalf("read txn %s:\n got %s, %v\nwant %s", q, show(res), err, show(want))
		}
	}
	if q.Order == 0 && q.Target == 0 {
		sum := &kvpart.RangeResult{}
		err := m.RangeStream(t.Context(), q, 3, func(c *kvpart.RangeResult, rev int64) error {
			sum.KVs = append(sum.KVs, c.KVs...)
			sum.Revision, sum.Count, sum.More = rev, sum.Count+c.Count, sum.More || c.More
			return nil
		})
		if err != nil || !same(sum, want) {
			t.Fatalf("stream %s:\n got %s, %v\nwant %s", q, show(sum), err, show(want))
		}
	}
}

// compareRest compares history, previous versions and leases.
func compareRest(t *testing.T, m *Machine, c *chaos) {
	t.Helper()
	mod := c.m
	key, end := c.key(), c.end()
	from, to := max(c.rev(), 1), mod.rev
	if c.IntN(3) == 0 && from < to {
		to -= c.Int64N(to - from)
	}
	evs, next, err := m.History(key, end, from, to, 1<<20)
	if from < mod.compacted {
		if !errors.Is(err, ErrCompacted) {
			t.Fatalf("history from %d: %v", from, err)
		}
	} else {
		var want []Event
		for _, e := range mod.log {
			if e.kv.ModRevision >= from && e.kv.ModRevision <= to && modelWithin(e.kv.Key, key, end) {
				want = append(want, event(e))
			}
		}
		if err != nil || next != max(from, to+1) || !same(evs, want) {
			t.Fatalf("history of [%q, %q) in [%d, %d]:\n got %s to %d, %v\nwant %s", key, end, from, to, show(evs), next, err, show(want))
		}
		compareInPieces(t, key, end, want, from, func(at int64) ([]Event, int64, error) { return m.History(key, end, at, to, 1+c.IntN(20)) })
		compareInPieces(t, key, end, want, from, func(at int64) ([]Event, int64, error) {
			return m.HistoryOf(at, to, 1+c.IntN(20), 1+c.IntN(40), func(k []byte) bool { return modelWithin(k, key, end) })
		})
	}
	rev := c.rev()
	prev, err := m.Previous(key, rev)
	if rev-1 < mod.compacted {
		if !errors.Is(err, ErrCompacted) {
			t.Fatalf("previous of %q before %d: %v", key, rev, err)
		}
	} else if want := mod.find(key, rev-1); err != nil || !same(prev, want) {
		t.Fatalf("previous of %q before %d: %s, %v, want %s", key, rev, show(prev), err, show(want))
	}
	if got := m.Leases(); len(got) != len(mod.leases) {
		t.Fatalf("leases %v, want %v", got, mod.leases)
	}
	id := c.lease()
	var keys [][]byte
	for _, kv := range mod.state(mod.rev) {
		if kv.Lease == id && id != 0 {
			keys = append(keys, kv.Key)
		}
	}
	if got := m.LeaseKeys(id); !same(got, keys) {
		t.Fatalf("keys of lease %d: %q, want %q", id, got, keys)
	}
}

// compareInPieces reads history piece by piece: each has whole revisions and begins where its predecessor ended, and none is without end.
func compareInPieces(t *testing.T, key, end []byte, want []Event, from int64, read func(from int64) ([]Event, int64, error)) {
	t.Helper()
	var all []Event
	for last := int64(0); len(all) < len(want) || last == 0; {
		evs, next, err := read(from)
		if err != nil || next <= from && len(want) > 0 {
			t.Fatalf("history of [%q, %q) from %d: to %d, %v", key, end, from, next, err)
		}
		for _, e := range evs {
			if e.KV.ModRevision < from || e.KV.ModRevision >= next {
				t.Fatalf("history of [%q, %q) from %d to %d has revision %d", key, end, from, next, e.KV.ModRevision)
			}
		}
		all, from, last = append(all, evs...), next, next
	}
	if !same(all, want) {
		t.Fatalf("history of [%q, %q) in pieces:\n got %s\nwant %s", key, end, show(all), show(want))
	}
}

func compareFeed(t *testing.T, m *Machine, mod *model, after int64) int64 {
	t.Helper()
	for {
		evs, upTo, ok, changed := m.Recent(after)
		if !ok {
			return mod.rev
		}
		var want []Event
		for _, e := range mod.log {
			if e.kv.ModRevision > after && e.kv.ModRevision <= upTo {
				want = append(want, event(e))
			}
		}
		if !same(evs, want) {
			t.Fatalf("recent after %d:\n got %s\nwant %s", after, show(evs), show(want))
		}
		after = upTo
		select {
		case <-changed:
		default:
			if upTo != mod.rev {
				t.Fatalf("the feed ends at %d of %d", upTo, mod.rev)
			}
			return upTo
		}
	}
}

func event(e modelEvent) Event {
	if e.del {
		return Event{Type: EventDelete, KV: e.kv}
	}
	return Event{Type: EventPut, KV: e.kv}
}

// same compares answers; nil and empty are the same, as on the wire.
func same(a, b any) bool { return reflect.DeepEqual(a, b) || show(a) == show(b) }

// show prints an answer with everything that pointers lead to.
func show(v any) string {
	var b bytes.Buffer
	var walk func(v reflect.Value)
	walk = func(v reflect.Value) {
		switch v.Kind() {
		case reflect.Pointer:
			if v.IsNil() {
				b.WriteString("nil")
				return
			}
			walk(v.Elem())
		case reflect.Struct:
			b.WriteByte('{')
			for i := range v.NumField() {
				fmt.Fprintf(&b, "%s:", v.Type().Field(i).Name)
				walk(v.Field(i))
				b.WriteByte(' ')
			}
			b.WriteByte('}')
		case reflect.Slice:
			if v.Type().Elem().Kind() == reflect.Uint8 {
				if n := v.Len(); n > 100 {
					fmt.Fprintf(&b, "(%q %d %x)", v.Bytes()[0], n, crc32.ChecksumIEEE(v.Bytes()))
				} else {
					fmt.Fprintf(&b, "%q", v.Bytes())
				}
				return
			}
			b.WriteByte('[')
			for i := range v.Len() {
				walk(v.Index(i))
				b.WriteByte(' ')
			}
			b.WriteByte(']')
		case reflect.Invalid:
			b.WriteString("nil")
		default:
			fmt.Fprint(&b, v.Interface())
		}
	}
	walk(reflect.ValueOf(v))
	return b.String()
}
