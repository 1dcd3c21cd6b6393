package peer

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/holdfastdb/holdfast/internal/golden"
)

// frames is what writeFrame makes of the payloads, one after another.
func frames(t testing.TB, payloads ...[]byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := bufio.NewWriter(&b)
	for _, p := range payloads {
		if err := writeFrame(w, p); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func reader(b []byte) *bufio.Reader { return bufio.NewReader(bytes.NewReader(b)) }

// stream is what streamWriter makes of p.
func stream(t testing.TB, p []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	s := &streamWriter{w: bufio.NewWriter(&b)}
	if _, err := s.Write(p); err != nil {
		t.Fatal(err)
	}
	if err := s.finish(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// The golden file pins the bytes: members of two builds talk to each other during an upgrade.
func TestGolden(t *testing.T) {
	control := hello{kind: byte(ChannelControl), cluster: 0x0102030405060708, from: 0x11, to: 0x22}
	snapshot := hello{kind: byte(ChannelSnapshot), cluster: 1, from: 2, to: 3}
	ask := hello{kind: helloAsk}
	var b strings.Builder
	for _, part := range []struct {
		title string
		bytes []byte
	}{
		{"hello of the control channel", frames(t, control.append(nil))},
		{"hello of the snapshot channel", frames(t, snapshot.append(nil))},
		{"hello of a question", frames(t, ask.append(nil))},
		{"hello accepted", frames(t, nil)},
		{"hello refused", frames(t, []byte("member 11 was removed from the cluster"))},
		{"two frames of a channel", frames(t, []byte("one"), []byte("two"))},
		{"answer", frames(t, []byte("\x00yes"))},
		{"question refused", frames(t, []byte("\x01no"))},
		{"stream of five bytes", stream(t, []byte("hello"))},
	} {
		fmt.Fprintf(&b, "# %s\n%s", part.title, hex.Dump(part.bytes))
	}
	golden.Check(t, "testdata/wire.hex", b.String())
}

func TestHelloRoundTrip(t *testing.T) {
	for kind := range byte(channelCount) {
		h := hello{kind: kind, cluster: 1 << 63, from: 7, to: ^uint64(0)}
		got, err := decodeHello(h.append(nil))
		if err != nil || got != h {
			t.Fatalf("%+v came back as %+v, %v", h, got, err)
		}
	}
	if got, err := decodeHello((&hello{kind: helloAsk}).append(nil)); err != nil || got.kind != helloAsk {
		t.Fatalf("ask came back as %+v, %v", got, err)
	}
}

func TestHelloRefusals(t *testing.T) {
	good := (&hello{kind: 1, cluster: 1, from: 2, to: 3}).append(nil)
	channel := bytes.Clone(good)
	channel[8] = byte(channelCount)
	version := bytes.Clone(good)
	version[7]++
	for _, c := range []struct {
		name string
		b    []byte
		want string
	}{
		{"empty", nil, "not a Holdfast member, or one of another version"},
		{"cut", good[:len(good)-1], "not a Holdfast member, or one of another version"},
		{"too long", append(bytes.Clone(good), 0), "not a Holdfast member, or one of another version"},
		{"next version", version, "not a Holdfast member, or one of another version"},
		{"unknown channel", channel, "unknown channel 4"},
	} {
		if _, err := decodeHello(c.b); !errors.Is(err, errFrame) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

func TestFrameRoundTrip(t *testing.T) {
	const step = 1 << 20 // readFrame allocates in steps of it
	for _, n := range []int{0, 1, frameHeaderLen, 255, step - 1, step, step + 1, 3*step + 5} {
		p := bytes.Repeat([]byte{0xa5, 1, 2}, n/3+1)[:n]
		r := reader(frames(t, p, []byte("next")))
		got, err := readFrame(r, MaxFrameBytes)
		if err != nil || !bytes.Equal(got, p) {
			t.Fatalf("%d bytes: %d came back, %v", n, len(got), err)
		}
		if got, err := readFrame(r, MaxFrameBytes); err != nil || string(got) != "next" {
			t.Fatalf("after %d bytes: %q, %v", n, got, err)
		}
		if _, err := readFrame(r, MaxFrameBytes); err != io.EOF {
			t.Fatalf("at the end: %v, want EOF", err)
		}
	}
}

func TestFrameRefusals(t *testing.T) {
	whole := frames(t, []byte("payload"))
	flipped := bytes.Clone(whole)
	flipped[len(flipped)-1] ^= 1
	huge := []byte{0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0}
	for _, c := range []struct {
		name string
		b    []byte
		max  int
		want error
	}{
		{"nothing", nil, 100, io.EOF},
		{"cut header", whole[:5], 100, io.ErrUnexpectedEOF},
		{"header only", whole[:frameHeaderLen], 100, io.ErrUnexpectedEOF},
		{"cut payload", whole[:len(whole)-1], 100, io.ErrUnexpectedEOF},
		{"flipped bit", flipped, 100, errFrame},
		{"over the limit", whole, 6, errFrame},
		{"4 GiB announced", huge, MaxFrameBytes, errFrame},
	} {
		if _, err := readFrame(reader(c.b), c.max); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
}

// A frame that announces much and delivers little must not cost what it announces.
func TestFrameBelievesOnlyWhatArrives(t *testing.T) {
	announced := []byte{0, 0, 0, 1, 0, 0, 0, 0} // 16 MiB
	var before, after runtime.MemStats
	const rounds = 20
	runtime.ReadMemStats(&before)
	for range rounds {
		if _, err := readFrame(reader(announced), MaxFrameBytes); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatal(err)
		}
	}
	runtime.ReadMemStats(&after)
	if each := (after.TotalAlloc - before.TotalAlloc) / rounds; each > 2<<20 {
		t.Fatalf("%d bytes allocated for an empty promise", each)
	}
}

func FuzzHello(f *testing.F) {
	f.Add((&hello{kind: 1, cluster: 1, from: 2, to: 3}).append(nil))
	f.Add((&hello{kind: helloAsk}).append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := decodeHello(b)
		if err != nil {
			return
		}
		if again := h.append(nil); !bytes.Equal(again, b) {
			t.Fatalf("%x came back as %x", b, again)
		}
	})
}

func FuzzReadFrame(f *testing.F) {
	f.Add(frames(f, []byte("payload")), uint16(100))
	f.Add(frames(f, nil, []byte("second")), uint16(6))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0}, uint16(1000))
	f.Fuzz(func(t *testing.T, b []byte, max uint16) {
		r := reader(b)
		var got [][]byte
		for {
			p, err := readFrame(r, int(max))
			if err != nil {
				break
			}
			if len(p) > int(max) {
				t.Fatalf("%d bytes over a limit of %d", len(p), max)
			}
			got = append(got, p)
		}
		if again := frames(t, got...); !bytes.HasPrefix(b, again) {
			t.Fatalf("%x read as frames %x", b, again)
		}
	})
}
