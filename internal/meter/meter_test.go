package meter

import (
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"
)

func TestEveryDurationLiesBelowTheBoundOfItsBucketAndNotBelowTheOneBefore(t *testing.T) {
	check := func(d time.Duration) {
		t.Helper()
		i := bucketOf(d)
		if i < 0 || i >= NumBuckets {
			t.Fatalf("%d ns is in bucket %d of %d", d, i, NumBuckets)
		}
		if d >= Bound(i) {
			t.Errorf("%d ns is in bucket %d, which ends at %d", d, i, Bound(i))
		}
		if i > 0 && d < Bound(i-1) {
			t.Errorf("%d ns is in bucket %d, which begins at %d", d, i, Bound(i-1))
		}
	}
	for exp := range 62 {
		for _, d := range []time.Duration{1<<exp - 1, 1 << exp, 1<<exp + 1, 1<<exp + 1<<exp/2} {
			check(d)
		}
	}
	r := rand.New(rand.NewPCG(1, 1))
	for range 100_000 {
		check(time.Duration(r.Uint64N(1 << (1 + r.UintN(61)))))
	}
}

func TestQuantilesAreWithinFourPercentOfTheTruth(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	var h Histogram
	var all []time.Duration
	for range 50_000 {
		// Log-normal around 120 µs: what an fdatasync looks like.
		d := time.Duration(120e3 * math.Exp(r.NormFloat64()))
		all = append(all, d)
		h.Record(d)
	}
	slices.Sort(all)
	var got Reading
	h.Read(&got)
	for _, q := range []float64{0, 0.01, 0.5, 0.9, 0.99, 0.999, 1} {
		want := all[max(int(math.Ceil(q*float64(len(all))))-1, 0)]
		if off := math.Abs(float64(got.Quantile(q)-want)) / float64(want); off > 0.04 {
			t.Errorf("quantile %v is %v, the truth is %v: off by %.1f %%", q, got.Quantile(q), want, off*100)
		}
	}
	var sum time.Duration
	for _, d := range all {
		sum += d
	}
	if got.Sum != sum || got.Count != uint64(len(all)) || got.Mean() != sum/time.Duration(len(all)) {
		t.Errorf("sum %v of %d, want %v of %d", got.Sum, got.Count, sum, len(all))
	}
}

func TestAnEmptyReadingAnswersZero(t *testing.T) {
	var r Reading
	if r.Quantile(0.5) != 0 || r.Mean() != 0 {
		t.Errorf("quantile %v, mean %v", r.Quantile(0.5), r.Mean())
	}
}

func TestConcurrentRecordsAreAllCounted(t *testing.T) {
	var s Step
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range 10_000 {
				s.Done(2, time.Duration(i)*time.Microsecond)
			}
		})
	}
	wg.Wait()
	var r Reading
	s.Seconds.Read(&r)
	if r.Count != 80_000 || s.Total.Load() != 160_000 {
		t.Errorf("%d events with %d items, want 80000 with 160000", r.Count, s.Total.Load())
	}
}

func TestAWindowForgetsWhatIsOlderThanItsSpan(t *testing.T) {
	var s Step
	w := NewWindow(&s, 10*time.Second)
	now := time.Unix(1000, 0)
	s.Done(1_000_000, time.Second) // before the first sample: not part of any rate
	w.Sample(now)
	for range 30 { // 100 a second for 30 s, then 200 for 10
		now = now.Add(time.Second)
		s.Done(100, 100*time.Microsecond)
		w.Sample(now)
	}
	if rate, _ := w.Recent(now); rate != 100 {
		t.Errorf("rate %v, want 100", rate)
	}
	for range 10 {
		now = now.Add(time.Second)
		s.Done(200, time.Millisecond)
		w.Sample(now)
	}
	rate, d := w.Recent(now)
	if rate != 200 {
		t.Errorf("rate %v, want 200", rate)
	}
	if p := d.Quantile(0.01); p < 900*time.Microsecond {
		t.Errorf("the fastest of the last 10 s is %v: older events are still counted", p)
	}
	if len(w.samples) > 12 {
		t.Errorf("%d samples are held", len(w.samples))
	}
}

func TestStepsAreNamedInTheOrderOfAWrite(t *testing.T) {
	var names []string
	new(Steps).Each(func(name string, _ *Step) { names = append(names, name) })
	want := []string{"decode", "propose", "append", "sync", "replicate", "commit", "apply", "reply"}
	if !slices.Equal(names, want) {
		t.Errorf("steps are %v, want %v", names, want)
	}
}

func BenchmarkRecord(b *testing.B) {
	var h Histogram
	for i := range b.N {
		h.Record(time.Duration(i))
	}
}

func TestBeginCountsEveryItemAndTimesOneOfEight(t *testing.T) {
	var s Step
	for range 80 {
		s.End(s.Begin())
	}
	var r Reading
	s.Seconds.Read(&r)
	if s.Total.Load() != 80 || r.Count != 10 {
		t.Errorf("%d items, %d timed; want 80 and 10", s.Total.Load(), r.Count)
	}
}

func BenchmarkBeginEnd(b *testing.B) {
	var s Step
	for b.Loop() {
		s.End(s.Begin())
	}
}

func TestSizesAreCountedByPowersOfTwo(t *testing.T) {
	var s Sizes
	for _, n := range []int{1, 1, 2, 3, 4, 5, 4096, 4097, 100_000} {
		s.Record(n)
	}
	count, sum, atMost := s.Read()
	if count != 9 || sum != 1+1+2+3+4+5+4096+4097+100_000 || len(atMost) != 13 {
		t.Errorf("%d groups of %d in all, %d bounds", count, sum, len(atMost))
	}
	for bound, want := range map[float64]uint64{1: 2, 2: 3, 4: 5, 8: 6, 2048: 6, 4096: 7} {
		if atMost[bound] != want {
			t.Errorf("%d of at most %v, want %d", atMost[bound], bound, want)
		}
	}
}

func TestLogsAndPlacesAreCountedOnce(t *testing.T) {
	var m Tlog
	m.Log("a").Added.Add(2)
	m.Log("a").Added.Inc()
	m.Log("b").Refused.Inc()
	if m.Log("a").Added.Load() != 3 || m.Log("b").Added.Load() != 0 || m.Log("b").Refused.Load() != 1 {
		t.Error("logs are mixed up")
	}
	m.Place("a", "file:///x").Size.Set(7)
	m.Place("a", "file:///y").Failed.Inc()
	seen := 0
	m.EachPlace(func(at TlogPlace, p *TlogPublish) {
		seen++
		if want := int64(7); at.To == "file:///x" && p.Size.Load() != want || at.To == "file:///y" && p.Failed.Load() != 1 {
			t.Errorf("%v: %d, %d", at, p.Size.Load(), p.Failed.Load())
		}
	})
	if seen != 2 {
		t.Errorf("%d places", seen)
	}
}
