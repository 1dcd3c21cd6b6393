package spent

import (
	"bytes"
	"testing"
)

var sink []byte

// TestWhatCostsTooMuchIsSeen: the square of a size, and five times its memory.
func TestWhatCostsTooMuchIsSeen(t *testing.T) {
	const size = 1 << 20
	b := bytes.Repeat([]byte("x"), size)
	if why := over(size, func() { sink = bytes.Clone(b) }); why != "" {
		t.Error("a copy:", why)
	}
	if why := over(size, func() { sink = make([]byte, 6*size) }); why == "" {
		t.Error("six times its size is not too much")
	}
	sum := 0
	if why := over(size, func() {
		for i := 0; i < size; i += 2048 {
			for _, c := range b {
				sum += int(c)
			}
		}
	}); why == "" {
		t.Error("the square of its size is not too much", sum)
	}
}
