package host

import (
	"math"
	"testing"
	"time"
)

func TestStatistics(t *testing.T) {
	if m := Median([]float64{4, 1, 3, 2}); m != 2.5 {
		t.Errorf("median of four is %v", m)
	}
	if m := Median([]float64{9, 1, 2}); m != 2 {
		t.Errorf("median of three is %v", m)
	}
	if d := Deviation([]float64{2, 4, 4, 4, 5, 5, 7, 9}); math.Abs(d-2.138) > 0.001 {
		t.Errorf("deviation is %v", d)
	}
	if d := Deviation([]float64{3}); d != 0 {
		t.Errorf("deviation of one figure is %v", d)
	}
}

func TestTicks(t *testing.T) {
	a, err := parseTicks("cpu  10 1 20 60 2 0 2 5 7 0")
	if err != nil || a != (Ticks{All: 100, Idle: 62, Stolen: 5}) {
		t.Fatalf("parsed %+v, %v", a, err)
	}
	if s := (Ticks{All: 300, Stolen: 25}).StolenSince(a); s != 0.1 {
		t.Errorf("stolen %v, want a tenth", s)
	}
	if s := a.StolenSince(a); s != 0 {
		t.Errorf("stolen %v in no time", s)
	}
	if b := (Ticks{All: 200, Idle: 82, Stolen: 15}).BusySince(a); b != 700*time.Millisecond {
		t.Errorf("busy for %s, want 700ms", b)
	}
	for _, bad := range []string{"", "cpu0 1 2 3 4 5 6 7 8", "cpu 1 2 3", "cpu 1 2 3 4 5 6 7 x"} {
		if _, err := parseTicks(bad); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}

func TestFreeMemory(t *testing.T) {
	n, err := parseFree("MemTotal:       24688888 kB\nMemFree:        23805836 kB\nMemAvailable:   24000000 kB\n")
	if err != nil || n != 23805836<<10 {
		t.Errorf("%d bytes, %v", n, err)
	}
	for _, bad := range []string{"", "MemFree: much kB\n", "NotMemFree: 1 kB\n"} {
		if _, err := parseFree(bad); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}

func TestDescribe(t *testing.T) {
	m, err := Describe(t.TempDir())
	if err != nil || m.Cores < 1 || m.SyncBefore <= 0 {
		t.Errorf("%+v, %v", m, err)
	}
}
