// Package node wires log, store and the given machines into one member. Its small API is what workers, the archive and
// the doors see: Propose, Linearize, View, Call and the membership calls. It decides nothing about the meaning of a
// command and speaks no client protocol. Of the machines it knows only the members (core/machine/member) and the
// identities (core/machine/ident). The caller that made the other machines keeps their readers.
//
// One goroutine, the loop, owns raft and applies entries; a second writes the WAL. Doors put commands into bounded queues
// and sleep until the loop has applied them. In simulation the same loop is driven step by step (Pump, WriteStep).
package node

import (
	"log/slog"

	"github.com/holdfastdb/holdfast/core/clock"
	"github.com/holdfastdb/holdfast/core/disk"
	"github.com/holdfastdb/holdfast/core/machine"
	mident "github.com/holdfastdb/holdfast/core/machine/ident"
	mmember "github.com/holdfastdb/holdfast/core/machine/member"
	"github.com/holdfastdb/holdfast/core/peer"
	"github.com/holdfastdb/holdfast/core/raft"
	"github.com/holdfastdb/holdfast/core/store"
	"github.com/holdfastdb/holdfast/core/wal"
	"github.com/holdfastdb/holdfast/internal/meter"
	"github.com/holdfastdb/holdfast/internal/task"
)

// Node is one member. Exported methods are safe for concurrent use unless they say otherwise.
//
// Its parts are rooms: each is a struct in the file that works in it, with the owners of its fields. They are embedded, so that a line
// reads n.inflight and not the way there.
type Node struct {
	cfg Config
	self
	seams
	held

	lanes *lanes
	inbox inbox
	views views
	calls calls
	wake  chan struct{} // capacity 1: there may be something for the loop to do

	life  // stop.go
	shown // published.go

	rep *raft.Replica // loop only
	rd  raft.Ready    // loop only
	ticking
	departed
	proposals
	forwarding
	packing
	writer writer
	reads  reads
	applying
	membership
	addresses
	handover
	transfers
	samples
	upkeep
	contacts
	feed      feed
	retention retention
	watermark watermark
}

// self is this member's identity. None of it changes while it runs.
type self struct {
	id       uint64
	identity Identity
	origin   uint64 // random per process start: names this process's commands
	known    uint16 // the highest level that this build, its machines and its lanes could follow
}

// seams are a node's connections to the world around it. They do not change.
type seams struct {
	clock clock.Clock
	fs    disk.FS
	net   peer.Network
	tasks task.Runner
	log   *slog.Logger
	steps *meter.Steps
}

// held is where a node keeps its state. The loop writes it, except for the log's segments, which the writer owns. Reading
// is allowed as each of the types says.
type held struct {
	wal     *wal.WAL
	store   store.Store
	users   *mident.Machine
	members *mmember.Machine
	applier *machine.Applier
}

func (n *Node) wakeup() {
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// beside runs f until it ends by itself, which it must do soon once n.stop or n.dead is closed: Stop waits for it.
func (n *Node) beside(f func()) {
	n.wg.Add(1)
	n.tasks.Go(func() {
		defer n.wg.Done()
		f()
	})
}

// Tasks runs what works beside the node, for as long as the node does.
func (n *Node) Tasks() task.Runner { return n.tasks }

// Ident returns the identity machine, for readers of permissions. Read after Linearize, or accept any age.
func (n *Node) Ident() *mident.Machine { return n.users }
