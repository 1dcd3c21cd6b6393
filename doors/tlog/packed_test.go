package tlog

import (
	"bytes"
	"compress/gzip"
	"io"
	"math/rand/v2"
	"testing"

	tlogmachine "github.com/holdfastdb/holdfast/doors/tlog/machine"
)

// TestPacked: a bundle is compressed once as long as there is room, and the one that was asked for longest ago gives way. One that hardly
// gets smaller is remembered as such.
func TestPacked(t *testing.T) {
	l := new(tlogmachine.Log)
	text := bytes.Repeat([]byte("an entry that others are like. "), 200)
	noise := make([]byte, 5000)
	for i := range noise {
		noise[i] = byte(rand.Uint32())
	}
	p := NewPacked(1 << 20)
	body := p.pack(l, 0, text)
	z, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(z); err != nil || !bytes.Equal(b, text) {
		t.Fatalf("%d bytes, %v", len(b), err)
	}
	if p.pack(l, 1, noise) != nil {
		t.Error("noise was compressed")
	}
	if b, known := p.get(l, 1); !known || b != nil {
		t.Error("that noise is not compressed is not known")
	}
	if b, known := p.get(l, 0); !known || !bytes.Equal(b, body) {
		t.Error("what was compressed is not kept")
	}
	if _, known := p.get(new(tlogmachine.Log), 0); known {
		t.Error("another log's bundle")
	}

	one := int64(len(body)) + packedOverhead
	p = NewPacked(3 * one)
	for n := range uint64(3) {
		p.pack(l, n, text)
	}
	p.get(l, 0)
	p.pack(l, 3, text)
	for n, want := range []bool{true, false, true, true} {
		if _, known := p.get(l, uint64(n)); known != want {
			t.Errorf("bundle %d is kept: %v", n, known)
		}
	}
	p.pack(l, 4, bytes.Repeat(text, 1000)) // never larger than the room
	if p.held > p.most {
		t.Errorf("%d bytes too many", p.held-p.most)
	}
}
