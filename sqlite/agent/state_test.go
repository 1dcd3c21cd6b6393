package agent

import (
	"os"
	"strings"
	"testing"

	"github.com/holdfastdb/holdfast/core/disk"
	"github.com/holdfastdb/holdfast/internal/golden"
)

func sampleState() known {
	return known{Owner: 0xa1, Next: 0xb2, TXID: 0x100005, Checksum: 0x8000000000000007, Boot: "39d8d183-bde9-43c1-bef9-dc36bdc1b1ab", Clean: true,
		Replica: "s3://backups/app", Identity: "00112233445566778899aabbccddeeff"}
}

func TestStateIsReadAsItWasWritten(t *testing.T) {
	b := sampleState().encode()
	golden.Check(t, "testdata/state-2", string(b))
	if k, ok := decodeState(b); !ok || k != sampleState() {
		t.Errorf("%+v %v", k, ok)
	}
	other := known{Fenced: true, Boot: "unknown", Replica: "/a b\n\"c\""}
	if k, ok := decodeState(other.encode()); !ok || k != other {
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

// TestTheStateOfTheVersionBeforeIsRead: it names no replica.
func TestTheStateOfTheVersionBeforeIsRead(t *testing.T) {
	b, err := os.ReadFile("testdata/state-1")
	if err != nil {
		t.Fatal(err)
	}
	want := sampleState()
	want.Replica, want.Identity = "", ""
	if k, ok := decodeState(b); !ok || k != want {
		t.Errorf("%+v %v", k, ok)
	}
}

func FuzzDecodeState(f *testing.F) {
	f.Add(sampleState().encode())
	f.Add(sampleState().encode1())
	f.Fuzz(func(t *testing.T, b []byte) {
		if k, ok := decodeState(b); ok && string(k.encode()) != string(b) && string(k.encode1()) != string(b) {
			t.Errorf("%q is taken for %+v", b, k)
		}
	})
}

// TestAStateThatIsTooLongIsRefused, before it is read.
func TestAStateThatIsTooLongIsRefused(t *testing.T) {
	k := sampleState()
	k.Replica = ""
	k.Replica = strings.Repeat("x", maxState-len(k.encode()))
	if got, ok := decodeState(k.encode()); len(k.encode()) != maxState || !ok || got != k {
		t.Errorf("a state of %d bytes is not read", len(k.encode()))
	}
	k.Replica += "x"
	if _, ok := decodeState(k.encode()); ok {
		t.Errorf("a state of %d bytes is read", len(k.encode()))
	}
	for _, b := range []string{"", "\n", stateMagic, stateMagic + "\nowner 0\n", string(k.encode1()) + "\n", "holdfast-sqlite-state 3" + string(sampleState().encode()[len(stateMagic):])} {
		if _, ok := decodeState([]byte(b)); ok {
			t.Errorf("%q is taken for a state", b)
		}
	}
}

// TestABootIsKnownByItsNumber, or is called unknown where there is none.
func TestABootIsKnownByItsNumber(t *testing.T) {
	fs := disk.NewMem()
	if got := bootID(fs); got != "unknown" {
		t.Errorf("without a number it is %q", got)
	}
	if got := bootID(disk.OS()); len(got) != 36 {
		t.Errorf("on this machine it is %q", got)
	}
}
