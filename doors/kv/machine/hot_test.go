package machine

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/holdfastdb/holdfast/core/machine/machinetest"
	"github.com/holdfastdb/holdfast/core/store"
	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
)

// counted is a store that counts lookups and calls after, unless it is nil, when one has found its row.
type counted struct {
	*machinetest.Watched
	gets  atomic.Int64
	after func()
}

func (c *counted) Get(dst, key []byte) ([]byte, bool, error) {
	c.gets.Add(1)
	row, ok, err := c.Watched.Get(dst, key)
	if after := c.after; after != nil {
		c.after = nil
		after()
	}
	return row, ok, err
}

func openCounted(t *testing.T) (*rig, *counted) {
	st := &counted{Watched: &machinetest.Watched{Mem: store.NewMem()}}
	return openRig(t, st, Options{}), st
}

// read returns the value of key, and how often the store was asked for it.
func read(t *testing.T, r *rig, st *counted, key string) (value string, gets int64) {
	t.Helper()
	before := st.gets.Load()
	res, _, err := r.m.Range(&kvpart.Range{Key: []byte(key)}, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, kv := range res.KVs {
		value = string(kv.Value)
	}
	return value, st.gets.Load() - before
}

// TestHotKeysAreReadOnce: from its third read on a key comes from memory, as its last change left it.
func TestHotKeysAreReadOnce(t *testing.T) {
	r, st := openCounted(t)
	asked := func(want string, gets ...int64) {
		t.Helper()
		for i, n := range gets {
			if v, n1 := read(t, r, st, "k"); v != want || n1 != n {
				t.Fatalf("read %d: %q after %d lookups, want %q after %d", i+1, v, n1, want, n)
			}
		}
	}
	r.must(putPart("k", "1"))
	asked("1", 1, 1, 0, 0)
	place := func(key string) *hotPlace {
		_, l := r.m.hot.Load().look([]byte(key))
		return l.place
	}
	other := "other"
	for place(other) == place("k") {
		other += "s"
	}
	r.must(putPart(other, "x")) // of another place
	asked("1", 0)
	r.must(putPart("k", "2"))
	asked("2", 1, 0)
	r.apply(putPart("k", "3"), putPart("k", "4"))
	asked("4", 1, 0)
	r.must(&kvpart.Part{Delete: &kvpart.DeleteRange{Key: []byte("a"), End: []byte("z")}})
	asked("", 1, 1)
	r.must(putPart("k", "5"))
	asked("5", 1, 0)

	// A value that only history has.
	long := strings.Repeat("long", 2500)
	r.must(putPart("k", long))
	asked(long, 1, 0, 0)
	r.must(putPart("k", long+"er"))
	asked(long+"er", 1, 0, 0)

	// A snapshot that is installed replaces the store.
	st.Mem = store.NewMem()
	r.m.gate.Close()
	if err := r.m.Load(st, r.m.gate); err != nil {
		t.Fatal(err)
	}
	r.m.gate.Open()
	asked("", 1)
}

// TestKeysReadOnceAreNotKept: reads that go over many keys displace nothing, nor does one that would take an eighth of the memory.
func TestKeysReadOnceAreNotKept(t *testing.T) {
	r, st := openCounted(t)
	for i := range 100 {
		r.must(putPart(fmt.Sprint(i), "v"))
	}
	for i := range 100 {
		read(t, r, st, fmt.Sprint(i))
	}
	hot := r.m.hot.Load()
	for i := range hot.places {
		if p := hot.find(uint64(i)); p != nil && p.row.Load() != nil {
			t.Fatalf("%q was read once and is kept", p.row.Load().key)
		}
	}
	r.must(putPart("long", string(make([]byte, hot.largest()))))
	for range 3 {
		if _, gets := read(t, r, st, "long"); gets != 1 {
			t.Fatalf("a row of over %d bytes is kept", hot.largest())
		}
	}
}

// TestAChangeWhileARowIsReadIsSeen: what a reader found is not kept if the key has changed since it asked.
func TestAChangeWhileARowIsReadIsSeen(t *testing.T) {
	r, st := openCounted(t)
	r.must(putPart("k", "old"))
	read(t, r, st, "k") // the next one would be kept
	st.after = func() { r.must(putPart("k", "new")) }
	if v, _ := read(t, r, st, "k"); v != "old" {
		t.Fatalf("the store had %q", v)
	}
	for range 3 {
		if v, _ := read(t, r, st, "k"); v != "new" {
			t.Fatalf("a later read has %q", v)
		}
	}
}

// TestARowKeptBeforeTheStoreHasTheChange: a reader that came in before the gate was closed may look the key up until the batch is visible.
// Its kept row must not outlive that.
func TestARowKeptBeforeTheStoreHasTheChange(t *testing.T) {
	r, st := openCounted(t)
	r.must(putPart("k", "old"))
	row, ok, err := st.Get(nil, appendCurrentKey(nil, []byte("k")))
	if err != nil || !ok {
		t.Fatal("the row is missing:", err)
	}
	mt, value, _, err := decodeCurrentRow(row)
	if err != nil {
		t.Fatal(err)
	}
	st.During = func() {
		for range 2 {
			_, look := r.m.hot.Load().look([]byte("k"))
			look.keep([]byte("k"), &mt, value)
		}
		if hot, _ := r.m.hot.Load().look([]byte("k")); hot == nil {
			t.Fatal("it is not kept: the test shows nothing")
		}
	}
	r.must(putPart("k", "new"))
	if v, _ := read(t, r, st, "k"); v != "new" {
		t.Fatalf("after the change a read has %q", v)
	}
}

// TestARowFromAfterTheAnswersRevision: a reader may meet a row that another one has kept since it asked for the revision.
func TestARowFromAfterTheAnswersRevision(t *testing.T) {
	r, st := openCounted(t)
	r.must(putPart("k", "now"))
	rev, _ := r.m.Revision()
	for range 2 {
		_, look := r.m.hot.Load().look([]byte("k"))
		look.keep([]byte("k"), &meta{create: rev, mod: rev + 1, version: 2}, []byte("later"))
	}
	if v, _ := read(t, r, st, "k"); v != "now" {
		t.Fatalf("at revision %d: %q", rev, v)
	}
}

// TestHotReadsBesideWrites: two keys share the only place. Each read has the value its revision says.
func TestHotReadsBesideWrites(t *testing.T) {
	opt := Options{HotBytes: hotPlaceEvery}
	r := newRig(t, opt)
	if n := r.m.hot.Load().places; n != 1 {
		t.Fatalf("%d places", n)
	}
	first := int64(0) // revision of the first put
	var done atomic.Bool
	var readers sync.WaitGroup
	keys := []string{"a", "b"}
	r.must(putPart("a", "0"))
	first, _ = r.m.Revision()
	r.must(putPart("b", "1"))
	var kept atomic.Int64
	for n := range 4 {
		readers.Go(func() {
			for i := n; !done.Load(); i++ {
				place := i / 8 % 2 // eight reads of one key, then of the other
				res, rev, err := r.m.Range(&kvpart.Range{Key: []byte(keys[place])}, 0)
				if err != nil || len(res.KVs) != 1 {
					t.Errorf("%v %v", res, err)
					return
				}
				newest := rev - first
				if newest%2 != int64(place) {
					newest--
				}
				if want := fmt.Sprint(newest); string(res.KVs[0].Value) != want {
					t.Errorf("at revision %d key %s is %s, want %s", rev, keys[place], res.KVs[0].Value, want)
					return
				}
				if r.m.hot.Load().place(0).row.Load() != nil {
					kept.Add(1)
				}
			}
		})
	}
	for i := 2; i < 6000 && !t.Failed(); i++ {
		r.must(putPart(keys[i%2], fmt.Sprint(i)))
	}
	done.Store(true)
	readers.Wait()
	if kept.Load() == 0 {
		t.Error("nothing was kept: the test shows nothing")
	}
}

// heldBytes is what rows have, counted.
func (h *hotRows) heldBytes() (sum int64) {
	for i := range h.places {
		if p := h.find(uint64(i)); p != nil && p.row.Load() != nil {
			sum += p.row.Load().bytes()
		}
	}
	return sum
}

// TestHotRowsHaveABound: rows of all sizes take no more than they may, and one that is asked for all the time stays while others go.
func TestHotRowsHaveABound(t *testing.T) {
	h := newHotRows(256 << 10)
	if size := int64(h.places*hotPlaceSize) + h.most.Load(); size > 256<<10 {
		t.Fatalf("places and rows may have %d bytes", size)
	}
	ask := func(key string, n int) bool {
		row, look := h.look([]byte(key))
		if row == nil {
			look.keep([]byte(key), &meta{mod: 1}, make([]byte, n))
		}
		return row != nil
	}
	random := rand.New(rand.NewPCG(1, 2))
	_, hot := h.look([]byte("hot"))
	missed, went := 0, 0
	for i := range 20_000 {
		if !ask("hot", 20_000) {
			missed++
		}
		key := fmt.Sprint("key", i)
		if _, l := h.look([]byte(key)); l.place == hot.place {
			continue
		}
		before := h.held.Load()
		for range 2 {
			ask(key, random.IntN(h.largest()))
		}
		if h.held.Load() < before {
			went++
		}
		if held := h.held.Load(); held > h.most.Load() || held != h.heldBytes() {
			t.Fatalf("rows take %d bytes and count as %d, bound %d", h.heldBytes(), held, h.most.Load())
		}
		if i%100 == 0 {
			h.forget([]byte(key)) // one that is not valid any more goes as well
		}
	}
	if missed != 2 || went < 1000 {
		t.Errorf("the row that is asked for all the time was missed %d times; %d times rows went", missed, went)
	}
}

// TestLargeHotReadsBesideWrites: many large values share little memory, so that rows come and go all the time. A value is whole, the one
// that its revision says, and stays unchanged while an answer shows it, also if its row changes.
func TestLargeHotReadsBesideWrites(t *testing.T) {
	const keys, size = 24, 3000
	r := newRig(t, Options{HotBytes: 32 << 10})
	key := func(i int) string { return fmt.Sprintf("key%02d", i) }
	value := func(rev int64) string { return strings.Repeat(fmt.Sprintf("%010d", rev), size/10) }
	next := func() int64 { rev, _ := r.m.Revision(); return rev + 1 }
	for i := range keys {
		r.must(putPart(key(i), value(next())))
	}
	var done atomic.Bool
	var readers sync.WaitGroup
	var kept atomic.Int64
	for n := range 4 {
		readers.Go(func() {
			random := rand.New(rand.NewPCG(uint64(n), 0))
			var shown [8][]byte
			var of [8]int64
			for i := 0; !done.Load(); i++ {
				k := key(random.IntN(keys))
				for range 3 {
					res, _, err := r.m.Range(&kvpart.Range{Key: []byte(k)}, 0)
					if err != nil || len(res.KVs) != 1 {
						t.Errorf("%v %v", res, err)
						return
					}
					kv := &res.KVs[0]
					if string(kv.Value) != value(kv.ModRevision) {
						t.Errorf("%s at %d is %.40q", k, kv.ModRevision, kv.Value)
						return
					}
					shown[i%8], of[i%8] = kv.Value, kv.ModRevision
				}
				if old := (i + 1) % 8; shown[old] != nil && !bytes.Equal(shown[old], []byte(value(of[old]))) {
					t.Errorf("what was read at %d is %.40q now", of[old], shown[old])
					return
				}
				if row, _ := r.m.hot.Load().look([]byte(k)); row != nil {
					kept.Add(1)
				}
			}
		})
	}
	for i := 0; i < 4000 && !t.Failed(); i++ {
		r.must(putPart(key(i%keys), value(next())))
	}
	done.Store(true)
	readers.Wait()
	h := r.m.hot.Load()
	if held := h.held.Load(); held > h.most.Load() || held != h.heldBytes() {
		t.Errorf("rows take %d bytes and count as %d, bound %d", h.heldBytes(), held, h.most.Load())
	}
	if kept.Load() == 0 {
		t.Error("nothing was kept: the test shows nothing")
	}
}

// TestPlacesAreMadeForReaders: puts make none, and a reader's row from before there was a place does not count after a put.
func TestPlacesAreMadeForReaders(t *testing.T) {
	r, st := openCounted(t)
	r.must(putPart("k", "old"))
	h := r.m.hot.Load()
	for i := range h.pieces {
		if h.pieces[i].Load() != nil {
			t.Fatal("a put has made places")
		}
	}
	for range 2 { // both look while the store has the old row, the second one keeps it, and the change comes with the first one's place
		st.after = func() { r.must(putPart("k", "new")) }
		read(t, r, st, "k")
	}
	for range 3 {
		if v, _ := read(t, r, st, "k"); v != "new" {
			t.Fatalf("after the change a read has %q", v)
		}
	}
}
