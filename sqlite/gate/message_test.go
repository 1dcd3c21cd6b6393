package gate

import (
	"encoding/hex"
	"testing"

	"github.com/holdfastdb/holdfast/sqlite/place"
)

// TestMessages: the bytes are those of docs/formats/sqlite.md, which the extension in C has too.
func TestMessages(t *testing.T) {
	for _, c := range []struct{ name, bytes string }{
		{"hello", "01" + "01" + "02" + "39300000" + hex.EncodeToString([]byte("/data/app.db"))},
		{"hello of version 2", "01" + "02" + "02" + "39300000" + "0123000000000000" + "0200000000000080" + "0345000000000000" + "0400000000000000" +
			hex.EncodeToString([]byte("/data/app.db"))},
		{"commit", "02" + "07000000" + "02" + "00" + "0102030405060708" + "e8030000"},
		{"commit of one that is alone", "02" + "07000000" + "01" + "01" + "0000000000000000" + "00000000"},
		{"note", "03"},
		{"status", "04" + "07000000"},
	} {
		b, err := hex.DecodeString(c.bytes)
		if err != nil {
			t.Fatal(err)
		}
		m, err := decode(b)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		switch c.name {
		case "hello":
			if m.hello != (Hello{Ack: Archive, PID: 12345, Path: "/data/app.db"}) {
				t.Errorf("%+v", m.hello)
			}
		case "hello of version 2":
			if m.hello != (Hello{Ack: Archive, PID: 12345, Path: "/data/app.db", File: place.ID{Dev: 0x2301, Ino: 1<<63 | 2}, Dir: place.ID{Dev: 0x4503, Ino: 4}}) {
				t.Errorf("%+v", m.hello)
			}
		case "commit":
			if m.commit != (Commit{7, true, false, [8]byte{1, 2, 3, 4, 5, 6, 7, 8}, 1000}) {
				t.Errorf("%+v", m.commit)
			}
		case "commit of one that is alone":
			if m.commit != (Commit{Seq: 7, Lone: true}) {
				t.Errorf("%+v", m.commit)
			}
		}
		for _, bad := range [][]byte{b[:len(b)-1], append(b[:len(b):len(b)], 0)} {
			if _, err := decode(bad); err == nil && m.kind != kindHello {
				t.Errorf("%s: %x is taken for a message", c.name, bad)
			}
		}
	}
	if got := hex.EncodeToString(State{Managed: true, Ack: Archive, Refuse: InDoubt, Hold: true, TimeoutMS: 30000, Text: "why"}.encode()); got != "8101020201"+"30750000"+"776879" {
		t.Error(got)
	}
	if got := hex.EncodeToString(encodeDone(7, WasFenced, "no")); got != "82"+"07000000"+"02"+"6e6f" {
		t.Error(got)
	}
	if got := hex.EncodeToString(encodeText(7, "ok")); got != "83"+"07000000"+"6f6b" {
		t.Error(got)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte{1, 1, 2, 0, 0, 0, 0, '/'})
	f.Add(append([]byte{1, 2, 2, 0, 0, 0, 0}, make([]byte, 33)...))
	f.Add([]byte{2, 7, 0, 0, 0, 2, 0, 1, 2, 3, 4, 5, 6, 7, 8, 1, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := decode(b)
		if err == nil && m.kind == kindHello && len(m.hello.Path) > maxPath {
			t.Error("a path longer than allowed")
		}
	})
}
