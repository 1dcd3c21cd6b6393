package machine

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
)

// changeAll makes so many changes of keys chosen by which, small values and long ones, deletes, and Txns of several keys.
func changeAll(r *rig, random *rand.Rand, changes int, which func(i int) int) {
	sizes := []int{0, 10, laterBytes, laterBytes + 1, inlineBytes + 1}
	for i := 0; i < changes; {
		var ops []kvpart.Op
		for range 1 + random.IntN(4)/3*3 { // one or four
			k := fmt.Appendf(nil, "p/%05d\x00", which(i))
			if random.IntN(10) == 0 {
				ops = append(ops, kvpart.Op{Delete: &kvpart.DeleteRange{Key: k}})
			} else {
				value := bytes.Repeat([]byte{byte(i), byte(i >> 8), 'v'}, sizes[random.IntN(len(sizes))]/3)
				ops = append(ops, kvpart.Op{Put: &kvpart.Put{Key: k, Value: value}})
			}
			i++
		}
		r.apply(&kvpart.Part{Txn: &kvpart.Txn{Then: ops}})
	}
}

// TestEventsLookedUpTogether: what a walk looks up by the hundred is what it finds one by one, and it ends where that would end.
func TestEventsLookedUpTogether(t *testing.T) {
	for name, of := range map[string]func(random *rand.Rand) func(i int) int{
		"in turn":         func(*rand.Rand) func(int) int { return func(i int) int { return i % 1500 } },
		"few keys":        func(r *rand.Rand) func(int) int { return func(int) int { return r.IntN(40) } },
		"far apart":       func(r *rand.Rand) func(int) int { return func(int) int { return r.IntN(90_000) } },
		"near, then not":  func(r *rand.Rand) func(int) int { return func(i int) int { return i % 700 * (1 + i/2000*120) } },
		"written in back": func(*rand.Rand) func(int) int { return func(i int) int { return 90_000 - i%2000 } },
	} {
		t.Run(name, func(t *testing.T) {
			r, random := newRig(t, Options{}), rand.New(rand.NewPCG(1, 2))
			changeAll(r, random, 4000, of(random))
			last, _ := r.m.Revision()
			var single []Event // revision by revision: too few changes to be looked up together
			for rev := int64(2); rev <= last; rev++ {
				evs, next, err := r.m.History([]byte("p/"), []byte("p0"), rev, rev, 1<<30)
				if err != nil || next != rev+1 || len(evs) > leastBunch {
					t.Fatalf("revision %d: %d events, next %d, %v", rev, len(evs), next, err)
				}
				single = append(single, evs...)
			}
			for _, maxBytes := range []int{1, 700, 4 << 10, 64 << 10, 1 << 30} {
				for _, maxChanges := range []int{1, 100, 1 << 20} {
					expectWalk(t, r, single, last, maxBytes, maxChanges)
				}
			}
		})
	}
}

// expectWalk reads all events by pieces.
func expectWalk(t *testing.T, r *rig, want []Event, last int64, maxBytes, maxChanges int) {
	t.Helper()
	for from := int64(2); from <= last; {
		n, used := 0, 0
		for n < len(want) && (n == 0 || want[n].KV.ModRevision == want[n-1].KV.ModRevision || used < maxBytes && n < maxChanges) {
			used += len(want[n].KV.Key) + len(want[n].KV.Value)
			n++
		}
		end := last + 1
		if n < len(want) {
			end = want[n].KV.ModRevision
		}
		evs, next, err := r.m.HistoryOf(from, last, maxBytes, maxChanges, func([]byte) bool { return true })
		if err != nil || next != end || !reflect.DeepEqual(evs, want[:n]) {
			t.Fatalf("%d bytes and %d changes from %d on: %d events up to %d, %v; want %d up to %d",
				maxBytes, maxChanges, from, len(evs), next, err, n, end)
		}
		from, want = next, want[n:]
	}
}
