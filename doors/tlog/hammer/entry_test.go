package hammer

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"
)

// TestNoTwoEntriesAreEqual, all are as long as asked, and what is not the number is not the same twice.
func TestNoTwoEntriesAreEqual(t *testing.T) {
	for _, size := range []int{MinEntry, 41, 64, MaxEntry} {
		h := &hammer{Options: Options{Size: size}, prefix: []byte("0123456789abcdef ")}
		e := h.newEntry()
		var last []byte
		for _, n := range []uint64{7, math.MaxUint64, 12, 12} {
			got := e.numbered(n)
			if len(got) != size {
				t.Errorf("%d bytes, want %d", len(got), size)
			}
			if want := fmt.Sprintf("0123456789abcdef %d ", n); !strings.HasPrefix(string(got), want) {
				t.Errorf("%q, want it to begin with %q", got[:MinEntry], want)
			}
			if bytes.Equal(got, last) {
				t.Errorf("the same entry twice: %q", got[:MinEntry])
			}
			last = bytes.Clone(got)
		}
	}
}

// BenchmarkEntry is what a writer does for each add beside the network.
func BenchmarkEntry(b *testing.B) {
	e := (&hammer{Options: Options{Size: 64}, prefix: []byte("0123456789abcdef ")}).newEntry()
	b.ReportAllocs()
	for n := range uint64(b.N) {
		_ = e.numbered(n)
	}
}
