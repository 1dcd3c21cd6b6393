package room

import (
	"bytes"
	"context"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/core/node"
	"github.com/holdfastdb/holdfast/core/worker/workertest"
	"github.com/holdfastdb/holdfast/internal/budget"
	"github.com/holdfastdb/holdfast/internal/wait"
)

const mib = 1 << 20

var leases = budget.Claim{Name: "leases", Weight: 5, Floor: mib, Kind: budget.Kept}

// ledgerOf is that of a member with so much memory, whose store lends.
func ledgerOf(total int64) *budget.Ledger {
	l := budget.Of(total, leases).Ledger
	l.Hold("cache", budget.Holder{Bound: func(int64) {}})
	return l
}

// house is a member of a cluster whose members the test sets.
type house struct {
	*workertest.Member
	id      uint64
	mu      sync.Mutex
	members []node.Member
}

func (h *house) IDs() (cluster, member uint64) { return 1, h.id }

func (h *house) Members() []node.Member {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.members
}

func (h *house) set(ids ...uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.members = nil
	for _, id := range ids {
		h.members = append(h.members, node.Member{ID: id})
	}
}

const brief = 5 * time.Millisecond

// TestTheSmallestMemberBoundsAll: three members of different size come to one bound, that of the smallest, under any leader. It counts
// while it is down and a member that knew it leads, and no longer when it has left.
func TestTheSmallestMemberBoundsAll(t *testing.T) {
	all := map[uint64]*Worker{}
	homes := map[uint64]*house{}
	ledgers := map[uint64]*budget.Ledger{2: ledgerOf(1024 * mib), 3: ledgerOf(512 * mib), 4: ledgerOf(128 * mib)}
	var mu sync.Mutex
	leader := uint64(2)
	for id, l := range ledgers {
		h := &house{Member: workertest.New(), id: id}
		h.set(2, 3, 4)
		h.OnCall(func(service string, req []byte) ([]byte, error) {
			mu.Lock()
			to := homes[leader]
			mu.Unlock()
			return to.Service(service)(context.Background(), req)
		})
		mu.Lock()
		homes[id] = h
		mu.Unlock()
		all[id] = newWorker(h, l, brief)
	}
	homes[2].Lead(1)
	for id, w := range all {
		homes[id].Run(t, w.Run)
	}
	smallest := ledgerOf(128 * mib).Room("leases")
	agreed := func(ids ...uint64) func() bool {
		return func() bool {
			return !slices.ContainsFunc(ids, func(id uint64) bool { return ledgers[id].Room("leases") != smallest })
		}
	}
	wait.Until(t, "all have the bound of the smallest", agreed(2, 3, 4))

	homes[4].Stop() // it is down: what it has still counts
	mu.Lock()
	leader = 3
	mu.Unlock()
	homes[2].Lead(0)
	homes[3].Lead(2)
	w := all[3]
	w.exchange()
	if !agreed(2, 3)() {
		t.Error("a new leader does not know of the member that is down")
	}
	homes[2].set(2, 3)
	homes[3].set(2, 3)
	middle := ledgerOf(512 * mib).Room("leases")
	wait.Until(t, "the smallest has left", func() bool {
		return ledgers[2].Room("leases") == middle && ledgers[3].Room("leases") == middle
	})
}

// TestAMemberWithOtherMemory: what a member says last counts.
func TestAMemberWithOtherMemory(t *testing.T) {
	h := &house{Member: workertest.New(), id: 2}
	h.set(2, 3)
	h.Lead(1)
	l := ledgerOf(1024 * mib)
	w := newWorker(h, l, brief)
	for _, total := range []int64{128 * mib, 512 * mib, 4096 * mib} {
		if _, err := h.Service(announceService)(context.Background(), appendRoom([]byte{3, 0, 0, 0, 0, 0, 0, 0}, ledgerOf(total).Own())); err != nil {
			t.Fatal(err)
		}
		if want := min(ledgerOf(total).Room("leases"), ledgerOf(1024*mib).Room("leases")); l.Room("leases") != want {
			t.Errorf("beside %d MiB %d bytes of leases, want %d", total/mib, l.Room("leases"), want)
		}
	}
	if len(w.rooms) != 1 {
		t.Errorf("%d rooms are known", len(w.rooms))
	}
}

// TestStrangersAreNotBelieved: what is malformed or of no member changes nothing, and a member that does not lead sends the caller on.
func TestStrangersAreNotBelieved(t *testing.T) {
	h := &house{Member: workertest.New(), id: 2}
	h.set(2, 3)
	l := ledgerOf(1024 * mib)
	newWorker(h, l, brief)
	before := l.Room("leases")
	say := func(req []byte) error {
		_, err := h.Service(announceService)(context.Background(), req)
		return err
	}
	small := ledgerOf(128 * mib).Own()
	if err := say(appendRoom([]byte{3, 0, 0, 0, 0, 0, 0, 0}, small)); err != node.ErrNotLeader {
		t.Errorf("a follower answers %v", err)
	}
	h.Lead(1)
	good := appendRoom([]byte{9, 0, 0, 0, 0, 0, 0, 0}, small)
	if err := say(good); err != nil || l.Room("leases") != before {
		t.Errorf("member 9 is none, %v", err)
	}
	for n := range good {
		if err := say(good[:n]); err == nil {
			t.Errorf("%d of %d bytes are taken", n, len(good))
		}
	}
	if err := say(append(bytes.Clone(good), 0)); err == nil {
		t.Error("a byte too many is taken")
	}
}

// TestTheTableComesBack as it was.
func TestTheTableComesBack(t *testing.T) {
	for _, rooms := range []map[uint64]budget.Room{{}, {2: {}}, {2: ledgerOf(128 * mib).Own(), 1 << 63: ledgerOf(4096 * mib).Own()}} {
		got, err := decodeTable(appendTable(nil, rooms))
		if err != nil || !reflect.DeepEqual(got, rooms) {
			t.Errorf("%v, %v", got, err)
		}
	}
}

// FuzzTable: no bytes of another member stop this one.
func FuzzTable(f *testing.F) {
	f.Add(appendTable(nil, map[uint64]budget.Room{2: ledgerOf(128 * mib).Own()}))
	f.Fuzz(func(t *testing.T, b []byte) {
		rooms, err := decodeTable(b)
		if err != nil {
			return
		}
		again, err := decodeTable(appendTable(nil, rooms))
		if err != nil || !reflect.DeepEqual(again, rooms) {
			t.Errorf("%v, %v", again, err)
		}
	})
}
