package part

import (
	"bytes"
	"errors"
	"math"
	"testing"

	"github.com/holdfastdb/holdfast/internal/codectest"
	"github.com/holdfastdb/holdfast/internal/wire"
)

// samples holds one part of every kind, the smallest and with every field in use.
func samples() []*Part {
	b := func(s string) []byte { return []byte(s) }
	return []*Part{
		{Kind: Set, Path: b("/a"), Value: b("v")},
		{Kind: Set, Path: b("/a/b c"), Value: bytes.Repeat(b("v"), 100), HasTTL: true, TTL: 5e9},
		{Kind: Set, Path: b("/dir"), Dir: true},
		{Kind: Create, Path: b("/a"), Value: b("v"), HasTTL: true, TTL: math.MinInt64},
		{Kind: Update, Path: b("/a"), Refresh: true, HasTTL: true, TTL: 1e9},
		{Kind: CompareAndSwap, Path: b("/a"), Value: b("w"), PrevValue: b("v"), PrevIndex: 1 << 40},
		{Kind: Delete, Path: b("/a"), Dir: true, Recursive: true},
		{Kind: CompareAndDelete, Path: b("/a"), PrevIndex: 7},
		{Kind: InOrder, Path: b("/"), Value: b("v")},
		{Kind: Expire, Limit: 256},
	}
}

func decode(b []byte) (*Part, error) {
	p := new(Part)
	return p, p.Decode(b)
}

func codec() *codectest.Codec[*Part] {
	return &codectest.Codec[*Part]{Samples: samples(), Append: Append, Decode: decode, Describe: Describe, Trailing: wire.ErrTrailing}
}

func TestGolden(t *testing.T)    { codec().Golden(t, "testdata/parts.txt") }
func TestRoundTrip(t *testing.T) { codec().RoundTrip(t) }
func FuzzDecode(f *testing.F)    { codec().Fuzz(f) }

func TestRefusals(t *testing.T) {
	var p Part
	if err := p.Decode([]byte{99}); !errors.Is(err, ErrKind) {
		t.Errorf("unknown kind: %v", err)
	}
	if err := p.Decode([]byte{byte(Set), 0x80, 0, 0}); !errors.Is(err, ErrFlags) {
		t.Errorf("unknown flag: %v", err)
	}
	for _, path := range []string{"", "a", "//", "/a/", "/a//b", "/.", "/a/..", "/../b"} {
		if err := p.Decode(Append(nil, &Part{Kind: Set, Path: []byte(path)})); !errors.Is(err, ErrPath) {
			t.Errorf("path %q: %v", path, err)
		}
	}
	for _, path := range []string{"/", "/a", "/a/b", "/...", "/.a", "/a\x00b", "/ "} {
		if err := p.Decode(Append(nil, &Part{Kind: Set, Path: []byte(path)})); err != nil {
			t.Errorf("path %q: %v", path, err)
		}
	}
}

func TestRefusalTravelsInARejection(t *testing.T) {
	for _, want := range []Refusal{{KeyNotFound, "/a b", 7}, {TestFailed, "[a != b] [1 != 2]", math.MaxUint64}, {NotFile, "", 0}} {
		if got := RefusalOf(want.Rejection()); *got != want {
			t.Errorf("%+v came back as %+v", want, *got)
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	body := Append(nil, &Part{Kind: Set, Path: []byte("/a/directory/a-key"), Value: make([]byte, 64)})
	var p Part
	b.ReportAllocs()
	for b.Loop() {
		if err := p.Decode(body); err != nil {
			b.Fatal(err)
		}
	}
}
