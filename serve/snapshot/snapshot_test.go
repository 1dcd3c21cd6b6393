package snapshot

import (
	"bytes"
	"crypto/sha256"
	"testing"
)

// TestEnvelope: a snapshot may end by itself or be wrapped as etcdctl wants it; anything else after it is damage.
func TestEnvelope(t *testing.T) {
	body := bytes.Repeat([]byte("snapshot"), 100)
	padded := append(bytes.Clone(body), make([]byte, 1024-len(body))...)
	sum := sha256.Sum256(padded)
	wrapped := append(bytes.Clone(padded), sum[:]...)
	dirty := bytes.Clone(wrapped)
	dirty[len(body)] = 1
	for _, c := range []struct {
		name string
		file []byte
		ok   bool
	}{
		{"bare", body, true},
		{"wrapped", wrapped, true},
		{"padding only", padded, false},
		{"wrong sum", append(bytes.Clone(padded), make([]byte, sha256.Size)...), false},
		{"not zeros", dirty, false},
		{"more after the sum", append(bytes.Clone(wrapped), 0), false},
		{"one byte more", append(bytes.Clone(body), 0), false},
	} {
		in := &counted{r: bytes.NewReader(c.file), sum: sha256.New()}
		head := make([]byte, len(body))
		if _, err := in.Read(head); err != nil {
			t.Fatal(err)
		}
		if err := in.envelope(); (err == nil) != c.ok {
			t.Errorf("%s: %v", c.name, err)
		} else if c.ok && in.n != int64(len(c.file)) {
			t.Errorf("%s: counted %d of %d bytes", c.name, in.n, len(c.file))
		}
	}
}
