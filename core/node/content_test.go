package node

import (
	"context"
	"crypto/sha256"
	"errors"
	"testing"

	"github.com/holdfastdb/holdfast/core/machine"
	"github.com/holdfastdb/holdfast/internal/wire"
)

// The hash is of all rows but the mark of how a member came to them. So a member that was given a snapshot has the same one.
func TestContentIsTheSameOnAllMembers(t *testing.T) {
	m := newManual(t, 3)
	far := m.nodes[2]
	m.cutOff(far.id)
	m.writeOn(m.nodes[0], 30)
	m.forgetLog(far.id)
	m.lose = nil
	m.until("a snapshot", func() bool { return far.replaced.Load() == 1 })
	m.writeOn(m.nodes[0], 5)
	m.same()
	if _, ok, err := readInstallMark(far.store); !ok || err != nil {
		t.Fatalf("it was given no snapshot: %v", err)
	}
	want := contentOfNode(t, m.nodes[0])
	if want.Index != m.nodes[0].appliedIdx || want.Rows < 30 || want.Bytes < 30*10 {
		t.Fatalf("%+v", want)
	}
	for _, n := range m.nodes[1:] {
		if got := contentOfNode(t, n); got != want {
			t.Errorf("member %x has %+v, member 1 %+v", n.id, got, want)
		}
	}
	// By hand, as docs/formats/store.md says it.
	v := far.store.NewView()
	defer v.Close()
	it, err := v.NewIter(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer it.Close()
	var rows []byte
	for ok := it.First(); ok; ok = it.Next() {
		if val, err := it.Value(); err != nil {
			t.Fatal(err)
		} else if string(it.Key()) != "\x00install" {
			rows = wire.AppendBytes(wire.AppendBytes(rows, it.Key()), val)
		}
	}
	if sha256.Sum256(rows) != want.Hash {
		t.Error("another hash by hand")
	}
}

// No row may change without the hash changing: of a machine, of the voters, or of the time.
func TestContentHasEveryRow(t *testing.T) {
	m := newManual(t, 1)
	n := m.nodes[0]
	m.writeOn(n, 5)
	want := contentOfNode(t, n)
	for _, key := range []string{"kck1", string(confKey), string(machine.StateKey), "knew"} {
		was, there, err := n.store.Get(nil, []byte(key))
		if err != nil || there == (key == "knew") {
			t.Fatalf("row %q: %v, %v", key, there, err)
		}
		put := func(val []byte) {
			b := n.store.NewBatch()
			if b.Set([]byte(key), val); val == nil {
				b.Delete([]byte(key))
			}
			if err := n.store.Commit(b, n.appliedIdx); err != nil {
				t.Fatal(err)
			}
		}
		put(append(was[:len(was):len(was)], 0))
		if contentOfNode(t, n).Hash == want.Hash {
			t.Errorf("row %q is another one, and the hash the same", key)
		}
		put(was)
		if contentOfNode(t, n) != want {
			t.Fatalf("row %q did not come back", key)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	v := n.store.NewView()
	defer v.Close()
	if _, err := ContentOf(ended, n.cfg, v); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// A running member says what it has at some index after the question, and the state hash there.
func TestContentOfARunningMember(t *testing.T) {
	n := startAlone(t, t.TempDir(), nil)
	await(t, "announced", n.Announced)
	at := mustPropose(t, n, "k", "v").Pos.Index
	c, err := n.Content(t.Context())
	if err != nil || c.Index != at {
		t.Fatalf("%+v, %v; applied %d", c, err, at)
	}
	index, hash := n.applier.Hash()
	if got, known, err := n.StateHash(t.Context(), at); err != nil || !known || got != hash || index != at {
		t.Errorf("the state hash after %d is %x, %v, %v; after %d it is %x", at, got, known, err, index, hash)
	}
	for _, other := range []uint64{0, at + 1} {
		if got, known, err := n.StateHash(t.Context(), other); err != nil || known {
			t.Errorf("the state hash after %d is %x, %v", other, got, err)
		}
	}
	n.Stop()
	if _, err := n.Content(t.Context()); !errors.Is(err, ErrStopped) {
		t.Errorf("%v", err)
	}
	if _, _, err := n.StateHash(t.Context(), at); !errors.Is(err, ErrStopped) {
		t.Errorf("%v", err)
	}
}
