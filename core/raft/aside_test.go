package raft

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
)

// leadAlone makes a member that is alone the leader, with everything that is handed out written.
func leadAlone(t *testing.T, r *Replica) {
	t.Helper()
	for range 10 {
		for _, w := range handedOut(t, r).Writes {
			if err := r.cfg.WAL.Append(w.Batch); err != nil {
				t.Fatal(err)
			}
			if err := r.cfg.WAL.Sync(); err != nil {
				t.Fatal(err)
			}
			r.Written(w)
		}
	}
	if !r.IsLeader() {
		t.Fatal("it does not lead")
	}
}

func handedOut(t *testing.T, r *Replica) *Ready {
	t.Helper()
	rd := new(Ready)
	if r.Ready(rd) {
		r.Applied(rd)
	}
	return rd
}

// TestLargeProposalsAreWrittenAsTheyAre: the writes of a member that is alone are its proposals, of any size and in any number, in their
// order. Raft has them afterwards too.
func TestLargeProposalsAreWrittenAsTheyAre(t *testing.T) {
	r := replicaOf(t, Conf{Voters: []uint64{2}})
	leadAlone(t, r)
	var want [][]byte
	for i, n := range []int{tokenLen, asideBytes, 1, 20_000, asideBytes - 1, 30_000, tokenLen} {
		data := bytes.Repeat([]byte{byte(1 + i)}, n)
		want = append(want, data)
		if err := r.Propose(data); err != nil {
			t.Fatal(err)
		}
	}
	rd := handedOut(t, r)
	if len(rd.Writes) != 1 || len(rd.Writes[0].Batch.Entries) != len(want) {
		t.Fatalf("%d writes", len(rd.Writes))
	}
	for i, e := range rd.Writes[0].Batch.Entries {
		if !bytes.Equal(e.Data, want[i]) {
			t.Errorf("entry %d is written with %d bytes %.20q, proposed were %d", i, len(e.Data), e.Data, len(want[i]))
		}
		if len(want[i]) >= asideBytes && &e.Data[0] != &want[i][0] {
			t.Errorf("the %d bytes of entry %d were copied", len(want[i]), i)
		}
	}
	if err := r.cfg.WAL.Append(rd.Writes[0].Batch); err != nil {
		t.Fatal(err)
	}
	if err := r.cfg.WAL.Sync(); err != nil {
		t.Fatal(err)
	}
	r.Written(rd.Writes[0])
	var got [][]byte
	for range 10 {
		rd := new(Ready)
		if !r.Ready(rd) {
			break
		}
		for _, c := range rd.Commits {
			got = append(got, c.Data)
		}
		r.Applied(rd)
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%d entries are committed, %d were proposed, or they differ", len(got), len(want))
	}
}

// TestProposalsAsideAreBounded: what waits to be handed out is bounded as in raft, and one too many changes nothing.
func TestProposalsAsideAreBounded(t *testing.T) {
	r := replicaOf(t, Conf{Voters: []uint64{2}})
	r.cfg.MaxUncommittedBytes = 25_000
	leadAlone(t, r)
	for _, c := range []struct {
		bytes int
		err   error
	}{{20_000, nil}, {10_000, ErrBusy}, {5_000, nil}, {100_000, ErrBusy}} {
		if err := r.Propose(make([]byte, c.bytes)); !errors.Is(err, c.err) {
			t.Errorf("%d bytes: %v", c.bytes, err)
		}
	}
	if rd := handedOut(t, r); len(rd.Writes) != 1 || len(rd.Writes[0].Batch.Entries) != 2 || len(rd.Writes[0].Batch.Entries[1].Data) != 5_000 {
		t.Error("not what was proposed")
	}
	if err := r.Propose(make([]byte, 100_000)); err != nil {
		t.Errorf("with nothing before it: %v", err)
	}
}
