// Package raft turns the raft library into one member of the replicated log. It is the only user of that library and does no I/O. The
// driver (package node) feeds in ticks, messages, proposals and finished disk writes. It takes out messages, disk writes and committed
// entries. One goroutine drives it, so a whole cluster also runs from a seed (package sim). It does not know the meaning of an entry, the
// place of the store, or the callers that wait.
//
// Asynchronous storage writes: the library hands out a write with the messages that may only leave once it is durable. The leader's
// messages to its followers are not among them, so the leader's fsync runs while the followers do theirs.
package raft

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/holdfastdb/holdfast/core/wal"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// Config of a Replica.
type Config struct {
	ID uint64
	// WAL holds the log. The replica only reads it; the driver writes what Ready asks for.
	WAL *wal.WAL
	// Conf and Applied come from the store: the configuration as of Applied.
	Conf    Conf
	Applied uint64
	// ElectionTicks and HeartbeatTicks count calls of Tick.
	ElectionTicks, HeartbeatTicks int
	// SnapshotPoint says which log position a snapshot taken now would have (the store's applied index and configuration).
	SnapshotPoint func() (applied uint64, conf Conf)
	// Readable returns the fault of an entry's data from another member, nil for none. A nil Readable checks nothing.
	Readable func(data []byte) error
	// MaxUncommittedBytes bounds the entries in flight; 0 = 16 MiB.
	MaxUncommittedBytes uint64
	Logger              *slog.Logger
}

// Replica is one raft member. It is owned by the goroutine that drives it; no method may be called from another.
type Replica struct {
	cfg  Config
	rn   *raft.RawNode
	st   *storage
	lead uint64
	term uint64
	role raft.StateType
	conf Conf
	// openTerm is the term of the last committed entry seen. Read-index questions are dropped until it is the current term, because a raft
	// with a single voter answers them too early (DECISIONS A11).
	openTerm uint64
	limits   limits
	aside    aside
	asked    int // votes others have asked for
}

// Errors of proposals.
var (
	ErrNotLeader = errors.New("not leader")
	// ErrBusy: too much is uncommitted, or a membership change is in progress; try later. Nothing was proposed.
	ErrBusy = errors.New("log is busy")
)

// Limits on raft's data in flight, in bytes; counts alone do not bound memory.
const (
	maxSizePerMsg       = 1 << 20
	maxInflightMsgs     = 256
	maxInflightBytes    = 8 << 20
	maxUncommittedBytes = 16 << 20
	maxCommittedPerStep = 4 << 20
)

// New starts raft from what WAL and store hold. HardState.Commit is raised to Applied: a commit index alone is not synced,
// and the store may have flushed past it (DECISIONS A4 a).
func New(cfg Config) (*Replica, error) {
	hs := cfg.WAL.HardState()
	if last := cfg.WAL.LastIndex(); cfg.Applied > last {
		return nil, fmt.Errorf("store has applied %d but the log ends at %d: the data directory is damaged or mixed from two", cfg.Applied, last)
	}
	if hs.Commit < cfg.Applied {
		hs.Commit = cfg.Applied
	}
	st := &storage{wal: cfg.WAL, hs: hs, conf: cfg.Conf, point: cfg.SnapshotPoint, lastAppended: cfg.WAL.LastIndex()}
	rn, err := raft.NewRawNode(&raft.Config{
		ID:                        cfg.ID,
		ElectionTick:              cfg.ElectionTicks,
		HeartbeatTick:             cfg.HeartbeatTicks,
		Storage:                   st,
		Applied:                   cfg.Applied,
		AsyncStorageWrites:        true,
		MaxSizePerMsg:             maxSizePerMsg,
		MaxCommittedSizePerReady:  maxCommittedPerStep,
		MaxUncommittedEntriesSize: cmp.Or(cfg.MaxUncommittedBytes, maxUncommittedBytes),
		MaxInflightMsgs:           maxInflightMsgs,
		MaxInflightBytes:          maxInflightBytes,
		CheckQuorum:               true,
		PreVote:                   true,
		ReadOnlyOption:            raft.ReadOnlySafe,
		DisableProposalForwarding: true, // the leader stamps time and ids, so raft must not forward (DECISIONS A10)
		StepDownOnRemoval:         true,
		Logger:                    newLogger(cfg.Logger),
	})
	if err != nil {
		return nil, fmt.Errorf("start raft: %w", err)
	}
	r := &Replica{cfg: cfg, rn: rn, st: st, conf: cfg.Conf, term: hs.Term, limits: limits{end: st.lastAppended}}
	if len(cfg.Conf.Voters) == 1 && cfg.Conf.Voters[0] == cfg.ID {
		_ = rn.Campaign() // alone: no vote to wait for
	}
	return r, nil
}

// Leader, Term, Conf: this member's present belief. Leader is 0 when unknown.
func (r *Replica) Leader() uint64 { return r.lead }
func (r *Replica) Term() uint64   { return r.term }
func (r *Replica) Conf() Conf     { return r.conf }

// IsLeader reports whether this member leads in Term.
func (r *Replica) IsLeader() bool { return r.role == raft.StateLeader }

// Commit is the commit index this member knows.
func (r *Replica) Commit() uint64 { return r.rn.BasicStatus().GetCommit() }

// LastIndex is the last index in the log, durable or not, as of the last Ready.
func (r *Replica) LastIndex() uint64 { return r.st.lastAppended }

// Tick advances raft's time by one tick.
func (r *Replica) Tick() { r.rn.Tick() }

// Campaign starts an election now.
func (r *Replica) Campaign() { _ = r.rn.Campaign() }

// ForgetLeader makes a follower leaderless, which decides how it answers votes from then on. It does nothing on a leader or a candidate.
func (r *Replica) ForgetLeader() { _ = r.rn.ForgetLeader() }

// Election returns the leader that raft knows at this moment, and how many requests for a vote or a pre-vote this member got. Leader and
// Term are as of the last Ready, which may be older.
func (r *Replica) Election() (leader, term uint64, asked int) {
	st := r.rn.BasicStatus()
	return st.Lead, st.HardState.GetTerm(), r.asked
}

// Receive steps one frame from another member into raft. acked is the index the sender says it holds durably, 0 if the
// frame says nothing of the kind.
func (r *Replica) Receive(from uint64, frame []byte) (acked uint64, err error) {
	m, err := decodeMessage(frame)
	if err != nil {
		return 0, fmt.Errorf("frame from %x: %w", from, err)
	}
	if m.GetType() == raftpb.MsgSnap {
		return 0, fmt.Errorf("frame from %x: %s does not travel this way: %w", from, m.GetType(), errMessage)
	}
	if err := r.sound(from, m); err != nil {
		return 0, err
	}
	if m.GetType() == raftpb.MsgReadIndex && r.readsClosed() {
		return 0, nil // the member that asked repeats the question
	}
	if t := m.GetType(); t == raftpb.MsgVote || t == raftpb.MsgPreVote {
		r.asked++
	}
	r.step(m)
	if m.GetType() == raftpb.MsgAppResp && !m.GetReject() {
		acked = m.GetIndex()
	}
	return acked, nil
}

func (r *Replica) readsClosed() bool { return r.IsLeader() && r.openTerm != r.term }

// ReceiveSnapshot steps the head of a received snapshot stream. The next Ready carries a Write with Snapshot set if raft
// wants it; otherwise it was outdated.
func (r *Replica) ReceiveSnapshot(from uint64, head []byte) error {
	m, err := decodeMessage(head)
	if err != nil || m.GetType() != raftpb.MsgSnap || m.Snapshot == nil {
		return fmt.Errorf("snapshot head from %x: %w", from, errMessage)
	}
	if err := r.sound(from, m); err != nil {
		return err
	}
	r.limits.end = min(r.limits.end, m.Snapshot.GetMetadata().GetIndex())
	r.step(m)
	return nil
}

// SnapshotHead reads the point a received stream claims to be at, before its contents are taken, and the term in which its sender
// leads.
func SnapshotHead(head []byte) (p *SnapshotPoint, term uint64, err error) {
	m, err := decodeMessage(head)
	if err != nil || m.Snapshot == nil {
		return nil, 0, errMessage
	}
	return pointOf(m.Snapshot), m.GetTerm(), nil
}

// step ignores the errors raft returns for messages it has no use for (unknown senders, stale answers).
func (r *Replica) step(m *raftpb.Message) { _ = r.rn.Step(m) }

// Propose appends one entry to the log if this member leads.
func (r *Replica) Propose(data []byte) error {
	if !r.IsLeader() {
		return ErrNotLeader
	}
	token := data
	if r.alone() && len(data) >= asideBytes {
		if token = r.aside.put(data, cmp.Or(r.cfg.MaxUncommittedBytes, maxUncommittedBytes)); token == nil {
			return ErrBusy
		}
	}
	if err := r.rn.Propose(token); err != nil {
		if len(token) != len(data) {
			r.aside.takeBack()
		}
		if errors.Is(err, raft.ErrProposalDropped) {
			return ErrBusy
		}
		return err
	}
	return nil
}

// ProposeChange appends a membership change. One may be in flight; the caller makes sure of that, because raft would
// silently turn a second one into an empty entry.
func (r *Replica) ProposeChange(c Change) error {
	if !r.IsLeader() {
		return ErrNotLeader
	}
	if err := r.rn.ProposeConfChange(c.raft()); err != nil {
		if errors.Is(err, raft.ErrProposalDropped) {
			return ErrBusy
		}
		return err
	}
	return nil
}

// ApplyChange makes a committed change effective; refuse leaves everything as it is (the machine rejected it). Raft must then not be called
// at all: it takes an empty change for the end of a joint configuration, and panics without one. A configuration that is not Conf.Next's
// panics: the stored one would differ from raft's own.
func (r *Replica) ApplyChange(c *Change, refuse bool) Conf {
	if refuse {
		return r.conf
	}
	next, err := r.conf.Next(c)
	if got := confOf(r.rn.ApplyConfChange(c.raft())); err != nil || !got.Equal(next) {
		panic(fmt.Sprintf("a membership change of member %x: raft has %v, expected %v (%v)", c.ID, got, next, err))
	}
	r.conf = next
	return next
}

// ReadIndex asks for a read index; the answer comes in Ready.Reads with the same context. It may be lost: ask again with
// a fresh context (a context reused across retries could be answered by the older round).
func (r *Replica) ReadIndex(context []byte) {
	if !r.readsClosed() {
		r.rn.ReadIndex(context)
	}
}

// Transfer starts handing leadership to another member.
func (r *Replica) Transfer(to uint64) { r.rn.TransferLeader(to) }

// ReportUnreachable tells raft that messages to a member were dropped.
func (r *Replica) ReportUnreachable(id uint64) { r.rn.ReportUnreachable(id) }

// ReportSnapshot tells raft how a snapshot stream to a member ended.
func (r *Replica) ReportSnapshot(id uint64, ok bool) {
	s := raft.SnapshotFinish
	if !ok {
		s = raft.SnapshotFailure
	}
	r.rn.ReportSnapshot(id, s)
}

// Progress is the leader's knowledge of how far a member's log reaches.
type Progress struct {
	ID              uint64
	Match, Next     uint64
	Learner, Active bool
	Snapshotting    bool
}

// Progress lists all members' progress by id; empty on a follower.
func (r *Replica) Progress() []Progress {
	if !r.IsLeader() {
		return nil
	}
	s := r.rn.Status()
	var out []Progress
	for id, p := range s.Progress {
		out = append(out, Progress{ID: id, Match: p.Match, Next: p.Next, Learner: p.IsLearner, Active: p.RecentActive || id == r.cfg.ID,
			Snapshotting: p.State.String() == "StateSnapshot"})
	}
	slices.SortFunc(out, func(a, b Progress) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

// DecodeChange reads a membership change from an entry's data, nil if typ is a normal entry; `holdfast inspect` uses it.
func DecodeChange(typ uint8, data []byte) (*Change, error) {
	switch raftpb.EntryType(typ) {
	case raftpb.EntryNormal:
		return nil, nil
	case raftpb.EntryConfChangeV2:
	default:
		return nil, fmt.Errorf("entry type %d: %w", typ, errMessage)
	}
	var cc raftpb.ConfChangeV2
	if err := proto.Unmarshal(data, &cc); err != nil {
		return nil, err
	}
	if len(cc.Changes) != 1 {
		return nil, fmt.Errorf("membership change of %d members: %w", len(cc.Changes), errMessage)
	}
	ch := &Change{ID: cc.Changes[0].GetNodeId(), Context: cc.Context}
	switch cc.Changes[0].GetType() {
	case raftpb.ConfChangeAddNode:
		ch.Kind = AddVoter
	case raftpb.ConfChangeAddLearnerNode:
		ch.Kind = AddLearner
	case raftpb.ConfChangeRemoveNode:
		ch.Kind = Remove
	default:
		return nil, fmt.Errorf("membership change kind %s: %w", cc.Changes[0].GetType(), errMessage)
	}
	return ch, nil
}
