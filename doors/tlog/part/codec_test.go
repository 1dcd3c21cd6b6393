package part

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/holdfastdb/holdfast/doors/tlog/tiles"
	"github.com/holdfastdb/holdfast/internal/codectest"
	"github.com/holdfastdb/holdfast/internal/wire"
)

// samples holds one part of every kind, the smallest and with every field in use.
func samples() []*Part {
	entries := tiles.AppendEntry(tiles.AppendEntry(nil, []byte("hello")), nil)
	key := tiles.Verifier{Name: "log.example/one", Alg: tiles.Ed25519, Key: bytes.Repeat([]byte{7}, 32)}
	return []*Part{
		{Kind: Append, Log: 1, Entries: entries},
		{Kind: Append, Log: 300, Entries: entries[:7], Hurry: true},
		{Kind: Create, Spec: LogSpec{Name: "default", Key: key}},
		{Kind: Create, Spec: LogSpec{Name: "a-2", Key: key, Dedup: true, Index: true}},
		{Kind: Checkpoint, Checkpoints: []Signed{{Log: 1, Root: tiles.EmptyRoot(), Note: []byte("note\n")}}},
		{Kind: Checkpoint, Checkpoints: []Signed{{Log: 1, Size: 500, Note: []byte("a")}, {Log: 2, Size: 1 << 40, Note: []byte("b")}}},
		{Kind: CreateMore, Spec: LogSpec{Name: "one-more", Key: key}},
		{Kind: Resume, Log: 2, Size: 9000, Root: tiles.LeafHash(nil)},
	}
}

func decode(b []byte) (*Part, error) {
	p := new(Part)
	return p, p.Decode(b)
}

func codec() *codectest.Codec[*Part] {
	return &codectest.Codec[*Part]{Samples: samples(), Append: AppendPart, Decode: decode, Describe: Describe, Trailing: wire.ErrTrailing, Exact: true,
		Open: func(p *Part) bool { return p.Kind == Append }} // its entries reach to the end
}

func TestGolden(t *testing.T)    { codec().Golden(t, "testdata/parts.txt") }
func TestRoundTrip(t *testing.T) { codec().RoundTrip(t) }
func FuzzDecode(f *testing.F)    { codec().Fuzz(f) }

func TestRefusals(t *testing.T) {
	var p Part
	for _, kind := range []byte{0, 6, 99} {
		if err := p.Decode([]byte{kind, 0, 0}); !errors.Is(err, ErrKind) {
			t.Errorf("unknown kind %d: %v", kind, err)
		}
	}
	for _, b := range [][]byte{{byte(Append), 2, 1}, {byte(Create), 4}} {
		if err := p.Decode(b); !errors.Is(err, ErrFlags) {
			t.Errorf("unknown flag %x: %v", b, err)
		}
	}
	for name, ok := range map[string]bool{"default": true, "a": true, "0-9": true, "": false, "-a": false, "A": false, "a/b": false, "a.b": false,
		strings.Repeat("x", 63): true, strings.Repeat("x", 64): false} {
		if ValidName(name) != ok {
			t.Errorf("name %q: %v", name, !ok)
		}
	}
}

func FuzzRows(f *testing.F) {
	f.Add(AppendSpec(nil, &samples()[3].Spec))
	f.Add(AppendSigned(nil, &samples()[4].Checkpoints[0]))
	f.Fuzz(func(t *testing.T, b []byte) {
		if s, err := DecodeSpec(b); err == nil && !bytes.Equal(AppendSpec(nil, &s), b) {
			t.Fatalf("%x: log came back as %x", b, AppendSpec(nil, &s))
		}
		if c, err := DecodeSigned(b); err == nil && !bytes.Equal(AppendSigned(nil, &c), b) {
			t.Fatalf("%x: checkpoint came back as %x", b, AppendSigned(nil, &c))
		}
	})
}
