// Package entry holds the data of the replicated commit log. These are commands, the raft entries that pack many of them, their positions,
// and the rejections of state machines. It is pure data and codecs; it decides nothing. Byte tables: docs/formats/entry.md.
//
// The command parts of each machine live in the subpackages (doors/kv/part, core/entry/member, …). A machine may appear at most once in a
// command: parts are therefore judged independently and applied all-or-nothing.
package entry

import "fmt"

// Machine names a state machine by a letter, which is also the first byte of every key that machine owns in the store. A letter is
// given for good and never to another machine:
//
//	letter  machine            what it is
//	e doors/kv/v2/machine etcd's v2 directories and keys
//	g doors/saga/machine  global transactions, their branches and timers, topics
//	i       core/machine/ident      users, roles, tokens
//	k       doors/kv/machine         keys, revisions, leases
//	m       core/machine/member     who belongs to the cluster, and at which level
//	s       doors/sql/machine       databases, tables, rows and entries of indexes
//	t       doors/tlog/machine       transparency logs
//	0       store, node        no machine: the applied index, raft's configuration, the state hash
type Machine byte

// The machines of this build.
const (
	MachineIdent  Machine = 'i'
	MachineKV     Machine = 'k'
	MachineMember Machine = 'm'
	MachineEtcd2  Machine = 'e'
	MachineTlog   Machine = 't'
)

// Position is a place in the log: the n-th command (from 0) of the raft entry at Index.
type Position struct {
	Index uint64
	N     uint32
}

// String prints the position as it is written everywhere: "7.2".
func (p Position) String() string { return fmt.Sprintf("%d.%d", p.Index, p.N) }

// Part is one machine's share of a command. Body is encoded by that machine's entry subpackage.
type Part struct {
	Machine Machine
	Body    []byte
}

// Command is a door's proposal. Origin and Seq identify it for the life of the cluster: Origin is random per process start, Seq counts up
// from 1 in it. Term is the raft term in which it was decided. Apply drops it as superseded unless the entry that carries it has the same
// term.
type Command struct {
	Origin uint64
	Seq    uint64
	Term   uint64
	Parts  []Part
}

// Stamp is the leader's stamp on a raft entry, with the place of the command being applied.
type Stamp struct {
	Pos  Position
	Term uint64
	// WallNs is Unix time for people, never decreasing along the log.
	WallNs int64
	// TickMs is the monotonic cluster tick in milliseconds; it alone drives leases, TTLs and timers.
	TickMs int64
}

// Code names why a machine rejected a command. Codes are part of the log's meaning: never renumber. Each machine has a
// range of its own in its entry subpackage.
type Code uint16

// Rejection is a deterministic refusal: every member comes to the same one. Doors map it to their protocol's errors.
type Rejection struct {
	Machine Machine
	Part    int
	Code    Code
	Detail  string
}

// Error makes a Rejection usable as an error.
func (r *Rejection) Error() string {
	return fmt.Sprintf("rejected by machine %c part %d: code %d: %s", r.Machine, r.Part, r.Code, r.Detail)
}

// Result is the outcome of an applied command: Rejection is nil if its parts took effect. It is built only on the member where a caller
// waits for it.
type Result struct {
	Pos       Position
	Term      uint64
	Rejection *Rejection
	Bodies    []Body // one per part
}

// Body is the answer of one machine to its part: a value of its own type (*kv.TxnResult and so on), nil for no answer.
type Body struct {
	Machine Machine
	Value   any
}

// Of returns what a machine answered, nil if it had no part in the command or nothing to say.
func (r *Result) Of(m Machine) any {
	for i := range r.Bodies {
		if r.Bodies[i].Machine == m {
			return r.Bodies[i].Value
		}
	}
	return nil
}
