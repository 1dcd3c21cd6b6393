package bloom

import (
	"encoding/binary"
	"testing"
)

func key(i int) []byte { return binary.BigEndian.AppendUint64([]byte("key/"), uint64(i)) }

func TestNoKeyIsLost(t *testing.T) {
	f := New(4 << 20)
	const n = 5 * First // into the third layer
	for i := range n {
		if !Add(&f, key(i)) || !Add(&f, key(i/2)) { // a key that is added again takes no more room
			t.Fatalf("key %d has no room", i)
		}
	}
	for i := range n {
		if !Holds(&f, key(i)) || !Holds(&f, string(key(i))) {
			t.Fatalf("key %d of %d is said to be absent", i, n)
		}
	}
	if len(f.layers) != 3 || f.Len() > n || f.Len() < n-n/50 {
		t.Fatalf("%d layers with %d keys for %d, want 3", len(f.layers), f.Len(), n)
	}
	inVain := 0
	for i := n; i < 2*n; i++ {
		if Holds(&f, key(i)) {
			inVain++
		}
	}
	if rate := float64(inVain) / n; rate > 0.03 {
		t.Fatalf("%.1f %% of absent keys look present, want at most 3 %%", 100*rate)
	}
}

func TestItKeepsToItsBytes(t *testing.T) {
	for _, most := range []int{0, size(First) - 1, size(First), size(First) + size(2*First), 1 << 20} {
		f := New(most)
		n := 0
		for Add(&f, key(n)) {
			if n++; f.Bytes() > most {
				t.Fatalf("%d keys take %d bytes, more than %d", n, f.Bytes(), most)
			}
		}
		if f.Len() != Capacity(most) || n < f.Len() {
			t.Errorf("%d bytes take %d keys, not %d", most, f.Len(), Capacity(most))
		}
	}
	var zero Filter
	if Holds(&zero, "k") || Add(&zero, "k") {
		t.Error("no filter holds something")
	}
}

func BenchmarkHolds(b *testing.B) {
	f := New(4 << 20)
	for i := range 5 * First {
		Add(&f, key(i))
	}
	absent := key(1 << 40)
	b.ReportAllocs()
	for b.Loop() {
		Holds(&f, absent)
	}
}
