package node

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/holdfastdb/holdfast/archive/format"
	"github.com/holdfastdb/holdfast/core/store"
)

// archived is an object of the archive, and where in it each of its entries ends.
type archived struct {
	name   string
	object []byte
	first  uint64
	ends   []int
}

// archivedFrom is where the archive of a history begins: its first state stands for entry 1.
var archivedFrom = format.Tip{Cluster: 1, Timeline: 2, Last: 1, Term: 1}

// archiveOf makes spans of a history, of 4 KiB each, with the state hashes that a replay comes to.
func archiveOf(t *testing.T, h *history) (all []archived) {
	t.Helper()
	r := replayed(t, store.NewMem(), h.first)
	enc, s := format.NewEncoder(archivedFrom, 4<<10), archived{first: archivedFrom.Last + 1}
	finish := func() {
		s.name, s.object = enc.Finish(r.StateHash())
		all, s = append(all, s), archived{first: enc.Tip().Last + 1}
	}
	for i, e := range h.entries {
		ok, err := enc.Append(format.Entry(e))
		if err == nil && !ok {
			finish()
			_, err = enc.Append(format.Entry(e))
		}
		if err == nil {
			err = r.Apply(h.entries[i : i+1])
		}
		if err != nil {
			t.Fatal(err)
		}
		s.ends = append(s.ends, enc.Len()-format.SpanEndBytes)
	}
	finish()
	return all
}

// A replay of an archive gives the members' state, with the state hash of each span on the way. A changed byte is named by its entry, also
// where no state hash depends on it.
func TestAnArchiveIsReplayed(t *testing.T) {
	h := newHistory(t, 9)
	all := archiveOf(t, h)
	r, tip := replayed(t, store.NewMem(), h.first), archivedFrom
	for _, a := range all {
		s, err := format.DecodeSpan(a.name, bytes.Clone(a.object))
		if err == nil {
			err = s.Follows(tip)
		}
		if err != nil {
			t.Fatal(err)
		}
		for e := range s.Entries() {
			if err := r.Apply([]Entry{Entry(e)}); err != nil {
				t.Fatal(err)
			}
		}
		if err := r.Compare(s.State); err != nil {
			t.Fatal(err)
		}
		tip = s.Tip()
	}
	if err := r.Compare(h.hash); err != nil {
		t.Error(err)
	}
	if got, err := r.Content(t.Context()); err != nil || got != h.content {
		t.Errorf("%+v (%v), the members have %+v", got, err, h.content)
	}
	if len(all) < 3 {
		t.Fatalf("%d spans", len(all))
	}
	rng, silent := rand.New(rand.NewPCG(9, 9)), 0
	for _, a := range all {
		begin := format.SpanHeadBytes
		for i, end := range a.ends {
			e := &h.entries[a.first+uint64(i)-2]
			for range 4 {
				off, bad := begin+rng.IntN(end-begin), bytes.Clone(a.object)
				bad[off] ^= byte(1 + rng.IntN(255))
				var at *format.Fault
				if _, err := format.DecodeSpan(a.name, bad); !errors.As(err, &at) || at.Index != e.Index || at.Offset != begin {
					t.Errorf("byte %d of %s was changed, in entry %d: %v", off, a.name, e.Index, err)
				}
				data := end - 4 - len(e.Data)
				if len(e.Data) > 0 && off >= data && off < end-4 && silentByte(e, off-data) {
					silent++
				}
			}
			begin = end
		}
	}
	if silent < 50 {
		t.Errorf("%d of the bytes were those that no state hash depends on", silent)
	}
}
