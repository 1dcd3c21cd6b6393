package tiles

import (
	"encoding/json"
	"os"
	"testing"
)

// vector is a case of transparency-dev/merkle. Hashes are []byte because some have a wrong length on purpose.
type vector struct {
	Name    string
	Desc    string
	WantErr bool
	Proof   [][]byte

	// inclusion
	LeafIdx, TreeSize uint64
	Root, LeafHash    []byte
	// consistency
	Size1, Size2 uint64
	Root1, Root2 []byte
}

func readVectors(t *testing.T, file string, want int) []vector {
	t.Helper()
	b, err := os.ReadFile("testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	var vs []vector
	if err := json.Unmarshal(b, &vs); err != nil {
		t.Fatal(err)
	}
	if len(vs) != want {
		t.Fatalf("%s has %d cases, want %d", file, len(vs), want)
	}
	return vs
}

// hashes refuses what has not the length of a hash, as every decoder in front of the verifiers does.
func hashes(in ...[]byte) (out []Hash, ok bool) {
	for _, b := range in {
		if len(b) != HashSize {
			return nil, false
		}
		out = append(out, Hash(b))
	}
	return out, true
}

// standIn is a root for a case whose author wrote "don't care" instead of one: what counts is only whether two are equal.
func standIn(b []byte) Hash {
	if len(b) != HashSize {
		return LeafHash(b)
	}
	return Hash(b)
}

func TestInclusionVectors(t *testing.T) {
	for _, v := range readVectors(t, "inclusion.json", 98) {
		err := ErrProof
		if hs, ok := hashes(append([][]byte{v.LeafHash, v.Root}, v.Proof...)...); ok {
			err = VerifyInclusion(v.LeafIdx, v.TreeSize, hs[0], hs[2:], hs[1])
		}
		if (err != nil) != v.WantErr {
			t.Errorf("%s (%s): %v, want an error: %v", v.Name, v.Desc, err, v.WantErr)
		}
	}
}

func TestConsistencyVectors(t *testing.T) {
	for _, v := range readVectors(t, "consistency.json", 98) {
		err := ErrProof
		if hs, ok := hashes(v.Proof...); ok {
			err = VerifyConsistency(v.Size1, v.Size2, standIn(v.Root1), standIn(v.Root2), hs)
		}
		if (err != nil) != v.WantErr {
			t.Errorf("%s (%s): %v, want an error: %v", v.Name, v.Desc, err, v.WantErr)
		}
	}
}
