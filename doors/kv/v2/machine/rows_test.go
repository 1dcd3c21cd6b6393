package machine

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/holdfastdb/holdfast/core/machine/machinetest"
	"github.com/holdfastdb/holdfast/internal/golden"
)

func sampleNodes() []node {
	return []node{
		{exists: true, created: 7, modified: 7, value: []byte("v")},
		{exists: true, created: 7, modified: 300, writes: hot, deadline: 5000, expiration: machinetest.Epoch, value: []byte("v")},
		{exists: true, dir: true, created: 1 << 40, modified: 1 << 40},
	}
}

func sampleEvents() []*Event {
	return []*Event{
		{Action: Set, Node: Node{Path: []byte("/a"), Value: []byte("v"), Created: 4, Modified: 4}},
		{Action: Update, Refresh: true, HasPrev: true,
			Node: Node{Path: []byte("/a/b"), Value: []byte("v"), Expiration: machinetest.Epoch, TTL: 5, Created: 4, Modified: 5},
			Prev: Node{Path: []byte("/a/b"), Value: []byte("w"), Expiration: machinetest.Epoch, TTL: -1, Created: 4, Modified: 4}},
		{Action: Expire, HasPrev: true, Node: Node{Path: []byte("/d"), Dir: true, Created: 4, Modified: 1000},
			Prev: Node{Path: []byte("/d"), Dir: true, Created: 4, Modified: 4}},
	}
}

func TestGoldenRows(t *testing.T) {
	var out strings.Builder
	put := func(what string, b []byte) { fmt.Fprintf(&out, "%s\n%s\n", what, hex.Dump(b)) }
	for _, n := range sampleNodes() {
		put("node", appendNode(nil, &n))
	}
	for _, e := range sampleEvents() {
		put(showEvent(e), appendEvent(nil, e))
	}
	put("key of node /a/b\\x00\\x01", appendNodeKey(nil, []byte("/a/b\x00\x01")))
	put("key of deadline 5000 of /a/b", appendDeadlineKey(nil, 5000, []byte("/a/b")))
	put("key of history up to 1000", appendHistoryKey(nil, 1000))
	put("index 1000", appendIndex(nil, 1000))
	golden.Check(t, "testdata/rows.txt", out.String())
}

func TestEventsComeBack(t *testing.T) {
	var row []byte
	for _, e := range sampleEvents() {
		row = appendEvent(row, e)
	}
	got, err := decodeEvents(row)
	if err != nil {
		t.Fatal(err)
	}
	for i, e := range sampleEvents() {
		if showEvent(got[i]) != showEvent(e) || got[i].Node.Expiration != e.Node.Expiration {
			t.Errorf("%s came back as %s", showEvent(e), showEvent(got[i]))
		}
	}
}

// FuzzRows feeds the decoders what a damaged store could hold: they may refuse it, and what they take must come back.
func FuzzRows(f *testing.F) {
	for _, n := range sampleNodes() {
		f.Add(appendNode(nil, &n))
	}
	for _, e := range sampleEvents() {
		f.Add(appendEvent(nil, e))
	}
	f.Add(appendNodeKey(nil, []byte("/a/b\x00\x01")))
	f.Fuzz(func(t *testing.T, b []byte) {
		if n, err := decodeNode(b); err == nil {
			again, err := decodeNode(appendNode(nil, &n))
			if err != nil || fmt.Sprint(again) != fmt.Sprint(n) {
				t.Fatalf("node %x: %v, %v", b, again, err)
			}
		}
		if evs, err := decodeEvents(b); err == nil {
			var row []byte
			for _, e := range evs {
				row = appendEvent(row, e)
			}
			if again, err := decodeEvents(row); err != nil || len(again) != len(evs) {
				t.Fatalf("events %x: %v", b, err)
			}
		}
		if path, err := decodePath(nil, b); err == nil && !bytes.Equal(appendPath(nil, path), b) {
			t.Fatalf("path %x became %q", b, path)
		}
		_, _, _ = splitDeadlineKey(b)
		_, _ = decodeIndex(b)
	})
}

func BenchmarkDecodeNode(b *testing.B) {
	row := appendNode(nil, &node{created: 2_000_000, modified: 2_000_300, writes: 3, value: make([]byte, 64)})
	b.ReportAllocs()
	for b.Loop() {
		if _, err := decodeNode(row); err != nil {
			b.Fatal(err)
		}
	}
}
