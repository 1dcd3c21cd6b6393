package wire

import (
	"bytes"
	"testing"
)

func TestRoomIsThereOnce(t *testing.T) {
	for _, n := range []int{0, 1, 7, 512, 4 << 10, 100_000, 1 << 20} {
		a, b := Room(n), Room(n)
		if len(a) != 0 || cap(a) < n || cap(a) > 2*n+64 {
			t.Fatalf("room for %d has length %d and capacity %d", n, len(a), cap(a))
		}
		a = append(a, bytes.Repeat([]byte{1}, n)...)
		b = append(b, bytes.Repeat([]byte{2}, n)...)
		if bytes.IndexByte(a, 2) >= 0 || bytes.IndexByte(b, 1) >= 0 {
			t.Fatalf("two rooms for %d bytes overlap", n)
		}
	}
	if n := testing.AllocsPerRun(100, func() { sink = Room(4 << 10) }); n != 1 {
		t.Fatalf("a room takes %v allocations", n)
	}
}

var sink []byte
