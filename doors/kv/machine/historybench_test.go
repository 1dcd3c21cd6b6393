package machine

import (
	"fmt"
	"testing"

	"github.com/holdfastdb/holdfast/core/store"
	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
)

// historyRig is a machine over the real store with changes of a hundred bytes. Each is a revision of its own, to so many keys of one
// prefix. The next change is of the key that is step further.
func historyRig(b *testing.B, changes, keys, step int) *rig {
	st, err := store.Open(b.TempDir(), store.Options{CacheBytes: 64 << 20})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = st.Close() })
	r := openRig(b, st, Options{})
	value := string(make([]byte, 100))
	for i := 0; i < changes; i += 100 {
		var parts []*kvpart.Part
		for j := i; j < i+100; j++ {
			parts = append(parts, putPart(fmt.Sprintf("p/%08d", j*step%keys), value))
		}
		r.Index++
		if err := r.Applier.Apply(r.Index, 1, pack(parts...), nil, nil); err != nil {
			b.Fatal(err)
		}
	}
	return r
}

// BenchmarkHistory is an event of a range that a watch reads from history, 64 KiB at a time. The keys change all the time, were written
// once, or were written ten times in their order.
func BenchmarkHistory(b *testing.B) {
	for _, of := range []struct{ keys, step int }{{1_000, 7919}, {200_003, 7919}, {20_000, 1}} {
		b.Run(fmt.Sprintf("keys=%d/step=%d", of.keys, of.step), func(b *testing.B) {
			r := historyRig(b, 200_000, of.keys, of.step)
			last, _ := r.m.Revision()
			b.ReportAllocs()
			reportCPU(b)
			b.ResetTimer()
			from := int64(2)
			for i := 0; i < b.N; {
				evs, next, err := r.m.History([]byte("p/"), []byte("p0"), from, last, 64<<10)
				if err != nil {
					b.Fatal(err)
				}
				i += len(evs)
				if from = next; from > last {
					from = 2
				}
			}
		})
	}
}

// BenchmarkHistoryOfOneKey is what a watch of a key costs that resumes over 200,000 changes of others.
func BenchmarkHistoryOfOneKey(b *testing.B) {
	r := historyRig(b, 200_000, 200_003, 7919)
	last, _ := r.m.Revision()
	reportCPU(b)
	for b.Loop() {
		for from := int64(2); from <= last; {
			_, next, err := r.m.History([]byte("quiet"), nil, from, last, 64<<10)
			if err != nil {
				b.Fatal(err)
			}
			from = next
		}
	}
}
