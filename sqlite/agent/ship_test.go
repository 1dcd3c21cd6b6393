package agent

import (
	"encoding/binary"
	"testing"

	"github.com/holdfastdb/holdfast/core/disk"
	"github.com/holdfastdb/holdfast/sqlite/capture"
	"github.com/holdfastdb/holdfast/sqlite/gate"
	"github.com/holdfastdb/holdfast/sqlite/replica"
)

// commit captures what was committed, and makes a group of it, whose upload does not begin.
func (h *hand) commit() *ship {
	h.t.Helper()
	g, err := h.files.Capture()
	if err != nil || g == nil {
		h.t.Fatalf("nothing is captured: %v", err)
	}
	h.ship(g)
	return h.ships[len(h.ships)-1]
}

// TestGroupsCountInTheirOrder: a group is stored when all before it are, in any order of uploads. The file of a level is sent when the
// group at its end is stored.
func TestGroupsCountInTheirOrder(t *testing.T) {
	r := newRig(t)
	db := r.connect()
	r.exec(db, "create table t (x)")
	h := r.followed(gate.Local)
	var ships []*ship
	for range 3 {
		r.exec(db, "insert into t values (1)")
		ships = append(ships, h.commit())
	}
	sent := 0
	for _, s := range ships {
		h.waiting = append(h.waiting, parked{s.seq, func() { sent++ }})
	}
	began, bytes := h.stored.TXID, h.bytes
	if want := ships[0].bytes + ships[1].bytes + ships[2].bytes; bytes != want || bytes == 0 {
		t.Errorf("%d bytes are in memory, want %d", bytes, want)
	}
	for i, s := range []struct {
		landed int
		stored replica.TXID
		sent   int
	}{{1, began, 0}, {0, began + 2, 2}, {2, began + 3, 3}} {
		known := len(h.known)
		h.landed(ships[s.landed], nil)
		if h.stored.TXID != s.stored || sent != s.sent || len(h.ships) != 3-s.sent || len(h.waiting) != 3-s.sent {
			t.Errorf("upload %d: stored up to TXID %d, %d files of levels are sent, %d groups on their way; want %d, %d and %d", i, h.stored.TXID, sent, len(h.ships),
				s.stored, s.sent, 3-s.sent)
		}
		if h.stored.TXID != began && (!h.stale || len(h.known) == known) {
			t.Errorf("upload %d: the manifest is not to be written", i)
		}
	}
	if h.bytes != 0 || h.through != ships[2].seq || h.lastGroup != ships[2].head {
		t.Errorf("%d bytes are left in memory, %d groups are stored", h.bytes, h.through)
	}
	h.tasks = nil
	for range ships {
		h.agent.work.Done()
	}
}

// TestAGroupSaysWhereItWasInTheWAL, and one that was read from the database says nothing.
func TestAGroupSaysWhereItWasInTheWAL(t *testing.T) {
	r := newRig(t)
	db := r.connect()
	r.exec(db, "create table t (x)")
	h := r.followed(gate.Local)
	r.exec(db, "insert into t values (1)")
	s := h.commit()
	h.work()
	first, _, err := r.replica().Stat(t.Context(), h.known[0])
	if err != nil {
		t.Fatal(err)
	}
	if first.WALOffset != 0 || first.WALSize != 0 || first.WALSalt1 != 0 || first.WALSalt2 != 0 {
		t.Errorf("the first group, which has the whole database, has the header %+v", first)
	}
	second, _, err := r.replica().Stat(t.Context(), s.file)
	if err != nil {
		t.Fatal(err)
	}
	salt := r.position().Salt
	if second.WALOffset == 0 || second.WALSize == 0 || second.WALSalt1 != binary.BigEndian.Uint32(salt[:4]) || second.WALSalt2 != binary.BigEndian.Uint32(salt[4:]) {
		t.Errorf("a group of the WAL with the salt %x has the header %+v", salt, second)
	}
}

// TestAGroupThatFollowsSomethingElseIsNotSent: the database is read again, and what differs is stored.
func TestAGroupThatFollowsSomethingElseIsNotSent(t *testing.T) {
	r := newRig(t)
	db := r.connect()
	r.exec(db, "create table t (x)")
	h := r.followed(gate.Local)
	r.exec(db, "insert into t values (1)")
	g, err := h.files.Capture()
	if err != nil {
		t.Fatal(err)
	}
	g.Before++
	times := h.times
	h.ship(g)
	if h.files != nil || h.times != times+1 || !h.in(gate.Opening) || len(h.tasks) != 0 {
		t.Errorf("it is sent: %s", h.Status())
	}
	h.turns(func() bool { return h.in(gate.Open) && len(h.ships) == 0 && h.through == h.seq })
	if n := count(t, r.restored()); n != 1 {
		t.Errorf("%d of 1 rows are in the bucket", n)
	}
}

// TestTheFirstGroupOfAnAgentIsNoCommit without the extension: it has the earlier commits.
func TestTheFirstGroupOfAnAgentIsNoCommit(t *testing.T) {
	for _, ack := range []gate.Ack{gate.Archive, gate.Local} {
		r := newRig(t)
		db := r.connect()
		r.exec(db, "create table t (x)")
		h := r.followed(ack)
		if len(h.witness.silent) != 0 || h.said.without != 0 {
			t.Errorf("%s: %d commits are waited for, %d have no extension", ack, len(h.witness.silent), h.said.without)
		}
		r.exec(db, "insert into t values (1)")
		h.commit()
		if got := len(h.witness.silent) == 1; got != (ack == gate.Archive) {
			t.Errorf("%s: a commit is judged: %v", ack, got)
		}
		h.work()
	}
}

// TestALargeGroupIsReadWhileItIsSent: it is not in memory, nothing else that reads the database is made beside it, and when it is stored the database
// may change.
func TestALargeGroupIsReadWhileItIsSent(t *testing.T) {
	r := newRig(t)
	db := r.connect()
	r.exec(db, "create table t (x)")
	h := r.followed(gate.Local)
	r.exec(db, "insert into t values (zeroblob(?))", mostKept/3+100<<10)
	s := h.commit()
	if !s.stream || h.streams != 1 || h.bytes != 0 || s.group == nil {
		t.Errorf("it is in memory: %d bytes, and %d groups are read", h.bytes, h.streams)
	}
	h.work()
	if h.streams != 0 || h.through != h.seq || s.file.Size < 1000 {
		t.Errorf("%d groups are read, %d of %d are stored, of %d bytes", h.streams, h.through, h.seq, s.file.Size)
	}
	if n := count(t, r.restored()); n != 1 {
		t.Errorf("%d of 1 rows are in the bucket", n)
	}
}

// TestAGroupThatCannotBeReadAgainIsDropped: pages of a large one have changed while it was sent. The database is read again.
func TestAGroupThatCannotBeReadAgainIsDropped(t *testing.T) {
	r := newRig(t)
	db := r.connect()
	r.exec(db, "create table t (x)")
	h := r.followed(gate.Local)
	r.exec(db, "insert into t values (1)")
	s := h.commit()
	times := h.times
	h.landed(s, capture.ErrChanged)
	if h.files != nil || h.times != times+1 || !h.in(gate.Opening) {
		t.Errorf("the database is not read again: %s", h.Status())
	}
	h.turns(func() bool { return h.in(gate.Open) && len(h.ships) == 0 && h.through == h.seq })
	if n := count(t, r.restored()); n != 1 {
		t.Errorf("%d of 1 rows are in the bucket", n)
	}
}

// TestTheEndOfTheAgentIsNoFailure of the uploads that it ends.
func TestTheEndOfTheAgentIsNoFailure(t *testing.T) {
	r := newRig(t)
	db := r.connect()
	r.exec(db, "create table t (x)")
	h := r.followed(gate.Local)
	r.exec(db, "insert into t values (1)")
	s := h.commit()
	h.agent.cancel()
	h.landed(s, h.agent.ctx.Err())
	if h.files == nil || !h.in(gate.Open) || len(h.ships) != 1 {
		t.Errorf("the database is left: %s", h.Status())
	}
}

// TestAnUploadOfAnEarlierTimeIsForgotten: the database was left and taken over again before it ended.
func TestAnUploadOfAnEarlierTimeIsForgotten(t *testing.T) {
	r := newRig(t)
	db := r.connect()
	r.exec(db, "create table t (x)")
	h := r.followed(gate.Local)
	r.exec(db, "insert into t values (1)")
	s := h.commit()
	h.times++
	h.work()
	if s.there || len(h.ships) != 1 {
		t.Error("it counts as stored")
	}
}

// TestTheRecordOfARestoreGoesWithTheFirstGroup. A record that stays is a warning: it says what is true.
func TestTheRecordOfARestoreGoesWithTheFirstGroup(t *testing.T) {
	for _, fails := range []bool{false, true} {
		r := newRig(t)
		db := r.connect()
		r.exec(db, "create table t (x)")
		h := r.followed(gate.Local)
		r.exec(db, "insert into t values (1)")
		if fails {
			h.agent.cfg.FS = lasting{h.agent.cfg.FS}
		}
		h.branch = true
		h.commit()
		h.work()
		if n := r.log.count("remove the record of a restore"); (n == 1) != fails || h.through != h.seq || h.branch {
			t.Errorf("removing fails: %v; %d warnings, %d of %d groups are stored", fails, n, h.through, h.seq)
		}
	}
}

// lasting is a disk that removes nothing.
type lasting struct{ disk.FS }

func (lasting) Remove(string) error { return errDown }
