package agent

import (
	"testing"

	"github.com/holdfastdb/holdfast/internal/golden"
)

func sampleState() known {
	return known{Owner: 0xa1, Next: 0xb2, TXID: 0x100005, Checksum: 0x8000000000000007, Boot: "39d8d183-bde9-43c1-bef9-dc36bdc1b1ab", Clean: true}
}

func TestStateIsReadAsItWasWritten(t *testing.T) {
	b := sampleState().encode()
	golden.Check(t, "state.txt", string(b))
	if k, ok := decodeState(b); !ok || k != sampleState() {
		t.Errorf("%+v %v", k, ok)
	}
	for i := range b {
		broken := append([]byte(nil), b...)
		broken[i] ^= 1
		if _, ok := decodeState(broken); ok {
			t.Errorf("byte %d flipped, and it is taken for whole", i)
		}
	}
}

func FuzzDecodeState(f *testing.F) {
	f.Add(sampleState().encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		if k, ok := decodeState(b); ok && string(k.encode()) != string(b) {
			t.Errorf("%q is taken for %+v", b, k)
		}
	})
}
