package machine

import (
	"bytes"
	"testing"
)

// Keys must sort as their parts do, for any bytes.
func TestHistoryKeysAreOrdered(t *testing.T) {
	keys := []string{"", "\x00", "\x00\x00", "\x00\x01", "\x00\xff", "\x01", "a", "a\x00", "a\x00\x00", "a\x00\xff", "a\x01", "aa", "b", "\xff", "\xff\x00", "\xff\xff"}
	var prev []byte
	for _, k := range keys {
		for _, rev := range []int64{9, 8} { // newest first
			for _, sub := range []uint32{1, 0} {
				b := appendHistoryKey(nil, []byte(k), rev, sub)
				if bytes.Compare(prev, b) >= 0 {
					t.Fatalf("%q %d.%d does not sort above its predecessor", k, rev, sub)
				}
				key, prefix, r, s, err := splitHistoryKey(nil, b)
				if err != nil || string(key) != k || r != rev || s != sub || !bytes.HasPrefix(b, prefix) {
					t.Fatalf("%q %d.%d came back as %q %d.%d, %v", k, rev, sub, key, r, s, err)
				}
				prev = b
			}
		}
	}
}

// FuzzRows: no bytes in the store may panic a decoder, and what decodes is what was encoded.
func FuzzRows(f *testing.F) {
	m := meta{create: 2, mod: 5, version: 3, lease: -1, sub: 7, valLen: 1}
	f.Add(appendCurrentRow(nil, &m, []byte("v")))
	f.Add(appendHistoryRow(nil, &m, []byte("v")))
	f.Add(appendHistoryRow(nil, &meta{mod: 5}, nil))
	f.Add(appendChange(nil, true, &m, []byte("k")))
	f.Add(appendSums(nil, &sums{rev: 9, compacted: -1, cursorSub: 3}))
	f.Add(appendHistoryKey(nil, []byte("a\x00b"), 4, 2))
	f.Fuzz(func(t *testing.T, b []byte) {
		if m, v, inline, err := decodeCurrentRow(b); err == nil && inline && m.valLen <= inlineBytes {
			if m2, v2, _, err := decodeCurrentRow(appendCurrentRow(nil, &m, v)); err != nil || m2 != m || !bytes.Equal(v2, v) {
				t.Fatalf("current row %x: %+v came back as %+v, %v", b, m, m2, err)
			}
		}
		if m, v, err := decodeHistoryRow(b, 5, 1); err == nil {
			if m2, v2, err := decodeHistoryRow(appendHistoryRow(nil, &m, v), 5, 1); err != nil || m2 != m || !bytes.Equal(v2, v) {
				t.Fatalf("history row %x: %+v came back as %+v, %v", b, m, m2, err)
			}
		}
		if c, err := decodeChange(b); err == nil && c.prev.mod != 0 {
			prev := c.prev
			prev.version = 1
			if c2, err := decodeChange(appendChange(nil, c.deleted, &prev, c.key)); err != nil || c2.prev != c.prev || !bytes.Equal(c2.key, c.key) {
				t.Fatalf("revision row %x: %+v came back as %+v, %v", b, c, c2, err)
			}
		}
		if s, err := decodeSums(b); err == nil {
			if s2, err := decodeSums(appendSums(nil, &s)); err != nil || s2 != s {
				t.Fatalf("counters %x: %+v came back as %+v, %v", b, s, s2, err)
			}
		}
		if key, _, rev, sub, err := splitHistoryKey(nil, b); err == nil && len(b) > 2 {
			again := appendHistoryKey(nil, key, rev, sub)
			if !bytes.Equal(again[2:], b[2:]) {
				t.Fatalf("history key %x came back as %x", b, again)
			}
		}
		_, _, _ = splitByRevKey(b)
	})
}

func BenchmarkDecodeCurrentRow(b *testing.B) {
	value := make([]byte, 64)
	row := appendCurrentRow(nil, &meta{create: 2_000_000, mod: 2_000_300, version: 3, sub: 7, valLen: 64}, value)
	b.ReportAllocs()
	for b.Loop() {
		if _, _, _, err := decodeCurrentRow(row); err != nil {
			b.Fatal(err)
		}
	}
}
