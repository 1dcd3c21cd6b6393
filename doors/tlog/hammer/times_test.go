package hammer

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// TestPercentilesAreThoseOfTheRequests compares with sorting them all.
func TestPercentilesAreThoseOfTheRequests(t *testing.T) {
	var ts times
	if s := ts.spread(); s != (Spread{}) {
		t.Errorf("nothing has the spread %+v", s)
	}
	r := rand.New(rand.NewPCG(1, 2))
	var all []time.Duration
	for range 20000 {
		d := time.Duration(1) << r.IntN(34)
		d += time.Duration(r.Int64N(int64(d)))
		all = append(all, d)
		ts.add(d)
	}
	slices.Sort(all)
	for _, share := range []float64{0.0001, 0.01, 0.5, 0.9, 0.99, 0.999, 1} {
		want := all[max(int(share*float64(len(all)))-1, 0)]
		got := ts.percentile(share)
		if got < want || got > want+want/64+1 {
			t.Errorf("percentile %v: %v, sorted %v", share, got, want)
		}
	}
	if s := ts.spread(); s.Min != millis(all[0]) || s.Max != millis(all[len(all)-1]) || s.Count != 20000 {
		t.Errorf("%+v, sorted %v to %v", s, all[0], all[len(all)-1])
	}
}

// TestEveryDurationHasABucket whose bound is not below it and is its own.
func TestEveryDurationHasABucket(t *testing.T) {
	for _, d := range []time.Duration{-1, 0, 1, 63, 64, 127, 128, 129, 255, 256, 1e6, 1e9, longest - 1, longest} {
		i := bucket(d)
		if i < 0 || i >= len((&times{}).counts) || bound(i) < d || bucket(bound(i)) != i {
			t.Errorf("%d is in bucket %d up to %d", d, i, bound(i))
		}
	}
	if bucket(time.Hour) != bucket(longest) {
		t.Error("an hour is not counted as the longest")
	}
}

// TestTheWindowForgets: Δ is over the last 30 s, or over the time so far.
func TestTheWindowForgets(t *testing.T) {
	at := time.Unix(1000, 0)
	w := newWindow(at, 500)
	if g := w.add(at, 500); g != (growth{}) {
		t.Errorf("in no time: %+v", g)
	}
	for s := 1; s <= 100; s++ {
		size := uint64(500)
		if s > 40 { // 100 a second after 40 s of silence
			size += uint64(s-40) * 100
		}
		g := w.add(at.Add(time.Duration(s)*time.Second), size)
		want := growth{0, float64(min(s, windowSeconds))}
		if s > 40 {
			want.rate = float64(min(s-40, windowSeconds)) * 100 / windowSeconds
		}
		if g != want {
			t.Errorf("after %d s: %+v, want %+v", s, g, want)
		}
	}
	if len(w.marks) > windowSeconds+2 {
		t.Errorf("%d marks are kept", len(w.marks))
	}
}
