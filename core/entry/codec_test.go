package entry

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"testing"

	"github.com/holdfastdb/holdfast/internal/golden"
	"github.com/holdfastdb/holdfast/internal/wire"
)

var sample = Command{Origin: 0x1122334455667788, Seq: 300, Term: 3, Parts: []Part{
	{Machine: MachineKV, Body: []byte("\x01body")}, {Machine: MachineMember, Body: nil},
}}

func sampleEntry() []byte {
	b := AppendHeader(nil, Header{TickMs: 1500, WallNs: 1_700_000_000_000_000_001, HashIndex: 41, Hash: 0xfeedface})
	b = AppendPacked(b, AppendCommand(nil, &sample))
	return AppendPacked(b, AppendCommand(nil, &Command{Origin: 1, Seq: 1, Term: 2}))
}

// The golden file pins the bytes: entries written by one build are read by every later one.
func TestGolden(t *testing.T) {
	golden.Check(t, "testdata/entry.hex", hex.Dump(sampleEntry()))
}

func TestRoundTrip(t *testing.T) {
	h, rest, err := DecodeHeader(sampleEntry())
	if err != nil || h.TickMs != 1500 || h.WallNs != 1_700_000_000_000_000_001 || h.HashIndex != 41 || h.Hash != 0xfeedface {
		t.Fatalf("header %+v, %v", h, err)
	}
	cmd, rest, err := Next(rest)
	if err != nil {
		t.Fatal(err)
	}
	c, err := DecodeCommand(cmd)
	if err != nil || len(c.Parts) != 2 || string(c.Parts[0].Body) != "\x01body" || c.Parts[1].Machine != MachineMember {
		t.Fatalf("command %+v, %v", c, err)
	}
	origin, seq, term, err := DecodeCommandID(cmd)
	if err != nil || origin != sample.Origin || seq != 300 || term != 3 {
		t.Fatalf("id %x %d %d, %v", origin, seq, term, err)
	}
	if cmd, rest, err = Next(rest); err != nil || len(rest) != 0 || len(cmd) == 0 {
		t.Fatalf("second command: %d bytes, %d left, %v", len(cmd), len(rest), err)
	}
}

// TestPackedWithoutACopyIsTheSame: lengths are known before the bytes are there, at every size at which a length takes one byte more.
func TestPackedWithoutACopyIsTheSame(t *testing.T) {
	for _, size := range []int{0, 1, 100, 126, 127, 128, 16_383, 16_384, 1 << 21} {
		for _, seq := range []uint64{0, 127, 128, 1 << 40, 1<<64 - 1} {
			c := Command{Origin: 1 << 60, Seq: seq, Term: seq / 2, Parts: []Part{{Machine: MachineKV, Body: make([]byte, size)}, {Machine: MachineMember}}}
			if got, want := AppendPackedCommand([]byte("x"), &c), AppendPacked([]byte("x"), AppendCommand(nil, &c)); !bytes.Equal(got, want) {
				t.Fatalf("body of %d bytes, %d: %d bytes instead of %d", size, seq, len(got), len(want))
			}
		}
	}
}

func TestRefusals(t *testing.T) {
	twice := AppendCommand(nil, &Command{Parts: []Part{{Machine: MachineKV}, {Machine: MachineKV}}})
	many := AppendCommand(nil, &Command{Parts: make([]Part, MaxParts+1)})
	whole := AppendCommand(nil, &sample)
	for _, c := range []struct {
		name string
		b    []byte
		want error
	}{
		{"two parts for one machine", twice, ErrParts},
		{"too many parts", many, ErrParts},
		{"trailing", append(bytes.Clone(whole), 0), wire.ErrTrailing},
		{"cut", whole[:len(whole)-1], wire.ErrShort},
		{"empty", nil, wire.ErrShort},
		{"too large", make([]byte, MaxCommandBytes+1), ErrTooLarge},
	} {
		if _, err := DecodeCommand(c.b); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
	for _, c := range []struct {
		name string
		b    []byte
		want error
	}{
		{"empty", nil, wire.ErrShort},
		{"version 2", []byte{2}, ErrVersion},
		{"cut", sampleEntry()[:12], wire.ErrShort},
		{"tick beyond uint64", append([]byte{1}, bytes.Repeat([]byte{0xff}, 30)...), wire.ErrNumber},
		{"tick beyond int64", append(binary.AppendUvarint([]byte{1}, 1<<63), make([]byte, 17)...), ErrRange},
	} {
		if _, _, err := DecodeHeader(c.b); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
}

func TestDescribe(t *testing.T) {
	part := func(p Part) string { return string(rune(p.Machine)) + ".part" }
	if got := Describe(Position{Index: 7, N: 2}, &sample, part); got != "7.2@3 k.part + m.part" {
		t.Fatal(got)
	}
	if got := Describe(Position{Index: 7}, &Command{Term: 1}, part); got != "7.0@1 empty" {
		t.Fatal(got)
	}
}

func TestDecodeAllocatesNothing(t *testing.T) {
	b := sampleEntry()
	c := Command{Parts: make([]Part, 0, 4)}
	buf := make([]byte, 0, 256)
	if n := testing.AllocsPerRun(100, func() {
		_, rest, _ := DecodeHeader(b)
		for len(rest) > 0 {
			var cmd []byte
			cmd, rest, _ = Next(rest)
			if err := c.Decode(cmd); err != nil {
				t.Fatal(err)
			}
			buf = AppendPacked(buf[:0], cmd)
		}
	}); n != 0 {
		t.Fatalf("%v allocations", n)
	}
}

// FuzzDecode: no bytes may panic a decoder, and what decodes is, encoded again, the same bytes.
func FuzzDecode(f *testing.F) {
	f.Add(sampleEntry())
	f.Add(AppendCommand(nil, &sample))
	f.Fuzz(func(t *testing.T, b []byte) {
		_, _, _, _ = DecodeCommandID(b)
		if c, err := DecodeCommand(b); err == nil {
			if again := AppendCommand(nil, &c); !bytes.Equal(again, b) {
				t.Fatalf("%x became %x", b, again)
			}
		}
		h, rest, err := DecodeHeader(b)
		if err != nil {
			return
		}
		out := AppendHeader(nil, h)
		for len(rest) > 0 {
			var cmd []byte
			if cmd, rest, err = Next(rest); err != nil {
				return
			}
			out = AppendPacked(out, cmd)
		}
		if !bytes.Equal(out, b) {
			t.Fatalf("%x became %x", b, out)
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	cmd := AppendCommand(nil, &sample)
	var c Command
	b.ReportAllocs()
	for b.Loop() {
		if err := c.Decode(cmd); err != nil {
			b.Fatal(err)
		}
	}
}
