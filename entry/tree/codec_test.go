package tree

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/holdfastdb/holdfast/internal/golden"
	"github.com/holdfastdb/holdfast/internal/wire"
	"github.com/holdfastdb/holdfast/tiles"
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
		{Kind: Resume, Log: 2, Size: 9000, Root: tiles.LeafHash(nil)},
	}
}

func TestGolden(t *testing.T) {
	var out strings.Builder
	for _, p := range samples() {
		b := AppendPart(nil, p)
		fmt.Fprintf(&out, "%s\n%s\n", Describe(b), hex.Dump(b))
	}
	golden.Check(t, "testdata/parts.txt", out.String())
}

func TestRoundTrip(t *testing.T) {
	for _, p := range samples() {
		b := AppendPart(nil, p)
		var got Part
		if err := got.Decode(b); err != nil || !got.same(p) {
			t.Fatalf("%s came back as %s, %v", p, &got, err)
		}
		if p.Kind == Append {
			continue // its entries reach to the end, whatever that is
		}
		for n := range b {
			if err := got.Decode(b[:n]); err == nil {
				t.Fatalf("%s cut to %d bytes decoded", p, n)
			}
		}
		if err := got.Decode(append(b, 0)); !errors.Is(err, wire.ErrTrailing) {
			t.Fatalf("%s with a byte too many: %v", p, err)
		}
	}
}

func TestRefusals(t *testing.T) {
	var p Part
	for _, kind := range []byte{0, 5, 99} {
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

func FuzzDecode(f *testing.F) {
	for _, p := range samples() {
		f.Add(AppendPart(nil, p))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var p Part
		if p.Decode(b) == nil && !bytes.Equal(AppendPart(nil, &p), b) {
			t.Fatalf("%x: %s came back as %x", b, &p, AppendPart(nil, &p))
		}
		Describe(b)
	})
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
