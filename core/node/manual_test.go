package node

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/core/clock"
	"github.com/holdfastdb/holdfast/core/disk"
	"github.com/holdfastdb/holdfast/core/entry"
	emember "github.com/holdfastdb/holdfast/core/entry/member"
	"github.com/holdfastdb/holdfast/core/peer"
	"github.com/holdfastdb/holdfast/core/raft"
	"github.com/holdfastdb/holdfast/core/store"
	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
)

// manual is a cluster without goroutines: the test moves the clock, the disks and the wire.
type manual struct {
	t     testing.TB
	clock clock.Manual
	nodes []*Node
	// died is told of a member that stopped; nil: the test fails.
	died func(n *Node, err error)
	mu   sync.Mutex
	wire []parcel // guarded by mu: services answer calls on goroutines of their own
	// more changes a member's configuration before it starts; nil: nothing.
	more func(id uint64, cfg *Config)
	// lose says which frames are lost on the way; nil: none.
	lose func(p parcel) bool
	// sending sees a frame at the moment a member sends it, and reports whether it has carried it itself; nil: every frame takes the wire.
	sending func(p parcel) bool
	fs      map[uint64]*disk.Mem
	bad     map[uint64]*disk.Faulty // around fs
	mem     map[uint64]*store.Mem
}

type parcel struct {
	from, to uint64
	channel  peer.Channel
	frame    []byte
}

// manualNet is one member's end of the wire.
type manualNet struct {
	m    *manual
	self uint64
}

func (manualNet) SetPeer(uint64, string, ...string)   {}
func (manualNet) RemovePeer(uint64)                   {}
func (manualNet) ConnectedFor(uint64) int64           { return int64(time.Hour) }
func (manualNet) Contact(uint64) (peer.Contact, bool) { return peer.Contact{}, false }
func (manualNet) Traffic(uint64) *peer.Traffic        { return nil }
func (manualNet) Close() error                        { return nil }

func (n manualNet) Send(to uint64, channel peer.Channel, frame []byte) bool {
	if f := n.m.sending; f != nil && f(parcel{n.self, to, channel, frame}) {
		return true
	}
	n.m.mu.Lock()
	n.m.wire = append(n.m.wire, parcel{n.self, to, channel, frame})
	n.m.mu.Unlock()
	return true
}

func (n manualNet) SendStream(to uint64, write func(io.Writer) error, done func(error)) {
	var b bytes.Buffer
	err := write(&b)
	if err == nil {
		if other := n.m.node(to); other == nil || n.m.lose != nil && n.m.lose(parcel{n.self, to, peer.ChannelSnapshot, b.Bytes()}) {
			err = errors.New("lost")
		} else {
			err = other.HandleStream(n.self, &b)
		}
	}
	done(err)
}

// newManual is a cluster of k members with the ids 1, 2, …; member 1 leads.
func newManual(t testing.TB, k int) *manual {
	t.Helper()
	return newManualWith(t, k, nil)
}

// newManualWith is a cluster whose members start with a configuration that is changed by more.
func newManualWith(t testing.TB, k int, more func(id uint64, cfg *Config)) *manual {
	t.Helper()
	m := &manual{more: more, t: t, fs: map[uint64]*disk.Mem{}, bad: map[uint64]*disk.Faulty{}, mem: map[uint64]*store.Mem{}}
	var members []emember.Member
	for id := uint64(1); id <= uint64(k); id++ {
		members = append(members, emember.Member{ID: id, Name: fmt.Sprintf("n%d", id), PeerURLs: []string{fmt.Sprintf("http://10.0.0.%d:2380", id)}})
	}
	for _, mb := range members {
		m.fs[mb.ID] = disk.NewMem()
		m.bad[mb.ID] = disk.NewFaulty(m.fs[mb.ID])
		cfg := m.config(mb.ID)
		if err := cfg.FS.MkdirAll(cfg.Dir); err != nil {
			t.Fatal(err)
		}
		ident := &Identity{Format: FormatVersion, Name: mb.Name, Member: mb.ID}
		if err := initialise(&cfg, ident, 0xc1, members); err != nil {
			t.Fatal(err)
		}
		m.open(mb.ID)
	}
	t.Cleanup(func() {
		for _, n := range m.nodes {
			n.Stop()
		}
	})
	m.nodes[0].rep.Campaign()
	m.until("a leader", func() bool { return m.nodes[0].pub.Load().leads != 0 && m.nodes[k-1].pub.Load().ready })
	return m
}

func (m *manual) config(id uint64) Config {
	cfg := house(Config{FS: m.bad[id], Clock: &m.clock, Net: manualNet{m, id}, Manual: true, Dir: "data",
		Store: func(string) (store.Store, error) {
			s := store.NewMem()
			if old := m.mem[id]; old != nil {
				s = old.Crash()
			}
			m.mem[id] = s
			return s, nil
		}})
	if m.more != nil {
		m.more(id, &cfg)
	}
	cfg.defaults()
	return cfg
}

// open starts the member from what its disk and store hold.
func (m *manual) open(id uint64) *Node {
	m.t.Helper()
	n, err := Open(m.config(id))
	if err != nil {
		m.t.Fatal(err)
	}
	m.nodes = append(m.nodes, n)
	return n
}

func (m *manual) node(id uint64) *Node {
	for _, n := range m.nodes {
		if n.id == id {
			return n
		}
	}
	return nil
}

// crash takes the member away; what was not synced or flushed is lost. open brings it back.
func (m *manual) crash(id uint64) {
	for i, n := range m.nodes {
		if n.id == id {
			m.mem[id] = m.mem[id].Crash()
			n.Stop()
			m.nodes = append(m.nodes[:i:i], m.nodes[i+1:]...)
		}
	}
}

// add makes a new member known to the cluster and starts it; it returns once it has the same state as the others.
func (m *manual) add(id uint64, learner bool) *Node {
	m.t.Helper()
	lead := m.leader()
	mb := emember.Member{ID: id, Name: fmt.Sprintf("n%d", id), PeerURLs: []string{fmt.Sprintf("http://10.0.0.%d:2380", id)}, Nonce: id, Learner: learner}
	kind := raft.AddVoter
	if learner {
		kind = raft.AddLearner
	}
	m.change(lead, kind, id, &emember.Part{Add: &emember.Add{Member: mb}})
	m.fs[id] = disk.NewMem()
	m.bad[id] = disk.NewFaulty(m.fs[id])
	ident := Identity{Name: mb.Name, Member: id, Nonce: id, Peers: map[uint64]string{lead.id: "10.0.0.1:2380"}}
	if err := Initialise(m.config(id), ident, 0xc1, nil); err != nil {
		m.t.Fatal(err)
	}
	n := m.open(id)
	m.same()
	return n
}

// change makes one membership change through the leader.
func (m *manual) change(lead *Node, kind raft.ChangeKind, id uint64, part *emember.Part) {
	m.t.Helper()
	o := &outcome{}
	if err := lead.ChangeAsync(kind, id, part, func(r *entry.Result, err error) { o.done, o.res, o.err = true, r, err }); err != nil {
		m.t.Fatal(err)
	}
	m.until("the change", func() bool { return o.done })
	if o.err != nil || o.res.Rejection != nil {
		m.t.Fatal(o.err, o.res)
	}
}

// step lets every member do what it can and carries what is on the wire.
func (m *manual) step() {
	m.t.Helper()
	for _, n := range slices.Clone(m.nodes) {
		if err := n.Pump(); err != nil {
			if m.died == nil {
				m.t.Fatalf("member %x: %v", n.id, err)
			}
			m.died(n, err)
			continue
		}
		n.WriteStep()
	}
	for _, p := range m.take() {
		if to := m.node(p.to); to != nil && (m.lose == nil || !m.lose(p)) {
			to.HandleFrame(p.from, p.channel, p.frame)
		}
	}
}

// take empties the wire.
func (m *manual) take() []parcel {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.wire
	m.wire = nil
	return now
}

// until moves time on in steps of 10 ms, for at most a minute, until ok.
func (m *manual) until(what string, ok func() bool) {
	m.t.Helper()
	for range 6000 {
		m.step()
		if ok() {
			return
		}
		m.clock.Advance(10 * time.Millisecond)
	}
	m.t.Fatalf("%s: not within a minute", what)
}

// outcome is what became of a proposal.
type outcome struct {
	done bool
	res  *entry.Result
	err  error
}

func (m *manual) propose(n *Node, key, value string) *outcome {
	m.t.Helper()
	o := &outcome{}
	err := n.ProposeAsync(LaneKV, 0, []entry.Part{putPart(key, value)}, func(r *entry.Result, err error) { o.done, o.res, o.err = true, r, err })
	if err != nil {
		m.t.Fatal(err)
	}
	return o
}

func putPart(key, value string) entry.Part {
	return entry.Part{Machine: entry.MachineKV, Body: kvpart.Append(nil, &kvpart.Part{Put: &kvpart.Put{Key: []byte(key), Value: []byte(value)}})}
}

// read returns a key's value and version as this member has them, version 0 if it is not there.
func read(t testing.TB, n *Node, key string) (value string, version int64) {
	t.Helper()
	r, _, err := n.kv().Range(&kvpart.Range{Key: []byte(key)}, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.KVs) == 0 {
		return "", 0
	}
	return string(r.KVs[0].Value), r.KVs[0].Version
}

func TestManualCluster(t *testing.T) {
	m := newManual(t, 3)
	for i, n := range m.nodes {
		o := m.propose(n, "k", fmt.Sprint(i))
		m.until("applied", func() bool { return o.done })
		if o.err != nil || o.res.Rejection != nil {
			t.Fatalf("member %d: %v %v", n.id, o.err, o.res)
		}
	}
	for _, n := range m.nodes {
		m.until("everywhere", func() bool { _, v := read(t, n, "k"); return v == 3 })
	}
	if names, err := m.fs[1].List(filepath.Join("data", "wal")); err != nil || len(names) == 0 {
		t.Fatalf("no log: %v", err)
	}
}
