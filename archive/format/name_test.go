package format

import (
	"fmt"
	"math"
	"slices"
	"testing"
)

// TestNamesSortAsIndexesDo, and the log of a timeline before its snapshots.
func TestNamesSortAsIndexesDo(t *testing.T) {
	var names []string
	indexes := []uint64{1, 9, 10, 99, 100, 255, 256, 4095, 4096, 1 << 32, math.MaxInt64, 1 << 63, math.MaxUint64}
	for _, index := range indexes {
		names = append(names, SpanName(7, index))
	}
	for _, index := range indexes {
		names = append(names, PieceName(7, index, 9, Hash{1}), PieceName(7, index, 10, Hash{0}))
	}
	for _, index := range indexes {
		names = append(names, ManifestName(7, index))
	}
	names = append(names, SpanName(0x10, 1), SpanName(math.MaxUint64, 1))
	if !slices.IsSorted(names) {
		t.Errorf("%q", names)
	}
}

func TestNamesComeBack(t *testing.T) {
	if timeline, first, ok := ParseSpanName("00000000000000ab/00000000000000000012"); timeline != 0xab || first != 12 || !ok {
		t.Error(timeline, first, ok)
	}
	if timeline, index, ok := ParseManifestName("00000000000000ab/snapshot/00000000000000000012"); timeline != 0xab || index != 12 || !ok {
		t.Error(timeline, index, ok)
	}
	if name := PieceName(0xab, 12, 3, Hash{0xcd}); name != "00000000000000ab/pieces/00000000000000000012/0000003-cd000000000000000000000000000000" {
		t.Error(name)
	}
	for _, name := range []string{"", "/", "x", "ab/12", "00000000000000AB/00000000000000000012", "00000000000000ab/0000000000000000001x",
		"00000000000000ab/12", "00000000000000ab/+0000000000000000012", "00000000000000ab/99999999999999999999", "0x000000000000ab/00000000000000000012",
		"00000000000000ab/00000000000000000012/", "00000000000000ab/00000000000000000012.new", "/00000000000000ab/00000000000000000012",
		"00000000000000ab/snapshots/00000000000000000012", "00000000000000ab/snapshot/12", "00000000000000ab/pieces/00000000000000000012"} {
		_, _, span := ParseSpanName(name)
		_, _, manifest := ParseManifestName(name)
		if span || manifest {
			t.Errorf("%q is taken for one of ours", name)
		}
	}
}

func FuzzNames(f *testing.F) {
	f.Add("00000000000000ab/00000000000000000012")
	f.Add("00000000000000ab/snapshot/00000000000000000012")
	f.Fuzz(func(t *testing.T, name string) {
		if timeline, first, ok := ParseSpanName(name); ok && (SpanName(timeline, first) != name || len(name) != 37) {
			t.Error(fmt.Sprint(timeline, first))
		}
		if timeline, index, ok := ParseManifestName(name); ok && ManifestName(timeline, index) != name {
			t.Error(fmt.Sprint(timeline, index))
		}
	})
}
