package machine

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/core/machine"
	"github.com/holdfastdb/holdfast/core/store"
	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
)

const benchKeys = 100_000

// benchRig is a machine over the real store with benchKeys keys of 8 bytes and values of 64.
func benchRig(b *testing.B) *rig {
	st, err := store.Open(b.TempDir(), store.Options{CacheBytes: 64 << 20})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = st.Close() })
	r := openRig(b, st, Options{})
	value := string(make([]byte, 64))
	for i := 0; i < benchKeys; i += 1000 {
		var parts []*kvpart.Part
		for j := i; j < i+1000; j++ {
			parts = append(parts, putPart(string(benchKey(j)), value))
		}
		r.Index++
		if err := r.Applier.Apply(r.Index, 1, pack(parts...), nil, nil); err != nil {
			b.Fatal(err)
		}
	}
	return r
}

func benchKey(i int) []byte { return binary.BigEndian.AppendUint64(nil, uint64(i)) }

// reportCPU adds the processor time of the whole process per operation. On a busy machine only that figure means anything, and it includes
// the store's flushes and compactions.
func reportCPU(b *testing.B) {
	b.Helper()
	var before syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &before)
	b.Cleanup(func() {
		var after syscall.Rusage
		_ = syscall.Getrusage(syscall.RUSAGE_SELF, &after)
		used := after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano()
		b.ReportMetric(float64(used)/float64(b.N), "cpu-ns/op")
	})
}

// BenchmarkPut is the cost of one put from the packed entry to the committed batch, 64 to an entry, without waiting callers.
func BenchmarkPut(b *testing.B) {
	r := benchRig(b)
	rnd := rand.New(rand.NewPCG(1, 1))
	value := string(make([]byte, 64))
	entries := make([][]byte, 256)
	for i := range entries {
		var parts []*kvpart.Part
		for range 64 {
			parts = append(parts, putPart(string(benchKey(rnd.IntN(benchKeys))), value))
		}
		entries[i] = pack(parts...)
	}
	b.ReportAllocs()
	reportCPU(b)
	b.ResetTimer()
	for i := 0; i < b.N; i += 64 {
		r.Index++
		if err := r.Applier.Apply(r.Index, 1, entries[i/64%len(entries)], nil, nil); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkPutRows is BenchmarkPut without the store's own work: the rows are made and thrown away.
func BenchmarkPutRows(b *testing.B) {
	r := benchRig(b)
	r.Applier = machine.NewApplier(discard{r.Store}, r.m)
	if err := r.Applier.Load(); err != nil {
		b.Fatal(err)
	}
	rnd := rand.New(rand.NewPCG(1, 1))
	value := string(make([]byte, 64))
	var parts []*kvpart.Part
	for range 64 {
		parts = append(parts, putPart(string(benchKey(rnd.IntN(benchKeys))), value))
	}
	data := pack(parts...)
	b.ReportAllocs()
	reportCPU(b)
	b.ResetTimer()
	for i := 0; i < b.N; i += 64 {
		r.Index++
		if err := r.Applier.Apply(r.Index, 1, data, nil, nil); err != nil {
			b.Fatal(err)
		}
	}
}

// discard is a store that forgets what is committed to it.
type discard struct{ store.Store }

func (discard) Commit(store.Batch, uint64) error { return nil }

// BenchmarkPutAnswered has a caller waiting for every put.
func BenchmarkPutAnswered(b *testing.B) {
	r := benchRig(b)
	rnd := rand.New(rand.NewPCG(1, 1))
	var parts []*kvpart.Part
	for range 64 {
		parts = append(parts, putPart(string(benchKey(rnd.IntN(benchKeys))), string(make([]byte, 64))))
	}
	data := pack(parts...)
	b.ReportAllocs()
	reportCPU(b)
	b.ResetTimer()
	for i := 0; i < b.N; i += 64 {
		r.Index++
		yes := func(_, _ uint64) bool { return true }
		if err := r.Applier.Apply(r.Index, 1, data, yes, func(_, _ uint64, _ *entry.Result) {}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkGet is the hottest read: one key at the current revision.
func BenchmarkGet(b *testing.B) {
	r := benchRig(b)
	if err := r.Store.Flush(); err != nil {
		b.Fatal(err)
	}
	q := &kvpart.Range{Key: benchKey(4711)}
	b.ReportAllocs()
	reportCPU(b)
	b.ResetTimer()
	for b.Loop() {
		if res, _, err := r.m.Range(q, 0); err != nil || res.Count != 1 {
			b.Fatal(res, err)
		}
	}
}

// BenchmarkRange100 reads a hundred keys in order.
func BenchmarkRange100(b *testing.B) {
	r := benchRig(b)
	q := &kvpart.Range{Key: benchKey(4711), End: benchKey(4811)}
	b.ReportAllocs()
	reportCPU(b)
	b.ResetTimer()
	for b.Loop() {
		if res, _, err := r.m.Range(q, 0); err != nil || res.Count != 100 {
			b.Fatal(res, err)
		}
	}
}

// BenchmarkCount counts all keys without knowing the total, as a limited Range of a prefix does.
func BenchmarkCount(b *testing.B) {
	r := benchRig(b)
	q := &kvpart.Range{Key: benchKey(0), End: benchKey(benchKeys), Limit: 1}
	reportCPU(b)
	b.ResetTimer()
	for b.Loop() {
		if res, _, err := r.m.Range(q, 0); err != nil || res.Count != benchKeys {
			b.Fatal(res, err)
		}
	}
}

// BenchmarkScrub is what dropping one superseded version costs, 2,048 to an entry without commands.
func BenchmarkScrub(b *testing.B) {
	r := benchRig(b)
	for i := 0; i < b.N; i += 1000 {
		var parts []*kvpart.Part
		for j := i; j < i+1000; j++ {
			parts = append(parts, putPart(string(benchKey(j%benchKeys)), "v"))
		}
		r.Index++
		if err := r.Applier.Apply(r.Index, 1, pack(parts...), nil, nil); err != nil {
			b.Fatal(err)
		}
	}
	rev, _ := r.m.Revision()
	var slowest time.Duration
	reportCPU(b)
	b.ResetTimer()
	r.must(&kvpart.Part{Compact: &kvpart.Compact{Revision: rev}})
	for r.Applier.Unfinished() {
		start := time.Now()
		r.ApplyData(nil, false)
		slowest = max(slowest, time.Since(start))
	}
	b.ReportMetric(float64(slowest.Milliseconds()), "slowest-ms")
}

// BenchmarkHugeDelete is one command that deletes the keys of etcdctl's check perf. They are 60,000 keys of 275 bytes with 1 KB values,
// written by many clients in turn.
func BenchmarkHugeDelete(b *testing.B) {
	const keys, clients = 60_000, 200
	st, err := store.Open(b.TempDir(), store.Options{CacheBytes: 64 << 20, MemtableBytes: 8 << 20})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = st.Close() })
	r := openRig(b, st, Options{CacheBytes: 26 << 20})
	value := string(make([]byte, 1024))
	for b.Loop() {
		b.StopTimer()
		for i := 0; i < keys; i += clients {
			var parts []*kvpart.Part
			for w := range clients {
				parts = append(parts, putPart(fmt.Sprintf("/etcdctl-check-perf/%0250d-%d", w, i), value))
			}
			r.Index++
			if err := r.Applier.Apply(r.Index, 1, pack(parts...), nil, nil); err != nil {
				b.Fatal(err)
			}
		}
		b.StartTimer()
		r.Index++
		if err := r.Applier.Apply(r.Index, 1, pack(&kvpart.Part{Delete: &kvpart.DeleteRange{Key: []byte{0}, End: []byte{0}}}), nil, nil); err != nil {
			b.Fatal(err)
		}
	}
}
