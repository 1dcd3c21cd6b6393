package format

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/holdfastdb/holdfast/internal/golden"
)

var beginning = Tip{Cluster: 0xc1, Timeline: 0x71}

// story is a short log: a first entry without data, a change of term, a membership change, data of a length of two bytes.
func story() []Entry {
	return []Entry{
		{Index: 1, Term: 2},
		{Index: 2, Term: 2, Data: []byte("put k=v")},
		{Index: 3, Term: 300, Type: 2, Data: []byte{0x0a, 0x02, 0x10, 0x07}},
		{Index: 4, Term: 300, Data: bytes.Repeat([]byte("x"), 200)},
	}
}

// spanOf makes one span of all entries.
func spanOf(t testing.TB, after Tip, state uint64, entries ...Entry) (name string, object []byte) {
	t.Helper()
	e := NewEncoder(after, MaxBytes)
	for _, ent := range entries {
		if ok, err := e.Append(ent); err != nil || !ok {
			t.Fatalf("append %d: %t, %v", ent.Index, ok, err)
		}
	}
	return e.Finish(state)
}

func equalEntries(a, b []Entry) bool { return slices.EqualFunc(a, b, Entry.Equal) }

// TestSpanGolden: what is in an archive today every later build must read, and a member of another build must make the same bytes.
func TestSpanGolden(t *testing.T) {
	name, b := spanOf(t, beginning, 0x1122334455667788, story()...)
	s, err := DecodeSpan(name, b)
	if err != nil {
		t.Fatal(err)
	}
	next, b2 := spanOf(t, s.Tip(), 0x99, Entry{Index: 5, Term: 300, Data: []byte("next")})
	golden.Check(t, "testdata/span.hex", fmt.Sprintf("%s\n%s\n%s\n%s", name, hex.Dump(b), next, hex.Dump(b2)))
}

// TestSpansComeBack, and follow each other.
func TestSpansComeBack(t *testing.T) {
	name, b := spanOf(t, beginning, 77, story()...)
	s, err := DecodeSpan(name, bytes.Clone(b))
	if err != nil {
		t.Fatal(err)
	}
	if s.Name != "0000000000000071/00000000000000000001" || s.Cluster != 0xc1 || s.Timeline != 0x71 || s.First != 1 || s.Last != 4 ||
		s.FirstTerm != 2 || s.LastTerm != 300 || s.Before != (Hash{}) || s.State != 77 {
		t.Errorf("%+v", s)
	}
	if got := slices.Collect(s.Entries()); !equalEntries(got, story()) || got[0].Data != nil {
		t.Errorf("%v", got)
	}
	if err := s.Follows(beginning); err != nil {
		t.Error(err)
	}
	n := 0
	for range s.Entries() {
		if n++; n == 2 {
			break
		}
	}
	if again := slices.Collect(s.Entries()); len(again) != 4 {
		t.Errorf("a second time there are %d entries", len(again))
	}
}

// TestEqualHistoriesAreEqualBytes: neither the memory that an entry lies in nor how often the encoder was asked shows.
func TestEqualHistoriesAreEqualBytes(t *testing.T) {
	_, want := spanOf(t, beginning, 5, story()...)
	e := NewEncoder(beginning, MaxBytes)
	room := make([]byte, 0, 4096)
	for _, ent := range story() {
		switch {
		case ent.Data == nil:
			ent.Data = []byte{}
		default:
			ent.Data = append(room[:0], ent.Data...)
		}
		if ok, err := e.Append(Entry{Index: ent.Index + 7, Term: ent.Term}); ok || err == nil {
			t.Fatalf("entry %d out of its place was taken", ent.Index+7)
		}
		if ok, err := e.Append(ent); err != nil || !ok {
			t.Fatal(ok, err)
		}
		clear(room[:cap(room)])
	}
	if _, got := e.Finish(5); !bytes.Equal(got, want) {
		t.Errorf("%x\nwant\n%x", got, want)
	}
	for i, change := range []func(tip *Tip, state *uint64, all []Entry){
		func(tip *Tip, _ *uint64, _ []Entry) { tip.Cluster++ },
		func(tip *Tip, _ *uint64, _ []Entry) { tip.Timeline++ },
		func(tip *Tip, _ *uint64, _ []Entry) { tip.Hash[31]++ },
		func(_ *Tip, state *uint64, _ []Entry) { *state++ },
		func(_ *Tip, _ *uint64, all []Entry) { all[3].Term++ },
		func(_ *Tip, _ *uint64, all []Entry) { all[3].Type++ },
		func(_ *Tip, _ *uint64, all []Entry) { all[3].Data[100]++ },
		func(tip *Tip, _ *uint64, all []Entry) {
			for i := range all {
				all[i].Index++
			}
			tip.Last, tip.Term = 1, 1
		},
	} {
		tip, state, all := beginning, uint64(5), story()
		change(&tip, &state, all)
		if _, got := spanOf(t, tip, state, all...); bytes.Equal(got, want) {
			t.Errorf("change %d does not show", i)
		}
	}
}

// TestASpanKeepsToItsBound, to the byte, and a larger entry is alone in one.
func TestASpanKeepsToItsBound(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, limit := range []int{0, 100, 300, 1000, 1 << 20} {
		e := NewEncoder(beginning, limit)
		var all, back []Entry
		tip := beginning
		spans := 0
		finish := func() {
			size := e.Len()
			name, b := e.Finish(7)
			s, err := DecodeSpan(name, b)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Follows(tip); err != nil {
				t.Fatal(err)
			}
			if len(b) != size || len(b) > limit && s.First != s.Last {
				t.Errorf("limit %d: %d entries in %d bytes, said to be %d", limit, s.Last-s.First+1, len(b), size)
			}
			back = slices.AppendSeq(back, s.Entries())
			if tip = s.Tip(); tip != e.Tip() {
				t.Fatalf("the encoder is at %+v, the span ends at %+v", e.Tip(), tip)
			}
			spans++
		}
		for i := range uint64(200) {
			ent := Entry{Index: i + 1, Term: 1 + i/3, Type: uint8(i % 3), Data: bytes.Repeat([]byte{byte(i)}, rng.IntN(400))}
			all = append(all, ent)
			ok, err := e.Append(ent)
			if err != nil {
				t.Fatal(err)
			}
			if ok {
				continue
			}
			if full := e.Len() + entryLen(ent); full <= limit {
				t.Errorf("limit %d: refused at %d bytes", limit, full)
			}
			finish()
			if ok, err = e.Append(ent); err != nil || !ok {
				t.Fatalf("the first entry of a span: %t, %v", ok, err)
			}
		}
		finish()
		if !equalEntries(all, back) || limit == 0 && spans != 200 || limit == 1<<20 && spans != 1 {
			t.Errorf("limit %d: %d entries came back as %d, in %d spans", limit, len(all), len(back), spans)
		}
		if name, b := e.Finish(0); name != "" || b != nil || e.Len() != 0 {
			t.Errorf("a span of nothing: %s", name)
		}
	}
}

// TestWhatCannotFollowIsRefused by the encoder, which goes on as if it had not been asked.
func TestWhatCannotFollowIsRefused(t *testing.T) {
	tip := Tip{Last: 10, Term: 5}
	for _, ent := range []Entry{{Index: 10, Term: 5}, {Index: 12, Term: 5}, {Index: 0, Term: 5}, {Index: 11, Term: 4}, {Index: 11},
		{Index: 11, Term: 5, Data: make([]byte, MaxBytes)}} {
		e := NewEncoder(tip, MaxBytes)
		if ok, err := e.Append(ent); ok || err == nil {
			t.Errorf("%d@%d of %d bytes was taken", ent.Index, ent.Term, len(ent.Data))
		}
		if ok, err := e.Append(Entry{Index: 11, Term: 5}); !ok || err != nil {
			t.Errorf("after %d@%d: %t, %v", ent.Index, ent.Term, ok, err)
		}
	}
	e := NewEncoder(Tip{Last: math.MaxUint64, Term: 1}, MaxBytes)
	if ok, err := e.Append(Entry{Term: 1}); ok || err == nil {
		t.Error("an index beyond the greatest was taken")
	}
	e = NewEncoder(tip, math.MaxInt)
	large := Entry{Index: 11, Term: math.MaxUint64, Data: make([]byte, MaxBytes-SpanHeadBytes-SpanEndBytes-2*binary.MaxVarintLen64-minEntryLen)}
	if ok, err := e.Append(large); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if ok, err := e.Append(Entry{Index: 12, Term: math.MaxUint64, Data: make([]byte, 100)}); ok || err != nil {
		t.Errorf("beyond the bound of every object: %t, %v", ok, err)
	}
	name, b := e.Finish(0)
	if _, err := DecodeSpan(name, b); err != nil || len(b) > MaxBytes {
		t.Errorf("%d bytes: %v", len(b), err)
	}
}

// fault is the fault of an error, which must be one.
func fault(t *testing.T, err error) *Fault {
	t.Helper()
	var f *Fault
	if !errors.As(err, &f) {
		t.Fatalf("not a fault: %v", err)
	}
	return f
}

// parts are where the head, each entry and the end of a span begin.
func parts(entries []Entry) (at []int) {
	at = []int{0, SpanHeadBytes}
	for _, ent := range entries {
		at = append(at, at[len(at)-1]+entryLen(ent))
	}
	return at
}

// TestEveryFlippedBitIsFoundInItsPlace: in the head, in the entry that it is in, or at the end.
func TestEveryFlippedBitIsFoundInItsPlace(t *testing.T) {
	name, b := spanOf(t, beginning, 77, story()...)
	at := parts(story())
	for i := range b {
		part := 0
		for part+1 < len(at) && i >= at[part+1] {
			part++
		}
		var index uint64
		if part > 0 && part < len(at)-1 {
			index = uint64(part)
		}
		for bit := range 8 {
			bad := bytes.Clone(b)
			bad[i] ^= 1 << bit
			_, err := DecodeSpan(name, bad)
			if f := fault(t, err); f.Name != name || f.Index != index || f.Offset != at[part] {
				t.Fatalf("bit %d of byte %d, in the part at %d (entry %d): %v", bit, i, at[part], index, err)
			}
		}
	}
}

// TestCutAndLengthenedSpans: wherever it is cut, in the part that ends early, and one byte more is one too many.
func TestCutAndLengthenedSpans(t *testing.T) {
	name, b := spanOf(t, beginning, 77, story()...)
	at := parts(story())
	for n := range b {
		_, err := DecodeSpan(name, bytes.Clone(b[:n]))
		f := fault(t, err)
		part := 0
		for part+1 < len(at) && n >= at[part+1] {
			part++
		}
		want := at[part]
		if part == 0 {
			want = n
		}
		if f.Offset != want {
			t.Fatalf("cut to %d bytes: %v", n, err)
		}
	}
	for _, where := range []int{len(b) - SpanEndBytes, len(b) - 4, len(b)} {
		_, err := DecodeSpan(name, slices.Insert(bytes.Clone(b), where, 0))
		if f := fault(t, err); f.Index != 0 || f.Offset != at[len(at)-1] {
			t.Errorf("a byte more at %d: %v", where, err)
		}
	}
	if _, err := DecodeSpan(name, make([]byte, MaxBytes+1)); fault(t, err).Offset != MaxBytes {
		t.Error(err)
	}
}

// mend gives the parts of a span the checksums that fit them, as far as its entries can be told apart.
func mend(b []byte) []byte {
	b = bytes.Clone(b)
	if len(b) < SpanHeadBytes+SpanEndBytes {
		return b
	}
	binary.LittleEndian.PutUint32(b[spanHeadCRCAt:], checksum(b[:spanHeadCRCAt]))
	first, last := binary.LittleEndian.Uint64(b[spanFirstAt:]), binary.LittleEndian.Uint64(b[spanLastAt:])
	var tip Tip
	copy(tip.Hash[:], b[spanBeforeAt:])
	at := SpanHeadBytes
	for index := first; ; index++ {
		begin := at
		term, n := binary.Uvarint(b[at:])
		if at += n + 1; n <= 0 || at > len(b) {
			break
		}
		length, n := binary.Uvarint(b[at:])
		if at += n; n <= 0 || length > uint64(len(b)-at) || len(b)-at-int(length) < 4 {
			break
		}
		at += int(length)
		tip.add(Entry{Index: index, Term: term, Type: b[at-int(length)-n-1], Data: b[at-int(length) : at]}, sha256.New())
		binary.LittleEndian.PutUint32(b[at:], entrySum(index, b[begin:at]))
		if at += 4; index == last {
			break
		}
	}
	state := binary.LittleEndian.Uint64(b[len(b)-SpanEndBytes:])
	binary.LittleEndian.PutUint32(b[len(b)-4:], endSum(b, tip.Hash, state))
	return b
}

func checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// TestWhatNoEncoderMakesIsRefused although every checksum fits.
func TestWhatNoEncoderMakesIsRefused(t *testing.T) {
	name, b := spanOf(t, beginning, 77, story()...)
	at := parts(story())
	if _, err := DecodeSpan(name, mend(b)); err != nil {
		t.Fatal(err)
	}
	put := func(at int, v uint64) func(b []byte) []byte {
		return func(b []byte) []byte { binary.LittleEndian.PutUint64(b[at:], v); return b }
	}
	for what, c := range map[string]struct {
		change func(b []byte) []byte
		offset int
		index  uint64
	}{
		"another version":             {func(b []byte) []byte { b[7] = '2'; return b }, 0, 0},
		"a manifest":                  {func(b []byte) []byte { copy(b, manifestMagic); return b }, 0, 0},
		"no first entry":              {put(spanFirstAt, 0), spanFirstAt, 0},
		"last before first":           {put(spanLastAt, 0), spanFirstAt, 0},
		"one entry more":              {put(spanLastAt, 5), at[5], 5},
		"entries without number":      {put(spanLastAt, math.MaxUint64), at[5], 5},
		"one entry less":              {put(spanLastAt, 3), at[4], 0},
		"renamed, another first":      {put(spanFirstAt, 2), spanTimelineAt, 0},
		"renamed, another timeline":   {put(spanTimelineAt, 0x72), spanTimelineAt, 0},
		"no term":                     {func(b []byte) []byte { b[at[1]] = 0; return b }, at[1], 1},
		"a term that goes back":       {func(b []byte) []byte { b[at[2]] = 1; return b }, at[2], 2},
		"a number in two bytes":       {func(b []byte) []byte { return slices.Replace(b, at[2], at[2]+1, 0x82, 0) }, at[2], 2},
		"a byte after the last entry": {func(b []byte) []byte { return slices.Insert(b, at[5], 0) }, at[5], 0},
		"data to the end of days":     {func(b []byte) []byte { return slices.Replace(b, at[4]+3, at[4]+5, 0xff, 0xff, 0xff, 0xff, 0x7f) }, at[4], 4},
	} {
		t.Run(what, func(t *testing.T) {
			_, err := DecodeSpan(name, mend(c.change(bytes.Clone(b))))
			if f := fault(t, err); f.Offset != c.offset || f.Index != c.index {
				t.Errorf("want byte %d, entry %d: %v", c.offset, c.index, err)
			}
		})
	}
	for _, other := range []string{"", "x", name + "0", "/" + name, strings.ToUpper(name) + " ", SpanName(0x71, 2), ManifestName(0x71, 1)} {
		if _, err := DecodeSpan(other, b); err == nil {
			t.Errorf("it is taken for %q", other)
		}
	}
}

// TestEntriesSwappedWithTheirChecksumsAreFound: each knows its place.
func TestEntriesSwappedWithTheirChecksumsAreFound(t *testing.T) {
	all := []Entry{{Index: 1, Term: 1, Data: []byte("aa")}, {Index: 2, Term: 1, Data: []byte("bb")}, {Index: 3, Term: 1, Data: []byte("cc")}}
	name, b := spanOf(t, beginning, 1, all...)
	at := parts(all)
	second := bytes.Clone(b[at[2]:at[3]])
	copy(b[at[2]:], b[at[3]:at[4]])
	copy(b[at[3]:], second)
	_, err := DecodeSpan(name, b)
	if f := fault(t, err); f.Index != 2 {
		t.Error(err)
	}
}

// TestPartsOfTwoObjectsAreNone: a head, an entry or an end of another object is found although it is whole.
func TestPartsOfTwoObjectsAreNone(t *testing.T) {
	name, a := spanOf(t, beginning, 1, Entry{Index: 1, Term: 1, Data: []byte("aa")}, Entry{Index: 2, Term: 1, Data: []byte("bb")})
	other := beginning
	other.Cluster, other.Hash = 7, Hash{8}
	_, b := spanOf(t, other, 2, Entry{Index: 1, Term: 1, Data: []byte("xx")}, Entry{Index: 2, Term: 1, Data: []byte("yy")})
	at := append(parts([]Entry{{Term: 1, Data: []byte("aa")}, {Term: 1, Data: []byte("bb")}}), len(a))
	for i := range len(at) - 1 {
		mixed := bytes.Clone(a)
		copy(mixed[at[i]:at[i+1]], b[at[i]:at[i+1]])
		_, err := DecodeSpan(name, mixed)
		if f := fault(t, err); f.Offset != at[3] {
			t.Errorf("bytes %d to %d of another object: %v", at[i], at[i+1], err)
		}
	}
}

// TestWhatASpanHandsOutIsTheCallers: changing an entry changes neither the span nor another entry.
func TestWhatASpanHandsOutIsTheCallers(t *testing.T) {
	name, b := spanOf(t, beginning, 77, story()...)
	s, err := DecodeSpan(name, b)
	if err != nil {
		t.Fatal(err)
	}
	for ent := range s.Entries() {
		clear(ent.Data)
		_ = append(ent.Data, "more"...)
	}
	if !equalEntries(slices.Collect(s.Entries()), story()) {
		t.Error("the span has changed")
	}
	clear(b) // which is not allowed
	for ent := range s.Entries() {
		t.Errorf("entry %d of bytes that are no entries any more", ent.Index)
	}
}

// TestChainsThatDoNotHold: each link that is another, missing or doubled is named.
func TestChainsThatDoNotHold(t *testing.T) {
	name, b := spanOf(t, Tip{Cluster: 1, Timeline: 2, Last: 10, Term: 3, Hash: Hash{1}}, 77, Entry{Index: 11, Term: 3})
	s, err := DecodeSpan(name, b)
	if err != nil {
		t.Fatal(err)
	}
	good := Tip{Cluster: 1, Timeline: 2, Last: 10, Term: 3, Hash: Hash{1}}
	if err := s.Follows(good); err != nil {
		t.Error(err)
	}
	for what, change := range map[string]func(tip *Tip){
		"cluster":                           func(tip *Tip) { tip.Cluster++ },
		"timeline":                          func(tip *Tip) { tip.Timeline++ },
		"entries 8 to 10 are missing":       func(tip *Tip) { tip.Last = 7 },
		"the one before ends with 12":       func(tip *Tip) { tip.Last = 12 },
		"it follows entries of hash 01":     func(tip *Tip) { tip.Hash[0]++ },
		"begins in term 3, and the one bef": func(tip *Tip) { tip.Term++ },
	} {
		tip := good
		change(&tip)
		if err := s.Follows(tip); err == nil || fault(t, err).Name != name || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// FuzzDecodeSpan: what decodes is what the encoder makes of it, byte for byte. With mended checksums the fuzzer gets behind them.
func FuzzDecodeSpan(f *testing.F) {
	_, b := spanOf(f, beginning, 77, story()...)
	f.Add(b, false)
	f.Add(b, true)
	_, b = spanOf(f, Tip{Cluster: 1, Timeline: 2, Last: math.MaxUint64 - 1, Term: math.MaxUint64, Hash: Hash{9}}, 1,
		Entry{Index: math.MaxUint64, Term: math.MaxUint64, Type: 255})
	f.Add(b, true)
	f.Fuzz(func(t *testing.T, b []byte, mended bool) {
		if mended {
			b = mend(b)
		}
		name := "none"
		if len(b) >= SpanHeadBytes {
			name = SpanName(binary.LittleEndian.Uint64(b[spanTimelineAt:]), binary.LittleEndian.Uint64(b[spanFirstAt:]))
		}
		s, err := DecodeSpan(name, bytes.Clone(b))
		if err != nil {
			if f := fault(t, err); f.Offset < 0 || f.Offset > len(b) || f.Name != name {
				t.Fatalf("of %d bytes: %v", len(b), err)
			}
			return
		}
		e := NewEncoder(Tip{Cluster: s.Cluster, Timeline: s.Timeline, Last: s.First - 1, Term: s.FirstTerm, Hash: s.Before}, MaxBytes)
		for ent := range s.Entries() {
			if ok, err := e.Append(ent); !ok || err != nil {
				t.Fatalf("entry %d: %t, %v", ent.Index, ok, err)
			}
		}
		again, own := e.Finish(s.State)
		if again != name || !bytes.Equal(own, b) || e.Tip() != s.Tip() {
			t.Fatalf("%s %x came back as %s %x", name, b, again, own)
		}
	})
}
