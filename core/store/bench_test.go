package store

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// benchKeys is how many keys the benchmarks' store holds; values are 64 bytes.
const benchKeys = 100_000

func benchStore(b *testing.B) Store {
	s, err := Open(b.TempDir(), Options{CacheBytes: 64 << 20, OnFatal: func(err error) { panic(err) }})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close() })
	for from := 0; from < benchKeys; from += 1000 {
		batch := s.NewBatch()
		for i := range 1000 {
			batch.Set(benchKey(uint64(from+i)), make([]byte, 64))
		}
		if err := s.Commit(batch, uint64(from)); err != nil {
			b.Fatal(err)
		}
	}
	if err := s.Flush(); err != nil {
		b.Fatal(err)
	}
	return s
}

func benchKey(i uint64) []byte { return binary.BigEndian.AppendUint64([]byte("k/"), i) }

// BenchmarkCommit64x3 is an entry of 64 puts as doors/kv/machine writes them: three keys each.
func BenchmarkCommit64x3(b *testing.B) {
	s := benchStore(b)
	value := make([]byte, 64)
	applied := s.Applied()
	rng := rand.New(rand.NewPCG(1, 1))
	b.ReportAllocs()
	for b.Loop() {
		batch := s.NewBatch()
		for range 64 {
			k := benchKey(rng.Uint64N(benchKeys))
			batch.Set(k, value)
			k[0] = 'r'
			batch.Set(k, value[:8])
			k[0] = 's'
			batch.Set(k, value[:8])
		}
		applied++
		if err := s.Commit(batch, applied); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkGet(b *testing.B) {
	s := benchStore(b)
	rng := rand.New(rand.NewPCG(1, 1))
	buf := make([]byte, 0, 100)
	b.ReportAllocs()
	for b.Loop() {
		if _, ok, err := s.Get(buf, benchKey(rng.Uint64N(benchKeys))); !ok || err != nil {
			b.Fatal(ok, err)
		}
	}
}

func scan(b *testing.B, s Store, from uint64) {
	it, err := s.NewIter(benchKey(from), nil)
	if err != nil {
		b.Fatal(err)
	}
	n := 0
	for ok := it.First(); ok && n < 100; ok = it.Next() {
		if _, err := it.Value(); err != nil {
			b.Fatal(err)
		}
		n++
	}
	if err := it.Close(); err != nil {
		b.Fatal(err)
	}
}

func BenchmarkScan100(b *testing.B) {
	s := benchStore(b)
	rng := rand.New(rand.NewPCG(1, 1))
	b.ReportAllocs()
	for b.Loop() {
		scan(b, s, rng.Uint64N(benchKeys-100))
	}
}

// BenchmarkHotScan100 scans a hot set of 1,000 keys while it is overwritten 20,000 times a second in batches of 100. It compares with the
// same scan at rest: flushing on wasted steps is for this.
func BenchmarkHotScan100(b *testing.B) {
	for _, steps := range []int64{defaultWastedSteps, 1 << 40} {
		b.Run(fmt.Sprintf("flush-per-%d-steps", steps), func(b *testing.B) {
			s := benchStore(b)
			s.(*db).flusher.wastedSteps = steps
			var sublevels, samples int
			median := func(n int) time.Duration {
				rng := rand.New(rand.NewPCG(1, 1))
				took := make([]time.Duration, n)
				for i := range took {
					begun := time.Now()
					scan(b, s, rng.Uint64N(900))
					took[i] = time.Since(begun)
					if i%200 == 0 {
						sublevels += int(s.(*db).cur.Load().pdb.Metrics().Levels[0].Sublevels)
						samples++
					}
					time.Sleep(100 * time.Microsecond)
				}
				slices.Sort(took)
				return took[n/2]
			}
			rest := median(2000)
			sublevels, samples = 0, 0
			stop, done := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(done)
				applied := s.Applied()
				value := make([]byte, 64)
				rng := rand.New(rand.NewPCG(2, 2))
				tick := time.NewTicker(5 * time.Millisecond)
				defer tick.Stop()
				for {
					select {
					case <-stop:
						return
					case <-tick.C:
					}
					batch := s.NewBatch()
					for range 100 {
						batch.Set(benchKey(rng.Uint64N(1000)), value)
						batch.Overwrote(74)
					}
					applied++
					if err := s.Commit(batch, applied); err != nil {
						b.Error(err)
						return
					}
				}
			}()
			time.Sleep(3 * time.Second)
			busy := median(8000)
			close(stop)
			<-done
			b.ReportMetric(float64(rest.Nanoseconds())/1e3, "rest-p50-µs")
			b.ReportMetric(float64(busy.Nanoseconds())/1e3, "busy-p50-µs")
			b.ReportMetric(float64(busy)/float64(rest), "ratio")
			b.ReportMetric(float64(s.Metrics().Flushes), "flushes")
			b.ReportMetric(float64(s.Metrics().Compactions), "compactions")
			b.ReportMetric(float64(sublevels)/float64(samples), "sublevels")
		})
	}
}
