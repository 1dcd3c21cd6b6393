package node

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/core/entry"
	emember "github.com/holdfastdb/holdfast/core/entry/member"
	"github.com/holdfastdb/holdfast/core/raft"
	"github.com/holdfastdb/holdfast/core/store"
	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
	v2part "github.com/holdfastdb/holdfast/doors/kv/v2/part"
	tlogpart "github.com/holdfastdb/holdfast/doors/tlog/part"
	"github.com/holdfastdb/holdfast/doors/tlog/tiles"
)

// history is what a cluster has done: its first state, what was committed, and the state at some index on the way.
type history struct {
	m       *manual
	first   []byte // snapshots
	middle  []byte
	entries []Entry // from index 2 on
	hash    uint64  // the leader's, after the last of them
	content Content // of every member there
}

// newHistory writes through three members, with every machine that a node here has, and changes members.
func newHistory(t testing.TB, seed uint64) *history {
	t.Helper()
	m := newManual(t, 3)
	h := &history{m: m, first: firstState(t, m)}
	r := rand.New(rand.NewPCG(seed, 5))
	key, err := tiles.NewSigner("log.example", make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	newLog := tlogpart.AppendPart(nil, &tlogpart.Part{Kind: tlogpart.Create, Spec: tlogpart.LogSpec{Name: "log", Key: *key.Verifier()}})
	var open []*outcome
	for i := range 250 {
		n := m.nodes[r.IntN(3)] // not the fourth, which does not stay
		o, parts := &outcome{}, randomCommand(r)
		if i == 0 {
			parts = []entry.Part{{Machine: entry.MachineTlog, Body: newLog}}
		}
		if err := n.ProposeAsync(LaneKV, 0, parts, func(res *entry.Result, err error) { o.done, o.res, o.err = true, res, err }); err != nil {
			t.Fatal(err)
		}
		open = append(open, o)
		for range 2 + r.IntN(6) {
			m.step()
		}
		switch i {
		case 30:
			m.add(4, true)
		case 60:
			m.change(m.leader(), raft.AddVoter, 4, &emember.Part{Promote: &emember.Promote{ID: 4}})
		case 75:
			m.same()
			h.middle = stateOf(t, m.nodes[0])
		case 90: // refused: raft must not make it, and neither must a replay
			refused := &outcome{}
			if err := m.leader().ChangeAsync(raft.AddLearner, 77, &emember.Part{Promote: &emember.Promote{ID: 77}}, func(res *entry.Result, err error) {
				refused.done, refused.res, refused.err = true, res, err
			}); err != nil {
				t.Fatal(err)
			}
			m.until("the change is refused", func() bool { return refused.done })
			if refused.err != nil || refused.res.Rejection == nil {
				t.Fatalf("%v %v", refused.res, refused.err)
			}
		case 110:
			m.crash(4)
			m.change(m.leader(), raft.Remove, 4, &emember.Part{Remove: &emember.Remove{ID: 4}})
		case 120: // another term
			to := m.nodes[1]
			m.leader().TransferAsync(to.id)
			m.until("another leader", func() bool { return to.pub.Load().leads != 0 })
		}
	}
	m.until("all is decided", func() bool { return !slices.ContainsFunc(open, func(o *outcome) bool { return !o.done }) })
	m.same()
	h.entries = committed(t, m.nodes[0], 2, 64<<10)
	_, h.hash = m.nodes[0].applier.Hash()
	h.content = contentOfNode(t, m.nodes[0])
	for _, n := range m.nodes {
		if c := contentOfNode(t, n); c != h.content {
			t.Fatalf("member %x has the content %+v, member 1 %+v", n.id, c, h.content)
		}
	}
	return h
}

// randomCommand is one with parts for one or several machines.
func randomCommand(r *rand.Rand) (parts []entry.Part) {
	key, value := fmt.Appendf(nil, "k%d", r.IntN(12)), bytes.Repeat([]byte{byte(r.IntN(256))}, r.IntN(40))
	if r.IntN(4) > 0 {
		p := &kvpart.Part{Put: &kvpart.Put{Key: key, Value: value}}
		switch r.IntN(6) {
		case 0:
			p = &kvpart.Part{Delete: &kvpart.DeleteRange{Key: key}}
		case 1:
			p = &kvpart.Part{Grant: &kvpart.LeaseGrant{ID: int64(1 + r.IntN(5)), TTL: 60}} // refused where it is there already
		case 2:
			p = &kvpart.Part{Compact: &kvpart.Compact{Revision: int64(2 + r.IntN(60))}}
		}
		parts = append(parts, entry.Part{Machine: entry.MachineKV, Body: kvpart.Append(nil, p)})
	}
	if r.IntN(3) == 0 {
		p := &v2part.Part{Kind: v2part.Set, Path: append([]byte("/"), key...), Value: value, HasTTL: r.IntN(2) == 0, TTL: int64(time.Minute)}
		parts = append(parts, entry.Part{Machine: entry.MachineEtcd2, Body: v2part.Append(nil, p)})
	}
	if len(parts) == 0 || r.IntN(5) == 0 {
		p := &tlogpart.Part{Kind: tlogpart.Append, Log: 1, Entries: tiles.AppendEntry(nil, append(value, 'x'))}
		parts = append(parts, entry.Part{Machine: entry.MachineTlog, Body: tlogpart.AppendPart(nil, p)})
	}
	return parts
}

// stateOf is a member's state as a snapshot.
func stateOf(t testing.TB, n *Node) []byte {
	t.Helper()
	v := n.store.NewView()
	defer v.Close()
	var b bytes.Buffer
	if err := writeSnapshot(&b, v, &SnapshotInfo{Index: n.appliedIdx, Term: n.termApplied, Conf: n.rep.Conf()}); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// firstState is that of the cluster's members before any entry.
func firstState(t testing.TB, m *manual) []byte {
	t.Helper()
	st := store.NewMem()
	b := st.NewBatch()
	FirstRows(b, m.nodes[0].members.List()...)
	if err := st.Commit(b, 1); err != nil {
		t.Fatal(err)
	}
	v := st.NewView()
	defer v.Close()
	var out bytes.Buffer
	if err := writeSnapshot(&out, v, &SnapshotInfo{Index: 1, Term: 1}); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func contentOfNode(t testing.TB, n *Node) Content {
	t.Helper()
	v := n.store.NewView()
	defer v.Close()
	c, err := ContentOf(t.Context(), n.cfg, v)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// fill puts a snapshot into an empty store.
func fill(t testing.TB, st store.Store, snapshot []byte) {
	t.Helper()
	in, err := st.Incoming()
	if err != nil {
		t.Fatal(err)
	}
	info, err := ReadSnapshot(bytes.NewReader(snapshot), nil, func(k, v []byte) error {
		if string(k) == string(store.AppliedKey) {
			return nil
		}
		return in.Set(k, v)
	})
	if err == nil {
		err = in.Finish(info.Index)
	}
	if err == nil {
		err = st.Install(in)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// replayed begins a replay over a store that holds a snapshot.
func replayed(t testing.TB, st store.Store, snapshot []byte) *Replay {
	t.Helper()
	fill(t, st, snapshot)
	r, err := NewReplay(house(Config{}), st)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// through replays entries that follow the replay's index, and compares the leader's hash after the last.
func through(r *Replay, es []Entry, hash uint64) error {
	if err := r.Apply(es[r.Index()-1:]); err != nil {
		return err
	}
	return r.Compare(hash)
}
