package node

import (
	"errors"
	"reflect"
	"testing"

	"github.com/holdfastdb/holdfast/core/disk"
	"github.com/holdfastdb/holdfast/internal/golden"
)

var sampleIdentity = Identity{Format: FormatVersion, Name: "n1", Member: 0x0102030405060708, Cluster: 1<<62 - 1, Nonce: 7,
	PeerAddr: "10.0.0.1:2380", Peers: map[uint64]string{9: "10.0.0.2:2380", 3: "[::1]:2380"}}

// The golden file pins the form: a data directory outlives the build that made it.
func TestIdentityGolden(t *testing.T) {
	fs := disk.NewMem()
	if err := fs.MkdirAll("data"); err != nil {
		t.Fatal(err)
	}
	if err := sampleIdentity.write(fs, "data"); err != nil {
		t.Fatal(err)
	}
	b, err := fs.ReadFile(identityFile("data"))
	if err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "testdata/identity.json", string(b))
	got, err := ReadIdentity(fs, "data")
	if err != nil || !reflect.DeepEqual(*got, sampleIdentity) {
		t.Fatalf("%+v came back as %+v, %v", sampleIdentity, got, err)
	}
}

// The first start makes an id and keeps it for ever; the peer address is the one given last.
func TestIdentityIsMadeOnce(t *testing.T) {
	fs := disk.NewMem()
	if _, err := ReadIdentity(fs, "data"); !errors.Is(err, ErrNoIdentity) {
		t.Fatalf("nothing there: %v", err)
	}
	cfg := Config{FS: fs, Dir: "data"}
	first, err := cfg.newIdentity("n1", "a:1")
	if err != nil || first.Member == 0 || first.Nonce == 0 || first.Cluster != 0 {
		t.Fatalf("%+v, %v", first, err)
	}
	again, err := cfg.newIdentity("n1", "b:2")
	if err != nil || again.Member != first.Member || again.Nonce != first.Nonce || again.PeerAddr != "b:2" {
		t.Fatalf("%+v, then %+v, %v", first, again, err)
	}
	for range 1000 {
		if id := randomID(); id == 0 || id >= 1<<62 {
			t.Fatalf("id %x", id)
		}
	}
}

// Any content of the file is an identity of this format or an error.
func FuzzIdentity(f *testing.F) {
	f.Add([]byte(`{"format":1,"name":"n1","member":"5","cluster":"6","nonce":"7","peer_addr":"a:1","peers":{"9":"b:2"}}`))
	f.Add([]byte(`{"format":2}`))
	f.Add([]byte(``))
	f.Fuzz(func(t *testing.T, b []byte) {
		fs := disk.NewMem()
		if err := fs.MkdirAll("data"); err != nil {
			t.Fatal(err)
		}
		if err := fs.WriteFileAtomic(identityFile("data"), b); err != nil {
			t.Fatal(err)
		}
		id, err := ReadIdentity(fs, "data")
		if err != nil {
			if errors.Is(err, ErrNoIdentity) {
				t.Fatalf("a file that is there was taken for none: %v", err)
			}
			return
		}
		if id.Format != FormatVersion {
			t.Fatalf("format %d", id.Format)
		}
	})
}
