// Package machine defines what a deterministic state machine is and applies raft entries to a set of them. It has no
// clock, network, randomness or goroutine, and nothing in it may depend on the order of a Go map.
package machine

import (
	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/core/store"
)

// Machine is one deterministic state machine. All methods are called by the one goroutine that applies entries, except what a machine
// documents for its readers.
//
// Each raft entry runs Check and Do per command, in order. Then the applier closes its Gate, the store commits the entry's one batch, every
// machine's Publish runs, and the gate opens. Check sees the store plus everything done earlier in the same entry. Any error (not a
// Rejection) is fatal to the node, so Do may keep pending state in memory without an undo.
type Machine interface {
	// Spec is what others must know of the machine; always the same one. Any goroutine.
	Spec() *Spec
	// Load rebuilds all memory from the store: at start and after a snapshot was installed. The gate is the one of all machines over
	// this store, closed during the call. Both stay the same for the machine's life.
	Load(st store.Store, gate *Gate) error
	// Check decodes and judges a part and changes nothing. plan is handed to Do at once or dropped.
	Check(st *entry.Stamp, body []byte) (plan any, rej *entry.Rejection, err error)
	// Readable returns the error with which Check would stop the node at this body, in any state; nil if there is none. Propose calls it,
	// so that nothing is logged that no member can apply. Any goroutine.
	Readable(body []byte) error
	// Do carries out a plan: it writes to b and to pending memory, and cannot be rejected. The result is nil unless wanted. body's and
	// plan's memory may be reused after Publish: copy anything kept longer.
	Do(st *entry.Stamp, plan any, b store.Batch, wanted bool) (result any, err error)
	// Publish is called once the batch is visible, with the gate closed: pending memory becomes what readers see.
	Publish(st *entry.Stamp)
}

// Gatekeeper is a Machine that judges commands as wholes, before any machine checks its part.
type Gatekeeper interface {
	Machine
	// Admit may reject a command and changes nothing. It is called for every command, so it must cost next to nothing for
	// commands it does not concern. fromClient reports whether a part is one that clients send (Spec.FromClient).
	Admit(c *entry.Command, fromClient func(*entry.Part) bool) *entry.Rejection
}

// Rester is a Machine that keeps what only makes the next work faster.
type Rester interface {
	Machine
	// Rest frees memory that only speeds up later work; the machine's answers stay the same. Called between two entries with the gate
	// closed.
	Rest()
}

// Keeper is a Machine that may keep parts of an entry's data.
type Keeper interface {
	Machine
	// Keep tells, before the first Check of an entry, that its data of n bytes does not change and shares its memory with nothing else. Of an entry
	// for which it was not called everything that is kept is copied.
	Keep(n int)
}

// Finisher is a Machine that writes once per entry rather than once per command. It writes running counters, or a bounded piece of work
// left over from an earlier command.
type Finisher interface {
	Machine
	// Finish is called after the last Do of every entry, entries without commands included, and before the gate closes.
	Finish(st *entry.Stamp, b store.Batch) error
	// Unfinished reports whether work is left that further entries would carry on, with or without commands.
	Unfinished() bool
}
