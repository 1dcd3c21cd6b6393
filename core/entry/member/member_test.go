package member

import (
	"bytes"
	"errors"
	"reflect"
	"testing"

	"github.com/holdfastdb/holdfast/internal/codectest"
)

var sample = Member{ID: 0x0102030405060708, Name: "n1", PeerURLs: []string{"http://10.0.0.1:2380"},
	ClientURLs: []string{"http://10.0.0.1:2379", "https://n1:2379"}, Learner: true, Nonce: 0x1111111111111111, AutoPromote: true}

func parts() []*Part {
	return []*Part{
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

func codec() *codectest.Codec[*Part] {
	return &codectest.Codec[*Part]{Samples: parts(), Append: AppendPart, Decode: DecodePart, Describe: Describe, Torn: ErrMalformed, Trailing: ErrMalformed,
		Exact: true}
}

func TestGolden(t *testing.T) { codec().Golden(t, "testdata/parts.txt") }
func FuzzPart(f *testing.F)   { codec().Fuzz(f) }

func TestRoundTrip(t *testing.T) {
	codec().RoundTrip(t)
	for _, m := range []Member{sample, {}, {ID: ^uint64(0), PeerURLs: []string{""}}} {
		got, err := DecodeMember(AppendMember(nil, &m))
		if err != nil || !reflect.DeepEqual(got, m) {
			t.Errorf("%+v came back as %+v, %v", m, got, err)
		}
	}
}

func TestRefusals(t *testing.T) {
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
