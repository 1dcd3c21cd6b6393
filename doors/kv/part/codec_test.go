package part

import (
	"bytes"
	"errors"
	"testing"

	"github.com/holdfastdb/holdfast/internal/codectest"
	"github.com/holdfastdb/holdfast/internal/wire"
)

// samples holds one part of every kind with every field in use, and the smallest of each.
func samples() []*Part {
	b := func(s string) []byte { return []byte(s) }
	full := &Txn{
		Compare: []Compare{
			{Key: b("a"), Result: CompareGreater, Target: CompareMod, Int: -5},
			{Key: b("a"), End: b("\x00"), Result: CompareNotEqual, Target: CompareValue, Value: b("x y")},
		},
		Then: []Op{
			{Put: &Put{Key: b("k"), Value: b("v"), Lease: -2, PrevKV: true}},
			{Range: &Range{Key: b("a"), End: b("z"), Limit: 10, Revision: 7, Order: SortDescend, Target: SortByMod, KeysOnly: true,
				CountOnly: true, MinMod: 1, MaxMod: 2, MinCreate: 3, MaxCreate: -4}},
			{},
			{Txn: &Txn{Else: []Op{{Delete: &DeleteRange{Key: b("d"), End: b("e"), PrevKV: true}}}}},
		},
		Else: []Op{{Range: &Range{Key: b("a")}}},
	}
	return []*Part{
		{Put: &Put{Key: b("k"), Value: b("v")}},
		{Put: &Put{Key: b("k"), Lease: 0x32695410dcc0ca06, PrevKV: true, IgnoreValue: true}},
		{Put: &Put{Key: b("k"), Value: bytes.Repeat(b("v"), 100), IgnoreLease: true}},
		{Delete: &DeleteRange{Key: b("k")}},
		{Delete: &DeleteRange{Key: b("k"), End: b("\x00"), PrevKV: true}},
		{Delete: &DeleteRange{Key: b("k"), End: b("z"), ByRange: true}},
		{Txn: &Txn{}},
		{Txn: full},
		{Compact: &Compact{Revision: 1 << 40}},
		{Grant: &LeaseGrant{ID: -1, TTL: 60}},
		{Revoke: &LeaseRevoke{IDs: []int64{1, -1}, Expired: true}},
		{Alarm: &Alarm{On: true, Member: 7, Type: AlarmNoSpace}},
		{Within: &Within{Spans: []Span{{From: b("a"), To: b("b")}, {From: b("c")}}}, Put: &Put{Key: b("a"), Lease: 1}},
		{Within: &Within{}, Revoke: &LeaseRevoke{IDs: []int64{1}}},
		{Must: true, Txn: full},
		{Must: true, Within: &Within{Spans: []Span{{From: b("a")}}}, Txn: &Txn{Then: []Op{{Put: &Put{Key: b("a"), Lease: 1}}}}},
	}
}

func codec() *codectest.Codec[*Part] {
	return &codectest.Codec[*Part]{Samples: samples(), Append: Append, Decode: Decode, Describe: Describe, Trailing: wire.ErrTrailing}
}

func TestGolden(t *testing.T)    { codec().Golden(t, "testdata/parts.txt") }
func TestRoundTrip(t *testing.T) { codec().RoundTrip(t) }
func FuzzDecode(f *testing.F)    { codec().Fuzz(f) }

func nested(depth int) *Part {
	t := &Txn{}
	for range depth - 1 {
		t = &Txn{Then: []Op{{Txn: t}}}
	}
	return &Part{Txn: t}
}

func TestRefusals(t *testing.T) {
	if _, err := Decode(Append(nil, nested(MaxTxnDepth))); err != nil {
		t.Fatalf("depth %d: %v", MaxTxnDepth, err)
	}
	if _, err := Decode(Append(nil, nested(MaxTxnDepth+1))); !errors.Is(err, ErrDepth) {
		t.Fatalf("depth %d: %v", MaxTxnDepth+1, err)
	}
	for _, p := range []*Part{{Must: true, Put: &Put{}}, {Must: true, Within: &Within{}, Revoke: &LeaseRevoke{}}} {
		if _, err := Decode(Append(nil, p)); !errors.Is(err, ErrKind) {
			t.Fatalf("%s: %v", p, err)
		}
	}
	if _, err := Decode([]byte{99}); !errors.Is(err, ErrKind) {
		t.Fatalf("unknown kind: %v", err)
	}
	if _, err := Decode([]byte{kindPut, 0x80, 0, 0}); !errors.Is(err, ErrKind) {
		t.Fatalf("unknown flag: %v", err)
	}
	if _, err := Decode([]byte{kindTxn, 0, 0xff, 0xff, 0x03}); err == nil {
		t.Fatal("a list longer than the part decoded")
	}
}

// Callers of Plain skip the decoder, so it must report true for nothing that the decoder does not know.
func TestPlainIsKnown(t *testing.T) {
	plain := 0
	for kind := range 256 {
		for flags := range 256 {
			for _, rest := range []string{"", "\x01k\x01v", "\x01k\x01v\x01\x02\x03\x04\x05\x06\x07\x08"} {
				b := append([]byte{byte(kind), byte(flags)}, rest...)
				if !Plain(b) {
					continue
				}
				plain++
				if _, err := Decode(b); errors.Is(err, ErrKind) {
					t.Fatalf("%x is plain: %v", b, err)
				}
			}
		}
	}
	if plain == 0 || Plain(nil) || Plain([]byte{kindPut}) {
		t.Error("nothing is plain, or too much")
	}
}

func TestSimplePartsAllocateNothing(t *testing.T) {
	b := Append(nil, samples()[0])
	var d Decoder
	if n := testing.AllocsPerRun(100, func() {
		if _, err := d.Decode(b); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Fatalf("%v allocations", n)
	}
}

func BenchmarkAppendPut(b *testing.B) {
	p := &Part{Put: &Put{Key: []byte("12345678"), Value: make([]byte, 64)}}
	buf := make([]byte, 0, 128)
	b.ReportAllocs()
	for b.Loop() {
		buf = Append(buf[:0], p)
	}
}

func BenchmarkDecodePut(b *testing.B) {
	body := Append(nil, &Part{Put: &Put{Key: []byte("12345678"), Value: make([]byte, 64)}})
	var d Decoder
	b.ReportAllocs()
	for b.Loop() {
		if _, err := d.Decode(body); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkDecodeTxn decodes the Txn of a lock: a compare and an operation on either side.
func BenchmarkDecodeTxn(b *testing.B) {
	key := []byte("/locks/a-name/694d7d3f1a2b3c4d")
	body := Append(nil, &Part{Txn: &Txn{
		Compare: []Compare{{Key: key, Target: CompareCreate}},
		Then:    []Op{{Put: &Put{Key: key, Lease: 7}}, {Range: &Range{Key: key, Limit: 1}}},
		Else:    []Op{{Range: &Range{Key: key}}},
	}})
	var d Decoder
	b.ReportAllocs()
	for b.Loop() {
		if _, err := d.Decode(body); err != nil {
			b.Fatal(err)
		}
	}
}
