package replica

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/internal/golden"
)

func example() *Manifest {
	at := func(s int64) time.Time { return time.UnixMilli(1_700_000_000_000 + s*1000).UTC() }
	return &Manifest{Owner: 0xa1b2, Epoch: 2,
		Head: Head{TXID: 5 + jump, Post: 1<<63 | 7, Pages: 12, PageSize: 4096, Owner: 0xa1b2, Time: at(9)},
		Files: []File{
			{Level: 0, Min: 4, Max: 4, Size: FenceSize, Pre: 1<<63 | 5, Post: 1<<63 | 5, Fence: true, Time: at(8)},
			{Level: 0, Min: 5, Max: 5 + jump, Size: 2345, Pre: 1<<63 | 5, Post: 1<<63 | 7, Time: at(9)},
			{Level: 9, Min: 1, Max: 3, Size: 34567, Post: 1<<63 | 5, Time: at(3)},
		}}
}

func TestTheManifestIsThisText(t *testing.T) {
	b := example().Encode()
	golden.Check(t, "testdata/manifest", string(b))
	m, err := DecodeManifest(b)
	if err != nil || !bytes.Equal(m.Encode(), b) {
		t.Errorf("%v", err)
	}
}

func TestEveryFlippedBitOfAManifestIsFound(t *testing.T) {
	b := example().Encode()
	for i := range b {
		for bit := range 8 {
			b[i] ^= 1 << bit
			if _, err := DecodeManifest(b); !errors.Is(err, ErrBadManifest) {
				t.Errorf("byte %d, bit %d: %v", i, bit, err)
			}
			b[i] ^= 1 << bit
		}
		if _, err := DecodeManifest(b[:i]); !errors.Is(err, ErrBadManifest) {
			t.Errorf("cut at %d: %v", i, err)
		}
	}
}

// FuzzManifest: what is accepted is written again as it was.
func FuzzManifest(f *testing.F) {
	f.Add(example().Encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := DecodeManifest(b)
		if err == nil && !bytes.Equal(m.Encode(), b) {
			t.Errorf("%q is accepted and becomes %q", b, m.Encode())
		}
	})
}

func TestAFenceIsAsLongAsItsSizeSays(t *testing.T) {
	b, err := EncodeFence(example().Head, 3, time.UnixMilli(5))
	if err != nil || len(b) != FenceSize {
		t.Errorf("%d bytes, %v", len(b), err)
	}
}
