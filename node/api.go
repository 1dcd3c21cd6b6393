// Package node wires log, store and machines into one member and gives the small API that workers, the archive and the
// doors see. It decides nothing about the meaning of a command.
package node

import (
	"context"
	"errors"
	"time"

	"github.com/holdfastdb/holdfast/entry"
	"github.com/holdfastdb/holdfast/machine/kv"
)

// Lane is the queue a proposal waits in. The log is shared fairly between lanes by bytes; LaneSystem goes first.
type Lane uint8

const (
	LaneSystem Lane = iota // leases, membership, compaction, deletes: small, never starved
	LaneKV
)

// How a proposal or a read can end other than well. Propose ends in exactly one of: applied (a Result, perhaps with a
// Rejection), superseded (provably dead), or unknown (DECISIONS A3).
var (
	// ErrOverloaded: the lane's queue is full; nothing was proposed.
	ErrOverloaded = errors.New("log queue is full")
	// ErrSuperseded: the command can never take effect; it may be proposed again. Propose itself retries until ctx ends.
	ErrSuperseded = errors.New("superseded by a later term")
	// ErrUnknown: ctx ended or the node stopped while the outcome was open.
	ErrUnknown = errors.New("outcome unknown")
	// ErrNoLeader: ctx ended before there was a leader to take it; nothing was proposed.
	ErrNoLeader = errors.New("no leader")
	// ErrStopped: the node is stopping; nothing was proposed.
	ErrStopped = errors.New("node stopped")
	// ErrTooLarge: a command over entry.MaxCommandBytes.
	ErrTooLarge = errors.New("command too large")
	// ErrNotLeader, ErrLearnerNotReady … answer membership calls.
	ErrNotLeader             = errors.New("not leader")
	ErrMemberNotFound        = errors.New("member not found")
	ErrMemberExists          = errors.New("member exists")
	ErrPeerAddrExists        = errors.New("peer address exists")
	ErrNotEnoughStarted      = errors.New("not enough started members")
	ErrUnhealthy             = errors.New("unhealthy cluster")
	ErrLearnerNotReady       = errors.New("learner not ready")
	ErrMemberNotLearner      = errors.New("member is not a learner")
	ErrTooManyLearners       = errors.New("too many learners")
	ErrTransferTargetUnknown = errors.New("transfer target unknown")
	ErrTimeoutTransfer       = errors.New("leader transfer timed out")
)

// Member is one member as the log knows it.
type Member struct {
	ID         uint64
	Name       string // empty = added but never started
	PeerURLs   []string
	ClientURLs []string
	Learner    bool
}

// Status is a snapshot of this member for operators and doors.
type Status struct {
	ClusterID, MemberID uint64
	Name                string
	Leader              uint64 // 0 = none known
	Term                uint64
	Commit, Applied     uint64
	Learner             bool
	Ready               bool // an entry of the current term was applied here
	DiskBytes           int64
}

// Propose encodes, logs, applies and returns the result of one command; at most one part per machine. It forwards to the
// leader from any member. See the errors above.
func (n *Node) Propose(ctx context.Context, lane Lane, parts ...entry.Part) (*entry.Result, error) {
	panic("contract")
}

// Linearize returns once everything acknowledged anywhere before the call is applied here (one shared read-index round).
// Errors: ErrNoLeader, ErrStopped, or ctx's.
func (n *Node) Linearize(ctx context.Context) error { panic("contract") }

// KV gives the readers of the kv machine.
func (n *Node) KV() *kv.Machine { panic("contract") }

// Call runs a named service on the leader, here or over the forward lane; Handle registers one (before Start).
func (n *Node) Call(ctx context.Context, service string, req []byte) ([]byte, error) {
	panic("contract")
}
func (n *Node) Handle(service string, fn func(ctx context.Context, req []byte) ([]byte, error)) {
	panic("contract")
}

// Leadership returns the term in which this member leads and has applied an entry of that term (0 = it does not), and a
// channel closed when that changes. A worker proposes with ProposeInTerm so that its commands die with its leadership.
func (n *Node) Leadership() (term uint64, changed <-chan struct{}) { panic("contract") }

// ProposeInTerm proposes once under the given term: ErrSuperseded if that term is over. It never retries.
func (n *Node) ProposeInTerm(ctx context.Context, term uint64, lane Lane, parts ...entry.Part) (*entry.Result, error) {
	panic("contract")
}

// LinearizeInTerm confirms by a heartbeat round that this member still led in term at some moment after the call began.
func (n *Node) LinearizeInTerm(ctx context.Context, term uint64) error { panic("contract") }

// Tick is the cluster tick in milliseconds as this leader would stamp it now (monotonic).
func (n *Node) Tick() int64 { panic("contract") }

func (n *Node) Status() Status                 { panic("contract") }
func (n *Node) Members() []Member              { panic("contract") }
func (n *Node) StoppedC() <-chan struct{}      { panic("contract") } // closed when the node stops, for whatever reason
func (n *Node) LeaderChanged() <-chan struct{} { panic("contract") } // closed when the known leader changes or is lost
func (n *Node) AddMember(ctx context.Context, peerURLs []string, learner bool) (Member, error) {
	panic("contract")
}
func (n *Node) RemoveMember(ctx context.Context, id uint64) error { panic("contract") }
func (n *Node) UpdateMember(ctx context.Context, id uint64, peerURLs []string) error {
	panic("contract")
}
func (n *Node) PromoteMember(ctx context.Context, id uint64) error  { panic("contract") }
func (n *Node) TransferLeader(ctx context.Context, to uint64) error { panic("contract") }

// SaveSnapshot streams the logical snapshot (docs/formats/snapshot.md) of one applied index.
func (n *Node) SaveSnapshot(ctx context.Context, w interface{ Write([]byte) (int, error) }) error {
	panic("contract")
}

var _ = time.Second
