package restore

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/archive/format"
	"github.com/holdfastdb/holdfast/core/entry"
	eident "github.com/holdfastdb/holdfast/core/entry/ident"
	emember "github.com/holdfastdb/holdfast/core/entry/member"
	"github.com/holdfastdb/holdfast/core/machine"
	"github.com/holdfastdb/holdfast/core/node"
	"github.com/holdfastdb/holdfast/core/store"
	kvmachine "github.com/holdfastdb/holdfast/doors/kv/machine"
	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
	v2machine "github.com/holdfastdb/holdfast/doors/kv/v2/machine"
	v2part "github.com/holdfastdb/holdfast/doors/kv/v2/part"
	tlogmachine "github.com/holdfastdb/holdfast/doors/tlog/machine"
	tlogpart "github.com/holdfastdb/holdfast/doors/tlog/part"
	"github.com/holdfastdb/holdfast/doors/tlog/tiles"
	"github.com/holdfastdb/holdfast/objstore"
)

const lane node.Lane = 1

// others are doors whose machines take part too, each by a file of its own.
var others []other

type other struct {
	machine func() machine.Machine
	part    func(i int) entry.Part // of the i-th command
}

// house is a configuration with new machines of every kind there is.
func house() node.Config {
	cfg := node.Config{MemoryBytes: 64 << 20, Lanes: []node.LaneSpec{{Number: lane, Name: "doors"}}, Machines: []machine.Machine{
		kvmachine.New(kvmachine.Options{CacheBytes: 1 << 20, FilterBytes: 64 << 10, RecentBytes: 256 << 10}), v2machine.New(v2machine.Options{CacheBytes: 256 << 10, RecentBytes: 64 << 10}),
		tlogmachine.New()}}
	for _, more := range others {
		cfg.Machines = append(cfg.Machines, more.machine())
	}
	return cfg
}

// life is what a server did, and what it had on the way.
type life struct {
	cluster uint64
	first   uint64 // index of the first snapshot
	last    uint64
	entries []node.Entry // those after it
	hashes  map[uint64]uint64
	terms   map[uint64]uint64
	walls   map[uint64]int64        // time along the log
	had     map[uint64]node.Content // by the server, at some indexes
	saved   map[uint64][]byte       // snapshots that the server gave
}

// lived is one life, that all tests look at.
var lived = sync.OnceValues(func() (*life, error) {
	dir, err := os.MkdirTemp("", "backup-test-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cfg := house()
	cfg.Dir = dir
	n, err := node.Start(ctx, cfg, node.StartOptions{Name: "n1"})
	if err != nil {
		return nil, err
	}
	defer n.Stop()
	for !n.Status().Ready {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		time.Sleep(time.Millisecond)
	}
	l := &life{hashes: map[uint64]uint64{}, terms: map[uint64]uint64{}, walls: map[uint64]int64{},
		had: map[uint64]node.Content{}, saved: map[uint64][]byte{}}
	if err := l.live(ctx, n); err != nil {
		return nil, err
	}
	return l, l.replay()
})

func theLife(t testing.TB) *life {
	t.Helper()
	l, err := lived()
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// live writes, and now and then saves the state to expect.
func (l *life) live(ctx context.Context, n *node.Node) error {
	if err := l.save(ctx, n); err != nil {
		return err
	}
	for index := range l.saved {
		l.first = index
	}
	r := rand.New(rand.NewPCG(1, 2))
	key, err := tiles.NewSigner("log.example", make([]byte, 32))
	if err != nil {
		return err
	}
	_, id := n.IDs()
	begin := []entry.Part{
		{Machine: entry.MachineMember, Body: emember.AppendPart(nil, &emember.Part{RaiseLevel: &emember.RaiseLevel{Level: n.KnownLevel(), Members: []uint64{id}}})},
		{Machine: entry.MachineTlog, Body: tlogpart.AppendPart(nil, &tlogpart.Part{Kind: tlogpart.Create, Spec: tlogpart.LogSpec{Name: "log", Key: *key.Verifier()}})},
		{Machine: entry.MachineIdent, Body: eident.AppendPart(nil, &eident.Part{UserAdd: &eident.UserAdd{Name: "ann", NoPassword: true}})},
	}
	for i := range 300 {
		parts := write(r, i)
		if i < len(begin) {
			parts = begin[i : i+1]
		}
		res, err := n.Propose(ctx, lane, parts...)
		if err == nil && res.Rejection != nil && i < len(begin) {
			err = fmt.Errorf("command %d: %v", i, res.Rejection)
		}
		if err != nil {
			return err
		}
		if i%3 == 0 {
			c, err := n.Content(ctx)
			if err != nil {
				return err
			}
			l.had[c.Index] = c
		}
		if i == 90 || i == 210 {
			if err := l.save(ctx, n); err != nil {
				return err
			}
		}
	}
	l.last = n.Status().Applied
	for next := l.first + 1; next <= l.last; next = l.entries[len(l.entries)-1].Index + 1 {
		some, err := n.Committed(ctx, next, 1<<20)
		if err != nil {
			return err
		}
		for _, e := range some {
			e.Data = bytes.Clone(e.Data)
			l.entries = append(l.entries, e)
		}
	}
	l.last = l.entries[len(l.entries)-1].Index
	return nil
}

func (l *life) save(ctx context.Context, n *node.Node) error {
	var b bytes.Buffer
	if err := n.SaveSnapshot(ctx, &b); err != nil {
		return err
	}
	info, err := node.ReadSnapshot(bytes.NewReader(b.Bytes()), nil, nil)
	if err == nil {
		l.cluster = info.Cluster
		l.saved[info.Index] = b.Bytes()
		l.terms[info.Index] = info.Term
	}
	return err
}

// write is some command of clients.
func write(r *rand.Rand, i int) (parts []entry.Part) {
	key, value := fmt.Appendf(nil, "k%d", r.IntN(12)), bytes.Repeat([]byte{byte(r.IntN(256))}, 1+r.IntN(60))
	switch r.IntN(8) {
	case 0:
		parts = append(parts, entry.Part{Machine: entry.MachineKV, Body: kvpart.Append(nil, &kvpart.Part{Delete: &kvpart.DeleteRange{Key: key}})})
	case 1:
		parts = append(parts, entry.Part{Machine: entry.MachineKV, Body: kvpart.Append(nil, &kvpart.Part{Grant: &kvpart.LeaseGrant{ID: int64(1 + r.IntN(5)), TTL: 3600}})})
	case 2:
		p := &v2part.Part{Kind: v2part.Set, Path: append([]byte("/"), key...), Value: value}
		parts = append(parts, entry.Part{Machine: entry.MachineEtcd2, Body: v2part.Append(nil, p)})
	case 3:
		for _, more := range others {
			parts = append(parts, more.part(i))
		}
	case 4:
		parts = append(parts, entry.Part{Machine: entry.MachineTlog, Body: tlogpart.AppendPart(nil,
			&tlogpart.Part{Kind: tlogpart.Append, Log: 1, Entries: tiles.AppendEntry(nil, append(value, 'x'))})})
	}
	if len(parts) == 0 || parts[0].Machine != entry.MachineKV && r.IntN(2) == 0 {
		parts = append(parts, entry.Part{Machine: entry.MachineKV, Body: kvpart.Append(nil, &kvpart.Part{Put: &kvpart.Put{Key: key, Value: value}})})
	}
	return parts
}

// replay learns the state hash and the time at each index, and that a replay has what the server had.
func (l *life) replay() error {
	st := store.NewMem()
	if _, err := node.LoadSnapshot(house(), st, bytes.NewReader(l.saved[l.first])); err != nil {
		return err
	}
	r, err := node.NewReplay(house(), st)
	if err != nil {
		return err
	}
	l.hashes[l.first], l.walls[l.first] = r.StateHash(), r.WallNs()
	for i, e := range l.entries {
		if err := r.Apply(l.entries[i : i+1]); err != nil {
			return err
		}
		l.hashes[e.Index], l.walls[e.Index], l.terms[e.Index] = r.StateHash(), r.WallNs(), e.Term
		c, err := r.Content(context.Background())
		if err != nil {
			return err
		}
		if had, ok := l.had[e.Index]; ok && had != c {
			return fmt.Errorf("at %d the server had %+v, a replay has %+v", e.Index, had, c)
		}
		l.had[e.Index] = c
	}
	return nil
}

// archived makes an archive of the life: spans that r cuts, and the snapshots that were saved, in small pieces.
func (l *life) archived(t testing.TB, r *rand.Rand) *objstore.Memory {
	t.Helper()
	s := objstore.NewMemory()
	l.spans(t, s, r, format.Tip{Cluster: l.cluster, Timeline: l.cluster, Last: l.first, Term: l.terms[l.first]}, l.last)
	for index := range l.saved { // any order: each is put by itself
		l.snapshot(t, s, index)
	}
	return s
}

// spans puts those from a tip on, cut as r likes, and returns where they end.
func (l *life) spans(t testing.TB, s objstore.Store, r *rand.Rand, tip format.Tip, last uint64) format.Tip {
	t.Helper()
	e := format.NewEncoder(tip, 1<<20)
	for e.Tip().Last < last {
		for range 1 + r.IntN(20) {
			if next := e.Tip().Last + 1; next <= last {
				if ok, err := e.Append(format.Entry(l.entries[next-l.first-1])); !ok || err != nil {
					t.Fatal(ok, err)
				}
			}
		}
		name, b := e.Finish(l.hashes[e.Tip().Last])
		put(t, s, name, b)
	}
	return e.Tip()
}

func put(t testing.TB, s objstore.Store, name string, b []byte) {
	t.Helper()
	if err := s.Put(context.Background(), objstore.Object{Name: name, Data: b}); err != nil {
		t.Fatal(err)
	}
}

// snapshot puts one in pieces of 4 KiB.
func (l *life) snapshot(t testing.TB, s objstore.Store, index uint64) {
	t.Helper()
	info, state, _, err := node.ReadSnapshotHead(bytes.NewReader(l.saved[index]))
	if err != nil {
		t.Fatal(err)
	}
	m := format.Manifest{Cluster: info.Cluster, Timeline: l.cluster, Index: info.Index, Term: info.Term, State: state.Hash, WallNs: state.WallNs}
	number := 0
	for b := range slices.Chunk(l.saved[index], 4<<10) {
		m.Pieces = append(m.Pieces, format.Piece{Size: len(b), Hash: sha256.Sum256(b)})
		put(t, s, m.PieceName(number), b)
		number++
	}
	name, b, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	put(t, s, name, b)
}

// copyOf is a store of the same objects.
func copyOf(t testing.TB, s *objstore.Memory) *objstore.Memory {
	t.Helper()
	c := objstore.NewMemory()
	for name, b := range s.Objects() { // any order
		put(t, c, name, b)
	}
	return c
}

// kinds are the names of objects of each kind, in order.
func kinds(s *objstore.Memory) map[string][]string {
	all := map[string][]string{}
	for name := range s.Objects() { // any order: sorted below
		kind := "piece"
		if _, _, ok := format.ParseSpanName(name); ok {
			kind = "span"
		} else if _, _, ok := format.ParseManifestName(name); ok {
			kind = "manifest"
		}
		all[kind] = append(all[kind], name)
	}
	for _, names := range all {
		slices.SortFunc(names, cmp.Compare)
	}
	return all
}

func opened(t testing.TB, s objstore.Store) *Archive {
	t.Helper()
	a, err := Open(context.Background(), s, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// proved verifies an archive in memory.
func proved(t testing.TB, s objstore.Store, at At) (*Verified, []Finding) {
	t.Helper()
	var all []Finding
	v, err := opened(t, s).Verify(context.Background(), Verifying{At: at, Store: store.NewMem(), Config: house, Found: func(f Finding) { all = append(all, f) }})
	if err != nil {
		t.Fatal(err)
	}
	return v, all
}
