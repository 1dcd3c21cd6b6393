package member

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/holdfastdb/holdfast/internal/golden"
)

var sample = Member{ID: 0x0102030405060708, Name: "n1", PeerURLs: []string{"http://10.0.0.1:2380"},
	ClientURLs: []string{"http://10.0.0.1:2379", "https://n1:2379"}, Learner: true, Nonce: 0x1111111111111111, AutoPromote: true}

func parts() []Part {
	return []Part{
		{Add: &Add{Member: sample}},
		{Add: &Add{Member: Member{ID: 1}}},
		{Remove: &Remove{ID: 0x0102030405060708}},
		{Promote: &Promote{ID: 7}},
		{Publish: &Publish{ID: 7, Name: "n1", ClientURLs: []string{"http://10.0.0.1:2379"}}},
		{Publish: &Publish{ID: 7}},
		{Claim: &Claim{ID: 7, Nonce: 1 << 60, Name: "n1"}},
		{SetPeers: &SetPeers{ID: 7, PeerURLs: []string{"http://10.0.0.9:2380", ""}}},
		{RaiseLevel: &RaiseLevel{Level: 300, Members: []uint64{7, 0x0102030405060708}}},
	}
}

// The golden file pins the bytes: what one build logs every later one reads.
func TestGolden(t *testing.T) {
	var b strings.Builder
	for _, p := range parts() {
		fmt.Fprintf(&b, "# %s\n%s", describe(&p), hex.Dump(AppendPart(nil, &p)))
	}
	golden.Check(t, "testdata/part.hex", b.String())
}

func describe(p *Part) string {
	v := reflect.ValueOf(*p)
	for i := range v.NumField() {
		if !v.Field(i).IsNil() {
			return fmt.Sprintf("%s %+v", v.Type().Field(i).Name, v.Field(i).Elem())
		}
	}
	return "nothing"
}

func TestRoundTrip(t *testing.T) {
	for _, p := range parts() {
		b := AppendPart([]byte("before"), &p)
		got, err := DecodePart(b[len("before"):])
		if err != nil || !reflect.DeepEqual(*got, p) {
			t.Errorf("%s came back as %v, %v", describe(&p), got, err)
		}
	}
	for _, m := range []Member{sample, {}, {ID: ^uint64(0), PeerURLs: []string{""}}} {
		got, err := DecodeMember(AppendMember(nil, &m))
		if err != nil || !reflect.DeepEqual(got, m) {
			t.Errorf("%+v came back as %+v, %v", m, got, err)
		}
	}
}

func TestRefusals(t *testing.T) {
	for _, p := range parts() {
		whole := AppendPart(nil, &p)
		for n := range len(whole) {
			if got, err := DecodePart(whole[:n]); !errors.Is(err, ErrMalformed) {
				t.Fatalf("%s cut at %d: %v, %v", describe(&p), n, got, err)
			}
		}
		if _, err := DecodePart(append(bytes.Clone(whole), 0)); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s with a byte too many: %v", describe(&p), err)
		}
	}
	flags := AppendMember(nil, &Member{ID: 1})
	flags[16] = 4
	if _, err := DecodeMember(flags); !errors.Is(err, ErrMalformed) {
		t.Errorf("an unknown flag: %v", err)
	}
	for _, kind := range []byte{0, kindRaiseLevel + 1, 0xff} {
		if _, err := DecodePart([]byte{kind, 0, 0, 0, 0, 0, 0, 0, 0}); !errors.Is(err, ErrMalformed) {
			t.Errorf("kind %d: %v", kind, err)
		}
	}
	// 2⁶³ addresses are announced and none is there.
	many := append(AppendMember(nil, &Member{ID: 1})[:18], bytes.Repeat([]byte{0xff}, 9)...)
	if _, err := DecodeMember(append(many, 0x7f, 0)); !errors.Is(err, ErrMalformed) {
		t.Errorf("too many addresses: %v", err)
	}
}

func FuzzPart(f *testing.F) {
	for _, p := range parts() {
		f.Add(AppendPart(nil, &p))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := DecodePart(b)
		if err != nil {
			return
		}
		if ours := AppendPart(nil, p); !bytes.Equal(ours, b) {
			t.Fatalf("%x came back as %x", b, ours)
		}
	})
}

func FuzzMember(f *testing.F) {
	f.Add(AppendMember(nil, &sample))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := DecodeMember(b)
		if err != nil {
			return
		}
		if again, err := DecodeMember(AppendMember(nil, &m)); err != nil || !reflect.DeepEqual(again, m) {
			t.Fatalf("%+v came back as %+v, %v", m, again, err)
		}
	})
}
