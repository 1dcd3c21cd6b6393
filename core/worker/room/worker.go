// Package room bounds what is kept by the member with the least memory. Leases, users and logs are on every member, so what one of them has no
// room for may be begun on none. Members tell the leader what they have (budget.Room), and hear from it what the others have. Beside that the
// worker has caches and other lenders do without what is kept and open beyond its own share (budget.Ledger.Balance).
//
// It does not refuse anything: doors ask the ledger before they propose. Nothing of it is in the log, because a member's memory may be another one
// after its next start. Every member knows the table, so a new leader goes on with it; a member that is down still counts. Only when
// all have been down at once, it counts again after it has started.
package room

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/holdfastdb/holdfast/core/node"
	"github.com/holdfastdb/holdfast/core/worker"
	"github.com/holdfastdb/holdfast/internal/budget"
	"github.com/holdfastdb/holdfast/internal/wire"
)

// announceService is answered by the leader with the table of all members. A leader of an earlier build does not have it.
const announceService = "room.announce"

// Interval is the time between two announcements of a member.
const Interval = time.Second

// member is a Worker's view of its node. *node.Node is the one.
type member interface {
	worker.Member
	Call(ctx context.Context, service string, req []byte) ([]byte, error)
	Handle(service string, fn func(ctx context.Context, req []byte) ([]byte, error))
	IDs() (cluster, member uint64)
	Members() []node.Member
}

// Worker is one member's part. Methods are safe for concurrent use.
type Worker struct {
	node     member
	ledger   *budget.Ledger
	interval time.Duration

	mu    sync.Mutex
	rooms map[uint64]budget.Room // guarded by mu: each member's announced room, by member; this one is in it
}

// New makes n's worker and lets it be asked; Run starts it.
func New(n *node.Node, ledger *budget.Ledger) *Worker { return newWorker(n, ledger, Interval) }

var _ member = (*node.Node)(nil)

func newWorker(n member, ledger *budget.Ledger, interval time.Duration) *Worker {
	w := &Worker{node: n, ledger: ledger, interval: cmp.Or(interval, Interval), rooms: map[uint64]budget.Room{}}
	n.Handle(announceService, w.handleAnnounce)
	return w
}

// Run works until the member stops. Call it once.
func (w *Worker) Run() {
	for {
		w.ledger.Balance()
		w.exchange()
		_, changed := w.node.Leadership()
		if w.node.Tasks().Wait(w.interval, changed, w.node.StoppedC()) == 1 {
			return
		}
	}
}

// exchange tells the leader this member's room, and learns the rooms that the leader knows.
func (w *Worker) exchange() {
	_, self := w.node.IDs()
	own := w.ledger.Own()
	term, _ := w.node.Leadership()
	var table map[uint64]budget.Room
	if members := w.node.Members(); term == 0 && len(members) > 1 {
		ctx, cancel := w.node.Tasks().Timeout(w.interval)
		b, err := w.node.Call(ctx, announceService, appendRoom(binary.LittleEndian.AppendUint64(nil, self), own))
		cancel()
		if err == nil { // else it is lost, or the leader's build is an earlier one: it is said again
			table, _ = decodeTable(b) // malformed: as if nothing had come
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	maps.Copy(w.rooms, table)
	w.rooms[self] = own
	w.settle()
}

// settle forgets members that have left, and tells the ledger of the others. The caller holds mu.
func (w *Worker) settle() {
	_, self := w.node.IDs()
	members := w.node.Members()
	var others []budget.Room
	for id, r := range w.rooms {
		switch {
		case !slices.ContainsFunc(members, func(m node.Member) bool { return m.ID == id }):
			delete(w.rooms, id)
		case id != self:
			others = append(others, r)
		}
	}
	w.ledger.Others(others)
}

var errMalformed = errors.New("malformed announcement of room")

// handleAnnounce runs on the leader.
func (w *Worker) handleAnnounce(_ context.Context, req []byte) ([]byte, error) {
	r := wire.NewReader(req)
	id, said := r.Uint64(), readRoom(&r)
	if r.End() != nil {
		return nil, errMalformed
	}
	if term, _ := w.node.Leadership(); term == 0 {
		return nil, node.ErrNotLeader
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rooms[id] = said
	w.settle()
	return appendTable(nil, w.rooms), nil
}
