package node

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/holdfastdb/holdfast/core/entry"
	emember "github.com/holdfastdb/holdfast/core/entry/member"
	"github.com/holdfastdb/holdfast/core/machine"
	"github.com/holdfastdb/holdfast/core/store"
)

// later is a machine of a future build: its parts may be proposed from laterLevel on, and it writes its data under its letter.
type later struct{ machine.Machine }

const laterID entry.Machine = 'z'

// laterLevel is above that of every machine that the tests have.
const laterLevel = 70

var laterSpec = machine.Spec{ID: laterID, Name: "later", Level: laterLevel}

func (later) Spec() *machine.Spec                                              { return &laterSpec }
func (later) Load(store.Store, *machine.Gate) error                            { return nil }
func (later) Check(_ *entry.Stamp, body []byte) (any, *entry.Rejection, error) { return body, nil, nil }
func (later) Readable([]byte) error                                            { return nil }
func (later) Publish(*entry.Stamp)                                             {}
func (later) Do(_ *entry.Stamp, plan any, b store.Batch, _ bool) (r any, e error) {
	b.Set([]byte("zv"), plan.([]byte))
	return
}

// withLater adds the machine and a lane of the same level.
func withLater(cfg *Config) {
	cfg.Machines = append(cfg.Machines, later{})
	cfg.Lanes = append(cfg.Lanes, LaneSpec{Number: 9, Name: "later", Level: laterLevel})
}

func raise(level uint16, members ...uint64) entry.Part {
	return entry.Part{Machine: entry.MachineMember, Body: emember.AppendPart(nil, &emember.Part{RaiseLevel: &emember.RaiseLevel{Level: level, Members: members}})}
}

// Below its level a part is refused where it is proposed, and so is a lane: no member ever sees it. At the level it is applied.
func TestNothingAboveTheLevelIsProposed(t *testing.T) {
	n := startAlone(t, t.TempDir(), withLater)
	part := entry.Part{Machine: laterID, Body: []byte("v")}
	last := n.Status().Applied
	if _, err := n.Propose(within(t), LaneKV, part); !errors.Is(err, ErrLevel) {
		t.Errorf("a part of a later level at level 0: %v", err)
	}
	if _, err := n.Propose(within(t), 9, putPart("k", "v")); !errors.Is(err, ErrLevel) {
		t.Errorf("a lane of a later level at level 0: %v", err)
	}
	if now := n.Status().Applied; now != last {
		t.Errorf("the log went from %d to %d", last, now)
	}
	if n.KnownLevel() != laterLevel {
		t.Errorf("it knows level %d", n.KnownLevel())
	}
	if res, err := n.Propose(within(t), LaneSystem, raise(laterLevel, n.id)); err != nil || res.Rejection != nil || n.ClusterLevel() != laterLevel {
		t.Fatalf("raise: %v %v, level %d", err, res, n.ClusterLevel())
	}
	if _, err := n.Propose(within(t), 9, part); err != nil {
		t.Errorf("at its level: %v", err)
	}
}

// A leader refuses a forwarded part above the level as if its queue were full. The origin may run a later build.
func TestAForwardedPartAboveTheLevelIsRefused(t *testing.T) {
	m := newManual(t, 3)
	leader := m.nodes[0]
	err := leader.refusable(LaneKV, entry.AppendCommand(nil, &entry.Command{Parts: []entry.Part{{Machine: 'z'}}}), true)
	if err == nil {
		t.Error("a machine nobody has was let through")
	}
	leader.cfg.Lanes[0].Level = 3
	if err := leader.refusable(LaneKV, entry.AppendCommand(nil, &entry.Command{Parts: []entry.Part{putPart("k", "v")}}), true); !errors.Is(err, ErrLevel) {
		t.Errorf("a lane above the level: %v", err)
	}
}

// A build that could not apply the cluster's log may not join it. One that could not go on from a directory does not start.
func TestALowerBuildIsRefused(t *testing.T) {
	dir := t.TempDir()
	n := startAlone(t, dir, withLater)
	if _, err := n.Propose(within(t), LaneSystem, raise(laterLevel, n.id)); err != nil {
		t.Fatal(err)
	}
	if _, err := n.Propose(within(t), 9, entry.Part{Machine: laterID, Body: []byte("v")}); err != nil {
		t.Fatal(err)
	}
	q, err := json.Marshal(question{Kind: "join", Name: "old", PeerAddr: "127.0.0.1:1", Nonce: 5})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := n.HandleAsk(q); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("the cluster is at level %d and the build that asks knows levels up to 0", laterLevel)) {
		t.Errorf("a build before levels was answered %v", err)
	}
	if len(n.Members()) != 1 {
		t.Errorf("it was added: %v", n.Members())
	}
	var snapshot bytes.Buffer
	if err := n.SaveSnapshot(t.Context(), &snapshot); err != nil {
		t.Fatal(err)
	}
	n.Stop()
	cfg := house(Config{Dir: dir, MemoryBytes: 64 << 20})
	if r, err := Open(cfg); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("the cluster is at level %d and this build knows levels up to %d", laterLevel, cfg.knownLevel())) {
		t.Errorf("opened by a build of a lower level: %v", err)
		r.Stop()
	}
	if _, err := Restore(house(Config{Dir: t.TempDir()}), "r1", "", bytes.NewReader(snapshot.Bytes())); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("level %d", laterLevel)) {
		t.Errorf("restored by a build of a lower level: %v", err)
	}
	// A build that has the machine restores it, at the level that its rows need.
	again := house(Config{Dir: t.TempDir(), MemoryBytes: 64 << 20})
	withLater(&again)
	if _, err := Restore(again, "r1", "", &snapshot); err != nil {
		t.Fatal(err)
	}
	r, err := Open(again)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Stop()
	if v, ok, err := r.store.Get(nil, []byte("zv")); r.ClusterLevel() != laterLevel || !ok || string(v) != "v" || err != nil {
		t.Errorf("restored at level %d with %q, %v", r.ClusterLevel(), v, err)
	}
}

// Rows of a machine that this build does not have are refused at any level: they would be kept and never be changed again.
func TestRowsOfAnUnknownMachineAreRefused(t *testing.T) {
	m := newManual(t, 3)
	b := m.nodes[0].store.NewBatch()
	b.Set([]byte("zv"), nil)
	if err := m.nodes[0].store.Commit(b, m.nodes[0].store.Applied()); err != nil {
		t.Fatal(err)
	}
	far := m.nodes[2]
	m.cutOff(far.id)
	m.writeOn(m.nodes[0], 20)
	m.forgetLog(far.id)
	var stream []byte
	m.lose = func(p parcel) bool {
		if stream == nil && len(p.frame) > 0 && bytes.Contains(p.frame, []byte(snapshotMagic)) {
			stream = bytes.Clone(p.frame)
		}
		return stream != nil
	}
	m.until("a stream", func() bool { return stream != nil })
	if err := far.HandleStream(m.nodes[0].id, bytes.NewReader(stream)); err == nil || !strings.Contains(err.Error(), "machine 'z', which this build does not have") {
		t.Errorf("received: %v", err)
	}
}
