package peer

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"testing/iotest"
)

func TestStreamRoundTrip(t *testing.T) {
	for _, n := range []int{0, 1, streamChunk - 1, streamChunk, streamChunk + 1, 3*streamChunk + 7} {
		p := bytes.Repeat([]byte("holdfast"), n/8+1)[:n]
		got, err := io.ReadAll(&streamReader{r: reader(stream(t, p))})
		if err != nil || !bytes.Equal(got, p) {
			t.Fatalf("%d bytes: %d came back, %v", n, len(got), err)
		}
	}
	if err := iotest.TestReader(&streamReader{r: reader(stream(t, []byte("some bytes")))}, []byte("some bytes")); err != nil {
		t.Fatal(err)
	}
}

// If a stream is cut anywhere, or any byte of it is changed, the reader must not say that it is complete.
func TestStreamDamageIsNeverTheEnd(t *testing.T) {
	whole := stream(t, []byte("twelve bytes"))
	for n := range len(whole) {
		if got, err := io.ReadAll(&streamReader{r: reader(whole[:n])}); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("cut at %d of %d: %q, %v", n, len(whole), got, err)
		}
	}
	endMark := len(whole) - frameHeaderLen
	for n := range len(whole) {
		b := bytes.Clone(whole)
		b[n] ^= 0x10
		got, err := io.ReadAll(&streamReader{r: reader(b)})
		if err == nil {
			t.Fatalf("byte %d changed (end mark at %d): %q taken for complete", n, endMark, got)
		}
	}
}

// The end mark ends the stream for good: later bytes are not its.
func TestStreamStopsAtEndMark(t *testing.T) {
	r := reader(append(stream(t, []byte("a")), frames(t, []byte("not ours"))...))
	if got, err := io.ReadAll(&streamReader{r: r}); err != nil || string(got) != "a" {
		t.Fatalf("%q, %v", got, err)
	}
	if next, err := readFrame(r, 100); err != nil || string(next) != "not ours" {
		t.Fatalf("%q, %v", next, err)
	}
}

func FuzzStream(f *testing.F) {
	f.Add(stream(f, []byte("some bytes")))
	f.Add(frames(f, []byte("a"), []byte("b")))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := io.ReadAll(&streamReader{r: reader(b)})
		if err == nil && len(b) < frameHeaderLen {
			t.Fatalf("%x taken for a stream of %q", b, got)
		}
		if len(got) > len(b) {
			t.Fatalf("%d bytes from %d", len(got), len(b))
		}
	})
}
