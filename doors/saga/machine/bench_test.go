package machine

import (
	"fmt"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/core/machine/machinetest"
	"github.com/holdfastdb/holdfast/core/store"
	sagapart "github.com/holdfastdb/holdfast/doors/saga/part"
)

// benchEntry is how many commands one entry of the benchmarks has.
const benchEntry = 64

// BenchmarkSaga is Apply's cost of a saga of two steps without payloads on the real store. It is measured from the packed entry to the
// committed batch, 64 commands to an entry. The commands are its Begin, and the Change that ends it with all results. Old ones are
// forgotten meanwhile, as they would be.
func BenchmarkSaga(b *testing.B) {
	st, err := store.Open(b.TempDir(), store.Options{CacheBytes: 64 << 20})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = st.Close() })
	r := openRig(b, st, Options{RetentionMs: 10_000})
	branches := steps(2, 0)
	var begun, ended time.Duration
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		var begins, ends [][]entry.Part
		for range benchEntry {
			n++
			gid := fmt.Sprintf("bench-%d", n)
			begins = append(begins, command(&sagapart.Part{Kind: sagapart.Begin, Begin: &sagapart.BeginPart{Status: sagapart.Submitted, Branches: branches, IntervalMs: 10_000,
				Definition: sagapart.Definition{Gid: gid, Mode: sagapart.Saga, Protocol: "http"}}}))
			ends = append(ends, command(&sagapart.Part{Kind: sagapart.Change, Change: &sagapart.ChangePart{Gid: gid, Number: uint64(n), From: sagapart.Of(sagapart.Submitted),
				To: sagapart.Succeed, Results: []sagapart.BranchResult{{Branch: 1, Status: sagapart.Succeed}, {Branch: 3, Status: sagapart.Succeed}}, Pass: true}}))
		}
		r.Tick += 10
		begin, end := machinetest.Entry(r.Tick, begins...), machinetest.Entry(r.Tick+5, ends...)
		b.StartTimer()
		from := time.Now()
		r.ApplyData(begin, false)
		at := time.Now()
		r.ApplyData(end, false)
		begun += at.Sub(from)
		ended += time.Since(at)
	}
	each := float64(b.N) * benchEntry
	b.ReportMetric(float64(begun.Nanoseconds())/each, "ns/begin")
	b.ReportMetric(float64(ended.Nanoseconds())/each, "ns/end")
	if got := r.m.Counts(); got.Submitted != 0 || got.Succeed == 0 {
		b.Fatalf("%+v", got)
	}
}

// BenchmarkFind is the worker's read of a transaction before its first call.
func BenchmarkFind(b *testing.B) {
	st, err := store.Open(b.TempDir(), store.Options{CacheBytes: 64 << 20})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = st.Close() })
	r := openRig(b, st, Options{})
	r.must("begin g saga submitted steps=2", "change g results=1:succeed")
	b.ReportAllocs()
	for b.Loop() {
		if t, err := r.m.FindNumber(1); t == nil || err != nil {
			b.Fatal(err)
		}
	}
}
