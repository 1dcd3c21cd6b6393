package raft

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/holdfastdb/holdfast/core/disk"
	"github.com/holdfastdb/holdfast/core/wal"
)

// replicaOf is a replica with this configuration, for what needs no other member.
func replicaOf(t *testing.T, conf Conf) *Replica {
	t.Helper()
	fs := disk.NewMem()
	if err := fs.MkdirAll("wal"); err != nil {
		t.Fatal(err)
	}
	log, err := wal.Open(fs, "wal", wal.Options{Manual: true, LogID: 2, SegmentBytes: 64 << 10})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { log.Close() })
	if err := log.Reset(1, 1, wal.HardState{Term: 1, Commit: 1}); err != nil {
		t.Fatal(err)
	}
	r, err := New(Config{ID: 2, WAL: log, Conf: conf, Applied: 1, ElectionTicks: 10, HeartbeatTicks: 1,
		SnapshotPoint: func() (uint64, Conf) { return 1, conf }})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// The stored configuration, and that of a replay of the log, is raft's, after any changes.
func TestTheNextConfigurationIsRafts(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	changed, kept := 0, 0
	for range 50 {
		conf := Conf{Voters: []uint64{1, 2, 3}}
		r := replicaOf(t, conf)
		for range 60 {
			ch := &Change{Kind: ChangeKind(rng.IntN(3)), ID: rng.Uint64N(7)}
			next, err := conf.Next(ch)
			if err != nil {
				continue // raft would stop: see below
			}
			if got := confOf(r.rn.ApplyConfChange(ch.raft())); !got.Equal(next) {
				t.Fatalf("%v, and then %+v: raft has %v, expected %v", conf, *ch, got, next)
			}
			if next.Equal(conf) {
				kept++
			} else {
				changed++
			}
			conf = next
		}
	}
	if changed < 500 || kept < 200 {
		t.Errorf("%d changes, %d that changed nothing: little was tried", changed, kept)
	}
}

// Entries from which raft would come to another state stop the member, before any of them is stored.
func TestAChangeThatRaftMakesOtherwiseStopsTheMember(t *testing.T) {
	panics := func(f func()) (did bool) {
		defer func() { did = recover() != nil }()
		f()
		return false
	}
	conf := Conf{Voters: []uint64{1, 2, 3}}
	r := replicaOf(t, conf)
	r.conf = Conf{Voters: []uint64{1, 2}} // as if an earlier change had been made by one of the two alone
	if !panics(func() { r.ApplyChange(&Change{Kind: AddLearner, ID: 4}, false) }) {
		t.Error("two configurations, and nobody noticed")
	}
	// Without a voter there is no configuration, for raft either.
	sole := replicaOf(t, Conf{Voters: []uint64{5}, Learners: []uint64{6}})
	for _, kind := range []ChangeKind{Remove, AddLearner} {
		ch := &Change{Kind: kind, ID: 5}
		if _, err := sole.conf.Next(ch); err == nil {
			t.Errorf("kind %d: nobody votes, and that is a configuration", kind)
		}
		if !panics(func() { sole.rn.ApplyConfChange(ch.raft()) }) {
			t.Errorf("kind %d: raft goes on without a voter", kind)
		}
	}
	if _, err := conf.Next(&Change{Kind: 9, ID: 4}); err == nil {
		t.Error("an unknown kind of change")
	}
	if was := slices.Clone(conf.Voters); !slices.Equal(was, []uint64{1, 2, 3}) {
		t.Errorf("the configuration that was asked has changed to %v", was)
	}
}
