package machine

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/holdfastdb/holdfast/core/store"
	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
)

// These benchmarks show a read's cost against figures it ought not to depend on: versions of a key, changes since, keys beside the
// requested ones. A column that grows is a regression.

// sizeKey is a key as of a program that has some kinds of things in some groups.
func sizeKey(i int) []byte { return fmt.Appendf(nil, "/registry/things/%03d/%07d", i%100, i/100) }

// sizeRig is a machine over the real store with so many keys of a few versions each, flushed.
func sizeRig(b *testing.B, keys, versions, valueBytes int) *rig {
	b.Helper()
	st, err := store.Open(b.TempDir(), store.Options{CacheBytes: 64 << 20, MemtableBytes: 8 << 20})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = st.Close() })
	r := openRig(b, st, Options{})
	for range versions {
		r.overwrite(keys, valueBytes, func(i int) int { return i })
	}
	if err := st.Flush(); err != nil {
		b.Fatal(err)
	}
	return r
}

// overwrite puts n keys, of which place i is of key which(i), 500 to an entry.
func (r *rig) overwrite(n, valueBytes int, which func(i int) int) {
	r.T.Helper()
	value := string(bytes.Repeat([]byte("value"), valueBytes/5))
	var parts []*kvpart.Part
	for i := range n {
		if parts = append(parts, putPart(string(sizeKey(which(i))), value)); len(parts) == 500 || i == n-1 {
			r.Index++
			if err := r.Applier.Apply(r.Index, 1, pack(parts...), nil, nil); err != nil {
				r.T.Fatal(err)
			}
			parts = parts[:0]
		}
	}
}

// paginate reads all keys by pages at a revision, and tells how many there were.
func (r *rig) paginate(rev, page int64) (keys int) {
	r.T.Helper()
	for key := []byte("/registry/"); ; {
		res, _, err := r.m.Range(&kvpart.Range{Key: key, End: []byte("/registry0"), Limit: page, Revision: rev}, 0)
		if err != nil {
			r.T.Fatal(err)
		}
		keys += len(res.KVs)
		if !res.More {
			return keys
		}
		key = append(bytes.Clone(res.KVs[len(res.KVs)-1].Key), 0)
	}
}

// BenchmarkPastPages reads 10,000 keys of 1.5 KB by pages of 500 at a revision of some changes ago.
func BenchmarkPastPages(b *testing.B) {
	const keys, size = 10_000, 1500
	for _, of := range []struct{ versions, since int }{{1, 0}, {1, 10}, {2, 10}, {3, 10}, {6, 10}, {3, 2000}, {6, 2000}, {6, 100_000}} {
		b.Run(fmt.Sprintf("versions=%d/since=%d", of.versions, of.since), func(b *testing.B) {
			r := sizeRig(b, keys, of.versions, size)
			rev, _ := r.m.Revision()
			rnd := rand.New(rand.NewPCG(1, 1))
			r.overwrite(of.since, size, func(int) int { return rnd.IntN(keys) })
			fine(b, r.m)
			reportCPU(b)
			b.ResetTimer()
			for b.Loop() {
				r.m.lists.reset() // another reader's
				if n := r.paginate(rev, 500); n != keys {
					b.Fatal(n)
				}
			}
		})
	}
}

// BenchmarkPastFirst asks for one key, with the number of all, at a revision of some changes ago.
func BenchmarkPastFirst(b *testing.B) {
	const keys = 10_000
	for _, since := range []int{0, 10, 2000, 100_000} {
		b.Run(fmt.Sprintf("since=%d", since), func(b *testing.B) {
			r := sizeRig(b, keys, 3, 1500)
			rev, _ := r.m.Revision()
			rnd := rand.New(rand.NewPCG(1, 1))
			r.overwrite(since, 1500, func(int) int { return rnd.IntN(keys) })
			fine(b, r.m)
			q := &kvpart.Range{Key: []byte("/registry/"), End: []byte("/registry0"), Limit: 1, Revision: rev}
			reportCPU(b)
			b.ResetTimer()
			for b.Loop() {
				if res, _, err := r.m.Range(q, 0); err != nil || res.Count != keys {
					b.Fatal(res, err)
				}
			}
		})
	}
}

// sizes are numbers of keys; ten million do not fit everybody's disk.
var sizes = []int{10_000, 100_000, 1_000_000}

// BenchmarkCounts counts the keys of random intervals, reads the first key of them and the first page, all with the number of keys.
func BenchmarkCounts(b *testing.B) {
	for _, keys := range sizes {
		r := sizeRig(b, keys, 1, 64)
		fine(b, r.m)
		rnd := rand.New(rand.NewPCG(1, 1))
		for _, of := range []struct {
			name string
			r    kvpart.Range
		}{{"count", kvpart.Range{CountOnly: true}}, {"limit=1", kvpart.Range{Limit: 1}}, {"page=500", kvpart.Range{Limit: 500}}} {
			b.Run(fmt.Sprintf("%s/keys=%d", of.name, keys), func(b *testing.B) {
				reportCPU(b)
				for b.Loop() {
					q := of.r
					q.Key, q.End = sizeKey(rnd.IntN(keys)), sizeKey(rnd.IntN(keys))
					if bytes.Compare(q.Key, q.End) > 0 {
						q.Key, q.End = q.End, q.Key
					}
					if _, _, err := r.m.Range(&q, 0); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkCountDeleted counts keys that were all deleted by one command.
func BenchmarkCountDeleted(b *testing.B) {
	for _, keys := range sizes[:2] {
		b.Run(fmt.Sprintf("keys=%d", keys), func(b *testing.B) {
			r := sizeRig(b, keys, 1, 64)
			fine(b, r.m)
			q := &kvpart.Range{Key: []byte("/registry/things/01"), End: []byte("/registry/things/09"), CountOnly: true}
			r.Index++
			if err := r.Applier.Apply(r.Index, 1, pack(&kvpart.Part{Delete: &kvpart.DeleteRange{Key: []byte("/"), End: []byte("0")}}), nil, nil); err != nil {
				b.Fatal(err)
			}
			reportCPU(b)
			b.ResetTimer()
			for b.Loop() {
				if res, _, err := r.m.Range(q, 0); err != nil || res.Count != 0 {
					b.Fatal(res, err)
				}
			}
		})
	}
}

// BenchmarkRefine divides all blocks after a start; an operation is a key.
func BenchmarkRefine(b *testing.B) {
	for _, keys := range sizes {
		b.Run(fmt.Sprintf("keys=%d", keys), func(b *testing.B) {
			r := sizeRig(b, keys, 1, 64)
			reportCPU(b)
			b.ResetTimer()
			for done := 0; done < b.N; done += keys {
				b.StopTimer()
				r.reopen(Options{})
				b.StartTimer()
				fine(b, r.m)
			}
		})
	}
}

// BenchmarkCreate puts new keys in no order beside so many others, 64 to an entry, whose blocks are all divided.
func BenchmarkCreate(b *testing.B) {
	for _, keys := range sizes {
		b.Run(fmt.Sprintf("keys=%d", keys), func(b *testing.B) {
			r := sizeRig(b, keys, 1, 64)
			fine(b, r.m)
			rnd := rand.New(rand.NewPCG(2, 2))
			parts := make([]*kvpart.Part, 64)
			value := string(make([]byte, 64))
			reportCPU(b)
			b.ResetTimer()
			for i := 0; i < b.N; i += len(parts) {
				for j := range parts {
					parts[j] = putPart(string(fmt.Appendf(sizeKey(rnd.IntN(keys)), "/%x", rnd.Uint64())), value)
				}
				r.Index++
				if err := r.Applier.Apply(r.Index, 1, pack(parts...), nil, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkRange100Long is a range of 100 keys whose values of 1 KB are in history only.
func BenchmarkRange100Long(b *testing.B) {
	const keys = 50_000
	for _, versions := range []int{1, 2, 3} {
		b.Run(fmt.Sprintf("versions=%d", versions), func(b *testing.B) {
			r := sizeRig(b, keys, versions, 1000)
			b.ReportAllocs()
			reportCPU(b)
			b.ResetTimer()
			for i := range b.N {
				group, from := i*7919%100, i*31%(keys/100-100)
				res, _, err := r.m.Range(&kvpart.Range{Key: sizeKey(from*100 + group), End: sizeKey((from+100)*100 + group)}, 0)
				if err != nil || len(res.KVs) != 100 {
					b.Fatal(len(res.KVs), err)
				}
			}
		})
	}
}
