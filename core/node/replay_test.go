package node

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/core/machine"
	"github.com/holdfastdb/holdfast/core/raft"
	"github.com/holdfastdb/holdfast/core/store"
)

// Committed entries, applied without raft, give the members' state: from the first state and from one on the way, in memory and on disk.
func TestAReplayGivesTheStateOfTheMembers(t *testing.T) {
	for seed := range uint64(3) {
		h := newHistory(t, seed)
		changes := slices.ContainsFunc(h.entries, func(e Entry) bool { return e.Type != 0 })
		if !changes || len(h.entries) < 100 || h.content.Rows < 50 {
			t.Fatalf("seed %d: %d entries, %d rows, changes of members: %v", seed, len(h.entries), h.content.Rows, changes)
		}
		for name, from := range map[string][]byte{"from the first state": h.first, "from a snapshot": h.middle} {
			var st store.Store = store.NewMem()
			if seed == 0 {
				onDisk, err := store.Open(t.TempDir(), store.Options{})
				if err != nil {
					t.Fatal(err)
				}
				defer onDisk.Close()
				st = onDisk
			}
			r := replayed(t, st, from)
			began := r.Index()
			if err := through(r, h.entries, h.hash); err != nil {
				t.Fatalf("seed %d %s: %v", seed, name, err)
			}
			got, err := r.Content(t.Context())
			if err != nil || got != h.content {
				t.Errorf("seed %d %s, %d: %+v (%v), the members have %+v", seed, name, began, got, err, h.content)
			}
			if last := h.entries[len(h.entries)-1].Index; r.Index() != last || r.agreed != last {
				t.Errorf("seed %d %s: at %d, the leader's up to %d, the last entry is %d", seed, name, r.Index(), r.agreed, last)
			}
		}
	}
}

// silentByte reports whether no state hash depends at once on the byte at off of an entry's data. Such bytes are the times of the entry and
// a command's proposer.
func silentByte(e *Entry, off int) bool {
	data := e.Data
	if ch, err := raft.DecodeChange(e.Type, e.Data); err != nil || ch != nil {
		if err != nil {
			return false
		}
		at := bytes.Index(e.Data, ch.Context)
		if off < at || off >= at+len(ch.Context) {
			return false
		}
		off, data = off-at, ch.Context
	}
	_, tick := binary.Uvarint(data[1:])
	return off >= 1 && off < 1+tick+8
}

// One changed byte anywhere in the data of an entry is named by index, or the state is unchanged. The times of an entry are an exception:
// they count only once a row has them, so only a checksum names those (TestAnArchiveIsReplayed).
func TestAReplayNamesAChangedByte(t *testing.T) {
	h := newHistory(t, 7)
	r := rand.New(rand.NewPCG(3, 4))
	named, exact, same, silent, widest := 0, 0, 0, 0, uint64(0)
	for i := range h.entries {
		if len(h.entries[i].Data) == 0 {
			continue
		}
		for range 2 {
			es := slices.Clone(h.entries)
			e := &es[i]
			e.Data = bytes.Clone(e.Data)
			off := r.IntN(len(e.Data))
			e.Data[off] ^= byte(1 + r.IntN(255))
			rp := replayed(t, store.NewMem(), h.first)
			err := through(rp, es, h.hash)
			var at *EntryError
			switch {
			case err == nil:
				got, cerr := rp.Content(t.Context())
				switch {
				case cerr != nil:
					t.Fatal(cerr)
				case got == h.content:
					same++
				case silentByte(&h.entries[i], off):
					silent++
				default:
					t.Errorf("byte %d of entry %d was changed, nobody noticed, and the state is another one", off, e.Index)
				}
			case !errors.As(err, &at) || !at.Has(e.Index) && !(silentByte(&h.entries[i], off) && at.First > e.Index):
				t.Errorf("byte %d of entry %d was changed, and it says %v", off, e.Index, err)
			default:
				named++
				if at.Last == at.First {
					exact++
				}
				widest = max(widest, at.Last-at.First+1)
				if again := rp.Apply(es[:1]); again != err {
					t.Errorf("it goes on after %v: %v", err, again)
				}
			}
		}
	}
	t.Logf("%d named, %d of them exactly, the others among %d at most; %d changed nothing, %d the time", named, exact, widest, same, silent)
	if named < 150 || exact < named/2 || widest > 6 {
		t.Errorf("%d named, %d of them exactly, the others among %d at most", named, exact, widest)
	}
}

// The data's surroundings are judged too, and so is an entry in the wrong place.
func TestAReplayNamesAnEntryOutOfPlace(t *testing.T) {
	h := newHistory(t, 8)
	type damage func(es []Entry, i int) []Entry
	for name, do := range map[string]damage{
		"left out": func(es []Entry, i int) []Entry { return slices.Delete(es, i, i+1) },
		"doubled":  func(es []Entry, i int) []Entry { return slices.Insert(es, i, es[i]) },
		"swapped": func(es []Entry, i int) []Entry {
			es[i], es[i+1] = es[i+1], es[i]
			return es
		},
		"index":      func(es []Entry, i int) []Entry { es[i].Index ^= 4; return es },
		"later term": func(es []Entry, i int) []Entry { es[i].Term += 3; return es },
		"no term":    func(es []Entry, i int) []Entry { es[i].Term = 0; return es },
		"type":       func(es []Entry, i int) []Entry { es[i].Type ^= 2; return es },
		"no type":    func(es []Entry, i int) []Entry { es[i].Type = 200; return es },
		"hash of what comes later": func(es []Entry, i int) []Entry {
			hd, rest, err := entry.DecodeHeader(es[i].Data)
			if err != nil {
				t.Fatal(err)
			}
			hd.HashIndex = es[i].Index
			es[i].Data = append(entry.AppendHeader(nil, hd), rest...)
			return es
		},
	} {
		for _, i := range []int{20, 50, 90} {
			for len(h.entries[i].Data) == 0 || h.entries[i].Type != 0 {
				i++
			}
			want := h.entries[i].Index
			if name == "doubled" {
				want++ // in whose place it stands
			}
			es := do(slices.Clone(h.entries), i)
			r := replayed(t, store.NewMem(), h.first)
			var at *EntryError
			if err := through(r, es, h.hash); !errors.As(err, &at) || !at.Has(want) || at.Last > at.First+1 {
				t.Errorf("%s, entry %d: %v", name, want, err)
			}
		}
	}
	// The last entry's effects are in no later stamp: the hash beside it counts.
	r := replayed(t, store.NewMem(), h.first)
	if err := r.Apply(h.entries); err != nil {
		t.Fatal(err)
	}
	var at *EntryError
	if err := r.Compare(h.hash ^ 1); !errors.As(err, &at) || !errors.Is(err, machine.ErrDiverged) || at.Last != r.Index() {
		t.Errorf("another hash at the end: %v", err)
	}
	if err := r.Compare(h.hash); err == nil {
		t.Error("it goes on after a difference")
	}
}

// A machine's failure over bytes that no member would have proposed is an error with an index, a panic too.
func TestAReplayOutlivesAMachineThatPanics(t *testing.T) {
	h := newHistory(t, 9)
	st := store.NewMem()
	fill(t, st, h.first)
	cfg := house(Config{})
	cfg.Machines[0] = brittle{cfg.Machines[0]}
	r, err := NewReplay(cfg, st)
	if err != nil {
		t.Fatal(err)
	}
	var at *EntryError
	if err := r.Apply(h.entries); !errors.As(err, &at) || at.First != r.Index()+1 || !strings.Contains(err.Error(), "boom") {
		t.Errorf("%v", err)
	}
}

// brittle is a machine that does not take its first part.
type brittle struct{ machine.Machine }

func (brittle) Check(*entry.Stamp, []byte) (any, *entry.Rejection, error) { panic("boom") }

func TestAReplayNeedsAStateItCanFollow(t *testing.T) {
	if _, err := NewReplay(house(Config{}), store.NewMem()); err == nil {
		t.Error("a log begins with a first state")
	}
	h := newHistory(t, 10)
	st := store.NewMem()
	fill(t, st, h.middle)
	if _, err := NewReplay(Config{}, st); err != nil {
		t.Fatal(err) // unread rows do not matter
	}
	// But whose they are has to be known before they are compared, and parts have to have their machine.
	st = store.NewMem()
	fill(t, st, h.middle)
	r, err := NewReplay(Config{}, st)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Content(t.Context()); err == nil || !strings.Contains(err.Error(), "does not have") {
		t.Errorf("rows of unknown machines: %v", err)
	}
	var at *EntryError
	if err := r.Apply(h.entries[r.Index()-1:]); !errors.As(err, &at) || !strings.Contains(err.Error(), "does not have") {
		t.Errorf("parts for unknown machines: %v", err)
	}
	// A level beyond this build's is as fatal as on a member.
	st = store.NewMem()
	fill(t, st, h.first)
	b := st.NewBatch()
	b.Set([]byte("ml"), []byte{1, 99})
	if err := st.Commit(b, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := NewReplay(house(Config{}), st); err == nil || !strings.Contains(err.Error(), "level 99") {
		t.Errorf("a level beyond this build's: %v", err)
	}
}
