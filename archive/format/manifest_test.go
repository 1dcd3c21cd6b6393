package format

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/holdfastdb/holdfast/internal/golden"
)

// sample is a manifest of three pieces, the second as large as one may be.
func sample() *Manifest {
	m := &Manifest{Cluster: 0xc1, Timeline: 0x71, Index: 1000, Term: 7, State: 0x1122334455667788, WallNs: 1_700_000_000_000_000_000}
	for i, n := range []int{1, MaxPieceBytes, 300} {
		m.Pieces = append(m.Pieces, Piece{Size: n, Hash: sha256.Sum256([]byte{byte(i)})})
	}
	return m
}

func encode(t testing.TB, m *Manifest) (name string, object []byte) {
	t.Helper()
	name, b, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return name, b
}

// TestManifestGolden: a snapshot of one build is restored by every later one.
func TestManifestGolden(t *testing.T) {
	m := sample()
	name, b := encode(t, m)
	golden.Check(t, "testdata/manifest.hex", fmt.Sprintf("%s\n%s\n%s\n", name, hex.Dump(b), m.PieceName(1)))
}

func sameManifest(a, b *Manifest) bool {
	return a.Cluster == b.Cluster && a.Timeline == b.Timeline && a.Index == b.Index && a.Term == b.Term && a.State == b.State &&
		a.WallNs == b.WallNs && slices.Equal(a.Pieces, b.Pieces)
}

func TestManifestsComeBack(t *testing.T) {
	m := sample()
	name, b := encode(t, m)
	got, err := DecodeManifest(name, b)
	if err != nil || !sameManifest(got, m) || got.Bytes() != 1+MaxPieceBytes+300 {
		t.Fatalf("%+v, %v", got, err)
	}
	clear(b)
	if !sameManifest(got, m) {
		t.Error("the manifest is part of the bytes it was read from")
	}
	m.WallNs, m.Index = -1, math.MaxUint64
	name, b = encode(t, m)
	if got, err := DecodeManifest(name, b); err != nil || !sameManifest(got, m) {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestAPieceIsCheckedAgainstItsManifest, and named.
func TestAPieceIsCheckedAgainstItsManifest(t *testing.T) {
	piece := []byte("the rows")
	m := sample()
	m.Pieces[1] = Piece{Size: len(piece), Hash: sha256.Sum256(piece)}
	if err := m.CheckPiece(1, piece); err != nil {
		t.Error(err)
	}
	for what, b := range map[string][]byte{"none": nil, "short": piece[:7], "long": append(bytes.Clone(piece), 0), "another": []byte("the rowz")} {
		err := m.CheckPiece(1, b)
		if f := fault(t, err); !strings.HasPrefix(f.Name, "0000000000000071/pieces/00000000000000001000/0000001-") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestManifestsThatAreNone(t *testing.T) {
	for what, change := range map[string]func(m *Manifest){
		"no index":          func(m *Manifest) { m.Index = 0 },
		"no term":           func(m *Manifest) { m.Term = 0 },
		"no pieces":         func(m *Manifest) { m.Pieces = nil },
		"an empty piece":    func(m *Manifest) { m.Pieces[2].Size = 0 },
		"a negative piece":  func(m *Manifest) { m.Pieces[2].Size = -1 },
		"too large a piece": func(m *Manifest) { m.Pieces[2].Size = MaxPieceBytes + 1 },
		"too many pieces":   func(m *Manifest) { m.Pieces = slices.Repeat(m.Pieces[:1], MaxPieces+1) },
	} {
		m := sample()
		change(m)
		if name, b, err := m.Encode(); err == nil || name != "" || b != nil {
			t.Errorf("%s: %s, %d bytes, %v", what, name, len(b), err)
		}
	}
	m := sample()
	m.Pieces = slices.Repeat(m.Pieces[1:2], MaxPieces)
	name, b := encode(t, m)
	if got, err := DecodeManifest(name, b); err != nil || len(got.Pieces) != MaxPieces || len(b) > MaxBytes {
		t.Errorf("the most pieces: %d bytes, %v", len(b), err)
	}
}

// sum gives the bytes of a manifest the checksum that fits them.
func sum(b []byte) []byte {
	b = bytes.Clone(b)
	if len(b) >= 4 {
		binary.LittleEndian.PutUint32(b[len(b)-4:], checksum(b[:len(b)-4]))
	}
	return b
}

// TestDamagedManifests: every flipped bit, every cut, and what no encoder makes although the checksum fits.
func TestDamagedManifests(t *testing.T) {
	name, b := encode(t, sample())
	for i := range b {
		for bit := range 8 {
			bad := bytes.Clone(b)
			bad[i] ^= 1 << bit
			if _, err := DecodeManifest(name, bad); fault(t, err).Name != name {
				t.Fatalf("bit %d of byte %d: %v", bit, i, err)
			}
		}
		if _, err := DecodeManifest(name, b[:i]); err == nil {
			t.Fatalf("cut to %d bytes", i)
		}
		if _, err := DecodeManifest(name, sum(b[:i])); err == nil {
			t.Fatalf("cut to %d bytes, with a checksum", i)
		}
	}
	second := manifestHeadLen + 1 + minPieceLen
	for what, c := range map[string]struct {
		change func(b []byte) []byte
		offset int
	}{
		"another version":   {func(b []byte) []byte { b[7]++; return b }, 0},
		"a span":            {func(b []byte) []byte { copy(b, spanMagic); return b }, 0},
		"another index":     {func(b []byte) []byte { b[24]++; return b }, 8},
		"another timeline":  {func(b []byte) []byte { b[16]++; return b }, 8},
		"no term":           {func(b []byte) []byte { clear(b[32:40]); return b }, 8},
		"a piece more":      {func(b []byte) []byte { b[manifestHeadLen]++; return b }, manifestHeadLen},
		"a piece less":      {func(b []byte) []byte { b[manifestHeadLen]--; return b }, second + 4 + sha256.Size},
		"a byte more":       {func(b []byte) []byte { return slices.Insert(b, len(b)-4, 0) }, len(b) - 4},
		"a piece too large": {func(b []byte) []byte { b[second]++; return b }, second},
		"an empty piece":    {func(b []byte) []byte { b[manifestHeadLen+1] = 0; return b }, 8},
	} {
		t.Run(what, func(t *testing.T) {
			_, err := DecodeManifest(name, sum(c.change(bytes.Clone(b))))
			if f := fault(t, err); f.Offset != c.offset {
				t.Errorf("want byte %d: %v", c.offset, err)
			}
		})
	}
	if _, err := DecodeManifest(name, make([]byte, MaxBytes+1)); err == nil {
		t.Error("more bytes than any object has")
	}
}

func FuzzDecodeManifest(f *testing.F) {
	_, b := encode(f, sample())
	f.Add(b, false)
	f.Add(b, true)
	f.Fuzz(func(t *testing.T, b []byte, summed bool) {
		if summed {
			b = sum(b)
		}
		name := "none"
		if len(b) >= manifestHeadLen {
			name = ManifestName(binary.LittleEndian.Uint64(b[16:]), binary.LittleEndian.Uint64(b[24:]))
		}
		m, err := DecodeManifest(name, b)
		if err != nil {
			if f := fault(t, err); f.Offset < 0 || f.Offset > len(b) || f.Name != name {
				t.Fatalf("of %d bytes: %v", len(b), err)
			}
			return
		}
		if again, own := encode(t, m); again != name || !bytes.Equal(own, b) {
			t.Fatalf("%s %x came back as %s %x", name, b, again, own)
		}
	})
}
