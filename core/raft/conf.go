package raft

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"go.etcd.io/raft/v3/raftpb"

	"github.com/holdfastdb/holdfast/internal/wire"
)

// Conf is the voters and the learners. Membership changes one member at a time, so there is never a joint configuration.
type Conf struct {
	Voters, Learners []uint64 // ascending
}

// Encode is the form kept in the store with the applied index (DECISIONS A4 d).
func (c Conf) Encode() []byte { return appendConf(nil, c) }

// DecodeConf reads Encode's form.
func DecodeConf(b []byte) (Conf, error) {
	r := wire.NewReader(b)
	c := takeConf(&r)
	if r.End() != nil {
		return Conf{}, errMessage
	}
	return c, nil
}

// Voter and Learner report a member's role.
func (c Conf) Voter(id uint64) bool   { return slices.Contains(c.Voters, id) }
func (c Conf) Learner(id uint64) bool { return slices.Contains(c.Learners, id) }

// Equal reports whether both name the same members in the same roles.
func (c Conf) Equal(o Conf) bool {
	return slices.Equal(c.Voters, o.Voters) && slices.Equal(c.Learners, o.Learners)
}

// Next is the configuration after a committed change: a function of the two alone. So a replay without raft comes to the configuration that
// raft has, and ApplyChange compares them. A repeated change, or one of member 0, changes nothing. An error means that no voter would be
// left, or an unknown kind of change; raft stops at either.
func (c Conf) Next(ch *Change) (Conf, error) {
	if ch.ID == 0 {
		return c, nil
	}
	others := func(ids []uint64) []uint64 {
		return slices.DeleteFunc(slices.Clone(ids), func(id uint64) bool { return id == ch.ID })
	}
	next := Conf{Voters: others(c.Voters), Learners: others(c.Learners)}
	switch ch.Kind {
	case AddVoter:
		next.Voters = append(next.Voters, ch.ID)
		slices.Sort(next.Voters)
	case AddLearner:
		next.Learners = append(next.Learners, ch.ID)
		slices.Sort(next.Learners)
	case Remove:
	default:
		return c, fmt.Errorf("membership change of kind %d of member %x: %w", ch.Kind, ch.ID, errMessage)
	}
	if len(next.Voters) == 0 {
		return c, fmt.Errorf("membership change of member %x: nobody would be left to vote", ch.ID)
	}
	return next, nil
}

func appendConf(b []byte, c Conf) []byte {
	for _, ids := range [][]uint64{c.Voters, c.Learners} {
		b = binary.AppendUvarint(b, uint64(len(ids)))
		for _, id := range ids {
			b = binary.LittleEndian.AppendUint64(b, id)
		}
	}
	return b
}

func takeConf(r *wire.Reader) Conf {
	var lists [2][]uint64
	for i := range lists {
		for range r.Count(math.MaxInt32, 8) {
			lists[i] = append(lists[i], r.Uint64())
		}
	}
	return Conf{Voters: lists[0], Learners: lists[1]}
}

func (c Conf) raft() *raftpb.ConfState {
	return &raftpb.ConfState{Voters: slices.Clone(c.Voters), Learners: slices.Clone(c.Learners)}
}

func confOf(cs *raftpb.ConfState) Conf {
	c := Conf{Voters: slices.Clone(cs.GetVoters()), Learners: slices.Clone(cs.GetLearners())}
	slices.Sort(c.Voters)
	slices.Sort(c.Learners)
	return c
}

// ChangeKind is the kind of a membership change.
type ChangeKind uint8

// The membership changes.
const (
	AddVoter ChangeKind = iota // also promotes a learner
	AddLearner
	Remove
)

// Change is a change of one member. Context comes back with the committed entry.
type Change struct {
	Kind    ChangeKind
	ID      uint64
	Context []byte
}

func (c Change) raft() *raftpb.ConfChangeV2 {
	typ := [...]raftpb.ConfChangeType{raftpb.ConfChangeAddNode, raftpb.ConfChangeAddLearnerNode, raftpb.ConfChangeRemoveNode}[c.Kind]
	return &raftpb.ConfChangeV2{
		Changes: []*raftpb.ConfChangeSingle{{Type: typ.Enum(), NodeId: new(c.ID)}},
		Context: c.Context,
	}
}
