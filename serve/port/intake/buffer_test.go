package intake

import (
	"bytes"
	"io"
	"testing"

	"github.com/holdfastdb/holdfast/serve/port/frame"
	"github.com/holdfastdb/holdfast/serve/port/http2test"
)

// TestAnIdleConnectionHasASmallBuffer: as long as little comes at a time, and again when little has come for a while. The read bytes are the same.
func TestAnIdleConnectionHasASmallBuffer(t *testing.T) {
	sent := http2test.New().Bare(frame.Headers, frame.EndHeaders, 1, nil).Bytes()
	w := http2test.On(sent, 900)
	i := New(w, &room{left: 1 << 60}, Options{MaxMessage: 4 << 20})
	var got bytes.Buffer
	take := func(more []byte, part int) {
		t.Helper()
		i.Conn = http2test.On(more, part)
		sent = append(sent, more...)
		if _, err := io.Copy(&got, struct{ io.Reader }{i}); err != nil {
			t.Fatal(err)
		}
	}
	take(nil, 1)
	if _, err := io.Copy(&got, struct{ io.Reader }{New(w, &room{left: 1 << 60}, Options{})}); err != nil || i.large != nil || len(i.buf) != smallBuffer {
		t.Fatalf("a buffer of %d bytes for little, %v", len(i.buf), err)
	}
	large := new(http2test.Talk).Send(1, http2test.Prefixed(100_000, 'x'), frame.Max).Bytes()
	take(large, 1<<20)
	if i.large == nil || len(i.buf) != bufferLen {
		t.Errorf("a buffer of %d bytes for much at a time", len(i.buf))
	}
	for range 2 * quietReads {
		take(new(http2test.Talk).Send(1, http2test.Prefixed(100, 'y'), frame.Max).Bytes(), 900)
	}
	if i.large != nil || len(i.buf) != smallBuffer {
		t.Errorf("a buffer of %d bytes after little for a while", len(i.buf))
	}
	take(large, 1<<20)
	if !bytes.Equal(got.Bytes(), sent) {
		t.Errorf("%d bytes have come through of %d", got.Len(), len(sent))
	}
}
