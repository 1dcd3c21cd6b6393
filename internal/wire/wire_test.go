package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"testing"
)

var errUnknown = errors.New("a bit nobody knows")

// record has one field of every form, as a codec would have them.
type record struct {
	kind   byte
	on     bool
	id     uint64
	count  uint64
	delta  int64
	key    []byte
	name   string
	hash   [4]byte
	list   []uint64
	value  []byte
	failed error
}

func (r *record) append(dst []byte) []byte {
	dst = append(dst, r.kind, Bit(r.on, 4))
	dst = binary.LittleEndian.AppendUint64(dst, r.id)
	dst = binary.AppendUvarint(dst, r.count)
	dst = binary.AppendVarint(dst, r.delta)
	dst = AppendBytes(dst, r.key)
	dst = AppendBytes(dst, r.name)
	dst = append(dst, r.hash[:]...)
	dst = binary.AppendUvarint(dst, uint64(len(r.list)))
	for _, v := range r.list {
		dst = binary.LittleEndian.AppendUint64(dst, v)
	}
	return append(dst, r.value...)
}

func decode(b []byte) record {
	r := NewReader(b)
	v := record{kind: r.Byte(), on: r.Flags(4, errUnknown) != 0, id: r.Uint64(), count: r.Uvarint(), delta: r.Varint(),
		key: r.Bytes(), name: r.Text()}
	copy(v.hash[:], r.Take(4))
	for range r.Count(3, 8) {
		v.list = append(v.list, r.Uint64())
	}
	v.value, v.failed = r.Rest(), r.End()
	return v
}

func sample() record {
	return record{kind: 'x', on: true, id: math.MaxUint64, count: 300, delta: -300, key: []byte("key"), name: "name",
		hash: [4]byte{1, 2, 3, 4}, list: []uint64{7, 8, 9}, value: []byte("the rest")}
}

func TestEveryFormComesBack(t *testing.T) {
	want := sample()
	b := want.append(nil)
	got := decode(b)
	if got.failed != nil || !bytes.Equal(got.append(nil), b) {
		t.Fatalf("%+v came back as %+v", want, got)
	}
}

// Cut anywhere before its last field a record is refused as short, and nothing after the cut is anything but zero.
func TestCutAnywhere(t *testing.T) {
	want := sample()
	b := want.append(nil)
	for n := range len(b) - len(want.value) {
		got := decode(b[:n:n])
		if !errors.Is(got.failed, ErrShort) || len(got.value) != 0 {
			t.Fatalf("cut to %d bytes: %+v", n, got)
		}
	}
}

func TestNumbersAtTheirEdges(t *testing.T) {
	for _, v := range []uint64{0, 1, 127, 128, 1<<14 - 1, 1 << 14, math.MaxInt64, math.MaxUint64} {
		r := NewReader(binary.AppendUvarint(nil, v))
		if got := r.Uvarint(); got != v || r.End() != nil {
			t.Errorf("%d came back as %d, %v", v, got, r.End())
		}
	}
	for _, v := range []int64{0, -1, 1, -64, 64, math.MaxInt64, math.MinInt64} {
		r := NewReader(binary.AppendVarint(nil, v))
		if got := r.Varint(); got != v || r.End() != nil {
			t.Errorf("%d came back as %d, %v", v, got, r.End())
		}
	}
}

func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		name string
		b    []byte
		take func(r *Reader)
		want error
	}{
		{"no byte", nil, func(r *Reader) { r.Byte() }, ErrShort},
		{"seven bytes for a u64", make([]byte, 7), func(r *Reader) { r.Uint64() }, ErrShort},
		{"no u", nil, func(r *Reader) { r.Uvarint() }, ErrShort},
		{"a u that goes on", []byte{0x80, 0x80}, func(r *Reader) { r.Uvarint() }, ErrShort},
		{"zero in two bytes", []byte{0x80, 0}, func(r *Reader) { r.Uvarint() }, ErrNumber},
		{"one in three bytes", []byte{0x81, 0x80, 0}, func(r *Reader) { r.Varint() }, ErrNumber},
		{"65 bits", bytes.Repeat([]byte{0xff}, 11), func(r *Reader) { r.Uvarint() }, ErrNumber},
		{"a length beyond the end", []byte{3, 'a', 'b'}, func(r *Reader) { r.Bytes() }, ErrShort},
		{"the greatest length", binary.AppendUvarint(nil, math.MaxUint64), func(r *Reader) { r.Bytes() }, ErrShort},
		{"too few for Take", []byte{1}, func(r *Reader) { r.Take(2) }, ErrShort},
		{"an unknown bit", []byte{3}, func(r *Reader) { r.Flags(1, errUnknown) }, errUnknown},
		{"a list beyond its limit", []byte{4, 1, 1, 1, 1}, func(r *Reader) { r.Count(3, 1) }, ErrCount},
		{"a list longer than the bytes", []byte{3, 1, 1, 1, 1, 1}, func(r *Reader) { r.Count(10, 2) }, ErrShort},
		{"a byte too many", []byte{1, 2}, func(r *Reader) { r.Byte() }, ErrTrailing},
	} {
		r := NewReader(c.b)
		c.take(&r)
		if err := r.End(); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestTheFirstErrorStays(t *testing.T) {
	r := NewReader([]byte{1, 2, 3})
	r.Byte()
	r.Fail(errUnknown)
	r.Fail(ErrCount)
	if v := r.Byte(); v != 0 || r.Len() != 0 || r.Uint64() != 0 || r.Bytes() != nil || r.Text() != "" || r.Rest() != nil || r.Count(9, 1) != 0 {
		t.Error("something came after an error")
	}
	if !errors.Is(r.Err(), errUnknown) || !errors.Is(r.End(), errUnknown) {
		t.Errorf("the error became %v, %v", r.Err(), r.End())
	}
}

// A taken field may be kept and appended to without reaching the next field.
func TestNoAppendReachesTheNextField(t *testing.T) {
	b := []byte{1, 'a', 'b', 'c', 'd'}
	r := NewReader(b)
	_ = append(r.Bytes(), 'X')
	_ = append(r.Take(2), 'Y')
	if got := r.Rest(); string(got) != "d" {
		t.Errorf("the rest became %q", got)
	}
}

func TestReadingAllocatesNothing(t *testing.T) {
	s := sample()
	b := s.append(nil)
	if n := testing.AllocsPerRun(100, func() {
		r := NewReader(b)
		r.Byte()
		r.Flags(4, errUnknown)
		r.Uint64()
		r.Uvarint()
		r.Varint()
		r.Bytes()
		r.Bytes()
		r.Take(4)
		for range r.Count(3, 8) {
			r.Uint64()
		}
		r.Rest()
		if err := r.End(); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Fatalf("%v allocations", n)
	}
}

// FuzzReader reads bytes by a script that the fuzzer writes too. A value, encoded anew, must be the very bytes it was taken from: one
// meaning has one encoding. After an error nothing is left and the error stays.
func FuzzReader(f *testing.F) {
	s := sample()
	f.Add([]byte("bfqudssb"), s.append(nil))
	f.Add([]byte("uuu"), []byte{0x80, 0, 1})
	f.Add([]byte("c"), []byte{0xff, 0xff, 3})
	f.Fuzz(func(t *testing.T, script, b []byte) {
		r, left, ok := NewReader(b), b, true
		for _, form := range script {
			var again []byte // what was taken, encoded anew
			before := r.Len()
			switch form {
			case 'b':
				again = []byte{r.Byte()}
			case 'f':
				again = []byte{r.Flags(0x7f, errUnknown)}
			case 'q':
				again = binary.LittleEndian.AppendUint64(nil, r.Uint64())
			case 'u':
				again = binary.AppendUvarint(nil, r.Uvarint())
			case 'd':
				again = binary.AppendVarint(nil, r.Varint())
			case 's':
				again = AppendBytes(nil, r.Bytes())
			case 't':
				again = r.Take(3)
			case 'c':
				n := r.Count(1000, 2)
				if n > 1000 || n*2 > r.Len() {
					t.Fatalf("a list of %d in %d bytes", n, r.Len())
				}
				again = binary.AppendUvarint(nil, uint64(n))
			default:
				continue
			}
			if !ok && r.Err() == nil {
				t.Fatal("the error is gone")
			}
			if ok = r.Err() == nil; !ok {
				if r.Len() != 0 {
					t.Fatalf("%d bytes left after an error", r.Len())
				}
				continue
			}
			if before-r.Len() != len(again) || !bytes.HasPrefix(left, again) {
				t.Fatalf("%c took %x of %x", form, again, left)
			}
			left = left[len(again):]
		}
		if ok && !bytes.Equal(r.Rest(), left) {
			t.Fatal("the rest is not what is left")
		}
	})
}

// BenchmarkReader takes what the log's hottest records are made of: short lengths, a long number, two byte strings.
func BenchmarkReader(b *testing.B) {
	buf := append(binary.LittleEndian.AppendUint64(nil, 1), 1, 2)
	buf = binary.AppendUvarint(buf, 2_000_000)
	buf = AppendBytes(AppendBytes(buf, "12345678"), make([]byte, 64))
	b.ReportAllocs()
	for b.Loop() {
		r := NewReader(buf)
		r.Uint64()
		r.Byte()
		r.Uvarint()
		r.Uvarint()
		r.Bytes()
		r.Bytes()
		if err := r.End(); err != nil {
			b.Fatal(err)
		}
	}
}
