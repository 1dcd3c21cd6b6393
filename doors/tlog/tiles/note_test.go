package tiles

import (
	"bytes"
	"crypto/ed25519"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/transparency-dev/formats/log"
	fnote "github.com/transparency-dev/formats/note"
	fproof "github.com/transparency-dev/formats/proof"
	"golang.org/x/mod/sumdb/note"

	"github.com/holdfastdb/holdfast/internal/golden"
)

func testSigner(t testing.TB, name string) *Signer {
	t.Helper()
	s, err := NewSigner(name, bytes.Repeat([]byte{byte(len(name))}, 32))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestGoReadsOurKeysAndNotes: keys and notes made here are those of Go's note package, in both directions.
func TestGoReadsOurKeysAndNotes(t *testing.T) {
	s := testSigner(t, "log.example/one")
	theirs, err := note.NewSigner(s.Private())
	if err != nil {
		t.Fatal(err)
	}
	verifier, err := note.NewVerifier(s.Verifier().String())
	if err != nil {
		t.Fatal(err)
	}
	c := Checkpoint{Origin: "log.example/one", Size: 42, Root: LeafHash([]byte("x")), Extensions: []string{"an extension"}}
	n := &Note{Text: c.Text()}
	s.Sign(n)
	ours := n.Append(nil)
	signed, err := note.Sign(&note.Note{Text: c.Text()}, theirs)
	if err != nil || !bytes.Equal(signed, ours) {
		t.Fatalf("Go signs\n%s\nwe\n%s\n(%v)", signed, ours, err)
	}
	if _, err := note.Open(ours, note.VerifierList(verifier)); err != nil {
		t.Fatal("Go does not open our note:", err)
	}
	cp, _, _, err := log.ParseCheckpoint(ours, c.Origin, verifier)
	if err != nil || cp.Size != 42 || !bytes.Equal(cp.Hash, c.Root[:]) {
		t.Fatalf("formats/log reads %+v, %v", cp, err)
	}
	back, _, err := OpenCheckpoint(ours, s.Verifier())
	if err != nil || fmt.Sprint(*back) != fmt.Sprint(c) {
		t.Fatalf("we read %+v, %v", back, err)
	}
	again, err := ParseSigner(s.Private())
	if err != nil || !again.Verifier().Equal(s.Verifier()) {
		t.Fatal("private key does not come back:", err)
	}
}

// TestEveryBitOfANoteCounts flips each bit of a signed checkpoint: it is never good again with the same meaning.
func TestEveryBitOfANoteCounts(t *testing.T) {
	s := testSigner(t, "log.example/one")
	n := &Note{Text: (&Checkpoint{Origin: "log.example/one", Size: 7, Root: EmptyRoot()}).Text()}
	s.Sign(n)
	good := n.Append(nil)
	for i := range len(good) * 8 {
		bad := bytes.Clone(good)
		bad[i/8] ^= 1 << (i % 8)
		if c, _, err := OpenCheckpoint(bad, s.Verifier()); err == nil {
			t.Fatalf("with bit %d flipped it still says %+v:\n%s", i, c, bad)
		}
	}
	if _, _, err := OpenCheckpoint(good, testSigner(t, "another").Verifier()); !errors.Is(err, ErrSignature) {
		t.Error("another key opens it:", err)
	}
}

// TestCosignatures: a witness's line is verified, carried, and does not get in the way of the log's own.
func TestCosignatures(t *testing.T) {
	s := testSigner(t, "log.example/one")
	n := &Note{Text: (&Checkpoint{Origin: "log.example/one", Size: 7, Root: EmptyRoot()}).Text()}
	s.Sign(n)

	skey, _, err := note.GenerateKey(bytes.NewReader(bytes.Repeat([]byte{9}, 64)), "witness.example")
	if err != nil {
		t.Fatal(err)
	}
	witness, err := fnote.NewSignerForCosignatureV1(skey)
	if err != nil {
		t.Fatal(err)
	}
	line, err := witness.Sign([]byte(n.Text))
	if err != nil {
		t.Fatal(err)
	}
	wv := witness.Verifier()
	// The public key as a vkey: what an operator would be given.
	seed := bytes.Repeat([]byte{9}, 32)
	key := &Verifier{Name: "witness.example", Alg: CosignatureV1, Key: ed25519.NewKeyFromSeed(seed).Public().(ed25519.PublicKey)}
	if key.ID() != wv.KeyHash() {
		t.Fatalf("key id %08x, formats says %08x", key.ID(), wv.KeyHash())
	}
	n.Carry(Signature{Name: "witness.example", KeyID: wv.KeyHash(), Sig: line})
	n.Carry(Signature{Name: "witness.example", KeyID: wv.KeyHash(), Sig: []byte("a second one")})
	text := n.Append(nil)
	back, err := ParseNote(text)
	if err != nil || len(back.Sigs) != 2 {
		t.Fatalf("%+v, %v", back, err)
	}
	if err := back.Verify(s.Verifier()); err != nil {
		t.Error("the log's own signature:", err)
	}
	if at, err := back.Cosigned(key); err != nil || at == 0 {
		t.Error("the witness's:", at, err)
	}
	back.Sigs[1].Sig[0] ^= 1 // another time
	if _, err := back.Cosigned(key); !errors.Is(err, ErrSignature) {
		t.Error("with another time:", err)
	}
	if _, err := back.Cosigned(s.Verifier()); !errors.Is(err, ErrAlgorithm) {
		t.Error("a log's key taken for a witness's:", err)
	}
}

// TestKeysOfOtherAlgorithms: a key this build cannot use is carried, not refused; ML-DSA needs no other format.
func TestKeysOfOtherAlgorithms(t *testing.T) {
	v := &Verifier{Name: "log.example/pq", Alg: MLDSA44, Key: bytes.Repeat([]byte{1}, 1312)}
	back, err := ParseVerifier(v.String())
	if err != nil || !back.Equal(v) || back.Usable() {
		t.Fatalf("%+v, %v", back, err)
	}
	n := &Note{Text: "x\n", Sigs: []Signature{{Name: v.Name, KeyID: v.ID(), Sig: make([]byte, 2420)}}}
	if got, err := ParseNote(n.Append(nil)); err != nil || len(got.Sigs[0].Sig) != 2420 {
		t.Fatal("its signature line:", err)
	}
	if err := n.Verify(back); !errors.Is(err, ErrAlgorithm) {
		t.Error(err)
	}
}

func TestTlogProof(t *testing.T) {
	g := &grown{}
	for i := range 300 {
		g.add(entryOf(i))
	}
	s := testSigner(t, "log.example/one")
	n := &Note{Text: (&Checkpoint{Origin: "log.example/one", Size: 300, Root: g.f.Root()}).Text()}
	s.Sign(n)
	hs, err := g.prover(300).Inclusion(257)
	if err != nil {
		t.Fatal(err)
	}
	for _, extra := range [][]byte{nil, {}, []byte("of the application")} {
		p := &TlogProof{Index: 257, Hashes: hs, Checkpoint: n.Append(nil), Extra: extra}
		text := p.Append(nil)
		back, err := ParseTlogProof(text)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(back.Append(nil), text) {
			t.Errorf("comes back as\n%s", back.Append(nil))
		}
		if c, err := back.Verify(entryOf(257), s.Verifier()); err != nil || c.Size != 300 {
			t.Error(c, err)
		}
		if _, err := back.Verify(entryOf(256), s.Verifier()); !errors.Is(err, ErrProof) {
			t.Error("another entry:", err)
		}
		var theirs fproof.TLogProof
		if err := theirs.Unmarshal(text); err != nil || theirs.Index != 257 || len(theirs.Hashes) != len(hs) || !bytes.Equal(theirs.Checkpoint, p.Checkpoint) {
			t.Errorf("transparency-dev reads %+v, %v", theirs, err)
		}
	}
}

// TestOneFormOfBase64: Go's decoder skips line breaks, even a strict one, so that one key or proof could be written in many ways.
func TestOneFormOfBase64(t *testing.T) {
	s := testSigner(t, "log.example/one")
	n := &Note{Text: (&Checkpoint{Origin: "log.example/one", Size: 2, Root: EmptyRoot()}).Text()}
	s.Sign(n)
	proof := string((&TlogProof{Index: 1, Hashes: []Hash{{1}}, Checkpoint: n.Append(nil), Extra: []byte("of the application")}).Append(nil))
	for what, c := range map[string]struct {
		text  string
		parse func(string) error
	}{
		"vkey":  {s.Verifier().String(), func(text string) error { _, err := ParseVerifier(text); return err }},
		"skey":  {s.Private(), func(text string) error { _, err := ParseSigner(text); return err }},
		"hash":  {EmptyRoot().String(), func(text string) error { _, err := ParseHash(text); return err }},
		"note":  {string(n.Append(nil)), func(text string) error { _, err := ParseNote([]byte(text)); return err }},
		"proof": {proof, func(text string) error { _, err := ParseTlogProof([]byte(text)); return err }},
	} {
		if err := c.parse(c.text); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		at := len(c.text) - 8 // in the last base64 of each but the proof, whose extra is its first
		if what == "proof" {
			at = strings.Index(c.text, "extra ") + 10
		}
		for _, gap := range []string{"\r", "\n", "\r\n", " "} {
			if text := c.text[:at] + gap + c.text[at:]; c.parse(text) == nil {
				t.Errorf("%s: taken with %q in it: %q", what, gap, text)
			}
		}
	}
}

// TestGolden pins each text format.
func TestGolden(t *testing.T) {
	s := testSigner(t, "log.example/one")
	n := &Note{Text: (&Checkpoint{Origin: "log.example/one", Size: 1, Root: LeafHash([]byte("hello"))}).Text()}
	s.Sign(n)
	p := &TlogProof{Index: 0, Checkpoint: n.Append(nil)}
	var f Frontier
	var done Completed
	for i := range 3 {
		f.Append(LeafHash(entryOf(i)), &done)
	}
	got := fmt.Sprintf("vkey %s\nskey %s\nnote %q\nproof %q\nfrontier %x\nbundle %x\n", s.Verifier(), s.Private(), n.Append(nil), p.Append(nil),
		f.AppendBinary(nil), AppendEntry(AppendEntry(nil, []byte("hello")), nil))
	golden.Check(t, "testdata/corpus.txt", got)
}

func FuzzNote(f *testing.F) {
	s := testSigner(f, "log.example/one")
	n := &Note{Text: (&Checkpoint{Origin: "log.example/one", Size: 1, Root: EmptyRoot(), Extensions: []string{"e"}}).Text()}
	s.Sign(n)
	f.Add(n.Append(nil))
	f.Add([]byte("a\n\n\u2014 b AAAAAAA=\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		n, err := ParseNote(b)
		if err != nil {
			return
		}
		if !bytes.Equal(n.Append(nil), b) {
			t.Fatalf("%q comes back as %q", b, n.Append(nil))
		}
		if c, err := ParseCheckpoint(n.Text); err == nil && c.Text() != n.Text {
			t.Fatalf("%q comes back as %q", n.Text, c.Text())
		}
	})
}

func FuzzKey(f *testing.F) {
	s := testSigner(f, "log.example/one")
	f.Add(s.Private())
	f.Add(s.Verifier().String())
	f.Fuzz(func(t *testing.T, text string) {
		if v, err := ParseVerifier(text); err == nil && v.String() != text {
			t.Fatalf("%q comes back as %q", text, v)
		}
		if s, err := ParseSigner(text); err == nil && s.Private() != text {
			t.Fatalf("%q comes back as %q", text, s.Private())
		}
	})
}

func FuzzTlogProof(f *testing.F) {
	s := testSigner(f, "log.example/one")
	n := &Note{Text: (&Checkpoint{Origin: "log.example/one", Size: 2, Root: EmptyRoot()}).Text()}
	s.Sign(n)
	f.Add((&TlogProof{Index: 1, Hashes: []Hash{{1}}, Checkpoint: n.Append(nil), Extra: []byte("x")}).Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		if p, err := ParseTlogProof(b); err == nil && !bytes.Equal(p.Append(nil), b) {
			t.Fatalf("%q comes back as %q", b, p.Append(nil))
		}
	})
}

func FuzzPath(f *testing.F) {
	f.Add("tile/entries/x001/x234/067.p/3")
	f.Fuzz(func(t *testing.T, path string) {
		if r, err := ParsePath(path); err == nil && r.Path() != path {
			t.Fatalf("%q comes back as %q", path, r.Path())
		}
	})
}

func FuzzBundle(f *testing.F) {
	f.Add(AppendEntry(AppendEntry(nil, []byte("hello")), nil), uint8(1))
	f.Fuzz(func(t *testing.T, b []byte, n uint8) {
		hashes, count, err := LeafHashes(nil, b)
		cut, err2 := CutBundle(b, int(n))
		if err == nil && (len(hashes) != count*HashSize || (err2 == nil) != (int(n) <= count)) {
			t.Fatalf("%d entries; the first %d: %v", count, n, err2)
		}
		if err2 == nil && !bytes.HasPrefix(b, cut) {
			t.Fatal("cut is no prefix")
		}
	})
}

func FuzzFrontier(f *testing.F) {
	f.Add(binary.BigEndian.AppendUint64(nil, 0))
	f.Add(append(binary.BigEndian.AppendUint64(nil, 4), bytes.Repeat([]byte{3}, 32)...))
	f.Fuzz(func(t *testing.T, b []byte) {
		var fr Frontier
		if fr.Decode(b) == nil && !bytes.Equal(fr.AppendBinary(nil), b) {
			t.Fatalf("%x comes back as %x", b, fr.AppendBinary(nil))
		}
	})
}

// FuzzVerify: no proof, however long or odd, makes the verifiers panic or take a wrong leaf.
func FuzzVerify(f *testing.F) {
	f.Add(uint64(1), uint64(3), strings.Repeat("x", 64))
	f.Fuzz(func(t *testing.T, a, b uint64, raw string) {
		var hs []Hash
		for ; len(raw) >= HashSize; raw = raw[HashSize:] {
			hs = append(hs, Hash([]byte(raw[:HashSize])))
		}
		if VerifyInclusion(a, b, Hash{1}, hs, Hash{2}) == nil {
			t.Fatal("a proof of nothing verifies")
		}
		if VerifyConsistency(a, b, Hash{1}, Hash{2}, hs) == nil {
			t.Fatal("two roots without a hash in common are consistent")
		}
	})
}
