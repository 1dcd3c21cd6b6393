package machine

import (
	"bytes"
	"testing"

	"github.com/holdfastdb/holdfast/core/entry"
	tlogpart "github.com/holdfastdb/holdfast/doors/tlog/part"
	"github.com/holdfastdb/holdfast/doors/tlog/tiles"
)

// TestCommandsOfOneEntryGoOnFromEachOther: several commands of a raft entry get indexes one after the other.
func TestCommandsOfOneEntryGoOnFromEachOther(t *testing.T) {
	r := newRig(t)
	l, _ := r.create("plain", false, false)
	r.add(l, texts(0, 3)...)
	next := uint64(3)
	for _, res := range r.apply(batch(l, texts(3, 2)...), batch(l, texts(5, 300)...), batch(l, texts(305, 1)...)) {
		a := res.Of(entry.MachineTlog).(*tlogpart.Appended)
		if a.At(0) != next {
			t.Errorf("index %d, want %d", a.At(0), next)
		}
		next += map[uint64]uint64{3: 2, 5: 300, 305: 1}[next]
	}
}

// TestAViewNeverChanges: a View taken before the log grows, and a tile becomes full, still reads what it was.
func TestAViewNeverChanges(t *testing.T) {
	r := newRig(t)
	l, _ := r.create("plain", false, false)
	r.add(l, texts(0, tiles.Width-1)...)
	v := l.View()
	levels, edge := v.levels, bytes.Clone(v.edge)
	was := bytes.Clone(levels[0])
	r.add(l, texts(tiles.Width-1, 2*tiles.Width)...)
	if !bytes.Equal(v.levels[0], was) || !bytes.Equal(v.edge, edge) {
		t.Error("what the View shows has changed")
	}
}
